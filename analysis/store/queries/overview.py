"""What the database holds and counts: for the Overview page and for deciding what can be asked of it."""

from __future__ import annotations

import pandas as pd

from analysis.store import kept
from analysis.store.database import Database


def counts(database: Database, dataset: str) -> dict[str, int]:
    """Count what a data set holds.

    Returns
    -------
    dict of str to int
        sources, gpus, workloads, profiles, launches, runs, pairs (unordered, measured), models, evaluations.
    """
    row = database.query(
        f"""SELECT
             (SELECT count(*) FROM source WHERE dataset = $d) AS sources,
             (SELECT count(*) FROM (
                SELECT p.gpu FROM {kept.PROFILE} p JOIN workload w USING (workload_id) WHERE w.dataset = $d
                UNION SELECT r.gpu FROM {kept.RUN} r JOIN source s USING (source_id) WHERE s.dataset = $d
                UNION SELECT o.gpu FROM {kept.SOLO} o JOIN source s USING (source_id) WHERE s.dataset = $d)) AS gpus,
             (SELECT count(*) FROM workload WHERE dataset = $d) AS workloads,
             (SELECT count(*) FROM {kept.PROFILE} p JOIN workload w USING (workload_id)
              WHERE w.dataset = $d) AS profiles,
             (SELECT coalesce(sum(k.invocations), 0) FROM {kept.KERNEL} k JOIN source s USING (source_id)
              WHERE s.dataset = $d) AS launches,
             (SELECT count(*) FROM {kept.RUN} r JOIN source s USING (source_id) WHERE s.dataset = $d) AS runs,
             (SELECT count(*) FROM (
                SELECT DISTINCT r.gpu, r.mechanism, min(m.workload_id), max(m.workload_id)
                FROM member m JOIN {kept.RUN} r USING (run_id) JOIN source s ON s.source_id = r.source_id
                WHERE s.dataset = $d AND r.k = 2 GROUP BY r.run_id, r.gpu, r.mechanism)) AS pairs,
             (SELECT count(*) FROM model WHERE dataset = $d) AS models,
             (SELECT count(*) FROM evaluation WHERE dataset = $d) AS evaluations""",
        {"d": dataset},
    ).iloc[0]
    return {str(name): int(row[name]) for name in row.index}


def grid(database: Database, dataset: str) -> pd.DataFrame:
    """Say what is known of each workload on each GPU.

    Returns
    -------
    pd.DataFrame
        One row a workload and GPU that anything is known of: workload, family, gpu, profiled (bool), solo (bool),
        partners (workloads it was measured in a pair with, itself included), possible (workloads with a run or a solo
        on that GPU), largest_k (0 without a run).
    """
    return database.query(
        f"""WITH runs AS (
             SELECT r.gpu, r.run_id, r.k, m.workload_id, m.slot FROM member m JOIN {kept.RUN} r USING (run_id)
             JOIN source s ON s.source_id = r.source_id WHERE s.dataset = $d),
           profiled AS (SELECT DISTINCT p.gpu, p.workload_id FROM {kept.PROFILE} p JOIN workload w USING (workload_id)
                        WHERE w.dataset = $d),
           alone AS (SELECT DISTINCT o.gpu, o.workload_id FROM {kept.SOLO} o JOIN source s USING (source_id)
                     WHERE s.dataset = $d),
           partners AS (
             SELECT a.gpu, a.workload_id, count(DISTINCT b.workload_id) AS partners
             FROM runs a JOIN runs b ON b.run_id = a.run_id AND b.slot <> a.slot WHERE a.k = 2
             GROUP BY a.gpu, a.workload_id),
           largest AS (SELECT gpu, workload_id, max(k) AS k FROM runs GROUP BY gpu, workload_id),
           places AS (SELECT gpu, workload_id FROM runs UNION SELECT gpu, workload_id FROM profiled
                      UNION SELECT gpu, workload_id FROM alone),
           possible AS (SELECT gpu, count(*) AS n FROM (
                          SELECT gpu, workload_id FROM runs UNION SELECT gpu, workload_id FROM alone) GROUP BY gpu)
           SELECT w.name AS workload, w.family, p.gpu, q.workload_id IS NOT NULL AS profiled,
                  a.workload_id IS NOT NULL AS solo, coalesce(partners.partners, 0) AS partners,
                  coalesce(possible.n, 0) AS possible, coalesce(largest.k, 0) AS largest_k
           FROM places p JOIN workload w USING (workload_id)
           LEFT JOIN profiled q ON q.gpu = p.gpu AND q.workload_id = p.workload_id
           LEFT JOIN alone a ON a.gpu = p.gpu AND a.workload_id = p.workload_id
           LEFT JOIN partners ON partners.gpu = p.gpu AND partners.workload_id = p.workload_id
           LEFT JOIN largest ON largest.gpu = p.gpu AND largest.workload_id = p.workload_id
           LEFT JOIN possible ON possible.gpu = p.gpu
           ORDER BY w.family, w.name, p.gpu""",
        {"d": dataset},
    )


def basis(database: Database, dataset: str) -> dict[str, int]:
    """Count the sources of a data set and how many of them are simulated: sources, simulated."""
    row = database.query(
        "SELECT count(*) AS sources, count_if(simulated) AS simulated FROM source WHERE dataset = ?", [dataset]
    ).iloc[0]
    return {"sources": int(row["sources"]), "simulated": int(row["simulated"])}
