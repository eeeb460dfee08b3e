"""Prints tables and sentences for people on standard output."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pandas as pd
from rich.console import Console
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from analysis.numbers import WORDS, format_value, visible
from analysis.report.document import Column

#: Wide enough for every table; a pipe has no edge to fold at.
_PIPE_WIDTH = 240

#: Names are folded to no less than this; on a narrower terminal the lines break instead.
_READABLE = 16


class Screen:
    """Standard output as a person reads it. Names from files are never taken for markup or terminal commands."""

    def __init__(self) -> None:
        terminal = sys.stdout.isatty()
        if hasattr(sys.stdout, "reconfigure"):
            sys.stdout.reconfigure(errors="backslashreplace")
        width = None if terminal else _PIPE_WIDTH
        self._console = Console(file=sys.stdout, width=width, markup=False, highlight=False, emoji=False)

    @property
    def width(self) -> int:
        """Characters in a line."""
        return self._console.width

    def line(self, text: str = "", *, style: str | None = None) -> None:
        """Print one sentence."""
        self._console.print(Text(visible(text), style=style or ""), soft_wrap=True)

    def table(
        self, rows: pd.DataFrame | Iterable[Mapping[str, Any]], columns: Sequence[Column], *, title: str | None = None
    ) -> None:
        """Print a table; text to the left, figures to the right, intervals beside their figures.

        Parameters
        ----------
        rows : pd.DataFrame or iterable of mapping
            One record a row.
        columns : sequence of Column
            What to print of each record; columns that no record has are left out.
        title : str, optional
            Printed above.
        """
        records: list[Mapping[Any, Any]] = [*(rows.to_dict("records") if isinstance(rows, pd.DataFrame) else rows)]
        ends = {end for column in columns for end in (column.low, column.high)}
        given = {key for record in records for key in record}
        shown = [column for column in columns if column.key in given and column.key not in ends]
        if title:
            self.line(title, style="bold")
        table = Table(show_edge=False, pad_edge=False, header_style="bold", box=None, padding=(0, 2, 0, 0))
        rows_of_text = [[_printed(record, column) for column in shown] for record in records]
        for place, column in enumerate(shown):
            text = column.kind in WORDS
            words = max(map(len, column.header.split()), default=0)
            longest = max([words, *(len(row[place]) for row in rows_of_text)])
            table.add_column(
                column.header,
                justify="left" if text else "right",
                overflow="fold",
                no_wrap=not text,
                min_width=min(longest, _READABLE) if text else None,
            )
        for row in rows_of_text:
            table.add_row(*map(Text, row))
        # A figure that lost its last digits would be another figure: rather than that, the terminal breaks the line.
        wide = self._console.options.update(width=10_000)
        least = Measurement.get(self._console, wide, table).minimum
        before = self._console.width
        self._console.width = max(least, before)
        self._console.print(table)
        self._console.width = before


def _printed(record: Mapping[Any, Any], column: Column) -> str:
    text = format_value(_known(record.get(column.key)), column.kind)
    low, high = (_known(record.get(end)) if end else None for end in (column.low, column.high))
    if low is None or high is None:
        return text
    return f"{text} ({format_value(low, column.kind)} to {format_value(high, column.kind)})"


def _known(value: Any) -> Any:
    """Give None for the missing values of pandas, which compare like nothing else; arrays become lists."""
    if pd.api.types.is_list_like(value):
        return list(value)
    return None if pd.isna(value) else value
