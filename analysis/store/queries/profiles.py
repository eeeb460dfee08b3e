"""Profiles: launches, their metrics and rule texts, as frames."""

from __future__ import annotations

import pandas as pd

from analysis.store import kept
from analysis.store.database import Database
from analysis.store.filters import Filter

_COLUMNS = ("dataset", "gpu", "workload", "family", "phase", "source_id")

_KERNELS = f"""
    SELECT s.dataset, w.name AS workload, w.family, w.phase, p.gpu, p.profile_id, k.kernel_id, k.process_id,
           k.launch_id, k.name AS kernel, k.short_name, k.grid, k.block, k.cc, k.device, k.invocations, k.duration_ns,
           k.line, k.source_id, s.file_name, s.format, s.simulated
    FROM {kept.KERNEL} k JOIN profile p USING (profile_id) JOIN workload w USING (workload_id)
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
            JOIN kernel_metric m USING (kernel_id) WHERE m.family IS NOT NULL AND {kept.VALUE_COUNTS}
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
            WHERE {kept.VALUE_COUNTS} {named}
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
