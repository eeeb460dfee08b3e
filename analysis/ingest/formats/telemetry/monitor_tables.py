"""Tables set with blanks, whose header begins with ``#`` and comes again every screenful, as monitors print them."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import pandas as pd
import pyarrow as pa

from analysis.ingest.contract.format import Opened
from analysis.ingest.text.units import Quantities, no_value, read
from analysis.store.parsed import REJECTED_COLUMNS, no_rejects

_SEPARATOR = re.compile(r"[,\s]+")


@dataclass
class Monitored:
    """Rows below one header.

    Attributes
    ----------
    names : tuple of str
        Columns as written, in lower case for nvidia-smi.
    units : tuple of str
        The second line of the header; blank where it says nothing.
    rows : list of list of str
        Cells.
    lines : list of int
        Line of each row.
    """

    names: tuple[str, ...]
    units: tuple[str, ...]
    rows: list[list[str]] = field(default_factory=list)
    lines: list[int] = field(default_factory=list)

    def column(self, name: str) -> list[str] | None:
        """Return the cells of a column, None where there is none of the name."""
        if name not in self.names:
            return None
        place = self.names.index(name)
        return [row[place] for row in self.rows]

    def numbers(self, name: str) -> Quantities:
        """Return a column as numbers."""
        return read(pa.array(self.column(name) or [], pa.string()))


@dataclass
class Account:
    """What is not in the tables.

    Attributes
    ----------
    read : int
        Rows, those rejected included.
    faults : list of tuple
        line, column, reason, text.
    other : int
        Lines that are no rows: headers, and what else was printed.
    """

    read: int = 0
    faults: list[tuple[int, str | None, str, str]] = field(default_factory=list)
    other: int = 0

    def frame(self) -> pd.DataFrame:
        """Return the rejected rows."""
        if not self.faults:
            return no_rejects()
        return pd.DataFrame(self.faults, columns=list(REJECTED_COLUMNS)).sort_values("line", ignore_index=True)


def cells_of(line: str) -> list[str]:
    """Cut a line at blanks, or at commas where it is written as CSV."""
    return [cell for cell in _SEPARATOR.split(line.strip()) if cell]


def looks_like_row(line: str) -> bool:
    """Say whether at least half of a line's cells are numbers or stand for missing ones."""
    cells = cells_of(line)
    return 2 * sum(cell[0].isdigit() or no_value(cell) is not None for cell in cells) >= len(cells)


def tables(
    opened: Opened,
    is_header: Callable[[Sequence[str]], bool],
    *,
    is_row: Callable[[str], bool],
    cut: Callable[[str, int], list[str]],
) -> tuple[list[Monitored], Account]:
    """Read all tables of a log; the same header again goes on with its table.

    Parameters
    ----------
    opened : Opened
        The text.
    is_header : callable
        Recognises the names of a header, without the ``#``.
    is_row : callable
        Says whether a line without ``#`` is meant as a row.
    cut : callable
        Cuts a row into as many cells as the header has.

    Returns
    -------
    list of Monitored, Account
        The tables by header, and what is no row of them.
    """
    if opened.text is None:
        raise ValueError("this is no text")
    found: dict[tuple[str, ...], Monitored] = {}
    account = Account()
    current: Monitored | None = None
    with opened.text.open(encoding="utf-8-sig", errors="replace") as file:
        for number, raw in enumerate(file, start=1):
            line = raw.strip()
            if not line:
                continue
            words = cells_of(line.lstrip("#"))
            if line.startswith("#") and is_header(words):
                names = tuple(words)
                current = found.setdefault(names, Monitored(names, ("",) * len(names)))
                account.other += 1
            elif current is None or line.startswith("#") or not is_row(line):
                if current is not None and not any(current.units) and line.startswith("#"):
                    current.units = tuple(words) if len(words) == len(current.names) else current.units
                account.other += 1
            else:
                account.read += 1
                cells = cut(line, len(current.names))
                if len(cells) != len(current.names):
                    reason = f"has {len(cells)} cells where the table has {len(current.names)}"
                    account.faults.append((number, None, reason, line[:500]))
                else:
                    current.rows.append(cells)
                    current.lines.append(number)
    return [table for table in found.values() if table.rows], account


def sound(table: Monitored, account: Account, columns: Sequence[str]) -> tuple[Monitored, dict[str, Quantities]]:
    """Take out the rows in which a column is neither a number nor a word for a missing value."""
    values = {name: table.numbers(name) for name in columns}
    bad = np.zeros(len(table.rows), dtype=bool)
    for name, found in values.items():
        for row in np.flatnonzero(found.wrong & ~bad):
            text = table.rows[row][table.names.index(name)]
            account.faults.append((table.lines[row], name, "is no number", text[:500]))
        bad |= found.wrong
    if not bad.any():
        return table, values
    keep = np.flatnonzero(~bad)
    kept = Monitored(table.names, table.units, [table.rows[row] for row in keep], [table.lines[row] for row in keep])
    return kept, {name: kept.numbers(name) for name in columns}
