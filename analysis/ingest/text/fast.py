"""The fast reader: a whole table at once, every option fixed, and believed only if an independent count agrees."""

from __future__ import annotations

import io
from collections.abc import Collection, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv

from analysis.ingest.contract.cells import Cells, Header, Rejects
from analysis.ingest.contract.format import Opened
from analysis.ingest.text.header import table_end

_BLOCK = 1 << 20


class Window(io.RawIOBase):
    """Part of a file, from one offset to another, for a reader that reads to the end."""

    def __init__(self, path: Path, start: int, stop: int) -> None:
        self._file = path.open("rb")
        self._file.seek(start)
        self._left = stop - start

    def readable(self) -> bool:
        """Say that it can be read."""
        return True

    def read(self, size: int = -1) -> bytes:
        """Return up to so many bytes, none at the end of the part."""
        wanted = self._left if size < 0 else min(size, self._left)
        data = self._file.read(wanted)
        self._left -= len(data)
        return data

    def close(self) -> None:
        """Close the file."""
        self._file.close()
        super().close()


def read_fast(
    opened: Opened, header: Header, plain: Collection[str], columns: Collection[str] | None = None
) -> Cells | None:
    """Read a regular table.

    Parameters
    ----------
    opened : Opened
        The file; its counts are those of the pass before.
    header : Header
        Where the table begins.
    plain : collection of str
        Columns with mostly distinct values; the others are read as dictionaries.
    columns : collection of str, optional
        Columns to keep; by default all.

    Returns
    -------
    Cells or None
        None where the table is not regular (another number of cells in some row, a line end inside a cell, a blank
        line, bytes that are no text) or the rows read differ from the lines counted: then the exact reader must.
    """
    stats, text = opened.stats, opened.text
    if stats is None or text is None or len(set(header.names)) != len(header.names):
        return None
    extent = extent_of(opened, header)
    if extent is None:
        return None
    stop, expected, other_after = extent
    kept = [name for name in header.names if columns is None or name in columns]
    with Window(text, header.start, stop) as window:
        table = read_regular(window, header.names, kept, plain, header.delimiter)
    if table is None or table.num_rows != expected or is_odd(table):
        return None
    rows = np.arange(table.num_rows, dtype=np.int64)
    return Cells(
        header=header,
        columns={name: table.column(name) for name in kept},
        lines=rows + header.line + 1,
        part=np.zeros(table.num_rows, dtype=np.int64),
        rows_read=table.num_rows,
        rejects=Rejects(),
        other=[(number, line) for number, line in enumerate(header.before, start=1)],
        other_count=header.line - 1 + other_after,
        reader="fast",
    )


def read_regular(
    stream: io.IOBase | pa.NativeFile, names: Sequence[str], kept: list[str], plain: Collection[str], delimiter: str
) -> pa.Table | None:
    """Read rows that all have as many cells as there are names; None where some row has not."""
    dictionary = pa.dictionary(pa.int32(), pa.string())
    try:
        return pa_csv.read_csv(
            stream,
            read_options=pa_csv.ReadOptions(column_names=list(names), block_size=_BLOCK),
            parse_options=pa_csv.ParseOptions(
                delimiter=delimiter,
                quote_char='"',
                double_quote=True,
                escape_char=False,
                newlines_in_values=False,
                ignore_empty_lines=True,
            ),
            convert_options=pa_csv.ConvertOptions(
                column_types={name: pa.string() if name in plain else dictionary for name in kept},
                include_columns=kept,
                strings_can_be_null=False,
                quoted_strings_can_be_null=False,
            ),
        )
    except pa.ArrowInvalid:
        return None


def extent_of(opened: Opened, header: Header) -> tuple[int, int, int] | None:
    """Return where the rows end, their lines, and the lines of other output after them; None if quotes don't pair."""
    stats, text = opened.stats, opened.text
    if stats is None or text is None:
        return None
    stop, lines_after, other_after, suspicious = table_end(text, header)
    # Line feeds before the rows, in the rows, and after them; the last line of a file may lack its own.
    expected = stats.newlines - header.line - lines_after
    if stop == stats.size and not stats.ends_with_newline:
        expected += 1
    if suspicious or expected <= 0:
        return None
    # Every quote that opens is closed; a quote that was lost or gained shows in the sum.
    outside = _quotes(text, 0, header.start) + _quotes(text, stop, stats.size)
    return None if (stats.quotes - outside) % 2 else (stop, expected, other_after)


def _quotes(text: Path, start: int, stop: int) -> int:
    count = 0
    with Window(text, start, stop) as window:
        while piece := window.read(1 << 20):
            count += piece.count(b'"')
    return count


def is_odd(table: pa.Table) -> bool:
    """Say whether some cell of a table shows that the lines are not what they seem.

    A cell that holds a column's name is a header among the rows, as after appending one export to another. A cell that
    holds a quote may be a doubled one, but is as likely what is left of a quote that was lost.
    """
    for name in table.column_names:
        column = table.column(name)
        if pa.types.is_dictionary(column.type) and column.num_chunks:
            # Each value once a piece, and not once a row.
            column = pa.chunked_array([chunk.dictionary for chunk in column.chunks])
        if pc.any(pc.match_substring(column, '"')).as_py() or pc.any(pc.equal(column, name)).as_py():
            return True
    return False
