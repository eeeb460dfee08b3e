"""Values of many launches as compact numbers: what the stall analysis reads, a million rows at a time."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from analysis.store.database import Database
from analysis.store.filters import Filter

_COLUMNS = ("dataset", "gpu", "workload", "family", "phase", "source_id")

_CHOSEN = """
    SELECT k.kernel_id, s.dataset, w.name AS workload, w.family, w.phase, p.gpu, k.source_id
    FROM kernel k JOIN profile p USING (profile_id) JOIN workload w USING (workload_id)
         JOIN source s ON s.source_id = k.source_id
"""


def stall_metric_names(database: Database) -> pd.DataFrame:
    """Return the stall metrics that any launch has: metric, family, reason."""
    return database.query(
        "SELECT DISTINCT metric, family, reason FROM kernel_metric WHERE family IS NOT NULL ORDER BY ALL"
    )


def values(database: Database, chosen: Filter, names: Sequence[str]) -> pd.DataFrame:
    """Return the values of some metrics of all chosen launches, as numbers only.

    Parameters
    ----------
    database : Database
        The open database.
    chosen : Filter
        Launches to keep.
    names : sequence of str
        Names of metrics.

    Returns
    -------
    pd.DataFrame
        kernel_id, code (position of the metric in ``names``), value, percent (whether the unit is ``%``); values that
        the tool printed as n/a are left out. Ordered by launch, code and line.
    """
    where, bound = chosen.where(*_COLUMNS)
    keep = "" if where == "true" else f"WHERE m.kernel_id IN (SELECT kernel_id FROM ({_CHOSEN}) WHERE {where})"
    return database.query(
        f"""SELECT m.kernel_id, n.code, m.value, coalesce(m.unit = '%', false) AS percent
            FROM kernel_metric m
            JOIN (SELECT unnest(?::VARCHAR[]) AS metric, unnest(range(?))::INTEGER AS code) n USING (metric)
            {keep}{" AND" if keep else "WHERE"} m.value IS NOT NULL
            ORDER BY m.kernel_id, n.code, m.line""",
        [list(names), len(names), *bound],
    )


def gpu_time(database: Database, chosen: Filter) -> pd.DataFrame:
    """Return GPU time by kernel from sources that only measure time, such as Nsight Systems.

    Returns
    -------
    pd.DataFrame
        profile_id, source_id, format, kernel, short_name, grid, block, time_ns (of all its launches).
    """
    where, bound = chosen.where(*_COLUMNS)
    return database.query(
        f"""SELECT k.profile_id, k.source_id, s.format, k.name AS kernel, k.short_name, k.grid, k.block,
                   sum(k.duration_ns * k.invocations) AS time_ns
            FROM kernel k JOIN source s USING (source_id)
            WHERE k.kernel_id IN (SELECT kernel_id FROM ({_CHOSEN}) WHERE {where}) AND k.duration_ns IS NOT NULL
                  AND k.source_id NOT IN (SELECT source_id FROM kernel_metric)
            GROUP BY ALL ORDER BY ALL""",
        bound,
    )
