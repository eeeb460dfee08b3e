"""A table as text columns that know their lines: what the readers hand to the formats."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
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


@dataclass(frozen=True)
class Shared:
    """Columns that say the same of every row of a stretch.

    Attributes
    ----------
    starts : ndarray of int64
        First row of every stretch.
    columns : dict of str to tuple
        Numbers into the distinct values, one a stretch, and these.
    """

    starts: Ints
    columns: dict[str, tuple[Ints, list[str]]]


@dataclass
class Cells:
    """The rows of a table as text.

    Attributes
    ----------
    header : Header
        The (first) header.
    columns : dict of str to pa.ChunkedArray
        Text by column name, a dictionary or plain; empty cells are ``""``. Those of `shared` are not
        among them.
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
    plain : callable, optional
        Returns the last column's cells as numbers, where all are digits, points between decimals, and commas between
        thousands; else None.
    shared : Shared, optional
        Columns that are told once a stretch of rows and not once a row.
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
    plain: Callable[[], npt.NDArray[np.float64] | None] | None = None
    shared: Shared | None = None

    def __post_init__(self) -> None:
        self._codes: dict[str, tuple[Ints, list[str]]] = {}

    @property
    def count(self) -> int:
        """Number of rows that are in the columns."""
        return len(self.lines)

    @cached_property
    def has(self) -> frozenset[str]:
        """Names of the columns."""
        return frozenset(self.columns) | frozenset(self.shared.columns if self.shared else ())

    @cached_property
    def starts(self) -> Ints:
        """First rows of the stretches in which the shared columns stay the same; every row where there are none."""
        return self.shared.starts if self.shared else np.arange(self.count, dtype=np.int64)

    def know(self, codes: Mapping[str, tuple[Ints, list[str]]]) -> None:
        """Take over what `codes` is to return for some columns."""
        self._codes |= codes

    def column(self, name: str) -> pa.ChunkedArray:
        """Return a column as text, a dictionary or plain."""
        if name in self.columns:
            return self.columns[name]
        codes, values = self.codes(name)
        return pa.chunked_array([pa.DictionaryArray.from_arrays(pa.array(codes), pa.array(values, pa.string()))])

    def texts(self, name: str) -> pa.Array:
        """Return a column as plain text."""
        column = self.column(name)
        if pa.types.is_dictionary(column.type):
            column = column.cast(pa.string())
        return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column

    def codes(self, name: str) -> tuple[Ints, list[str]]:
        """Return a column as numbers into its distinct values, and these; a missing column is all ``""``."""
        if name not in self.has:
            return np.zeros(self.count, dtype=np.int32), [""]
        if name not in self._codes:
            if self.shared is not None and name in self.shared.columns:
                codes, values = self.shared.columns[name]
                self._codes[name] = np.repeat(codes, np.diff(self.starts, append=self.count)), values
            else:
                self._codes[name] = numbered(self.columns[name])
        return self._codes[name]

    def values(self, name: str) -> list[str]:
        """Return the distinct values of a column; of a missing one the single ``""``."""
        shared = self.shared.columns if self.shared else {}
        return shared[name][1] if name in shared else self.codes(name)[1]

    def codes_at_starts(self, name: str) -> Ints:
        """Return the numbers of a column in the first row of every stretch."""
        if self.shared is None:
            return self.codes(name)[0]
        if name in self.shared.columns:
            return self.shared.columns[name][0]
        return self.codes(name)[0][self.starts]

    def codes_at(self, name: str, rows: Ints) -> Ints:
        """Return the numbers of a column in some rows."""
        if self.shared is None or name not in self.shared.columns:
            return self.codes(name)[0][rows]
        return self.shared.columns[name][0][np.searchsorted(self.starts, rows, side="right") - 1]

    def at(self, name: str, rows: Sequence[int] | Ints) -> list[str]:
        """Return the texts of some rows of a column."""
        codes = self.codes_at(name, np.asarray(rows, dtype=np.int64))
        found: list[str] = np.array([*self.values(name), ""], dtype=object)[codes].tolist()
        return found

    def row_text(self, row: int) -> str:
        """Return the cells of a row that were kept, as the table would write them."""
        names = [name for name in self.header.names if name in self.has]
        return self.header.delimiter.join(f'"{self.at(name, [row])[0]}"' for name in dict.fromkeys(names))

    def keep(self, mask: npt.NDArray[np.bool_]) -> Cells:
        """Return the rows where the mask is true."""
        chosen = pa.array(mask)
        return Cells(
            self.header,
            {name: self.column(name).filter(chosen) for name in sorted(self.has)},
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


Bytes = npt.NDArray[np.uint8]

_QUOTE, _FEED = 34, 10


@dataclass(frozen=True)
class Parts:
    """Rows without what they repeat.

    Attributes
    ----------
    first : ndarray of int64
        First row of every stretch of rows with the same head.
    heads : ndarray of uint8
        Head of every stretch, a line feed in place of the delimiter at its end.
    label : ndarray of int32
        Label of every row, a number of `Labels`.
    sizes : ndarray of int64
        Length of every value in bytes.
    values : ndarray of uint8
        The values, one behind the other.
    """

    first: Ints
    heads: Bytes
    label: Ints
    sizes: Ints
    values: Bytes

    @property
    def counts(self) -> Ints:
        """Number of rows of every stretch."""
        counts: Ints = np.diff(self.first, append=len(self.label))
        return counts

    @property
    def texts(self) -> pa.Array:
        """The values as an array of text."""
        bounds = np.zeros(len(self.sizes) + 1, dtype=np.int32)
        np.cumsum(self.sizes, out=bounds[1:])
        return pa.StringArray.from_buffers(len(self.sizes), pa.py_buffer(bounds), pa.py_buffer(self.values))


class Labels:
    """Labels met so far, numbered.

    Parameters
    ----------
    count : int
        Number of cells in a label.
    delimiter : str
        What separates cells.
    """

    def __init__(self, count: int, delimiter: str) -> None:
        cell = rb'"([^"\x00-\x1f]*)"' + re.escape(delimiter.encode())
        self._form = re.compile(cell * count + b'"')
        self._number: dict[bytes, int] = {}
        #: The cells of every label.
        self.cells: list[tuple[str, ...]] = []
        #: Quotes in a label: two a cell, and the one that opens the value.
        self.quotes = 2 * count + 1

    def number(self, label: bytes) -> int:
        """Return the number of a label.

        Raises
        ------
        ValueError
            If it is none, or no clean text.
        """
        known = self._number.get(label)
        if known is not None:
            return known
        form = self._form.fullmatch(label)
        if form is None:
            raise ValueError("not as many quoted cells as a label has")
        self.cells.append(tuple(cell.decode() for cell in form.groups()))
        self._number[label] = len(self.cells) - 1
        return self._number[label]


@dataclass(frozen=True)
class CutRows:
    """All rows of a table, cut while its bytes were hashed.

    Attributes
    ----------
    header : Header
        Where the table begins.
    names : tuple of str
        Columns of the labels.
    labels : Labels
        The labels of the rows.
    parts : list of Parts
        The rows, in the order of the file.
    other_after : int
        Lines of other output below them.
    """

    header: Header
    names: tuple[str, ...]
    labels: Labels
    parts: list[Parts]
    other_after: int

    @property
    def count(self) -> int:
        """Number of rows."""
        return sum(len(part.label) for part in self.parts)

    @property
    def quotes(self) -> int:
        """Number of double quotes in the rows."""
        of_rows = self.count * (self.labels.quotes + 1)
        return of_rows + sum(_quotes_of_heads(part) for part in self.parts)


def _quotes_of_heads(part: Parts) -> int:
    ends = np.flatnonzero(part.heads == _FEED)
    begins = np.concatenate([np.zeros(1, dtype=np.int64), ends[:-1] + 1])
    return int((np.add.reduceat((part.heads == _QUOTE).astype(np.int64), begins) * part.counts).sum())
