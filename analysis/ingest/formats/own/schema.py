"""Checks cells of an own table against the documented columns, with pandera, and types them.

A wrong cell costs its row: pandera looks at all rows (``lazy``) and every failure becomes a reject with its line,
column and reason.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd

from analysis.ingest.formats.own.columns import Column
from analysis.ingest.text.decimals import Decimals
from analysis.ingest.text.delimited import Sheet


def typed(sheet: Sheet, columns: Sequence[Column], decimals: Decimals) -> pd.DataFrame:
    """Return the documented columns with their types, one row a line; cells that are no numbers are rejected.

    Parameters
    ----------
    sheet : Sheet
        Text cells under documented names.
    columns : sequence of Column
        What to take; columns that the file lacks are empty.
    decimals : Decimals
        The file's decimal mark.

    Returns
    -------
    pd.DataFrame
        Indexed by line. Text columns hold str, blank where empty; number and integer columns float, NaN where empty.
        Rows with a fault are in it, and in the sheet's rejects.
    """
    frame = pd.DataFrame(index=sheet.cells.index)
    for column in columns:
        text = (
            sheet.cells[column.name] if column.name in sheet.cells else pd.Series("", index=frame.index, dtype=object)
        )
        if column.kind == "text":
            words = {**{choice: choice for choice in column.choices}, **(column.words or {})}
            frame[column.name] = (
                text.map({cell: words.get(cell.casefold(), cell) for cell in set(text)}) if words else text
            )
            continue
        parsed = {cell: _number(cell, column, decimals) for cell in set(text)}
        frame[column.name] = text.map(parsed).astype(float)
        bad = frame.index[frame[column.name].isna() & (text != "")]
        sheet.reject(bad, column.name, _why_no_number(decimals))
    return frame


def check(sheet: Sheet, frame: pd.DataFrame, columns: Sequence[Column]) -> None:
    """Apply the limits and choices of the columns, and reject the rows that break them."""
    # pandera takes seconds to import; only a file with an own table needs it.
    import pandera.pandas as pa

    schema = pa.DataFrameSchema(
        {column.name: pa.Column(None, _checks(column, pa), nullable=True, coerce=False) for column in columns}
    )
    try:
        schema.validate(frame, lazy=True)
    except pa.errors.SchemaErrors as errors:
        cases = errors.failure_cases
        for column, reason, line in zip(cases["column"], cases["check"], cases["index"], strict=True):
            sheet.reject([int(line)], str(column), str(reason))


def _checks(column: Column, pa: Any) -> list[Any]:
    checks = []
    if column.above is not None:
        zero = ": a job that did not run has no value and the outcome did_not_run" if column.above == 0 else ""
        checks.append(pa.Check.gt(column.above, error=f"must be above {column.above:g}{zero}"))
    if column.least is not None:
        hint = ": write 50 for 50 %" if column.name == "thread_percentage" else ""
        checks.append(pa.Check.ge(column.least, error=f"must not be below {column.least:g}{hint}"))
    if column.most is not None:
        checks.append(pa.Check.le(column.most, error=f"must not be above {column.most:g}"))
    if column.kind == "integer":
        checks.append(pa.Check(lambda values: values == values.round(), error="isn't a whole number"))
    if column.choices:
        checks.append(pa.Check.isin([*column.choices, ""], error=f"isn't one of {', '.join(column.choices)}"))
    return checks


def _number(cell: str, column: Column, decimals: Decimals) -> float | None:
    text = cell[:-1].rstrip() if column.name == "thread_percentage" and cell.endswith("%") else cell
    return decimals.number(text) if text else None


def _why_no_number(decimals: Decimals) -> str:
    other = "comma" if decimals.mark == "," else "point"
    return f"isn't a number (this file is read with a decimal {other})"
