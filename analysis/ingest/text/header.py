"""Finds the table in a text: the header line, wherever it stands, and the end of the rows."""

from __future__ import annotations

import codecs
import csv
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

from analysis.errors import InputRefusedError, Where
from analysis.ingest.contract.cells import Header
from analysis.ingest.contract.format import Opened

#: More columns than any profiler prints; a table beyond it is refused.
MAX_COLUMNS = 6000
#: Lines before the header that are kept to show and to look for the GPU's name.
KEPT_BEFORE = 200

_DELIMITERS = (",", ";", "\t", "|")
_TAIL = 1 << 16
_LONGEST_HEADER = 1 << 20


def split_line(text: str, delimiter: str) -> list[str]:
    """Cut one line into cells by RFC 4180, leniently; at every delimiter where it is no row of a table at all."""
    try:
        return next(csv.reader([text], delimiter=delimiter), [])
    except csv.Error:  # a carriage return inside it, or a cell of more than 128 KiB
        return text.split(delimiter)


def find_header(opened: Opened, mark: str, wanted: Callable[[tuple[str, ...]], bool]) -> Header | None:
    """Find the line that is the header.

    Parameters
    ----------
    opened : Opened
        A text.
    mark : str
        A column name that the header holds for certain; lines without it are not looked at.
    wanted : callable
        Says whether these column names are the right ones.

    Returns
    -------
    Header or None
        None where no line is such a header.
    """
    if opened.text is None or opened.stats is None or opened.stats.encoding not in ("utf-8", "utf-8-sig"):
        return None
    if opened.stats.size <= len(opened.head) and mark not in opened.head:
        return None
    with opened.text.open("rb") as file:
        if opened.stats.encoding == "utf-8-sig":
            file.seek(len(codecs.BOM_UTF8))
        return header_in(file, mark, wanted)


def header_in(file: BinaryIO, mark: str, wanted: Callable[[tuple[str, ...]], bool]) -> Header | None:
    """Find the header from here on; `mark` and `wanted` are as for `find_header`."""
    before: list[str] = []
    needle, number = mark.encode(), 0
    while raw := file.readline(_LONGEST_HEADER):
        number += raw.endswith(b"\n") or len(raw) < _LONGEST_HEADER
        if needle in raw:
            text = raw.decode("utf-8", errors="replace")
            found = _as_header(text, wanted)
            if found is not None:
                names, delimiter, quoted = found
                return Header(names, number, file.tell(), delimiter, quoted, tuple(before))
        if len(before) < KEPT_BEFORE:
            before.append(raw[:2000].decode("utf-8", errors="replace").rstrip("\r\n"))
    return None


def _as_header(text: str, wanted: Callable[[tuple[str, ...]], bool]) -> tuple[tuple[str, ...], str, bool] | None:
    # A program that printed without a line end leaves its words in front of the header.
    starts = [0, *([text.find('"')] if '"' in text and not text.startswith('"') else [])]
    for start in starts:
        line = text[start:].rstrip("\r\n")
        for delimiter in _DELIMITERS:
            names = tuple(name.strip() for name in split_line(line, delimiter))
            if len(names) > 1 and wanted(names):
                return names, delimiter, line.lstrip().startswith('"')
    return None


def check_width(header: Header, name: str) -> None:
    """Refuse a table that is too wide.

    Raises
    ------
    InputRefusedError
        If the header has more columns than any profiler prints.
    """
    if len(header.names) > MAX_COLUMNS:
        raise InputRefusedError(
            f"the table has {len(header.names):,} columns",
            f"Export at most {MAX_COLUMNS:,} metrics at once, for example with `--section WarpStateStats`.",
            Where(name, header.line),
        )


def is_other_output(line: str, header: Header) -> bool:
    """Say whether a line is no row of the table: the profiler's own lines and what the program printed.

    A damaged row must not pass as one, so a line is only taken out if it holds no trace of the table's cells.
    """
    if line.startswith("=="):
        return True
    if header.quoted:
        # As many cells as the table has, the first of them a number: a row that has lost its quotes.
        bare = line[:1].isdigit() and line.count(header.delimiter) >= len(header.names) - 1
        return not bare and not line.lstrip().startswith('"') and f'"{header.delimiter}"' not in line
    return header.delimiter not in line


def is_cut_off(line: str, header: Header) -> bool:
    """Say whether a line ends where the last cell of its table should begin, which is quoted even if it is empty."""
    if not header.quoted or not line.endswith(header.delimiter):
        return False
    return len(split_line(line, header.delimiter)) == len(header.names)


def table_end(text: Path, header: Header) -> tuple[int, int, int, bool]:
    """Find where the rows end, what follows them, and whether the last row is complete.

    Returns
    -------
    tuple of int, int, int and bool
        Offset in bytes after the last line that may be a row; number of line feeds from there on; number of lines of
        other output from there on; whether the last row has an odd number of quotes, or ends the file without a line
        end and inside a cell.
    """
    size = text.stat().st_size
    start = max(header.start, size - _TAIL)
    with text.open("rb") as file:
        file.seek(start)
        tail = file.read()
    end = len(tail)
    other = 0
    while end > 0:
        stop = end - 1 if tail[end - 1 : end] == b"\n" else end
        begin = tail.rfind(b"\n", 0, stop) + 1
        line = tail[begin:end].decode("utf-8", errors="replace").strip()
        if line and not is_other_output(line, header):
            raw = tail[begin:end]
            suspicious = raw.count(b'"') % 2 == 1 or (
                (header.quoted and end == len(tail) and not raw.rstrip(b"\r\n").endswith((b'"', b",")))
                or is_cut_off(raw.decode("utf-8", errors="replace"), header)
            )
            return start + end, tail.count(b"\n", end), other, suspicious
        other += bool(line)
        if begin == 0:
            return (start if start == header.start else start + end), tail.count(b"\n", end), other, True
        end = begin
    return start, tail.count(b"\n"), other, False
