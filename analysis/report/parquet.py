"""All tables of a report as one Parquet file: real columns with their types, told apart by section and title."""

from __future__ import annotations

import io
from collections.abc import Iterator

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from analysis.report.document import Cell, Matrix, ReportDocument, Table
from analysis.report.spreadsheet import matrix_columns, matrix_rows

#: Columns that every row has: where it stands.
PLACE = ("section", "table", "row")


def to_parquet(document: ReportDocument) -> bytes:
    """Render the tables one below the other, a column for every key that any of them has.

    A column is numeric where all of its values are numbers, else text; a table that lacks a column has no value there.
    The file's own metadata hold the report without its body: title, provenance, filters, sources, commands.

    Parameters
    ----------
    document : ReportDocument
        The report.
    """
    frames = [frame for frame in _frames(document) if len(frame)]
    whole = pd.concat(frames, ignore_index=True) if frames else pd.DataFrame({name: [] for name in PLACE})
    arrays = {name: _array(whole[name]) for name in whole.columns}
    head = document.model_dump_json(exclude={"sections"})
    made = pa.table(arrays).replace_schema_metadata({"stallscope": head})
    out = io.BytesIO()
    pq.write_table(made, out, compression="zstd")
    return out.getvalue()


def _frames(document: ReportDocument) -> Iterator[pd.DataFrame]:
    for section in document.sections:
        for block in section.blocks:
            if isinstance(block, Table):
                names = _fresh([column.key for column in block.columns])
                yield _placed(section.key, block.title, names, list(block.rows))
            elif isinstance(block, Matrix):
                names = _fresh([column.key for column in matrix_columns()])
                yield _placed(section.key, block.title, names, [tuple(row) for row in matrix_rows(block)])


def _fresh(names: list[str]) -> list[str]:
    """Keep the columns of a table apart from those that say where it stands."""
    return [f"{name}_" if name in PLACE else name for name in names]


def _placed(section: str, title: str, names: list[str], rows: list[tuple[Cell, ...]]) -> pd.DataFrame:
    frame = pd.DataFrame(rows, columns=names, dtype=object)
    for place, (name, value) in enumerate(zip(PLACE, (section, title, range(len(frame))), strict=True)):
        frame.insert(place, name, value)
    return frame


def _array(column: pd.Series) -> pa.Array:
    values = [None if value is None or value is pd.NA or value != value else value for value in column]
    known = [value for value in values if value is not None]
    if known and all(isinstance(value, bool) for value in known):
        return pa.array(values, pa.bool_())
    if known and all(isinstance(value, int) and not isinstance(value, bool) for value in known):
        return pa.array(values, pa.int64())
    if known and all(isinstance(value, int | float) and not isinstance(value, bool) for value in known):
        return pa.array([None if value is None else float(value) for value in values], pa.float64())
    return pa.array([None if value is None else str(value) for value in values], pa.string())
