"""Values of launches under numbered labels: section, metric, unit, family and reason stand once in the database.

A file repeats some dozens of them for a million values, and writing numbers takes a third of the time of writing names.
"""

from __future__ import annotations

from collections.abc import Sequence

import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from analysis.store.parsed import Frame

#: What a label says; together they are its identity.
LABEL_COLUMNS = ("section", "metric", "unit", "family", "reason")

_VALUE_COLUMNS = ("line", "value", "text")
#: The database works in pieces of this size, and several threads take one each.
_BATCH = 122_880
#: As long as there are not many more combinations than this, one look at a table each is quickest.
_FEW = 1 << 22

Label = tuple[str | None, ...]
_Codes = npt.NDArray[np.int64]


def load_values(cursor: duckdb.DuckDBPyConnection, frame: Frame, first: int, source_id: int) -> None:
    """Insert the rows of ``kernel_metric``.

    Parameters
    ----------
    cursor : duckdb.DuckDBPyConnection
        In a transaction.
    frame : Frame
        Columns as in `analysis.store.parsed.FRAME_COLUMNS`; dictionaries are taken as they are.
    first : int
        Id of the launch that has the number 0 in the frame.
    source_id : int
        Source that the rows belong to.
    """
    table = frame if isinstance(frame, pa.Table) else pa.Table.from_pandas(frame, preserve_index=False)
    if not table.num_rows:
        return
    which, labels = _labels(table)
    numbers = _numbered(cursor, labels)
    columns = {name: table.column(name) for name in _VALUE_COLUMNS if name in table.column_names}
    given = [name for name, column in columns.items() if column.null_count < len(column)]
    values = pa.table({"launch": table.column("launch"), "label_id": numbers[which]} | {n: columns[n] for n in given})
    names = ", ".join(["label_id", *(f'"{name}"' for name in given)])
    cursor.register("incoming", pa.Table.from_batches(values.combine_chunks().to_batches(_BATCH), values.schema))
    cursor.execute(
        f"INSERT INTO kernel_value (kernel_id, source_id, {names}) SELECT ? + launch, ?, {names} FROM incoming",
        [first, source_id],
    )
    cursor.unregister("incoming")


def in_columns(frame: Frame) -> Frame:
    """Return a frame as the database takes it quickest: categories are looked up once and not once a row."""
    if isinstance(frame, pa.Table):
        return frame
    try:
        table = pa.Table.from_pandas(frame, preserve_index=False)
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        return frame  # a column of several types
    for place, field in enumerate(table.schema):
        # Categories of which there are none have no type either.
        if pa.types.is_dictionary(field.type) and pa.types.is_null(field.type.value_type):
            table = table.set_column(place, field.name, pa.nulls(table.num_rows, pa.string()))
    return table


def sweep_labels(cursor: duckdb.DuckDBPyConnection) -> None:
    """Take out labels that no value has any more."""
    cursor.execute("DELETE FROM kernel_label WHERE label_id NOT IN (SELECT label_id FROM kernel_value)")


def _labels(table: pa.Table) -> tuple[_Codes, list[Label]]:
    """Return for every row a number into the distinct labels, and these."""
    count = table.num_rows
    key = np.zeros(count, dtype=np.int64)
    parts: list[list[str | None]] = []
    for name in LABEL_COLUMNS:
        codes, names = _codes(table, name)
        parts.append(names)
        if len(names) > 1:
            key *= len(names)
            key += codes
    size = int(np.prod([len(names) for names in parts], dtype=object))
    if size > 1 << 62:
        raise OverflowError(f"{size:,} combinations of names are too many to number")
    if size <= max(_FEW, count):
        found = np.flatnonzero(np.bincount(key, minlength=size))
        place = np.zeros(size, dtype=np.int64)
        place[found] = np.arange(len(found))
        which = place[key]
    else:
        found, which = np.unique(key, return_inverse=True)
    return which, _decoded(found, parts)


def _codes(table: pa.Table, name: str) -> tuple[_Codes, list[str | None]]:
    """Return a column as numbers into its distinct texts; an absent text is one of them."""
    if name not in table.column_names:
        return np.zeros(0, dtype=np.int64), [None]
    column = table.column(name)
    if not pa.types.is_dictionary(column.type):
        column = column.cast(pa.string()).dictionary_encode()
    joined = column.unify_dictionaries().combine_chunks()
    names: list[str | None] = joined.dictionary.to_pylist()
    codes = joined.indices
    if codes.null_count:
        codes = codes.fill_null(len(names))
        names.append(None)
    return codes.to_numpy(zero_copy_only=False), names


def _decoded(keys: _Codes, parts: Sequence[Sequence[str | None]]) -> list[Label]:
    """Return the names that keys stand for."""
    columns: list[list[str | None]] = []
    rest = keys
    for names in reversed(parts):
        rest, code = np.divmod(rest, len(names))
        columns.append([names[place] for place in code])
    return list(zip(*reversed(columns), strict=True))


def _numbered(cursor: duckdb.DuckDBPyConnection, labels: Sequence[Label]) -> npt.NDArray[np.int32]:
    """Return the ids of labels, those that the database lacks inserted."""
    names = ", ".join(LABEL_COLUMNS)
    known: dict[Label, int] = {
        tuple(row[1:]): row[0] for row in cursor.execute(f"SELECT label_id, {names} FROM kernel_label").fetchall()
    }
    free = max(known.values(), default=0) + 1
    new = [label for label in dict.fromkeys(labels) if label not in known]
    if new:
        known |= {label: free + place for place, label in enumerate(new)}
        columns = {name: pa.array([label[at] for label in new], pa.string()) for at, name in enumerate(LABEL_COLUMNS)}
        columns["label_id"] = pa.array([known[label] for label in new], pa.int32())
        cursor.register("labels", pa.table(columns))
        cursor.execute(f"INSERT INTO kernel_label (label_id, {names}) SELECT label_id, {names} FROM labels")
        cursor.unregister("labels")
    return np.array([known[label] for label in labels], dtype=np.int32)
