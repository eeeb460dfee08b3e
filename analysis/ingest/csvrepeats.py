"""The quickest reader: of rows that repeat the row before but for a few cells, every head and label is read once.

It is believed only if the rows it saw are the lines that were counted; otherwise the other readers read the table.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from analysis.ingest.cells import Cells, Header, Ints, Rejects, numbered
from analysis.ingest.csvfast import extent_of, is_odd, read_regular
from analysis.ingest.format import Opened
from analysis.ingest.rowparts import MARGIN, Labels, Parts, cut_rows

#: Bytes that are looked at together: several lines of the longest kind, and little enough for a core's cache.
_PIECE = 1 << 20


def read_repeats(
    opened: Opened,
    header: Header,
    plain: Collection[str],
    labels: Sequence[str],
    columns: Collection[str] | None = None,
) -> Cells | None:
    """Read a table of rows that begin as the row before does.

    Parameters
    ----------
    opened, header, plain, columns
        As for the fast reader.
    labels : sequence of str
        Columns that say what a value is of. Those that the table has must stand in this order at its end, in front of
        one plain column.

    Returns
    -------
    Cells or None
        None where the columns stand otherwise, or anything isn't proved to be as expected.
    """
    text, extent = opened.text, extent_of(opened, header)
    varying = [name for name in labels if name in header.names]
    split = len(header.names) - len(varying) - 1
    if (
        extent is None
        or text is None
        or split < 1
        or not varying
        or not header.quoted
        or header.names[split:-1] != tuple(varying)
        or header.names[-1] not in plain
        or len(set(header.names)) != len(header.names)
    ):
        return None
    stop, expected, other_after = extent
    known = Labels(len(varying), header.delimiter)
    parts = _cut(text, header, stop, known)
    if parts is None or sum(len(part.label) for part in parts) != expected:
        return None
    kept = [name for name in header.names if columns is None or name in columns]
    found: dict[str, tuple[Ints, list[str]]] = {}
    heads = _heads(parts, header, split, [name for name in kept if name in header.names[:split]])
    if heads is None:
        return None
    counts = np.concatenate([part.counts for part in parts])
    for name in heads.column_names:
        codes, names = numbered(heads.column(name))
        found[name] = np.repeat(codes, counts), names
    found |= _label_columns(parts, known, varying)
    value = header.names[-1]
    texts = pa.chunked_array([_texts(part) for part in parts])
    if any(name in found[name][1] for name in varying) or pc.any(pc.equal(texts, value)).as_py():
        return None  # a header among the rows, as after appending one export to another
    cells = Cells(
        header=header,
        columns={name: _dictionary(*found[name]) if name in found else texts for name in kept},
        lines=np.arange(expected, dtype=np.int64) + header.line + 1,
        part=np.zeros(expected, dtype=np.int64),
        rows_read=expected,
        rejects=Rejects(),
        other=[(number, line) for number, line in enumerate(header.before, start=1)],
        other_count=header.line - 1 + other_after,
        reader="fast",
    )
    cells.know(found)
    return cells


def _pieces(text: Path, start: int, stop: int) -> Iterator[tuple[bytearray, int]]:
    """Yield a buffer with whole lines from `MARGIN` on, and where they end; good until the next is asked for.

    Raises
    ------
    ValueError
        If the file is shorter than it was, or a line longer than a piece.
    """
    left, rest = stop - start, 0
    size = min(_PIECE, left)
    buffer = bytearray(size + 1 + 2 * MARGIN)
    with text.open("rb", buffering=0) as file, memoryview(buffer) as view:
        file.seek(start)
        while left:
            end, wanted = MARGIN + rest, min(left, size - rest)
            left -= wanted
            while wanted:
                got = file.readinto(view[end : end + wanted])
                if not got:
                    raise ValueError("the file has become shorter")
                end, wanted = end + got, wanted - got
            if not left and buffer[end - 1] != ord("\n"):
                buffer[end], end = ord("\n"), end + 1
            after = buffer.rfind(b"\n", MARGIN, end) + 1
            if not after:
                raise ValueError("a line is longer than a piece")
            yield buffer, after
            rest = end - after
            buffer[MARGIN : MARGIN + rest] = buffer[after:end]


def _cut(text: Path, header: Header, stop: int, labels: Labels) -> list[Parts] | None:
    """Cut all rows; None where some can't be."""
    found: list[Parts] = []
    try:
        # One thread: the steps of the work are short, and two would wait for each other's turn more than they gain.
        for buffer, end in _pieces(text, header.start, stop):
            parts = cut_rows(buffer, MARGIN, end, labels, ord(header.delimiter))
            if parts is None:
                return None
            found.append(parts)
    except ValueError:
        return None
    return found


def _heads(parts: list[Parts], header: Header, split: int, kept: list[str]) -> pa.Table | None:
    """Read the heads as a table of their own; None where one isn't a row of it."""
    codes = np.concatenate([part.heads for part in parts])
    begins = np.concatenate([np.zeros(1, dtype=np.int64), np.flatnonzero(codes == 10)[:-1] + 1])
    # As many quotes stand in front of each head as belong to pairs.
    if (np.searchsorted(np.flatnonzero(codes == 34), begins) % 2).any():
        return None
    table = read_regular(pa.BufferReader(pa.py_buffer(codes)), header.names[:split], kept, (), header.delimiter)
    return None if table is None or table.num_rows != len(begins) or is_odd(table) else table


def _label_columns(parts: list[Parts], labels: Labels, names: Sequence[str]) -> dict[str, tuple[Ints, list[str]]]:
    """Return the columns of labels as numbers into distinct values, in the order in which these appear."""
    order: dict[int, None] = {}
    for part in parts:
        if len(order) < len(labels.cells):
            new, at = np.unique(part.label, return_index=True)
            order |= dict.fromkeys(new[np.argsort(at)].tolist())
    label = np.concatenate([part.label for part in parts])
    found: dict[str, tuple[Ints, list[str]]] = {}
    for place, name in enumerate(names):
        number: dict[str, int] = {}
        target = np.zeros(len(order), dtype=np.int32)
        for code in order:
            target[code] = number.setdefault(labels.cells[code][place].decode(), len(number))
        found[name] = target[label], list(number)
    return found


def _texts(part: Parts) -> pa.Array:
    bounds = np.zeros(len(part.sizes) + 1, dtype=np.int32)
    np.cumsum(part.sizes, out=bounds[1:])
    return pa.StringArray.from_buffers(len(part.sizes), pa.py_buffer(bounds), pa.py_buffer(part.values))


def _dictionary(codes: Ints, names: list[str]) -> pa.ChunkedArray:
    return pa.chunked_array([pa.DictionaryArray.from_arrays(pa.array(codes), pa.array(names, pa.string()))])
