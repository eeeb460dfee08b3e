"""Kernels of a profile by their time, and everything that is stored of one launch."""

from __future__ import annotations

import pandas as pd

from analysis.errors import NotFoundError
from analysis.store import counted
from analysis.store.database import Database
from analysis.store.filters import Filter
from analysis.store.queries.profiles import COUNTED_SOURCES

_COLUMNS = ("dataset", "gpu", "workload", "family", "phase", "source_id")

_LAUNCHES = f"""
    SELECT s.dataset, w.name AS workload, w.family, w.phase, p.gpu, k.profile_id, k.source_id, s.file_name, s.format,
           s.simulated, k.kernel_id, k.process_id, k.launch_id, k.name AS kernel, k.short_name,
           coalesce(k.grid, '') AS grid, coalesce(k.block, '') AS block, k.cc, k.invocations, k.duration_ns, k.line
    FROM {counted.KERNEL} k JOIN profile p USING (profile_id) JOIN workload w USING (workload_id)
         JOIN source s ON s.source_id = k.source_id
"""


def by_source(database: Database, chosen: Filter) -> pd.DataFrame:
    """Return one row a kernel and file.

    Returns
    -------
    pd.DataFrame
        dataset, workload, gpu, profile_id, source_id, kernel, short_name, grid, block (``""``: unknown), launches,
        timed (launches with a duration), time_ns (of those), metrics (whether the file holds
        stall reasons or counters: else it only measures time), simulated.
    """
    where, values = chosen.where(*_COLUMNS)
    return database.query(
        f"""WITH chosen AS (SELECT * FROM ({_LAUNCHES}) WHERE {where}),
            measured AS {COUNTED_SOURCES}
            SELECT dataset, workload, gpu, profile_id, source_id, kernel, short_name, grid, block,
                   sum(invocations)::BIGINT AS launches,
                   coalesce(sum(invocations) FILTER (WHERE duration_ns IS NOT NULL), 0)::BIGINT AS timed,
                   sum(duration_ns * invocations) AS time_ns, source_id IN (SELECT source_id FROM measured) AS metrics,
                   any_value(simulated) AS simulated
            FROM chosen GROUP BY ALL ORDER BY ALL""",
        values,
    )


def devices(database: Database, chosen: Filter) -> pd.DataFrame:
    """Return dataset, workload, gpu and devices: on how many GPUs of one file the workload's kernels ran at most."""
    where, values = chosen.where(*_COLUMNS)
    return database.query(
        f"""WITH of_file AS (
                SELECT l.dataset, l.workload, l.gpu, l.source_id, count(DISTINCT k.device) AS devices
                FROM (SELECT * FROM ({_LAUNCHES}) WHERE {where}) l JOIN kernel k USING (kernel_id) GROUP BY ALL)
            SELECT dataset, workload, gpu, max(devices)::BIGINT AS devices FROM of_file GROUP BY ALL ORDER BY ALL""",
        values,
    )


def launches(database: Database, chosen: Filter, kernel: str, grid: str, block: str, most: int = 1000) -> pd.DataFrame:
    """Return the launches of one kernel, at most so many: kernel_id, launch_id, process_id, file_name, line, ..."""
    where, values = chosen.where(*_COLUMNS)
    return database.query(
        f"""SELECT kernel_id, launch_id, process_id, invocations, duration_ns, file_name, line, format, simulated
            FROM ({_LAUNCHES}) WHERE {where} AND kernel = ? AND grid = ? AND block = ? ORDER BY kernel_id LIMIT ?""",
        [*values, kernel, grid, block, most],
    )


def launch(database: Database, kernel_id: int) -> pd.Series:
    """Return one launch with the file and the line that it came from.

    Raises
    ------
    NotFoundError
        If there is none of this number.
    """
    found = database.query(f"SELECT * FROM ({_LAUNCHES}) WHERE kernel_id = ?", [kernel_id])
    if found.empty:
        raise NotFoundError(f"there is no launch {kernel_id}", "Choose one from the table of launches.")
    return found.iloc[0]


def rows(database: Database, kernel_id: int) -> pd.DataFrame:
    """Return the rows of the file that one launch was read from.

    Returns
    -------
    pd.DataFrame
        file_name, line, section, metric, value, unit (base units), text (as printed where it is no number),
        stall_family, reason; in the order of the file.
    """
    return database.query(
        """SELECT s.file_name, m.line, m.section, m.metric, m.value, m.unit, m."text", m.family AS stall_family,
                  m.reason
           FROM kernel_metric m JOIN source s USING (source_id) WHERE m.kernel_id = ? ORDER BY m.line, m.metric""",
        [kernel_id],
    )
