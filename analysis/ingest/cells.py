"""A table as text columns that know their lines: what the readers hand to the formats."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa

from analysis.store.parsed import REJECTED_COLUMNS, no_rejects

Ints = npt.NDArray[np.integer[Any]]

#: How much of a wrong row is kept to show.
SHOWN = 500


@dataclass(frozen=True)
class Header:
    """Where a table begins, and its columns.

    Attributes
    ----------
    names : tuple of str
        Column names as written.
    line : int
        Line of the header, counted from 1.
    start : int
        Offset in bytes of the first line after it.
    delimiter : str
        What separates cells.
    quoted : bool
        Whether the header's cells stand in quotes, as ncu writes all of its cells.
    before : tuple of str
        The first lines before the header.
    """

    names: tuple[str, ...]
    line: int
    start: int
    delimiter: str
    quoted: bool
    before: tuple[str, ...] = ()


@dataclass
class Rejects:
    """Rows that could not be understood; several faults of one row are one row."""

    faults: list[tuple[int, str | None, str, str]] = field(default_factory=list)

    def add(self, line: int, column: str | None, reason: str, text: str) -> None:
        """Note a fault: line in the file, column, what is wrong, and the text that is."""
        self.faults.append((int(line), column, reason, text[:SHOWN]))

    def frame(self) -> pd.DataFrame:
        """Return line, column, reason and text in the order of lines."""
        if not self.faults:
            return no_rejects()
        frame = pd.DataFrame(self.faults, columns=list(REJECTED_COLUMNS))
        return frame.sort_values("line", kind="stable", ignore_index=True)


@dataclass
class Cells:
    """The rows of a table as text.

    Attributes
    ----------
    header : Header
        The (first) header.
    columns : dict of str to pa.ChunkedArray
        Text by column name, a dictionary or plain; empty cells are ``""``.
    lines : ndarray of int64
        Line of each row in the file.
    part : ndarray of int64
        Number of the table that the row stands in: 0, and one more after every repeated header.
    rows_read : int
        Rows of the table, those rejected while reading included.
    rejects : Rejects
        What was wrong so far.
    other : list of tuple
        Line and text of the first lines that are no part of the table.
    other_count : int
        How many such lines there are, those before the header included.
    reader : str
        Which reader read it: ``fast``, ``mixed`` or ``exact``.
    cut_off : bool
        Whether the last line is incomplete and has no line end.
    """

    header: Header
    columns: dict[str, pa.ChunkedArray]
    lines: Ints
    part: Ints
    rows_read: int
    rejects: Rejects
    other: list[tuple[int, str]] = field(default_factory=list)
    other_count: int = 0
    reader: str = "exact"
    cut_off: bool = False

    def __post_init__(self) -> None:
        self._codes: dict[str, tuple[Ints, list[str]]] = {}

    @property
    def count(self) -> int:
        """Number of rows that are in the columns."""
        return len(self.lines)

    @cached_property
    def has(self) -> frozenset[str]:
        """Names of the columns."""
        return frozenset(self.columns)

    def know(self, codes: Mapping[str, tuple[Ints, list[str]]]) -> None:
        """Take over what `codes` is to return for some columns."""
        self._codes |= codes

    def texts(self, name: str) -> pa.Array:
        """Return a column as plain text."""
        column = self.columns[name]
        if pa.types.is_dictionary(column.type):
            column = column.cast(pa.string())
        return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column

    def codes(self, name: str) -> tuple[Ints, list[str]]:
        """Return a column as numbers into its distinct values, and these; a missing column is all ``""``."""
        if name not in self.columns:
            return np.zeros(self.count, dtype=np.int32), [""]
        if name not in self._codes:
            self._codes[name] = numbered(self.columns[name])
        return self._codes[name]

    def at(self, name: str, rows: Sequence[int] | Ints) -> list[str]:
        """Return the texts of some rows of a column."""
        codes, values = self.codes(name)
        found: list[str] = np.array([*values, ""], dtype=object)[codes[np.asarray(rows, dtype=np.int64)]].tolist()
        return found

    def keep(self, mask: npt.NDArray[np.bool_]) -> Cells:
        """Return the rows where the mask is true."""
        chosen = pa.array(mask)
        return Cells(
            self.header,
            {name: column.filter(chosen) for name, column in self.columns.items()},
            self.lines[mask],
            self.part[mask],
            self.rows_read,
            self.rejects,
            self.other,
            self.other_count,
            self.reader,
            self.cut_off,
        )


def numbered(column: pa.ChunkedArray) -> tuple[Ints, list[str]]:
    """Return a column as numbers into its distinct values, and these, whatever its pieces are."""
    if not pa.types.is_dictionary(column.type):
        column = column.dictionary_encode()
    place: dict[str, int] = {}
    codes = np.zeros(len(column), dtype=np.int32)
    start = 0
    for chunk in column.chunks:
        values = chunk.dictionary.to_numpy(zero_copy_only=False).tolist()
        target = np.array([place.setdefault(value, len(place)) for value in values], dtype=np.int32)
        stop = start + len(chunk)
        if len(values) > 1 or (len(values) and target[0]):  # zeros stand there already
            np.take(target, chunk.indices.to_numpy(zero_copy_only=False), out=codes[start:stop], mode="clip")
        start = stop
    return codes, list(place)
