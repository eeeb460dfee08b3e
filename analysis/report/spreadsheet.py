"""The tables of a report as CSV, safe to open in a spreadsheet."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator

import pandas as pd

from analysis.report.document import Cell, Column, Matrix, ReportDocument, Table

#: A cell that begins with one of these is a formula or a command to some spreadsheet. The full-width forms count as
#: their ASCII twins in East Asian editions; tab, CR and LF are skipped before the next character is looked at.
_FORMULA_STARTS = tuple("=+-@\t\r\n\uff1d\uff0b\uff0d\uff20")


def defuse(text: str) -> str:
    """Put a quote before text that a spreadsheet would take for a formula.

    Examples
    --------
    >>> defuse("=cmd|' /C calc'!A0"), defuse("ResNet-50"), defuse("")
    ("'=cmd|' /C calc'!A0", 'ResNet-50', '')
    """
    return f"'{text}" if text.startswith(_FORMULA_STARTS) else text


def to_csv(document: ReportDocument) -> str:
    """Render the tables one below the other, each under its title and separated by an empty line.

    Numbers stand as they are, at full precision and without units; text that a spreadsheet would run as a formula gets
    a leading quote.

    Parameters
    ----------
    document : ReportDocument
        The report.

    Returns
    -------
    str
        CSV (RFC 4180) with CRLF line ends.
    """
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\r\n")
    for row in _rows(document):
        writer.writerow([_written(cell) for cell in row])
    return out.getvalue()


def csv_bytes(frame: pd.DataFrame) -> bytes:
    """Write a table as UTF-8 CSV, text that a spreadsheet would run as a formula defused."""
    safe = frame.copy()
    for name in safe.columns:
        if not pd.api.types.is_numeric_dtype(safe[name]) and not pd.api.types.is_datetime64_any_dtype(safe[name]):
            safe[name] = safe[name].map(_as_text)
    safe.columns = pd.Index([defuse(str(name)) for name in safe.columns])
    return safe.to_csv(index=False).encode("utf-8")


def _as_text(value: object) -> object:
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, list | tuple):
        value = "; ".join(str(item) for item in value)
    return defuse(value) if isinstance(value, str) else value


def _rows(document: ReportDocument) -> Iterator[list[Cell]]:
    yield ["report", document.title]
    yield ["made", document.created_at.isoformat()]
    yield ["figures", document.provenance]
    for sentence in document.summary:
        yield ["summary", sentence]
    for sentence in document.filters:
        yield ["filter", sentence]
    for section in document.sections:
        for block in section.blocks:
            if isinstance(block, Table):
                yield from _titled(block.title, block.caption, block.columns, block.rows)
            elif isinstance(block, Matrix):
                yield from _titled(block.title, block.caption, _MATRIX_COLUMNS, matrix_rows(block))
    sources = [
        (s.file, s.dataset, s.format, s.sha256, s.rows_read, s.rows_loaded, s.rows_rejected, s.simulated, s.licence)
        for s in document.sources
    ]
    yield from _titled("Sources", "", _SOURCE_COLUMNS, sources)


def _titled(
    title: str, caption: str, columns: Iterable[Column], rows: Iterable[Iterable[Cell]]
) -> Iterator[list[Cell]]:
    yield []
    yield [title]
    if caption:
        yield [caption]
    yield [column.key for column in columns]
    for row in rows:
        yield list(row)


def _columns(*keys: str) -> tuple[Column, ...]:
    return tuple(Column(key=key, label=key) for key in keys)


_MATRIX_COLUMNS = _columns("workload", "beside", "slowdown", "low", "high", "state", "runs", "stp")
_SOURCE_COLUMNS = _columns(
    "file", "dataset", "format", "sha256", "rows_read", "rows_loaded", "rows_rejected", "simulated", "licence"
)


def matrix_columns() -> tuple[Column, ...]:
    """Return the columns of a matrix in long form."""
    return _MATRIX_COLUMNS


def matrix_rows(matrix: Matrix) -> Iterator[list[Cell]]:
    """Give a matrix in long form: a spreadsheet can pivot it, and every cell keeps its state."""
    for i, workload in enumerate(matrix.workloads):
        for j, beside in enumerate(matrix.workloads):
            yield [
                workload, beside, matrix.slowdown[i][j], matrix.low[i][j], matrix.high[i][j], matrix.state[i][j],
                matrix.runs[i][j], matrix.stp[i][j],
            ]  # fmt: skip


def _written(cell: Cell) -> str:
    if cell is None:
        return ""
    if isinstance(cell, bool):
        return "true" if cell else "false"
    if isinstance(cell, str):
        return defuse(cell)
    return repr(cell)
