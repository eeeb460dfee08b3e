"""Texts that hold several tables one below the other, each with its own header: nvprof's, and those of `nsys stats`."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from analysis.ingest.contract.cells import Header
from analysis.ingest.contract.format import Opened
from analysis.ingest.contract.textstats import measure
from analysis.ingest.text.header import KEPT_BEFORE, is_other_output, split_line
from analysis.ingest.text.units import no_value
from analysis.settings import get_settings

_LONGEST_HEADER = 1 << 16
_COPY = 1 << 20

Names = tuple[str, ...]


@dataclass(frozen=True)
class Block:
    """One table of a text.

    Attributes
    ----------
    header : Header
        Where it begins; a row of units below the names counts as part of it.
    stop : int
        Offset in bytes after its last line.
    units : tuple of str or None
        The row of units below the names.
    rows : int
        Lines between header and stop that are rows, for tables that are not read.
    wanted : bool
        Whether it is one of those looked for.
    """

    header: Header
    stop: int
    units: Names | None
    rows: int
    wanted: bool


def find_blocks(opened: Opened, mark: str, wanted: Callable[[Names], bool]) -> list[Block]:
    """Find the tables of a text.

    Parameters
    ----------
    opened : Opened
        The text.
    mark : str
        A word that the header of a table to be read holds for certain.
    wanted : callable
        Recognises the header of a table that is to be read. Other tables are found by their form: a line of at least
        three names, none of them a number, below a blank line or a line without cells.

    Returns
    -------
    list of Block
        In the order of the file.
    """
    if opened.text is None or opened.stats is None or opened.stats.encoding not in ("utf-8", "utf-8-sig"):
        return []
    found: list[Block] = []
    before: list[str] = []
    current: Header | None = None
    units: Names | None = None
    is_wanted, rows, fresh, number = False, 0, True, 0
    needle = mark.encode()

    def close(stop: int) -> None:
        if current is not None:
            found.append(Block(current, stop, units, rows, is_wanted))

    with opened.text.open("rb") as file:
        if opened.stats.encoding == "utf-8-sig":
            file.seek(3)
        start = file.tell()
        while raw := file.readline():
            number += 1
            maybe = (fresh or needle in raw) and len(raw) < _LONGEST_HEADER
            head = _header(raw, wanted, fresh) if maybe else None
            if head is not None:
                close(start)
                names, delimiter, is_wanted = head
                # These tools quote some cells and not others, so quotes don't tell a row from other output.
                current = Header(names, number, file.tell(), delimiter, False, tuple(before))
                units, rows, fresh = None, 0, False
            elif current is None:
                if len(before) < KEPT_BEFORE:
                    before.append(raw[:2000].decode("utf-8", errors="replace").rstrip("\r\n"))
                fresh = True
            elif rows == 0 and units is None and (row := _units(raw, current)) is not None:
                units = row
                current = replace(current, line=number, start=file.tell())
            else:
                text = raw.decode("utf-8", errors="replace").strip()
                is_row = bool(text) and not is_other_output(text, current)
                rows += is_row
                fresh = not is_row
            start = file.tell()
        close(start)
    return found


@contextmanager
def cut_out(opened: Opened, block: Block) -> Iterator[tuple[Opened, Header]]:
    """Give one table as a text that ends with it, lines numbered as in the file."""
    if opened.text is None or opened.stats is None:
        raise ValueError("this is no text")
    if block.stop >= opened.stats.size:
        yield opened, block.header
        return
    folder = get_settings().spool
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="table-", dir=folder) as where:
        path = Path(where) / "table"
        with opened.text.open("rb") as source, path.open("wb") as target:
            # Lines keep their numbers: as many line ends stand in front as before.
            target.write(b"\n" * block.header.line)
            source.seek(block.header.start)
            left = block.stop - block.header.start
            while left > 0 and (piece := source.read(min(left, _COPY))):
                target.write(piece)
                left -= len(piece)
        stats = replace(measure(path), encoding="utf-8")
        yield replace(opened, text=path, stats=stats, rows=None), replace(block.header, start=block.header.line)


def has_block(opened: Opened, mark: str, wanted: Callable[[Names], bool]) -> bool:
    """Say whether the first part of a text has such a header; `mark` is a word that it holds for certain."""
    if mark not in opened.head:
        return False
    lines = opened.head.splitlines()
    return any(mark in line and _header(line.encode(), wanted, False) is not None for line in lines)


def _header(raw: bytes, wanted: Callable[[Names], bool], fresh: bool) -> tuple[Names, str, bool] | None:
    line = raw.decode("utf-8", errors="replace").strip()
    if not line or line.startswith("=="):
        return None
    for delimiter in (",", ";", "\t", "|"):
        if delimiter not in line:
            continue
        names = tuple(name.strip() for name in split_line(line, delimiter))
        if wanted(names):
            return names, delimiter, True
        if fresh and len(names) > 2 and _all_names(names):
            return names, delimiter, False
    return None


def _all_names(names: Names) -> bool:
    """Say whether these may be the names of columns: words, of which the last may be blank, and no numbers."""
    last = max((place for place, name in enumerate(names) if name), default=0)
    return last >= len(names) - 2 and all(
        name and any(char.isalpha() for char in name) and not name[0].isdigit() and no_value(name) is None
        for name in names[: last + 1]
    )


def _units(raw: bytes, header: Header) -> Names | None:
    """Read the row of units that nvprof prints below the names: short words, no number, some blank."""
    line = raw.decode("utf-8", errors="replace").rstrip("\r\n")
    cells = tuple(cell.strip() for cell in split_line(line, header.delimiter)) if line.strip() else ()
    if len(cells) != len(header.names) or not any(cells) or all(cells):
        return None
    return cells if all(len(cell) < 8 and not any(char.isdigit() for char in cell) for cell in cells) else None
