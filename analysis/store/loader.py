"""Writes a parsed file into the database, in one transaction, and takes a source out again."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from analysis.errors import NotFoundError
from analysis.store.database import Database
from analysis.store.parsed import FRAME_COLUMNS, REJECTED_COLUMNS, Frame, Parsed

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
    which, labels = _combinations(table, LABEL_COLUMNS)
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


def _combinations(table: pa.Table, columns: Sequence[str]) -> tuple[_Codes, list[Label]]:
    """Return for every row a number into the distinct combinations of texts in these columns, and these."""
    count = table.num_rows
    key = np.zeros(count, dtype=np.int64)
    parts: list[list[str | None]] = []
    for name in columns:
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


#: Tables whose rows belong to a source, children first.
SOURCE_TABLES = (
    "excluded", "kernel_value", "kernel_rule", "kernel", "solo", "feature", "member_latency", "member", "run",
    "telemetry", "rejected_row", "set_aside_row", "source",
)  # fmt: skip

IMPORTER_VERSION = "1"


@dataclass(frozen=True)
class SourceInfo:
    """Where a parsed file came from.

    Attributes
    ----------
    dataset : str
        Data set that the source belongs to.
    file_name : str
        Name as the user knows it.
    sha256 : str
        Hash of the bytes as given.
    size : int
        Number of bytes as given.
    simulated : bool
        Whether a simulator made the numbers.
    licence, citation, title : str, optional
        As the catalogue states them.
    """

    dataset: str
    file_name: str
    sha256: str
    size: int
    simulated: bool = False
    licence: str | None = None
    citation: str | None = None
    title: str | None = None


class DuplicateError(Exception):
    """The bytes are loaded already.

    Attributes
    ----------
    source_id : int
        The source that holds them.
    """

    def __init__(self, source_id: int) -> None:
        super().__init__(f"source {source_id} holds these bytes")
        self.source_id = source_id


def find_duplicate(database: Database, sha256: str) -> int | None:
    """Return the source that already holds these bytes, or None."""
    found = database.scalar("SELECT source_id FROM source WHERE sha256 = ?", [sha256])
    return None if found is None else int(found)


def load(database: Database, parsed: Parsed, info: SourceInfo) -> int:
    """Load a parsed file; all of it or nothing.

    Parameters
    ----------
    database : Database
        The open database.
    parsed : Parsed
        The file's content. Frames with a ``workload`` and a ``gpu`` must name both.
    info : SourceInfo
        Where it came from.

    Returns
    -------
    int
        The id of the new source.

    Raises
    ------
    DuplicateError
        If a source with these bytes is there; looked at under the writer's lock, so that no two can load the same.
    """
    if "kernel" in parsed.frames:
        parsed = replace(parsed, frames={**parsed.frames, "kernel": in_columns(parsed.frames["kernel"])})
    with database.write(dataset=info.dataset) as cursor:
        # One statement, as each costs about as much as loading a small file's rows.
        source_id, there, dataset_known, workload, profile, kernel, run = cursor.execute(
            """SELECT coalesce(max(source_id), 0) + 1, max(source_id) FILTER (WHERE sha256 = ?),
                      EXISTS (SELECT 1 FROM dataset WHERE name = ?),
                      (SELECT coalesce(max(workload_id), 0) + 1 FROM workload),
                      (SELECT coalesce(max(profile_id), 0) + 1 FROM profile),
                      (SELECT coalesce(max(kernel_id), 0) + 1 FROM kernel),
                      (SELECT coalesce(max(run_id), 0) + 1 FROM run) FROM source""",
            [info.sha256, info.dataset],
        ).fetchall()[0]
        if there is not None:
            raise DuplicateError(there)
        if not dataset_known:
            cursor.execute(
                "INSERT INTO dataset (name, title, simulated, licence, citation) VALUES (?, ?, ?, ?, ?)",
                [info.dataset, info.title or info.dataset, info.simulated, info.licence, info.citation],
            )
        cursor.execute(
            """INSERT INTO source (source_id, dataset, file_name, sha256, bytes, format, era, importer_version,
                   rows_read, rows_loaded, rows_set_aside, rows_rejected, set_aside, report, simulated, licence,
                   citation)
               VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)""",
            [
                source_id, info.dataset, info.file_name, info.sha256, info.size, parsed.format, parsed.era,
                IMPORTER_VERSION, parsed.rows_read, parsed.rows_loaded, parsed.rows_set_aside, parsed.rows_rejected,
                json.dumps(dict(parsed.set_aside)), json.dumps({**parsed.report, "warnings": list(parsed.warnings)}),
                info.simulated, info.licence, info.citation,
            ],
        )  # fmt: skip
        if len(parsed.rejected):
            with _incoming(cursor, parsed.rejected[list(REJECTED_COLUMNS)]) as view:
                cursor.execute(
                    f'INSERT INTO rejected_row SELECT ?, "line", "column", reason, "text" FROM {view}', [source_id]
                )
        workloads = _load_workloads(cursor, parsed, info.dataset, workload)
        _load_profiles(cursor, parsed, workloads, source_id, kernel, profile)
        _load_runs(cursor, parsed, info.dataset, source_id, run)
        for name in ("solo", "feature", "telemetry", "set_aside_row"):
            if name in parsed.frames and len(parsed.frames[name]):
                with _incoming(cursor, parsed.frames[name]) as view:
                    _insert(cursor, name, view, info.dataset, source_id, columns=_given(parsed.frames[name], name))
    return int(source_id)


def remove_source(database: Database, source_id: int) -> str:
    """Take out a source with exactly what it brought, and the workloads that nothing names any more.

    Returns
    -------
    str
        The file name of the removed source.

    Raises
    ------
    NotFoundError
        If there is no such source.
    """
    name = database.scalar("SELECT file_name FROM source WHERE source_id = ?", [source_id])
    if name is None:
        raise NotFoundError(f"there is no source {source_id}", "Look up the sources on the Library page.")
    with database.write() as cursor:
        for table in SOURCE_TABLES:
            cursor.execute(f"DELETE FROM {table} WHERE source_id = ?", [source_id])
        _sweep(cursor)
    return str(name)


def _sweep(cursor: duckdb.DuckDBPyConnection) -> None:
    sweep_labels(cursor)
    cursor.execute("DELETE FROM exclusion WHERE exclusion_id NOT IN (SELECT exclusion_id FROM excluded)")
    cursor.execute("DELETE FROM profile WHERE profile_id NOT IN (SELECT profile_id FROM kernel)")
    cursor.execute(
        """DELETE FROM workload WHERE workload_id NOT IN (
               SELECT workload_id FROM profile UNION SELECT workload_id FROM solo UNION SELECT workload_id FROM feature
               UNION SELECT workload_id FROM member
               UNION SELECT workload_id FROM telemetry WHERE workload_id IS NOT NULL)"""
    )
    cursor.execute("DELETE FROM dataset WHERE name NOT IN (SELECT dataset FROM source)")


def _load_workloads(cursor: duckdb.DuckDBPyConnection, parsed: Parsed, dataset: str, free: int) -> dict[str, int]:
    """Make the workloads that the file names; fill in attributes that were unknown, never overwrite known ones.

    The ids are found here and not by SQL: of hundreds of small files each statement costs more than all their rows.

    Returns
    -------
    dict of str to int
        The id of each workload of the data set.
    """
    about = _attributes(parsed.frames.get("workload"))
    named = set(about)
    for name, frame in parsed.frames.items():
        if name not in ("workload", "kernel_metric", "kernel_rule", "run") and "workload" in _given(frame, name):
            named |= _distinct(frame, "workload")
    if not named:
        return {}
    rows = cursor.execute("SELECT name, workload_id FROM workload WHERE dataset = ?", [dataset]).fetchall()
    ids: dict[str, int] = dict(rows)
    columns = sorted({column for attributes in about.values() for column in attributes})
    new = sorted(named - ids.keys())
    ids |= {name: free + place for place, name in enumerate(new)}
    if new:
        given = [[about.get(name, {}).get(column) for name in new] for column in columns]
        _append(
            cursor,
            "workload",
            {
                "workload_id": [ids[name] for name in new],
                "dataset": [dataset] * len(new),
                "name": new,
                **dict(zip(columns, given, strict=True)),
            },
        )
    known = [name for name in about if name not in set(new) and about[name]]
    if known:
        sets = ", ".join(f'"{column}" = coalesce(workload."{column}", f."{column}")' for column in columns)
        given = [[about[name].get(column) for name in known] for column in columns]
        with _incoming(cursor, pa.table({"name": known, **dict(zip(columns, given, strict=True))})) as view:
            cursor.execute(
                f"UPDATE workload SET {sets} FROM {view} f WHERE workload.dataset = ? AND workload.name = f.name",
                [dataset],
            )
    return ids


def _append(cursor: duckdb.DuckDBPyConnection, table: str, columns: Mapping[str, Sequence[object]]) -> None:
    """Insert rows given by column; bound as lists, which costs a statement of few rows half of a registered table."""
    names = ", ".join(f'"{name}"' for name in columns)
    lists = ", ".join("unnest(?)" for _ in columns)
    cursor.execute(f"INSERT INTO {table} ({names}) SELECT {lists}", [list(values) for values in columns.values()])


def _attributes(frame: Frame | None) -> dict[str, dict[str, object]]:
    """Return what a file says of its workloads: by name, the first value that is there of each attribute."""
    about: dict[str, dict[str, object]] = {}
    if frame is None:
        return about
    table = frame if isinstance(frame, pa.Table) else pa.Table.from_pandas(frame, preserve_index=False)
    for row in table.to_pylist():
        attributes = about.setdefault(row.pop("name"), {})
        for column, value in row.items():
            if value is not None:
                attributes.setdefault(column, value)
    return about


def _distinct(frame: Frame, column: str) -> set[str]:
    """Return the distinct values of a column that are there."""
    values = frame.column(column).unique().to_pylist() if isinstance(frame, pa.Table) else frame[column].unique()
    return {str(value) for value in values if isinstance(value, str)}


def _load_profiles(
    cursor: duckdb.DuckDBPyConnection,
    parsed: Parsed,
    workloads: Mapping[str, int],
    source_id: int,
    first: int,
    free: int,
) -> None:
    kernel = parsed.frames.get("kernel")
    if kernel is None:
        return
    keys = ["workload", "gpu"]
    of = kernel.select(keys) if isinstance(kernel, pa.Table) else pa.Table.from_pandas(kernel[keys].astype(object))
    which, pairs = _combinations(of, keys)
    profiles = _profiles(cursor, [(workloads[str(workload)], str(gpu)) for workload, gpu in pairs], free)[which]
    columns = [column for column in _given(kernel, "kernel") if column not in ("launch", *keys)]
    names = ", ".join(f'"{column}"' for column in columns)
    if isinstance(kernel, pa.Table):
        incoming: Frame = kernel.append_column("profile_id", pa.array(profiles))
    else:
        incoming = kernel.assign(profile_id=profiles)
    with _incoming(cursor, incoming) as view:
        cursor.execute(
            f"INSERT INTO kernel (kernel_id, profile_id, source_id, {names}) "
            f"SELECT ? + launch, profile_id, ?, {names} FROM {view}",
            [first, source_id],
        )
    metric = parsed.frames.get("kernel_metric")
    if metric is not None:
        load_values(cursor, metric, first, source_id)
    rule = parsed.frames.get("kernel_rule")
    if rule is not None:
        names = ", ".join(f'"{column}"' for column in _given(rule, "kernel_rule") if column != "launch")
        with _incoming(cursor, rule) as view:
            cursor.execute(
                f"INSERT INTO kernel_rule (kernel_id, source_id, {names}) SELECT ? + launch, ?, {names} FROM {view}",
                [first, source_id],
            )


def _profiles(cursor: duckdb.DuckDBPyConnection, wanted: Sequence[tuple[int, str]], free: int) -> npt.NDArray[np.int32]:
    """Return the ids of profiles by workload and GPU, those that the database lacks inserted."""
    workloads = sorted({workload for workload, _ in wanted})
    rows = cursor.execute(
        "SELECT workload_id, gpu, profile_id FROM profile WHERE list_contains(?::INTEGER[], workload_id)", [workloads]
    ).fetchall()
    known: dict[tuple[int, str], int] = {(workload, gpu): number for workload, gpu, number in rows}
    if new := [key for key in sorted(set(wanted)) if key not in known]:
        known |= {key: free + place for place, key in enumerate(new)}
        ids, workload_ids, gpus = [known[key] for key in new], [key[0] for key in new], [key[1] for key in new]
        _append(cursor, "profile", {"profile_id": ids, "workload_id": workload_ids, "gpu": gpus})
    return np.array([known[key] for key in wanted], dtype=np.int32)


def _load_runs(cursor: duckdb.DuckDBPyConnection, parsed: Parsed, dataset: str, source_id: int, first: int) -> None:
    run = parsed.frames.get("run")
    if run is None:
        return
    for name in ("run", "member", "member_latency"):
        frame = parsed.frames.get(name)
        # An empty frame has no types that would fit.
        if frame is None or not len(frame):
            continue
        columns = [column for column in _given(frame, name) if column != "run"]
        with _incoming(cursor, frame) as view:
            _insert(cursor, name, view, dataset, source_id, columns=columns, extra=("run_id", "? + f.run", first))


def _insert(
    cursor: duckdb.DuckDBPyConnection,
    table: str,
    view: str,
    dataset: str,
    source_id: int,
    *,
    columns: list[str],
    extra: tuple[str, str, int] | None = None,
) -> None:
    """Insert a frame, its workload names resolved to ids."""
    names, values, parameters = ["source_id"], ["?"], [source_id]
    if extra is not None:
        names.append(extra[0])
        values.append(extra[1])
        parameters.append(extra[2])
    join = ""
    for column in columns:
        if column == "workload":
            names.append("workload_id")
            values.append("w.workload_id")
            join = "LEFT JOIN workload w ON w.dataset = ? AND w.name = f.workload"
        else:
            names.append(f'"{column}"')
            values.append("coalesce(f.flags, [])" if column == "flags" else f'f."{column}"')
    bound: list[object] = [*parameters, *([dataset] if join else [])]
    cursor.execute(f"INSERT INTO {table} ({', '.join(names)}) SELECT {', '.join(values)} FROM {view} f {join}", bound)


def _given(frame: Frame, name: str) -> list[str]:
    present = set(frame.column_names if isinstance(frame, pa.Table) else frame.columns)
    return [column for column in FRAME_COLUMNS[name] if column in present]


@contextmanager
def _incoming(cursor: duckdb.DuckDBPyConnection, frame: Frame) -> Iterator[str]:
    """Show a frame to SQL under a fixed name; after an error the cursor, and the name with it, is closed anyway."""
    cursor.register("incoming", frame)
    yield "incoming"
    cursor.unregister("incoming")
