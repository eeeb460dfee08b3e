"""Makes two workloads of a data set one, or gives one another name, and remembers what was done."""

from __future__ import annotations

from collections.abc import Mapping

import duckdb
import pandas as pd

from analysis.errors import NotFoundError, UsageError
from analysis.store.database import Database

#: Tables that point to a workload; profiles, which may be there once a GPU only, are moved apart.
_TABLES = ("solo", "feature", "member", "telemetry", "excluded")
_ATTRIBUTES = ("model", "family", "training_data", "batch_size", "precision", "phase")


def merge_workloads(database: Database, dataset: str, moves: Mapping[str, str]) -> None:
    """Move everything that is known of some workloads to others; all of it or nothing.

    Parameters
    ----------
    database : Database
        The open database.
    dataset : str
        Data set that the workloads belong to.
    moves : mapping of str to str
        Name that goes -> name that stays. A name that no workload has yet is a new name for the first. Attributes of
        the one that stays are kept; those that it lacks are filled in.

    Raises
    ------
    NotFoundError
        If a name that goes is no workload of the data set.
    UsageError
        If a name would both go and stay.
    """
    wanted = {old: new.strip() for old, new in moves.items() if old != new.strip()}
    both = sorted(set(wanted) & set(wanted.values()))
    if both or not all(wanted.values()):
        what = f"{both[0]} would both go and stay" if both else "a workload needs a name"
        raise UsageError(what, "Move one name at a time.")
    with database.write() as cursor:
        for old, new in wanted.items():
            _merge(cursor, dataset, old, new)


def aliases(database: Database, dataset: str) -> pd.DataFrame:
    """Return one row a decision: alias, workload, sources, decided_at."""
    return database.query(
        "SELECT alias, workload, sources, decided_at FROM workload_alias WHERE dataset = ? ORDER BY alias", [dataset]
    )


def _merge(cursor: duckdb.DuckDBPyConnection, dataset: str, old: str, new: str) -> None:
    source = _find(cursor, dataset, old)
    if source is None:
        raise NotFoundError(f"there is no workload {old!r} in the data set {dataset}", "Look it up in the Library.")
    _remember(cursor, dataset, source, old, new)
    target = _find(cursor, dataset, new)
    if target is None:
        cursor.execute("UPDATE workload SET name = ? WHERE workload_id = ?", [new, source])
        return
    for table in _TABLES:
        cursor.execute(f"UPDATE {table} SET workload_id = ? WHERE workload_id = ?", [target, source])
    # A GPU on which both have a profile keeps that of the target, with the launches of both.
    cursor.execute(
        """UPDATE kernel SET profile_id = t.profile_id
           FROM profile s JOIN profile t ON t.gpu = s.gpu AND t.workload_id = ?
           WHERE s.workload_id = ? AND kernel.profile_id = s.profile_id""",
        [target, source],
    )
    cursor.execute(
        "DELETE FROM profile WHERE workload_id = ? AND gpu IN (SELECT gpu FROM profile WHERE workload_id = ?)",
        [source, target],
    )
    cursor.execute("UPDATE profile SET workload_id = ? WHERE workload_id = ?", [target, source])
    sets = ", ".join(f'"{name}" = coalesce(workload."{name}", s."{name}")' for name in _ATTRIBUTES)
    cursor.execute(
        f"""UPDATE workload SET {sets} FROM (SELECT * FROM workload WHERE workload_id = ?) s
            WHERE workload.workload_id = ?""",
        [source, target],
    )
    cursor.execute("DELETE FROM workload WHERE workload_id = ?", [source])


def _find(cursor: duckdb.DuckDBPyConnection, dataset: str, name: str) -> int | None:
    rows = cursor.execute("SELECT workload_id FROM workload WHERE dataset = ? AND name = ?", [dataset, name]).fetchall()
    return int(rows[0][0]) if rows else None


def _remember(cursor: duckdb.DuckDBPyConnection, dataset: str, workload_id: int, old: str, new: str) -> None:
    names = ", ".join(f'{name} := w."{name}"' for name in _ATTRIBUTES)
    sources = " UNION ".join(f"SELECT source_id FROM {table} WHERE workload_id = w.workload_id" for table in _TABLES)
    cursor.execute("DELETE FROM workload_alias WHERE dataset = ? AND alias = ?", [dataset, old])
    cursor.execute(
        f"""INSERT INTO workload_alias (dataset, alias, workload, attributes, sources)
            SELECT ?, ?, ?, to_json(struct_pack({names})),
                   coalesce((SELECT list(source_id ORDER BY source_id) FROM (
                       {sources} UNION SELECT k.source_id FROM kernel k JOIN profile p USING (profile_id)
                                       WHERE p.workload_id = w.workload_id)), [])
            FROM workload w WHERE w.workload_id = ?""",
        [dataset, old, new, workload_id],
    )
    # What was matched to the name that goes now follows it.
    cursor.execute("UPDATE workload_alias SET workload = ? WHERE dataset = ? AND workload = ?", [new, dataset, old])
    cursor.execute("DELETE FROM workload_alias WHERE dataset = ? AND alias = ?", [dataset, new])
