"""A small delimited table as text cells that know their line, with the account of rows that are wrong.

For tables that people and papers write by hand or with a spreadsheet. Nothing is typed while reading: cells stay text
until a format says what they mean, so that a wrong cell costs its row and no other.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice, pairwise

import pandas as pd

from analysis.errors import InputRefusedError, Where
from analysis.ingest.contract.format import Opened
from analysis.store.parsed import REJECTED_COLUMNS, no_rejects

#: Beyond these a file is no table of co-runs; the cure says how to go on.
MAX_BYTES = 256 << 20
MAX_COLUMNS = 1000

_LINE_END = re.compile(r"\r\n|\n|\r")
_QUOTED_LINES = 20
_SHOWN = 500
#: Lines among which the header is looked for below comments and titles, and how comments begin.
_TITLE_LINES = 20
_COMMENTS = ("#", "//")
#: The rules of tables drawn in text: of Markdown, and of databases and terminals.
_RULE = re.compile(r"[|+\-=:\s─┼├┤│]*[-=─]{2,}[|+\-=:\s─┼├┤│]*")


@dataclass
class Sheet:
    """A table of text.

    Attributes
    ----------
    header : tuple of str
        Column names as written, without blanks around them.
    cells : pd.DataFrame
        All text, blanks around it taken off; the index is the line in the file, the columns are ``header``.
    delimiter : str
        The separator of cells.
    raw : dict of int to str
        The text of each row by its first line.
    rejects : list
        (line, column, reason) of every fault found so far.
    above : list of str
        Lines above the header that are no part of the table, with their numbers.
    """

    header: tuple[str, ...]
    cells: pd.DataFrame
    delimiter: str
    raw: dict[int, str]
    rejects: list[tuple[int, str | None, str]] = field(default_factory=list)
    above: list[str] = field(default_factory=list)

    @property
    def skipped(self) -> dict[str, object]:
        """What the report says of the lines above the header; nothing where there are none."""
        return {"lines_skipped": len(self.above), "lines_skipped_first": self.above[:20]} if self.above else {}

    @property
    def rows_read(self) -> int:
        """Data rows of the file, wrong ones included."""
        return len(self.raw)

    def reject(self, lines: Iterable[int], column: str | None, reason: str) -> None:
        """Note a fault; the rows leave `good`, the account keeps them."""
        self.rejects.extend((int(line), column, reason) for line in lines)

    def good(self) -> pd.DataFrame:
        """Return the rows without a fault."""
        bad = {line for line, _, _ in self.rejects}
        return self.cells[~self.cells.index.isin(bad)]

    def rejected(self) -> pd.DataFrame:
        """Return line, column, reason and text of every fault, in the order of lines."""
        if not self.rejects:
            return no_rejects()
        rows = [
            (line, column, reason, self.raw[line][:_SHOWN])
            for line, column, reason in sorted(self.rejects, key=lambda fault: fault[0])
        ]
        return pd.DataFrame(rows, columns=list(REJECTED_COLUMNS))

    def numbers(
        self, column: str, *, above: float | None = None, least: float | None = None, required: bool = True
    ) -> pd.Series[float]:
        """Read a column with decimal points as numbers, and reject the rows in which it is none.

        Parameters
        ----------
        column : str
            Its name in the header.
        above, least : float, optional
            The value must be larger than the one, and not below the other.
        required : bool
            Whether an empty cell is a fault.

        Returns
        -------
        pd.Series
            Float, indexed by line, for all rows; NaN where empty or rejected.
        """
        text = self.cells[column]
        empty = text == ""
        values = pd.to_numeric(text.where(~empty), errors="coerce").astype(float)
        infinite = values.isin([float("inf"), float("-inf")])
        self.reject(text.index[values.isna() & ~empty | infinite], column, "isn't a number")
        if required:
            self.reject(text.index[empty], column, "is empty")
        if above is not None:
            self.reject(values.index[(values <= above) & ~infinite], column, f"must be above {above:g}")
        if least is not None:
            self.reject(values.index[(values < least) & ~infinite], column, f"must not be below {least:g}")
        return values.mask(infinite)


def header_of(opened: Opened) -> tuple[tuple[str, ...], str]:
    """Return the names of the first line that isn't blank, and the delimiter that separates them.

    The delimiter is the one of comma, semicolon and tab that gives the most columns, or the bar of a drawn table.
    """
    lines = _LINE_END.split(opened.head)
    at = header_line(lines)
    return ((), ",") if at is None else _head(lines, at)[:2]


def header_line(lines: Sequence[str]) -> int | None:
    """Return which line names the columns: the first that isn't blank, but for comments and titles above a table.

    Below those it is the first line of names alone, with as many cells as the line below it; None for blank lines only.
    """
    at = list(islice((n for n, line in enumerate(lines) if line.strip() and not _RULE.fullmatch(line)), _TITLE_LINES))
    if not at:
        return None
    # A rule below a line with bars makes that line the head of a table, whatever prose stands above.
    drawn = (n for n in at if "|" in lines[n] and n + 1 < len(lines) and _RULE.fullmatch(lines[n + 1]))
    if (head := next(drawn, None)) is not None and _header(lines[head])[1] == "|":
        return head
    if not _is_title(lines[at[0]]):
        return at[0]
    for here, below in pairwise(at):
        names, delimiter = _header(lines[here])
        row = _cells(lines[below], delimiter)
        if not _is_title(lines[here]) and row is not None and len(row) == len(names) and all(map(_is_name, names)):
            return here
    return at[0]


def _is_title(line: str) -> bool:
    return line.lstrip().startswith(_COMMENTS) or len(_header(line)[0]) < 2


def _is_name(text: str) -> bool:
    return any(char.isalpha() for char in text) and not text[0].isdigit()


def read_sheet(opened: Opened) -> Sheet:
    """Read a delimited file; rows of another width than the header, and quotes that never close, are rejected.

    Parameters
    ----------
    opened : Opened
        The file.

    Returns
    -------
    Sheet
        Its cells.

    Raises
    ------
    InputRefusedError
        If the file is too large, can't be decoded, repeats a column, or has no data rows.
    """
    where = Where(opened.name)
    text = read_text(opened)
    lines = _LINE_END.split(text)
    first = header_line(lines)
    if first is None:
        raise InputRefusedError("the file is empty", "Export the table again.", where)
    header, delimiter, height = _head(lines, first)
    _check_header(header, Where(opened.name, first + 1))
    raw: dict[int, str] = {}
    rows: list[list[str]] = []
    at: list[int] = []
    rejects: list[tuple[int, str | None, str]] = []
    for line, written, row in _records(lines, first + height, delimiter, len(header)):
        raw[line] = written
        if isinstance(row, str):
            rejects.append((line, None, row))
            continue
        rows.append(row)
        at.append(line)
    if not raw:
        raise InputRefusedError("the table has a header and no rows", "Export it again, with its data.", where)
    if not rows:
        line, _, reason = rejects[0]
        raise InputRefusedError(
            f"none of its {len(raw):,} rows can be read, the first because it {reason}", "Export it again.",
            Where(opened.name, line),
        )  # fmt: skip
    cells = pd.DataFrame(rows, index=pd.Index(at, name="line", dtype="int64"), columns=list(header), dtype=object)
    above = [f"{number}: {line[:200]}" for number, line in enumerate(lines[:first], start=1) if line.strip()]
    return Sheet(header, cells, delimiter, raw, rejects, above)


def read_text(opened: Opened) -> str:
    """Return the whole text of a file that is small by nature.

    Raises
    ------
    InputRefusedError
        If it is too large for such a file, or no text.
    """
    where = Where(opened.name)
    path = opened.text or opened.path
    if path.stat().st_size > MAX_BYTES:
        raise InputRefusedError(
            f"the table is larger than {MAX_BYTES >> 20} MiB", "Split it, or save it as Parquet.", where
        )
    try:
        # A clean text is UTF-8, whatever the file was written in.
        return path.read_text(encoding="utf-8-sig" if opened.text else opened.encoding)
    except (UnicodeError, LookupError) as error:
        raise InputRefusedError(
            f"the bytes are no text in {opened.encoding}", "Save the table as UTF-8 and load it again.", where
        ) from error


def _header(line: str) -> tuple[tuple[str, ...], str]:
    best: tuple[tuple[str, ...], str] = ((line.strip(),), ",")
    if line.strip().startswith("|") or ("|" in line and not any(mark in line for mark in ",;\t")):
        return tuple(name.strip() for name in _between_bars(line)), "|"
    for delimiter in (",", ";", "\t"):
        try:
            names = next(csv.reader([line], delimiter=delimiter), [])
        except csv.Error:
            continue
        if len(names) > len(best[0]):
            best = (tuple(name.strip() for name in names), delimiter)
    return best


def _head(lines: Sequence[str], at: int) -> tuple[tuple[str, ...], str, int]:
    """Return the names of the columns, the delimiter, and on how many lines the names stand.

    Spreadsheets merge cells above several columns, and export the merged name once with blanks behind it: such a line
    over a line of names alone is one header of two lines, ``alone`` over ``a`` and ``b``.
    """
    names, delimiter = _header(lines[at])
    if at + 1 >= len(lines) or "" not in names[1:] or not any(names):
        return names, delimiter, 1
    below = [cell.strip() for cell in _cells(lines[at + 1], delimiter) or []]
    if len(below) != len(names) or not all(below) or not all(map(_is_name, below)):
        return names, delimiter, 1
    merged: list[str] = []
    group = ""
    for above, name in zip(names, below, strict=True):
        group = above or group
        merged.append(f"{group} {name}".strip())
    return tuple(merged), delimiter, 2


def _check_header(header: Sequence[str], where: Where) -> None:
    if len(header) > MAX_COLUMNS:
        raise InputRefusedError(
            f"the table has {len(header):,} columns", f"Keep the columns that are needed, at most {MAX_COLUMNS}.", where
        )
    repeated = sorted({name for name in header if header.count(name) > 1})
    if repeated:
        named = ", ".join(repr(name) for name in repeated[:5])
        raise InputRefusedError(f"the header repeats {named}", "Give every column a name of its own.", where)


def _records(
    lines: Sequence[str], start: int, delimiter: str, width: int
) -> Iterator[tuple[int, str, list[str] | str]]:
    """Yield (line, text, cells or the fault) for every row; blank lines are no rows."""
    number = start
    while number < len(lines):
        text = lines[number]
        taken = 1
        # Spreadsheets end their exports with lines of separators alone.
        drawn = delimiter == "|" and ("|" not in text or _RULE.fullmatch(text))
        if text.strip(f"{delimiter} \t") and not drawn:
            row = _cells(text, delimiter)
            if row is None:
                # A quoted cell may hold line ends; one that never closes must not swallow the rows below it.
                for taken in range(2, _QUOTED_LINES + 1):
                    joined = "\n".join(lines[number : number + taken])
                    row = _cells(joined, delimiter)
                    if row is not None and len(row) == width:
                        text = joined
                        break
                else:
                    row, taken = None, 1
            if row is None:
                yield number + 1, text, "has a quotation mark that isn't closed"
            elif (len(row) != width and any(cell.strip() for cell in row[width:])) or len(row) < width:
                yield number + 1, text, f"has {len(row)} fields where the header has {width}"
            else:
                yield number + 1, text, [cell.strip() for cell in row[:width]]
        number += taken


def _between_bars(line: str) -> list[str]:
    """Return the cells of a drawn table's row: the bars at its ends are no separators, and marks of bold are none."""
    bare = line.strip()
    cells = bare.removeprefix("|").removesuffix("|").split("|")
    return [re.sub(r"^(\*\*|`|__)(.*)\1$", r"\2", cell.strip()) for cell in cells]


def _cells(text: str, delimiter: str) -> list[str] | None:
    if delimiter == "|":
        return _between_bars(text)
    if '"' not in text:
        return text.split(delimiter)
    try:
        # Line ends stay: without them the halves of a cell would become one word, or one number.
        rows = list(csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True))
    except csv.Error:
        return None
    if len(rows) != 1:
        return None
    return rows[0]
