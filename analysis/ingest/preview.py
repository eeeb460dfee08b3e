"""What a file looks like before it is loaded: for the upload form, in which the user completes what it does not say."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd
from pydantic import BaseModel, ConfigDict, Field

from analysis.errors import InputRefusedError, StallScopeError
from analysis.ingest.account import account
from analysis.ingest.contract import guesses, simulated
from analysis.ingest.contract.format import Hints, Opened
from analysis.ingest.contract.reports import gpus_of, of_parsed
from analysis.ingest.formats.own.reading import header
from analysis.ingest.formats.own.shaped import ShapedCoruns
from analysis.ingest.mapping import TableMapping, choose_mapped
from analysis.ingest.reading import unexpected
from analysis.ingest.registry import choose
from analysis.ingest.source.opening import opened_files
from analysis.ingest.text.delimited import MAX_COLUMNS
from analysis.logs import get_logger
from analysis.store.parsed import Parsed
from analysis.store.possible import sift

#: Rejected rows that a preview holds.
SHOWN_REJECTS = 200

_log = get_logger(__name__)


class Preview(BaseModel):
    """What a file is, and what has to be asked.

    Attributes
    ----------
    file : str
        Its name.
    format, title : str
        Short name of the format, and what a person calls it; empty when none claims the file.
    asks_workload, asks_gpu : bool
        Whether the file leaves open which job it is of, and on which GPU.
    workload : str or None
        The workload to suggest, taken from the file's name.
    parts : dict
        What that name says: model, family, batch_size, precision, phase ...
    gpu : str or None
        The GPU to suggest.
    gpus : list of str
        GPUs that fit the file, the most likely first.
    rows, launches : int or None
        Rows of the table, and launches of kernels.
    rejected : list of dict
        The first rows that would be rejected: line, column, reason, text.
    rejected_count : int
        How many there are.
    account : list of tuple of str and str
        How it was read, as `analysis.ingest.account.account` says it.
    warnings : list of str
        One sentence each.
    error : str or None
        Why it can't be loaded, and the cure.
    columns : list of str
        Of a table that no format claims: its columns, which can be mapped by hand.
    files : int
        Number of files in it; more than one for an archive, of which the first is described.
    """

    model_config = ConfigDict(frozen=True)

    file: str
    format: str = ""
    title: str = ""
    asks_workload: bool = False
    asks_gpu: bool = False
    workload: str | None = None
    parts: dict[str, Any] = Field(default_factory=dict)
    gpu: str | None = None
    gpus: list[str] = Field(default_factory=list)
    rows: int | None = None
    launches: int | None = None
    rejected: list[dict[str, Any]] = Field(default_factory=list)
    rejected_count: int = 0
    account: list[tuple[str, str]] = Field(default_factory=list)
    warnings: list[str] = Field(default_factory=list)
    error: str | None = None
    columns: list[str] = Field(default_factory=list)
    files: int = 1


def preview(path: Path, *, name: str | None = None, mappings: Sequence[TableMapping] = ()) -> Preview:
    """Read a file without loading it.

    Parameters
    ----------
    path : Path
        The file.
    name : str, optional
        Its name as the user knows it.
    mappings : sequence of TableMapping
        Saved mappings, for tables that no format claims.

    Returns
    -------
    Preview
        Never raises for bad input: then ``error`` says why.
    """
    shown = name or path.name
    try:
        with opened_files(path, name=shown) as files:
            opened = files[0]
            try:
                found = choose(opened)
            except InputRefusedError as error:
                if not (columns := _columns(opened)):
                    raise
                try:
                    found = choose_mapped(opened, mappings, error)
                except InputRefusedError:
                    return Preview(file=shown, error=error.sentence, columns=columns, files=len(files))
            about = simulated.stated(opened)
            workload, parts = guesses.suggested_workload(about[0] if about else opened.name)
            # A workload is given so that nothing is said about what the form asks anyway.
            parsed = sift(found.parse(opened, Hints(workload=workload, gpu=about[1] if about else None)))
            told = of_parsed(opened.name, parsed, None)
            is_profile = "kernel" in parsed.frames
            is_telemetry = "telemetry" in parsed.frames
            named = [gpu for gpu in gpus_of(parsed) if gpu != guesses.UNKNOWN]
            return Preview(
                file=shown,
                format=found.name,
                title=found.title,
                asks_workload=is_profile or is_telemetry,
                asks_gpu=(is_profile and (bool(parsed.report.get("gpu_candidates")) or not named or len(named) == 1))
                or (isinstance(found, ShapedCoruns) and guesses.UNKNOWN in gpus_of(parsed)),
                workload=workload if is_profile else None,
                parts=dict(parts.known()) if is_profile else {},
                gpu=named[0] if len(named) == 1 else None,
                gpus=list(dict.fromkeys([*named, *parsed.report.get("gpu_candidates", [])])),
                rows=told.rows_read,
                launches=told.launches,
                rejected=_rejected(parsed),
                rejected_count=parsed.rows_rejected,
                account=account({**told.model_dump(), "report": {**told.report, "era": parsed.era}}),
                warnings=told.warnings,
                # A shape that was recognised is a proposal: its columns can still be mapped by hand.
                columns=_columns(opened) if isinstance(found, ShapedCoruns) else [],
                files=len(files),
            )
    except StallScopeError as error:
        return Preview(file=shown, error=error.sentence)
    except Exception as error:
        _log.exception("preview failed", file=shown)
        return Preview(file=shown, error=unexpected(shown, error).sentence)


def _rejected(parsed: Parsed) -> list[dict[str, Any]]:
    first = parsed.rejected.head(SHOWN_REJECTS)
    return [
        {str(name): None if pd.isna(row[name]) else row[name] for name in first} for row in first.to_dict("records")
    ]


def _columns(opened: Opened) -> list[str]:
    """Return the columns of a table that can be mapped; none where it is none."""
    names = list(header(opened))
    few = len(names) < 2 or len(names) > MAX_COLUMNS or len(set(names)) < len(names)
    if few or any(name.lstrip().startswith(("{", "[", "<", "==")) for name in names):
        return []
    return names
