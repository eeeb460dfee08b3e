"""The quickest reader: of rows that repeat the row before but for a few cells, every head and label is read once.

The rows were cut when the file was opened; where that failed, the other readers read the table.
"""

from __future__ import annotations

from collections.abc import Collection
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from analysis.ingest.contract.cells import Cells, CutRows, Header, Ints, Parts, Rejects, Shared, numbered
from analysis.ingest.contract.format import Opened
from analysis.ingest.text.digits import Floats, plain_numbers
from analysis.ingest.text.fast import is_odd, read_regular

#: Values that are read together: enough that the threads seldom wait for the interpreter.
_TOGETHER = 1 << 16


def read_repeats(
    opened: Opened, header: Header, plain: Collection[str], columns: Collection[str] | None = None
) -> Cells | None:
    """Read a table of rows that begin as the row before does.

    Parameters
    ----------
    opened, header, plain, columns
        As for the fast reader.

    Returns
    -------
    Cells or None
        None where the rows were not cut when the file was opened, or anything isn't proved to be as expected.
    """
    rows = opened.rows
    if rows is None or rows.header != header or header.names[-1] not in plain:
        return None
    kept = [name for name in header.names if columns is None or name in columns]
    split = len(header.names) - len(rows.names) - 1
    texts = pa.concat_arrays([part.texts for part in rows.parts])
    # Reading numbers goes on beside everything that is done before they are needed.
    with_numbers = ThreadPoolExecutor(1)
    numbers = with_numbers.submit(_plain_numbers, texts)
    with_numbers.shutdown(wait=False)
    heads = _heads(rows.parts, header, split, [name for name in kept if name in header.names[:split]])
    if heads is None:
        return None
    shared = {name: numbered(heads.column(name)) for name in heads.column_names}
    found = _label_columns(rows)
    value = header.names[-1]
    if any(name in found[name][1] for name in rows.names) or pc.any(pc.equal(texts, value)).as_py():
        return None  # a header among the rows, as after appending one export to another
    cells = Cells(
        header=header,
        columns={
            name: _dictionary(*found[name]) if name in found else pa.chunked_array([texts])
            for name in kept
            if name not in shared
        },
        lines=np.arange(rows.count, dtype=np.int64) + header.line + 1,
        part=np.zeros(rows.count, dtype=np.int64),
        rows_read=rows.count,
        rejects=Rejects(),
        other=[(number, line) for number, line in enumerate(header.before, start=1)],
        other_count=header.line - 1 + rows.other_after,
        reader="fast",
        plain=numbers.result,
        shared=Shared(_starts(rows.parts), shared),
    )
    cells.know(found)
    return cells


def _heads(parts: list[Parts], header: Header, split: int, kept: list[str]) -> pa.Table | None:
    """Read the heads as a table of their own; None where one isn't a row of it."""
    codes = np.concatenate([part.heads for part in parts])
    begins = np.concatenate([np.zeros(1, dtype=np.int64), np.flatnonzero(codes == 10)[:-1] + 1])
    # As many quotes stand in front of each head as belong to pairs.
    if (np.searchsorted(np.flatnonzero(codes == 34), begins) % 2).any():
        return None
    table = read_regular(pa.BufferReader(pa.py_buffer(codes)), header.names[:split], kept, (), header.delimiter)
    return None if table is None or table.num_rows != len(begins) or is_odd(table) else table


def _plain_numbers(texts: pa.Array) -> Floats | None:
    found = []
    for at in range(0, len(texts), _TOGETHER):
        numbers = plain_numbers(texts.slice(at, _TOGETHER))
        if numbers is None:
            return None
        found.append(numbers)
    return np.concatenate(found)


def _starts(parts: list[Parts]) -> Ints:
    """Return the first row of every stretch."""
    before = np.cumsum([0, *(len(part.label) for part in parts)])
    return np.concatenate([part.first + rows for part, rows in zip(parts, before, strict=False)])


def _label_columns(rows: CutRows) -> dict[str, tuple[Ints, list[str]]]:
    """Return the columns of labels as numbers into distinct values, in the order in which these appear."""
    order: dict[int, None] = {}
    for part in rows.parts:
        if len(order) < len(rows.labels.cells):
            new, at = np.unique(part.label, return_index=True)
            order |= dict.fromkeys(new[np.argsort(at)].tolist())
    label = np.concatenate([part.label for part in rows.parts])
    found: dict[str, tuple[Ints, list[str]]] = {}
    for place, name in enumerate(rows.names):
        number: dict[str, int] = {}
        target = np.zeros(len(rows.labels.cells), dtype=np.int32)
        for code in order:
            target[code] = number.setdefault(rows.labels.cells[code][place], len(number))
        found[name] = target[label], list(number)
    return found


def _dictionary(codes: Ints, names: list[str]) -> pa.ChunkedArray:
    return pa.chunked_array([pa.DictionaryArray.from_arrays(pa.array(codes), pa.array(names, pa.string()))])
