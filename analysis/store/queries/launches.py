"""Launches and their values as plain numbers: what the stall analysis reads, a million rows at a time.

Names are long and few, launches many: so a launch carries the numbers of its profile and of its kernel's *kind* (a name
at one grid and block size), and what those numbers stand for comes in two small tables.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pandas as pd

from analysis.store import kept
from analysis.store.database import Database
from analysis.store.filters import Filter

_COLUMNS = ("dataset", "gpu", "workload", "family", "phase", "source_id")

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
    counts = kept.VALUE_COUNTS if kept.anything_out(database) else "true"
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
    out = kept.anything_out(database)
    counts = f"WHERE {table}.kernel_id NOT IN {kept.LAUNCHES_OUT}" if out else "WHERE true"
    if where == "true":
        return counts, []
    return f"{counts} AND {table}.kernel_id IN (SELECT kernel_id FROM ({_CHOSEN}) WHERE {where})", bound
