"""Opens an own table, CSV or Parquet, as text cells under the documented names of its columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from analysis.errors import InputRefusedError, Where
from analysis.ingest.contract.format import Opened
from analysis.ingest.formats.own.columns import Column, known
from analysis.ingest.text.decimals import Decimals, decide
from analysis.ingest.text.delimited import MAX_COLUMNS, Sheet, header_of, read_sheet
from analysis.settings import get_settings
from analysis.store.possible import AMOUNT, MIB, REASON

_PARQUET = b"PAR1"
#: Rows that differ take more bytes than this each, however they are packed; smaller tables are read as they are.
_MANY_ROWS, _LEAST_BYTES = 100_000, 0.2


def is_parquet(opened: Opened) -> bool:
    """Say whether the bytes begin as Parquet."""
    return opened.magic.startswith(_PARQUET)


def header(opened: Opened) -> tuple[str, ...]:
    """Return the column names of a CSV or Parquet file; empty where it can't be read."""
    if not is_parquet(opened):
        return header_of(opened)[0]
    try:
        return tuple(pq.read_schema(opened.path).names)
    except (pa.ArrowException, OSError, ValueError):
        return ()


def read_sheet_of(opened: Opened) -> Sheet:
    """Read the table as text cells under the names that it writes.

    Raises
    ------
    InputRefusedError
        If the file can't be read.
    """
    return _read_parquet(opened) if is_parquet(opened) else read_sheet(opened)


def read_own(opened: Opened, columns: Sequence[Column]) -> tuple[Sheet, Decimals, dict[str, str]]:
    """Read the table and name its known columns as documented; other columns keep their names.

    Parameters
    ----------
    opened : Opened
        The file.
    columns : sequence of Column
        The documented columns.

    Returns
    -------
    sheet : Sheet
        Text cells.
    decimals : Decimals
        The decision on the decimal mark, taken from all columns that hold numbers.
    written : dict of str to str
        Documented name -> name in the file, for those that the file has.

    Raises
    ------
    InputRefusedError
        If the file can't be read, or two of its columns mean the same.
    """
    sheet = read_sheet_of(opened)
    names = known(sheet.header, columns)
    written: dict[str, str] = {}
    for name, meaning in names.items():
        if meaning in written:
            raise InputRefusedError(
                f"the columns {written[meaning]!r} and {name!r} both mean {meaning}",
                "Keep one of them.",
                Where(opened.name),
            )
        written[meaning] = name
    sheet.cells = sheet.cells.rename(columns=names)
    sheet.header = tuple(names.get(name, name) for name in sheet.header)
    if is_parquet(opened):
        return sheet, Decimals(".", "numbers are stored as numbers"), written
    numeric = [column.name for column in columns if column.kind != "text" and column.name in written]
    cells = {cell: None for name in numeric for cell in sheet.cells[name]}
    return sheet, decide(cells, sheet.delimiter), written


def _read_parquet(opened: Opened) -> Sheet:
    where = Where(opened.name)
    try:
        file = pq.ParquetFile(opened.path)
        meta = file.metadata
        size = sum(meta.row_group(group).total_byte_size for group in range(meta.num_row_groups))
        if meta.num_columns > MAX_COLUMNS or size > get_settings().max_unpacked_bytes // 4:
            raise InputRefusedError(
                f"the table has {meta.num_columns:,} columns and {size >> 20:,} MiB",
                "Keep the columns that are needed.",
                where,
            )
        if meta.num_rows > _MANY_ROWS and opened.size < meta.num_rows * _LEAST_BYTES:
            raise InputRefusedError(
                f"its {meta.num_rows:,} rows take {opened.size:,} bytes, so nearly all are equal",
                "Write each measurement once.", where,
            )  # fmt: skip
        table = file.read()
    except (pa.ArrowException, OSError, ValueError) as error:
        raise InputRefusedError(
            f"the Parquet file can't be read ({str(error).splitlines()[0][:120]})", "Write it again.", where
        ) from error
    if not table.num_rows:
        raise InputRefusedError("the table has no rows", "Export it again, with its data.", where)
    if len(set(table.column_names)) < len(table.column_names):
        raise InputRefusedError("the table repeats a column", "Give every column a name of its own.", where)
    # A Parquet file has no lines: rows are counted from 1.
    at = pd.RangeIndex(1, table.num_rows + 1, name="line")
    cells = pd.DataFrame(
        {name: [_text(value) for value in table.column(name).to_pylist()] for name in table.column_names}, index=at
    ).astype(object)
    raw = {int(line): ", ".join(row) for line, row in zip(at, cells.itertuples(index=False, name=None), strict=True)}
    return Sheet(tuple(table.column_names), cells, "Parquet", raw)


def _text(value: Any) -> str:
    if value is None or value != value:
        return ""
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return str(int(value))
    return str(value).strip()


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
    if column.above == 0:
        # Where a value is positive, the database holds it to what can be measured at all.
        allowed = MIB if column.name.endswith("_mib") else AMOUNT
        # What is not above 0 has its own sentence.
        checks.append(
            pa.Check(
                lambda values: pd.Series(~allowed.impossible(values) | ~(values > 0), values.index), error=REASON
            )
        )  # fmt: skip
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
