"""Writes a parsed file into the database, in one transaction, and takes a source out again."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

import duckdb
import pyarrow as pa

from analysis.errors import NotFoundError
from analysis.store.database import Database
from analysis.store.labels import in_columns, load_values, sweep_labels
from analysis.store.parsed import FRAME_COLUMNS, REJECTED_COLUMNS, Frame, Parsed

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
    """
    if "kernel" in parsed.frames:
        parsed = replace(parsed, frames={**parsed.frames, "kernel": in_columns(parsed.frames["kernel"])})
    with database.write(dataset=info.dataset) as cursor:
        source_id = _next(cursor, "source", "source_id")
        cursor.execute(
            "INSERT INTO dataset (name, title, simulated, licence, citation) VALUES (?, ?, ?, ?, ?) "
            "ON CONFLICT DO NOTHING",
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
        _load_workloads(cursor, parsed, info.dataset)
        _load_profiles(cursor, parsed, info.dataset, source_id)
        _load_runs(cursor, parsed, info.dataset, source_id)
        for name in ("solo", "feature", "telemetry", "set_aside_row"):
            if name in parsed.frames and len(parsed.frames[name]):
                with _incoming(cursor, parsed.frames[name]) as view:
                    _insert(cursor, name, view, info.dataset, source_id, columns=_given(parsed.frames[name], name))
    return source_id


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


def _load_workloads(cursor: duckdb.DuckDBPyConnection, parsed: Parsed, dataset: str) -> None:
    """Make the workloads that the file names; fill in attributes that were unknown, never overwrite known ones."""
    for name, frame in parsed.frames.items():
        if name in ("workload", "kernel_metric", "kernel_rule", "run") or "workload" not in _given(frame, name):
            continue
        with _incoming(cursor, _distinct(frame, "workload")) as view:
            cursor.execute(
                f"""INSERT INTO workload (workload_id, dataset, name)
                    SELECT (SELECT coalesce(max(workload_id), 0) FROM workload) + row_number() OVER (ORDER BY n), ?, n
                    FROM (SELECT DISTINCT workload AS n FROM {view} WHERE workload IS NOT NULL)
                    WHERE n NOT IN (SELECT name FROM workload WHERE dataset = ?)""",
                [dataset, dataset],
            )
    frame = parsed.frames.get("workload")
    if frame is None:
        return
    with _incoming(cursor, frame) as view:
        cursor.execute(
            f"""INSERT INTO workload (workload_id, dataset, name)
                SELECT (SELECT coalesce(max(workload_id), 0) FROM workload) + row_number() OVER (ORDER BY name), ?, name
                FROM (SELECT DISTINCT name FROM {view})
                WHERE name NOT IN (SELECT name FROM workload WHERE dataset = ?)""",
            [dataset, dataset],
        )
        attributes = [column for column in _given(frame, "workload") if column != "name"]
        if attributes:
            sets = ", ".join(f'"{column}" = coalesce(workload."{column}", f."{column}")' for column in attributes)
            cursor.execute(
                f"UPDATE workload SET {sets} FROM {view} f WHERE workload.dataset = ? AND workload.name = f.name",
                [dataset],
            )


def _distinct(frame: Frame, column: str) -> Frame:
    """Return the distinct values of a column: of a million rows quicker found here than by the database."""
    if isinstance(frame, pa.Table):
        return pa.table({column: frame.column(column).unique()})
    return frame[[column]].drop_duplicates()


def _load_profiles(cursor: duckdb.DuckDBPyConnection, parsed: Parsed, dataset: str, source_id: int) -> None:
    kernel = parsed.frames.get("kernel")
    if kernel is None:
        return
    first = _next(cursor, "kernel", "kernel_id")
    with _incoming(cursor, kernel) as view:
        cursor.execute(
            f"""INSERT INTO profile (profile_id, workload_id, gpu)
                SELECT (SELECT coalesce(max(profile_id), 0) FROM profile)
                       + row_number() OVER (ORDER BY workload_id, gpu), workload_id, gpu
                FROM (SELECT DISTINCT w.workload_id, f.gpu FROM {view} f
                      JOIN workload w ON w.dataset = ? AND w.name = f.workload) AS wanted
                WHERE NOT EXISTS (SELECT 1 FROM profile p
                                  WHERE p.workload_id = wanted.workload_id AND p.gpu = wanted.gpu)""",
            [dataset],
        )
        columns = [column for column in _given(kernel, "kernel") if column not in ("launch", "workload", "gpu")]
        names = ", ".join(f'"{column}"' for column in columns)
        values = ", ".join(f'f."{column}"' for column in columns)
        cursor.execute(
            f"""INSERT INTO kernel (kernel_id, profile_id, source_id, {names})
                SELECT ? + f.launch, p.profile_id, ?, {values} FROM {view} f
                JOIN workload w ON w.dataset = ? AND w.name = f.workload
                JOIN profile p ON p.workload_id = w.workload_id AND p.gpu = f.gpu""",
            [first, source_id, dataset],
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


def _load_runs(cursor: duckdb.DuckDBPyConnection, parsed: Parsed, dataset: str, source_id: int) -> None:
    run = parsed.frames.get("run")
    if run is None:
        return
    first = _next(cursor, "run", "run_id")
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


def _next(cursor: duckdb.DuckDBPyConnection, table: str, column: str) -> int:
    rows = cursor.execute(f"SELECT coalesce(max({column}), 0) + 1 FROM {table}").fetchall()
    return int(rows[0][0])


def _given(frame: Frame, name: str) -> list[str]:
    present = set(frame.column_names if isinstance(frame, pa.Table) else frame.columns)
    return [column for column in FRAME_COLUMNS[name] if column in present]


@contextmanager
def _incoming(cursor: duckdb.DuckDBPyConnection, frame: Frame) -> Iterator[str]:
    """Show a frame to SQL under a fixed name; after an error the cursor, and the name with it, is closed anyway."""
    cursor.register("incoming", frame)
    yield "incoming"
    cursor.unregister("incoming")
