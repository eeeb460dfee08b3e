"""Co-runs, solos and published features as frames."""

from __future__ import annotations

import pandas as pd

from analysis.store import counted
from analysis.store.database import Database
from analysis.store.filters import Filter

_MEMBERS = f"""
    SELECT s.dataset, r.run_id, r.external_id, r.gpu, r.mechanism, r.k, r.outcome AS run_outcome, r.line, r.note,
           m.slot, w.workload_id, w.name AS workload, w.model, w.family, w.batch_size, w."precision", w.phase,
           m.outcome, m.measure, m.unit, m.solo_value, m.corun_value, m.slowdown, m.p99_solo_ms, m.p99_corun_ms,
           m.peak_memory_mib, m.memory_kind, m.thread_percentage, m.memory_cap_mib, m.mig_profile, m.priority, m.flags,
           m.left_out,
           r.source_id, s.file_name, s.simulated
    FROM {counted.MEMBER} m JOIN {counted.RUN} r USING (run_id) JOIN source s ON s.source_id = r.source_id
         JOIN workload w USING (workload_id)
"""


def members(database: Database, chosen: Filter | None = None) -> pd.DataFrame:
    """Return one row a member of a run, in the order of run and slot.

    Parameters
    ----------
    database : Database
        The open database.
    chosen : Filter, optional
        Rows to keep. A filter on workloads, families or phases keeps only those members; take `with_partners` for
        the whole runs.

    Returns
    -------
    pd.DataFrame
        dataset, run_id, external_id, gpu, mechanism, k, run_outcome, line, note, slot, workload_id, workload, model,
        family, batch_size, precision, phase, outcome, measure, unit, solo_value, corun_value, slowdown (NaN: no
        target), p99_solo_ms, p99_corun_ms, peak_memory_mib, memory_kind, thread_percentage, memory_cap_mib,
        mig_profile, priority, flags (list), left_out (by the user: it has no value any more), source_id,
        file_name, simulated.
    """
    where, values = (chosen or Filter()).where()
    return database.query(f"SELECT * FROM ({_MEMBERS}) WHERE {where} ORDER BY run_id, slot", values)


def twins(database: Database) -> pd.DataFrame:
    """Return pairs of data sets whose co-runs are the same, number for number, under whatever names.

    Returns
    -------
    pd.DataFrame
        dataset, other, runs, members; each pair of data sets once, the smaller name first.
    """
    return database.query(
        f"""WITH one AS (
                SELECT dataset, count(DISTINCT run_id) AS runs, count(*) AS members, count(slowdown) AS known,
                       bit_xor(hash(gpu, mechanism, k, round(slowdown, 6))) AS marks,
                       sum(hash(gpu, mechanism, k, round(slowdown, 6))) AS total
                FROM ({_MEMBERS}) GROUP BY dataset)
            SELECT a.dataset, b.dataset AS other, a.runs, a.members
            FROM one a JOIN one b ON a.dataset < b.dataset AND a.runs = b.runs AND a.members = b.members
                 AND a.marks = b.marks AND a.total = b.total
            WHERE a.known > 2 ORDER BY 1, 2"""
    )


def with_partners(database: Database, chosen: Filter | None = None) -> pd.DataFrame:
    """Return all members of the runs in which at least one member passes the filter."""
    where, values = (chosen or Filter()).where()
    return database.query(
        f"""WITH everyone AS ({_MEMBERS})
            SELECT * FROM everyone WHERE run_id IN (SELECT run_id FROM everyone WHERE {where})
            ORDER BY run_id, slot""",
        values,
    )


def pairs(database: Database, chosen: Filter | None = None) -> pd.DataFrame:
    """Return one row a member of a run of two, with the job beside it.

    Returns
    -------
    pd.DataFrame
        The columns of `members` and partner (its name), partner_family, partner_slowdown, partner_outcome,
        partner_memory_mib. A pair of one workload with itself gives two rows. Filters on workloads, families and
        phases restrict the member whose row it is, not its partner.
    """
    where, values = (chosen or Filter()).where()
    return database.query(
        f"""WITH everyone AS ({_MEMBERS})
            SELECT a.*, b.workload AS partner, b.family AS partner_family, b.slowdown AS partner_slowdown,
                   b.outcome AS partner_outcome, b.peak_memory_mib AS partner_memory_mib
            FROM (SELECT * FROM everyone WHERE k = 2 AND {where}) a
            JOIN everyone b ON a.run_id = b.run_id AND a.slot <> b.slot
            ORDER BY a.run_id, a.slot""",
        values,
    )


def latencies(database: Database, chosen: Filter | None = None) -> pd.DataFrame:
    """Return one row a member and statistic of its latency, the 99th percentile included.

    Returns
    -------
    pd.DataFrame
        dataset, run_id, gpu, mechanism, slot, workload, statistic (``mean``, ``p90``, ``p95``, ``p99`` ...), solo_ms,
        corun_ms, note, simulated.
    """
    where, values = (chosen or Filter()).where("dataset", "gpu", "mechanism", "workload", "source_id")
    return database.query(
        f"""WITH everyone AS ({_MEMBERS}), statistics AS (
              SELECT run_id, slot, statistic, solo_ms, corun_ms FROM {counted.MEMBER_LATENCY} l
              UNION ALL SELECT run_id, slot, 'p99', p99_solo_ms, p99_corun_ms FROM {counted.MEMBER} m
                        WHERE p99_solo_ms IS NOT NULL OR p99_corun_ms IS NOT NULL)
            SELECT dataset, run_id, gpu, mechanism, slot, workload, statistic, solo_ms, corun_ms, note, simulated
            FROM everyone JOIN statistics USING (run_id, slot) WHERE {where} ORDER BY run_id, slot, statistic""",
        values,
    )


def solos(database: Database, chosen: Filter | None = None) -> pd.DataFrame:
    """Return one row a solo measurement.

    Returns
    -------
    pd.DataFrame
        dataset, workload_id, workload, family, gpu, measure, unit, value, peak_memory_mib, memory_kind, source_id,
        simulated.
    """
    where, values = (chosen or Filter()).where("dataset", "gpu", "workload", "family", "phase", "source_id")
    return database.query(
        f"""SELECT * FROM (
              SELECT s.dataset, w.workload_id, w.name AS workload, w.family, w.phase, o.gpu, o.measure, o.unit, o.value,
                     o.peak_memory_mib, o.memory_kind, o.source_id, s.simulated
              FROM {counted.SOLO} o JOIN source s USING (source_id) JOIN workload w USING (workload_id))
            WHERE {where} ORDER BY dataset, gpu, workload""",
        values,
    )


def features(database: Database, chosen: Filter | None = None) -> pd.DataFrame:
    """Return published per-workload aggregates in long form.

    Returns
    -------
    pd.DataFrame
        dataset, workload_id, workload, family, gpu, name, value, unit, source_id, simulated.
    """
    where, values = (chosen or Filter()).where("dataset", "gpu", "workload", "family", "phase", "source_id")
    return database.query(
        f"""SELECT * FROM (
              SELECT s.dataset, w.workload_id, w.name AS workload, w.family, w.phase, f.gpu, f.name, f.value, f.unit,
                     f.source_id, s.simulated
              FROM {counted.FEATURE} f JOIN source s USING (source_id) JOIN workload w USING (workload_id))
            WHERE {where} ORDER BY dataset, gpu, workload, name""",
        values,
    )


def gpus_and_mechanisms(database: Database, dataset: str | None = None) -> pd.DataFrame:
    """Return the GPUs and mechanisms that runs were measured under: dataset, gpu, mechanism, runs, k_max."""
    return database.query(
        f"""SELECT s.dataset, r.gpu, r.mechanism, count(*) AS runs, max(r.k) AS k_max
           FROM {counted.RUN} r JOIN source s USING (source_id) WHERE ? IS NULL OR s.dataset = ?
           GROUP BY ALL ORDER BY s.dataset, r.gpu, r.mechanism""",
        [dataset, dataset],
    )
