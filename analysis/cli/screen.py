"""Prints tables and sentences for people on standard output."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd
from rich.console import Console
from rich.table import Table
from rich.text import Text

from analysis.report.numbers import UNITS, Kind, format_value, visible

_PIPE_WIDTH = 240


@dataclass(frozen=True)
class Column:
    """A column of a printed table.

    Attributes
    ----------
    key : str
        Name in the record.
    label : str
        Header, without the unit.
    kind : Kind
        How cells are printed; the unit goes into the header.
    """

    key: str
    label: str
    kind: Kind = "text"

    @property
    def header(self) -> str:
        """The label with its unit."""
        unit = UNITS[self.kind]
        return f"{self.label} ({unit})" if unit else self.label


class Screen:
    """Standard output as a person reads it. Names from files are never taken for markup or terminal commands."""

    def __init__(self) -> None:
        terminal = sys.stdout.isatty()
        if hasattr(sys.stdout, "reconfigure"):
            sys.stdout.reconfigure(errors="backslashreplace")
        self._console = Console(
            file=sys.stdout, width=None if terminal else _PIPE_WIDTH, markup=False, highlight=False, emoji=False
        )

    def line(self, text: str = "", *, style: str | None = None) -> None:
        """Print one sentence."""
        self._console.print(Text(visible(text), style=style or ""), soft_wrap=True)

    def table(
        self, rows: pd.DataFrame | Iterable[Mapping[str, Any]], columns: Sequence[Column], *, title: str | None = None
    ) -> None:
        """Print a table; text to the left, figures to the right.

        Parameters
        ----------
        rows : pd.DataFrame or iterable of mapping
            One record a row.
        columns : sequence of Column
            What to print of each record; columns that no record has are left out.
        title : str, optional
            Printed above.
        """
        records = rows.to_dict("records") if isinstance(rows, pd.DataFrame) else list(rows)
        shown = [column for column in columns if any(column.key in record for record in records)]
        if title:
            self.line(title, style="bold")
        table = Table(show_edge=False, pad_edge=False, header_style="bold", box=None, padding=(0, 2, 0, 0))
        for column in shown:
            text = column.kind in ("text", "flag")
            table.add_column(column.header, justify="left" if text else "right", overflow="fold", no_wrap=not text)
        for record in records:
            table.add_row(*(Text(format_value(_known(record.get(c.key)), c.kind)) for c in shown))
        self._console.print(table)


def _known(value: Any) -> Any:
    """Give None for the missing values of pandas, which compare like nothing else; arrays become lists."""
    if pd.api.types.is_list_like(value):
        return list(value)
    return None if pd.isna(value) else value
