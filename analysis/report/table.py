"""Makes table blocks of frames and records, and figure blocks of charts."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pandas as pd
import plotly.graph_objects as go

from analysis.charts.theme import alt_text
from analysis.numbers import Kind
from analysis.reference.columns import terms
from analysis.report.document import Column, Figure, Table
from analysis.report.plain import plain


def column(key: str, label: str, kind: Kind = "text", *, low: str | None = None, high: str | None = None) -> Column:
    """Make a column; see `analysis.report.document.Column`."""
    return Column(key=key, label=label, kind=kind, low=low, high=high)


def columns_of(*names: str, **changes: Mapping[str, Any]) -> tuple[Column, ...]:
    """Make columns of entries of the vocabulary of columns.

    Parameters
    ----------
    *names : str
        Entries, in the order of the columns.
    **changes : mapping
        What is otherwise in this table, by the key of the column: ``predicted={"low": "low", "high": "high"}``.

    Returns
    -------
    tuple of Column
        With keys as in the records.

    Raises
    ------
    KeyError
        If the vocabulary has no such entry, or a change is of no column named: a mistake in the code that asks.

    Examples
    --------
    >>> [one.header for one in columns_of("workload/job", "worst")]
    ['job', 'worst S (x)']
    """
    found = {one.key: Column(key=one.key, label=one.label, kind=one.kind) for one in terms(names)}
    for key, change in changes.items():
        found[key] = found[key].model_copy(update=dict(change))
    return tuple(found.values())


def table(
    title: str,
    rows: pd.DataFrame | Iterable[Mapping[str, Any]],
    columns: Sequence[Column],
    *,
    caption: str = "",
) -> Table:
    """Make a table of the columns that the records have.

    Parameters
    ----------
    title, caption : str
        See `analysis.report.document.Table`.
    rows : pd.DataFrame or iterable of mapping
        One record a row; numpy and pandas values are made plain, lists become text.
    columns : sequence of Column
        Those that no record has are left out.

    Returns
    -------
    Table
        With raw values.
    """
    records = rows.to_dict("records") if isinstance(rows, pd.DataFrame) else [dict(row) for row in rows]
    shown = tuple(column for column in columns if any(column.key in record for record in records))
    cells = tuple(tuple(_cell(record.get(column.key)) for column in shown) for record in records)
    return Table(title=title, columns=shown or tuple(columns), rows=cells, caption=caption)


def figure(title: str, chart: go.Figure) -> Figure:
    """Make a figure block of a chart of `analysis.charts`, which brings its alternative text along."""
    return Figure(title=title, alternative=alt_text(chart), plotly=json.loads(chart.to_json()))


def _cell(value: Any) -> bool | int | float | str | None:
    converted = plain(value)
    if isinstance(converted, list | dict):
        items = converted.values() if isinstance(converted, dict) else converted
        return ", ".join(str(item) for item in items)
    return converted
