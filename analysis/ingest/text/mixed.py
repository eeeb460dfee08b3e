"""Reads a table most of whose rows are alike: those at once, the others, such as rows of rules, one by one.

Like the fast reader it is believed only if the lines it saw are the lines that were counted.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv

from analysis.ingest.contract.cells import Cells, Header, Ints
from analysis.ingest.contract.format import Opened
from analysis.ingest.text.exact import RowReader
from analysis.ingest.text.fast import Window, extent_of, is_odd
from analysis.ingest.text.header import split_line

_BLOCK = 2 << 20
#: Beyond this share of unlike rows the exact reader is as fast.
_MOST_UNLIKE = 0.5


def read_mixed(
    opened: Opened,
    header: Header,
    plain: Collection[str],
    *,
    needed: Callable[[tuple[str, ...]], int],
    wanted: Callable[[tuple[str, ...]], bool],
    columns: Collection[str] | None = None,
) -> Cells | None:
    """Read a table with rows of several widths, and lines between them that are no rows.

    Parameters
    ----------
    opened, header, plain, needed, wanted, columns
        As for the exact reader.

    Returns
    -------
    Cells or None
        None where a row goes over several lines, the header stands among the rows again, or the lines do not add up:
        then the exact reader must.
    """
    extent = extent_of(opened, header)
    text = opened.text
    if extent is None or text is None or len(set(header.names)) != len(header.names):
        return None
    stop, expected, other_after = extent
    width = _usual_width(text, header)
    if not needed(header.names) <= width <= len(header.names):
        return None
    names = header.names[:width]
    unlike: list[tuple[int, str]] = []

    def keep(row: pa_csv.InvalidRow) -> str:
        unlike.append((int(row.number), row.text))
        return "skip"

    kept = [name for name in header.names if columns is None or name in columns]
    table = _read(text, header, stop, names, [name for name in kept if name in names], plain, keep)
    if table is None or table.num_rows + len(unlike) != expected or len(unlike) > expected * _MOST_UNLIKE:
        return None
    table = table.unify_dictionaries()
    if is_odd(table) or any("\n" in line for _, line in unlike):
        return None
    if unlike and unlike[-1][0] == expected and not _ends_in_line_feed(text, stop):
        return None  # the last row may be cut off
    # Without blank lines skipped, the place of a row is its line.
    every = np.arange(1, expected + 1, dtype=np.int64)
    place = np.setdiff1d(every, np.array([number for number, _ in unlike], dtype=np.int64), assume_unique=True)
    blank = np.isin(place, _blank_lines(text, header.start, stop))
    reader = RowReader(header, plain, needed, wanted, columns)
    for number, line in unlike:
        reader.take_alone(header.line + number, line.rstrip("\r"))
    if reader.parts:
        return None
    rest = reader.finish()
    return _joined(header, table.filter(pa.array(~blank)), place[~blank] + header.line, rest, kept, plain, other_after)


def _usual_width(text: Path, header: Header) -> int:
    """Return the number of cells of the first row."""
    with text.open("rb") as file:
        file.seek(header.start)
        for raw in (file.readline(1 << 20) for _ in range(20)):
            line = raw.decode("utf-8", errors="replace").strip()
            if line and line.count('"') % 2 == 0:
                return len(split_line(line, header.delimiter))
    return 0


def _read(
    text: Path,
    header: Header,
    stop: int,
    names: tuple[str, ...],
    kept: list[str],
    plain: Collection[str],
    keep: Callable[[pa_csv.InvalidRow], str],
) -> pa.Table | None:
    dictionary = pa.dictionary(pa.int32(), pa.string())
    try:
        with Window(text, header.start, stop) as window:
            return pa_csv.read_csv(
                window,
                # One thread: only then does the reader know which row an unlike one is.
                read_options=pa_csv.ReadOptions(column_names=list(names), block_size=_BLOCK, use_threads=False),
                parse_options=pa_csv.ParseOptions(
                    delimiter=header.delimiter,
                    quote_char='"',
                    double_quote=True,
                    escape_char=False,
                    newlines_in_values=False,
                    ignore_empty_lines=False,
                    invalid_row_handler=keep,
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


def _ends_in_line_feed(text: Path, stop: int) -> bool:
    with Window(text, stop - 1, stop) as window:
        return window.read(1) == b"\n"


def _blank_lines(text: Path, start: int, stop: int) -> Ints:
    """Return the numbers, counted from the first row, of lines without any character."""
    found: list[Ints] = []
    line, last = 0, 10
    with Window(text, start, stop) as window:
        before = 10  # the byte in front of the first one ends the header
        while piece := window.read(1 << 19):
            codes = np.frombuffer(piece, dtype=np.uint8)
            ends = np.flatnonzero(codes == 10)
            one = np.concatenate([np.array([last, before], dtype=np.uint8), codes])
            # In `one` a byte has moved two places to the right.
            previous, earlier = one[ends + 1], one[ends]
            blank = (previous == 10) | ((previous == 13) & (earlier == 10))
            found.append(np.flatnonzero(blank) + line + 1)
            line += len(ends)
            last, before = int(one[-2]), int(one[-1])
    return np.concatenate(found) if found else np.zeros(0, dtype=np.int64)


def _joined(
    header: Header, table: pa.Table, lines: Ints, rest: Cells, kept: list[str], plain: Collection[str], other_after: int
) -> Cells:
    """Put rows read at once and rows read one by one together, in the order of lines."""
    every = np.concatenate([lines, rest.lines])
    order = pa.array(np.argsort(every, kind="stable"))
    columns: dict[str, pa.ChunkedArray] = {}
    for name in kept:
        if name in table.column_names:
            usual = table.column(name)
        else:
            blanks = pa.array([""], pa.string()).take(pa.array(np.zeros(len(lines), dtype=np.int32)))
            usual = pa.chunked_array([blanks if name in plain else blanks.dictionary_encode()])
        pieces = [*usual.chunks, *rest.columns[name].chunks]
        column = pa.chunked_array([piece for piece in pieces if len(piece)], type=usual.type)
        if pa.types.is_dictionary(column.type):
            column = column.unify_dictionaries()
        columns[name] = pa.chunked_array([column.combine_chunks()]).take(order) if len(every) else column
    return Cells(
        header=header,
        columns=columns,
        lines=np.sort(every),
        part=np.zeros(len(every), dtype=np.int64),
        rows_read=len(lines) + rest.rows_read,
        rejects=rest.rejects,
        other=rest.other,
        other_count=rest.other_count + other_after,
        reader="mixed",
    )
