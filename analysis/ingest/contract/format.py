"""The interface that every file format implements, and what a format is given to read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import pandas as pd

from analysis.ingest.contract.cells import CutRows
from analysis.ingest.contract.textstats import TextStats
from analysis.store.parsed import Parsed


@dataclass(frozen=True)
class Opened:
    """A file on disk, unpacked and with its encoding known.

    Attributes
    ----------
    name : str
        Name as the user knows it, without a packing suffix.
    path : Path
        The spooled bytes, plain (not packed).
    sha256 : str
        Hash of the plain bytes, so that a file and its packed copy are the same.
    size : int
        Bytes as given.
    encoding : str
        ``utf-8``, ``utf-8-sig``, ``utf-16``, ``utf-16-le``, ``utf-16-be`` or ``cp1252``; ``binary`` for bytes that are
        no text, and ``unknown`` for text in an encoding that can't be told.
    head : str
        The first 256 KiB, decoded, ANSI colours taken out.
    magic : bytes
        The first 512 bytes.
    text : Path, optional
        A text as UTF-8, without colours and lone carriage returns; `path` itself where that is clean.
    stats : TextStats, optional
        What the pass over the bytes of `text` counted.
    oddities : tuple of str
        What is unusual about the bytes, for the report.
    rows : CutRows, optional
        The rows of a large and regular profile, cut while its bytes were hashed.
    """

    name: str
    path: Path
    sha256: str
    size: int
    encoding: str
    head: str
    magic: bytes
    text: Path | None = None
    stats: TextStats | None = None
    oddities: tuple[str, ...] = ()
    rows: CutRows | None = None


@dataclass(frozen=True)
class Hints:
    """What the user says that the file does not.

    Attributes
    ----------
    workload, gpu : str or None
        For profiles; guessed from the file name and the compute capability when None.
    dataset : str
        Data set to load into.
    solos : callable, optional
        Looks up the solo measurements already loaded in the data set: columns workload, gpu, measure, unit, value. For
        files that hold co-run values only.
    workload_from : str, optional
        How the workload's name was chosen, for the report.
    title, licence, citation : str or None
        Of the data set, as the catalogue states them.
    mapping : str or None
        Name of a saved mapping, by which a table is read whatever its own columns are called.
    """

    workload: str | None = None
    gpu: str | None = None
    dataset: str = "own"
    solos: Callable[[], pd.DataFrame] | None = None
    workload_from: str | None = None
    title: str | None = None
    licence: str | None = None
    citation: str | None = None
    mapping: str | None = None


class Format(Protocol):
    """One file format.

    Attributes
    ----------
    name : str
        Short name, as ``import --json`` prints it, such as ``ncu-long``.
    title : str
        What a person calls it, such as ``Nsight Compute details or metrics page (long CSV)``.
    """

    name: str
    title: str

    def sniff(self, opened: Opened) -> bool:
        """Say, by content and never by name, whether the file is of this format."""
        ...

    def parse(self, opened: Opened, hints: Hints) -> Parsed:
        """Read and validate the file.

        Raises
        ------
        InputRefusedError
            If nothing of the file can be used, with the cure.
        """
        ...
