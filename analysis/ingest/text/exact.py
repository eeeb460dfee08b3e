"""The exact reader: line by line by RFC 4180, with an account of every line; slower, and afraid of nothing.

A quote that never closes costs its own row and not the rest of the file.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Collection, Iterator

import numpy as np
import pyarrow as pa

from analysis.ingest.contract.cells import Cells, Header, Rejects
from analysis.ingest.contract.format import Opened
from analysis.ingest.text.header import KEPT_BEFORE, is_cut_off, is_other_output

_CHUNK_ROWS = 1 << 16
#: A cell may hold line ends; more than this many lines of one row are a quote that was lost.
_LINES_OF_A_ROW = 8
_LONGEST_LINE = 1 << 20


class _OneLine:
    """FileReader one line to a CSV reader, and ends, so that an open quote can't reach the next line."""

    def __init__(self) -> None:
        self.line: str | None = None

    def __iter__(self) -> _OneLine:
        return self

    def __next__(self) -> str:
        line, self.line = self.line, None
        if line is None:
            raise StopIteration
        return line


def read_exact(
    opened: Opened,
    header: Header,
    plain: Collection[str],
    *,
    needed: Callable[[tuple[str, ...]], int],
    wanted: Callable[[tuple[str, ...]], bool],
    columns: Collection[str] | None = None,
) -> Cells:
    """Read any table that has this header.

    Parameters
    ----------
    opened : Opened
        The file.
    header : Header
        Where the table begins.
    plain : collection of str
        Columns to keep as plain text.
    needed : callable
        Says for a header how many cells a row must have; it may lack the columns after them, as ncu's metric rows lack
        the columns of rules.
    wanted : callable
        Recognises a header that stands among the rows again.
    columns : collection of str, optional
        Columns to keep; by default all.

    Returns
    -------
    Cells
        Good rows in columns, wrong ones as rejects; every line of the text is one or the other, or counted as other
        output, or blank.
    """
    if opened.text is None:
        raise ValueError("this is no text")
    reader = RowReader(header, plain, needed, wanted, columns)
    seen = 0
    for number, line, complete in _lines(opened, header):
        reader.take(number, line, complete)
        seen += 1
    cells = reader.finish()
    if seen != reader.lines_placed:
        raise AssertionError(f"{seen} lines were read and {reader.lines_placed} accounted for")
    return cells


def _lines(opened: Opened, header: Header) -> Iterator[tuple[int, str, bool]]:
    """Yield number, text and whether the line has its end, for the lines after the header."""
    assert opened.text is not None  # noqa: S101 - checked by the caller
    with opened.text.open("rb") as file:
        file.seek(header.start)
        number = header.line
        while raw := file.readline():
            number += 1
            yield number, raw.decode("utf-8", errors="replace").rstrip("\r\n"), raw.endswith(b"\n")


class RowReader:
    """Takes lines one after the other and sorts them into rows, rejects, other output, headers and blanks."""

    def __init__(
        self,
        header: Header,
        plain: Collection[str],
        needed: Callable[[tuple[str, ...]], int],
        wanted: Callable[[tuple[str, ...]], bool],
        columns: Collection[str] | None,
    ) -> None:
        self._header, self._plain, self._needed_of, self._wanted = header, plain, needed, wanted
        self._needed = needed(header.names)
        self._columns = columns
        #: Lines that became a row, a reject, other output, a header or nothing: all of them, in the end.
        self.lines_placed = 0
        # A name that stands twice keeps its first column.
        self._names = [name for name in dict.fromkeys(header.names) if columns is None or name in columns]
        self._places: list[int | None] = [header.names.index(name) for name in self._names]
        self._width = len(header.names)
        self._slot = _OneLine()
        self._csv = csv.reader(self._slot, delimiter=header.delimiter)
        self._rows: list[list[str]] = []
        self._at: list[int] = []
        self._parts: list[int] = []
        self._chunks: dict[str, list[pa.Array]] = {name: [] for name in self._names}
        self._lines: list[np.ndarray[tuple[int], np.dtype[np.int64]]] = []
        self._part_chunks: list[np.ndarray[tuple[int], np.dtype[np.int64]]] = []
        self._part = 0
        self._open: list[str] = []
        self._open_at = 0
        self._rows_read = 0
        self._rejects = Rejects()
        self._other = [(number, line) for number, line in enumerate(header.before, start=1)]
        self._other_count = header.line - 1
        self._cut_off = False

    @property
    def parts(self) -> int:
        """How often a header stood among the rows."""
        return self._part

    def take_alone(self, number: int, line: str) -> None:
        """Take a line whose neighbours are known to be rows of their own."""
        self.take(number, line, complete=True)
        while self._open:
            self._give_up(complete=True)

    def take(self, number: int, line: str, complete: bool) -> None:
        """Take the next line."""
        if self._open:
            self._continue(number, line, complete)
            return
        if not line.strip():
            self.lines_placed += 1
            return
        if is_other_output(line, self._header):
            self.lines_placed += 1
            self._other_count += 1
            if len(self._other) < KEPT_BEFORE:
                self._other.append((number, line[:200]))
            return
        if len(line) > _LONGEST_LINE:
            self._reject(number, f"the line is {len(line):,} characters long", line)
            return
        if line.count('"') % 2:
            self._open, self._open_at = [line], number
            if not complete:
                self._give_up(complete)
            return
        self._row(number, line, complete)

    def finish(self) -> Cells:
        """Return what was read."""
        while self._open:
            self._give_up(complete=True)
        self._flush()
        empty = np.empty(0, dtype=np.int64)
        return Cells(
            header=self._header,
            columns={
                name: pa.chunked_array(chunks or [pa.array([], pa.string())]) for name, chunks in self._chunks.items()
            },
            lines=np.concatenate(self._lines) if self._lines else empty,
            part=np.concatenate(self._part_chunks) if self._part_chunks else empty,
            rows_read=self._rows_read,
            rejects=self._rejects,
            other=self._other,
            other_count=self._other_count,
            cut_off=self._cut_off,
        )

    def _continue(self, number: int, line: str, complete: bool) -> None:
        """Add a line to a row whose quote is open, or give the row up."""
        if self._complete_row(line):
            # A whole row can't be part of a cell: the quote before it was lost.
            self._give_up(complete=True)
            self.take(number, line, complete)
            return
        self._open.append(line)
        joined = "\n".join(self._open)
        if joined.count('"') % 2 == 0:
            cells = self._cells(joined)
            if cells is not None and self._needed <= len(cells) <= self._width:
                at, self._open = self._open_at, []
                self._row(at, joined, complete)
                return
        if len(self._open) > _LINES_OF_A_ROW or not complete or sum(map(len, self._open)) > _LONGEST_LINE:
            self._give_up(complete)

    def _complete_row(self, line: str) -> bool:
        if line.count('"') % 2 or (self._header.quoted and not line.startswith('"')):
            return False
        cells = self._cells(line)
        return cells is not None and self._needed <= len(cells) <= self._width and len(cells) > 1

    def _give_up(self, complete: bool) -> None:
        """Reject the first line of an open row and read the lines after it on their own."""
        lines, self._open = self._open, []
        if len(lines) == 1 and not complete:
            self._cut_off = True
        self._reject(self._open_at, "a quotation mark isn't closed", lines[0])
        for offset, line in enumerate(lines[1:], start=1):
            self.take(self._open_at + offset, line, complete or offset < len(lines) - 1)

    def _cells(self, text: str) -> list[str] | None:
        try:
            if "\n" in text:
                rows = list(csv.reader(text.splitlines(keepends=True), delimiter=self._header.delimiter))
                return rows[0] if len(rows) == 1 else None
            self._slot.line = text
            return next(self._csv)
        except (csv.Error, StopIteration):
            return None

    def _row(self, number: int, text: str, complete: bool) -> None:
        cells = self._cells(text)
        if cells is None:
            self._reject(number, "the cells can't be told apart", text)
            return
        if cells and cells[0].strip() in self._header.names:
            names = tuple(cell.strip() for cell in cells)
            if names == self._header.names or (len(names) > 1 and self._wanted(names)):
                self._begin_part(names)
                return
        count = len(cells)
        if not complete and is_cut_off(text, self._header):
            self._cut_off = True
            self._reject(number, "the line ends before its last cell", text)
        elif count < self._needed:
            self._cut_off = self._cut_off or not complete
            self._reject(number, f"has {count} cells where the table has {self._width}", text)
        elif count > self._width and any(cell.strip() for cell in cells[self._width :]):
            self._reject(number, f"has {count} cells where the table has {self._width}", text)
        else:
            self.lines_placed += text.count("\n") + 1
            self._rows_read += 1
            self._rows.append(cells + [""] * (self._width - count) if count < self._width else cells[: self._width])
            self._at.append(number)
            self._parts.append(self._part)
            if len(self._rows) >= _CHUNK_ROWS:
                self._flush()

    def _begin_part(self, names: tuple[str, ...]) -> None:
        """Go on under a header that stands among the rows; its columns may have another order."""
        self._flush()
        self._part += 1
        self.lines_placed += 1
        self._other_count += 1
        before = sum(map(len, self._lines))
        for name in dict.fromkeys(names):
            if name not in self._chunks and (self._columns is None or name in self._columns):
                # The rows above lack the column.
                blank = pa.array([""], pa.string()).take(pa.array(np.zeros(before, dtype=np.int32)))
                self._names.append(name)
                self._chunks[name] = [blank if name in self._plain else blank.dictionary_encode()]
        self._places = [names.index(name) if name in names else None for name in self._names]
        self._needed, self._width = self._needed_of(names), len(names)

    def _reject(self, number: int, reason: str, text: str) -> None:
        self.lines_placed += text.count("\n") + 1
        self._rows_read += 1
        self._rejects.add(number, None, reason, text)

    def _flush(self) -> None:
        if not self._rows:
            return
        blank = [""] * len(self._rows)
        columns = list(zip(*self._rows, strict=True))
        for name, place in zip(self._names, self._places, strict=True):
            values = pa.array(columns[place] if place is not None else blank, pa.string())
            self._chunks[name].append(values if name in self._plain else values.dictionary_encode())
        self._lines.append(np.array(self._at, dtype=np.int64))
        self._part_chunks.append(np.array(self._parts, dtype=np.int64))
        self._rows, self._at, self._parts = [], [], []
