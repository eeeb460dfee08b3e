"""Profiles: launches, their metrics and rule texts, as frames."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pandas as pd

from analysis.errors import NotFoundError
from analysis.reference.gpus import resolve
from analysis.store import counted
from analysis.store.database import Database
from analysis.store.filters import Filter
from analysis.store.queries.sources import require_dataset
from analysis.store.queries.sources import workloads as known_workloads

_COLUMNS = ("dataset", "gpu", "workload", "family", "phase", "source_id")

_KERNELS = f"""
    SELECT s.dataset, w.name AS workload, w.family, w.phase, p.gpu, p.profile_id, k.kernel_id, k.process_id,
           k.launch_id, k.name AS kernel, k.short_name, k.grid, k.block, k.cc, k.device, k.invocations, k.duration_ns,
           k.line, k.source_id, s.file_name, s.format, s.simulated
    FROM {counted.KERNEL} k JOIN profile p USING (profile_id) JOIN workload w USING (workload_id)
         JOIN source s ON s.source_id = k.source_id
"""


def kernels(database: Database, chosen: Filter | None = None) -> pd.DataFrame:
    """Return one row a launch.

    Returns
    -------
    pd.DataFrame
        dataset, workload, family, phase, gpu, profile_id, kernel_id, process_id, launch_id, kernel, short_name, grid,
        block, cc, device, invocations, duration_ns, line, source_id, file_name, format, simulated.
    """
    where, values = (chosen or Filter()).where(*_COLUMNS)
    return database.query(f"SELECT * FROM ({_KERNELS}) WHERE {where} ORDER BY kernel_id", values)


def stall_metrics(database: Database, chosen: Filter | None = None) -> pd.DataFrame:
    """Return the stall metrics of every launch, one row a launch and reason, with the launch's columns.

    Returns
    -------
    pd.DataFrame
        The columns of `kernels` and section, metric, unit, value (NaN: printed as n/a), family, reason.
    """
    where, values = (chosen or Filter()).where(*_COLUMNS)
    return database.query(
        f"""SELECT k.*, m.line AS metric_line, m.section, m.metric, m.unit, m.value, m.family AS stall_family, m.reason
            FROM (SELECT * FROM ({_KERNELS}) WHERE {where}) k
            JOIN kernel_metric m USING (kernel_id) WHERE m.family IS NOT NULL AND {counted.VALUE_COUNTS}
            ORDER BY k.kernel_id, m.line""",
        values,
    )


def metrics(database: Database, chosen: Filter | None = None, names: tuple[str, ...] = ()) -> pd.DataFrame:
    """Return metrics of launches in long form, all or those named.

    Returns
    -------
    pd.DataFrame
        kernel_id, workload, gpu, kernel, section, metric, unit, value, text, line, source_id.
    """
    where, values = (chosen or Filter()).where(*_COLUMNS)
    named = f"AND m.metric IN ({', '.join('?' * len(names))})" if names else ""
    return database.query(
        f"""SELECT k.kernel_id, k.workload, k.gpu, k.kernel, m.section, m.metric, m.unit, m.value, m.text, m.line,
                   m.source_id
            FROM (SELECT * FROM ({_KERNELS}) WHERE {where}) k JOIN kernel_metric m USING (kernel_id)
            WHERE {counted.VALUE_COUNTS} {named}
            ORDER BY k.kernel_id, m.line""",
        [*values, *names],
    )


def rules(database: Database, chosen: Filter | None = None) -> pd.DataFrame:
    """Return the rule texts of the profiler: the columns of `kernels` and rule, kind, text, top_reason, top_share."""
    where, values = (chosen or Filter()).where(*_COLUMNS)
    return database.query(
        f"""SELECT k.*, r.line AS rule_line, r.section, r.rule, r.kind, r."text", r.top_reason, r.top_share
            FROM (SELECT * FROM ({_KERNELS}) WHERE {where}) k JOIN kernel_rule r USING (kernel_id)
            ORDER BY k.kernel_id, r.line""",
        values,
    )


def workloads(database: Database, chosen: Filter | None = None) -> pd.DataFrame:
    """Return what is profiled, one row a profile with launches: dataset, workload, gpu."""
    where, values = (chosen or Filter()).where(*_COLUMNS)
    return database.query(
        f"""SELECT DISTINCT dataset, workload, gpu FROM ({_KERNELS}) WHERE {where}
            ORDER BY dataset, workload, gpu""",
        values,
    )


def capabilities(database: Database, chosen: Filter | None = None) -> pd.DataFrame:
    """Return the compute capabilities that files state, the most frequent of a GPU first: gpu, cc, launches."""
    where, values = (chosen or Filter()).where(*_COLUMNS)
    return database.query(
        f"""SELECT gpu, cc, count(*) AS launches FROM ({_KERNELS}) WHERE {where}
            GROUP BY gpu, cc ORDER BY gpu, launches DESC""",
        values,
    )


def holdings(database: Database, chosen: Filter | None = None) -> pd.DataFrame:
    """Return what each profile holds: dataset, workload, gpu, stalls (any stall metric), rules (a named reason)."""
    where, values = (chosen or Filter()).where(*_COLUMNS)
    return database.query(
        f"""WITH chosen AS (SELECT * FROM ({_KERNELS}) WHERE {where})
            SELECT dataset, workload, gpu,
                   bool_or(source_id IN (SELECT source_id FROM kernel_metric WHERE family IS NOT NULL)) AS stalls,
                   bool_or(source_id IN (SELECT source_id FROM kernel_rule WHERE top_reason IS NOT NULL)) AS rules
            FROM chosen GROUP BY ALL ORDER BY ALL""",
        values,
    )


_CHOSEN = """
    SELECT k.kernel_id, s.dataset, w.name AS workload, w.family, w.phase, p.gpu, k.source_id
    FROM kernel k JOIN profile p USING (profile_id) JOIN workload w USING (workload_id)
         JOIN source s ON s.source_id = k.source_id
"""


#: What a time trace says beside durations: their spread, the geometry of launches, and estimates made from it. Whatever
#: holds any other metric was measured by counters or samples, which slow a program down.
_TRACED = ("time.", "launch__", "kineto.")

#: Sources with a stall reason or a counter, as SQL; the others only measure time.
COUNTED_SOURCES = f"""
    (SELECT DISTINCT source_id FROM kernel_value WHERE label_id IN (
        SELECT label_id FROM kernel_label
        WHERE family IS NOT NULL OR NOT ({" OR ".join(f"starts_with(metric, '{prefix}')" for prefix in _TRACED)})))
"""


def launches(database: Database, chosen: Filter) -> pd.DataFrame:
    """Return one row a launch, all numbers, ordered by kernel_id.

    Returns
    -------
    pd.DataFrame
        kernel_id, profile_id, source_id, kind (see `kinds`), invocations, duration_ns (of one), simulated.
    """
    condition, bound = _condition(database, chosen, "k")
    return database.query(
        f"""WITH kind AS (
              SELECT min(kernel_id) AS kind, name, short_name, grid, block FROM kernel
              GROUP BY name, short_name, grid, block)
            SELECT k.kernel_id, k.profile_id, k.source_id, kind.kind, k.invocations, k.duration_ns, s.simulated
            FROM kernel k JOIN source s USING (source_id)
                 JOIN kind ON kind.name = k.name AND kind.short_name = k.short_name
                      AND kind.grid IS NOT DISTINCT FROM k.grid AND kind.block IS NOT DISTINCT FROM k.block
            {condition} ORDER BY k.kernel_id""",
        bound,
    )


def kinds(database: Database, numbers: Iterable[int]) -> pd.DataFrame:
    """Return what kinds of kernels are called: index kind; kernel, short_name, grid, block (``""``: unknown)."""
    found = database.query(
        """SELECT kernel_id AS kind, name AS kernel, short_name, coalesce(grid, '') AS grid,
                  coalesce(block, '') AS block
           FROM kernel WHERE kernel_id IN (SELECT unnest(?::BIGINT[]))""",
        [[int(number) for number in numbers]],
    )
    return found.set_index("kind")


def named_profiles(database: Database, numbers: Iterable[int]) -> pd.DataFrame:
    """Return what profiles are of: index profile_id; dataset, workload, gpu."""
    found = database.query(
        """SELECT p.profile_id, w.dataset, w.name AS workload, p.gpu FROM profile p JOIN workload w USING (workload_id)
           WHERE p.profile_id IN (SELECT unnest(?::INTEGER[]))""",
        [[int(number) for number in numbers]],
    )
    return found.set_index("profile_id")


def stall_metric_names(database: Database) -> pd.DataFrame:
    """Return the stall metrics that any launch has: metric, family, reason."""
    return database.query(
        "SELECT DISTINCT metric, family, reason FROM kernel_label WHERE family IS NOT NULL ORDER BY ALL"
    )


def values(
    database: Database, chosen: Filter, names: Sequence[str], *, ordered: bool = True, units: bool = False
) -> pd.DataFrame:
    """Return the values of some metrics of all chosen launches, as numbers only.

    Parameters
    ----------
    database : Database
        The open database.
    chosen : Filter
        Launches to keep.
    names : sequence of str
        Names of metrics.
    ordered : bool
        Whether to order by launch, code and line, which costs as much as the rest.
    units : bool
        Whether to say which values are in percent.

    Returns
    -------
    pd.DataFrame
        kernel_id, code (position of the metric in ``names``), value, and with ``units`` percent (whether the unit is
        ``%``); values that the tool printed as n/a are left out.
    """
    condition, bound = _condition(database, chosen, "m")
    counts = counted.VALUE_COUNTS if counted.anything_out(database) else "true"
    return database.query(
        f"""SELECT m.kernel_id, n.code, m.value{", coalesce(m.unit = '%', false) AS percent" if units else ""}
            FROM kernel_metric m
            JOIN (SELECT unnest(?::VARCHAR[]) AS metric, unnest(range(?))::INTEGER AS code) n USING (metric)
            {condition} AND m.value IS NOT NULL AND {counts}
            {"ORDER BY m.kernel_id, n.code, m.line" if ordered else ""}""",
        [list(names), len(names), *bound],
    )


def timing_sources(database: Database) -> list[int]:
    """Return the sources with durations of kernels and neither stall reasons nor counters, such as time traces."""
    found = database.query(
        f"""SELECT DISTINCT source_id FROM kernel
            WHERE duration_ns IS NOT NULL AND source_id NOT IN {COUNTED_SOURCES} ORDER BY source_id"""
    )
    return [int(number) for number in found["source_id"]]


def gpu_time(database: Database, chosen: Filter, sources: Sequence[int]) -> pd.DataFrame:
    """Return GPU time by kernel from some sources, those of `timing_sources`.

    Returns
    -------
    pd.DataFrame
        profile_id, source_id, format, kernel, short_name, grid, block, time_ns (of all its launches).
    """
    condition, bound = _condition(database, chosen, "k")
    return database.query(
        f"""SELECT k.profile_id, k.source_id, s.format, k.name AS kernel, k.short_name, k.grid, k.block,
                   sum(k.duration_ns * k.invocations) AS time_ns
            FROM kernel k JOIN source s USING (source_id)
            {condition} AND k.duration_ns IS NOT NULL
                  AND k.source_id IN (SELECT unnest(?::INTEGER[]))
            GROUP BY ALL ORDER BY ALL""",
        [*bound, list(sources)],
    )


def _condition(database: Database, chosen: Filter, table: str) -> tuple[str, list[object]]:
    """Restrict a table to the chosen launches that count; all of those where everything is chosen."""
    where, bound = chosen.where(*_COLUMNS)
    out = counted.anything_out(database)
    counts = f"WHERE {table}.kernel_id NOT IN {counted.LAUNCHES_OUT}" if out else "WHERE true"
    if where == "true":
        return counts, []
    return f"{counts} AND {table}.kernel_id IN (SELECT kernel_id FROM ({_CHOSEN}) WHERE {where})", bound


def chosen_profiles(
    database: Database, gpu: str | None = None, dataset: str | None = None, workloads: Sequence[str] = ()
) -> Filter:
    """Turn a user's words into a filter; a name that nothing has is an error, not an empty answer.

    Raises
    ------
    NotFoundError
        If there is no such data set, GPU or workload.
    """
    chosen = Filter(datasets=(require_dataset(database, dataset),) if dataset else ())
    known = known_workloads(database, chosen)
    if gpu is not None:
        available = sorted({name for names in known["gpus"] for name in (names if names is not None else [])})
        found = resolve(gpu, available)
        if not found:  # an empty filter would mean all of them
            there = ", ".join(available) or "no GPU at all"
            raise NotFoundError(f"nothing in the database is of GPU {gpu!r}", f"There is {there}.")
        chosen = chosen.with_(gpus=tuple(found))
    missing = [name for name in workloads if name not in set(known["workload"])]
    if missing:
        raise NotFoundError(
            f"there is no workload {missing[0]!r} in the database",
            "`stallscope stalls` without --workload lists the names that are there.",
        )
    return chosen.with_(workloads=tuple(workloads))
