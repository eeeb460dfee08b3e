"""Runs of two, brought by the database to one row a directed pair, or one a pair: small answers from many rows."""

from __future__ import annotations

from typing import Any

import pandas as pd

from analysis.store import counted
from analysis.store.database import Database

#: Marks of a member whose slowdown is no measurement of it.
DOUBTFUL_FLAGS = ("clipped", "hard_coded")

_DOUBTFUL = f"list_has_any(m.flags, [{', '.join(repr(flag) for flag in DOUBTFUL_FLAGS)}])"
_CAPPED = "coalesce(m.thread_percentage < 100, false) OR m.memory_cap_mib IS NOT NULL"

#: Metrics of a run of two, as functions of both slowdowns; fairness and Jain's index are the same in S as in 1/S.
_METRICS = {
    "stp": "1 / own + 1 / other",
    "antt": "(own + other) / 2",
    "fairness": "least(own, other) / greatest(own, other)",
    "jain": "(own + other) ** 2 / (2 * (own ** 2 + other ** 2))",
    "worst": "greatest(own, other)",
}
_MEDIANS = ("own", *_METRICS, "p99")


def _sides(database: Database, capped: bool) -> str:
    """Return CTEs that end in ``side``: one row a member of a run of two, beside its partner.

    Where a pair ran both with and without client caps, ``kept`` is false for the runs with caps.
    """
    kept = (
        "true"
        if not capped
        else "NOT capped OR NOT bool_or(NOT capped) OVER (PARTITION BY least(w, p), greatest(w, p))"
    )
    return f"""
        one AS (
          SELECT m.run_id, m.slot, m.workload_id AS w, m.outcome = 'ran' AS ran, m.slowdown AS s,
                 m.p99_corun_ms / m.p99_solo_ms AS p99, {_CAPPED} AS capped, {_DOUBTFUL} AS doubtful, m.left_out,
                 r.source_id
          FROM {counted.member(database)} m JOIN {counted.run(database)} r ON r.run_id = m.run_id
               JOIN source o ON o.source_id = r.source_id
          WHERE o.dataset = $dataset AND r.gpu = $gpu AND r.mechanism = $mechanism AND r.k = 2),
        met AS (
          SELECT a.run_id, a.slot, a.w, b.w AS p, a.ran AND b.ran AS ran, a.s, b.s AS t, a.p99, a.doubtful,
                 a.capped OR b.capped AS capped, a.left_out, a.source_id
          FROM one a JOIN one b ON b.run_id = a.run_id AND b.slot <> a.slot),
        side AS (SELECT *, {kept} AS kept FROM met)"""


def _bound(dataset: str, gpu: str, mechanism: str) -> dict[str, Any]:
    return {"dataset": dataset, "gpu": gpu, "mechanism": mechanism}


def any_capped(database: Database, dataset: str, gpu: str, mechanism: str) -> bool:
    """Say whether any client of a run of two was capped: fewer than all threads, or a limit of memory."""
    return bool(
        database.scalar(
            f"""SELECT count(*) > 0 FROM member m JOIN {counted.run(database)} r ON r.run_id = m.run_id
                JOIN source o ON o.source_id = r.source_id
                WHERE o.dataset = $dataset AND r.gpu = $gpu AND r.mechanism = $mechanism AND r.k = 2 AND ({_CAPPED})""",
            _bound(dataset, gpu, mechanism),
        )
    )


def capped_runs(database: Database, dataset: str, gpu: str, mechanism: str) -> tuple[int, int]:
    """Count runs of two with capped clients: those whose pair also ran without caps, and those whose pair did not."""
    found = database.query(
        f"""WITH {_sides(database, True)}
            SELECT count(DISTINCT run_id) FILTER (NOT kept) AS beside,
                   count(DISTINCT run_id) FILTER (kept) AS only
            FROM side WHERE capped""",
        _bound(dataset, gpu, mechanism),
    ).iloc[0]
    return int(found["beside"]), int(found["only"])


def cells(database: Database, dataset: str, gpu: str, mechanism: str, *, capped: bool) -> pd.DataFrame:
    """Bring the runs of two to one row a directed pair: first both members of a self pair to their mean, then repeats.

    Parameters
    ----------
    database : Database
        The open database.
    dataset, gpu, mechanism : str
        As stored.
    capped : bool
        Whether there are runs with capped clients, see `any_capped`; pairs that also ran without count without them.

    Returns
    -------
    pd.DataFrame
        workload_id, partner_id, slowdown (median of the runs), low, high, stp, antt, fairness, jain, worst, p99
        (medians), ran and failed (runs of either kind), capped (whether a client was in any of them), left_out
        (whether the user left out every value), doubtful (every run that ran has a marked value), known (any member
        has a value, or had one that was left out).
    """
    metrics = ", ".join(
        f"CASE WHEN own IS NOT NULL AND other IS NOT NULL THEN {formula} END AS {name}"
        for name, formula in _METRICS.items()
    )
    means = ", ".join(f"avg({name}) AS {name}" for name in _MEDIANS)
    # Of one or two runs the median is the middle of the smallest and the largest, which costs a tenth.
    middles = ", ".join(f"(min({name}) + max({name})) / 2 AS {name}" for name in _MEDIANS)
    medians = ", ".join(f"median({name}) AS {name}" for name in _MEDIANS)
    chosen = ", ".join(f"CASE WHEN f.runs > 2 THEN n.{name} ELSE f.{name} END AS {name}" for name in _METRICS)
    return database.query(
        f"""WITH {_sides(database, capped)},
            valued AS (
              SELECT run_id, w, p, ran, doubtful, capped, left_out, s IS NOT NULL OR left_out AS known,
                     CASE WHEN ran THEN s END AS own, CASE WHEN ran THEN t END AS other,
                     CASE WHEN ran THEN p99 END AS p99
              FROM side WHERE kept),
            rated AS (SELECT run_id, w, p, ran, doubtful, capped, left_out, known, own, {metrics}, p99 FROM valued),
            single AS (
              SELECT w, p, ran, doubtful, capped, left_out, known, {", ".join(_MEDIANS)} FROM rated WHERE w <> p
              UNION ALL
              SELECT w, p, bool_and(ran), bool_or(doubtful), bool_or(capped), bool_and(left_out), bool_or(known),
                     {means}
              FROM rated WHERE w = p GROUP BY w, p, run_id),
            few AS (
              SELECT w, p, count(*) AS runs, count(*) FILTER (ran) AS ran, min(own) AS low, max(own) AS high,
                     bool_or(capped) AS capped, bool_and(left_out) AS left_out,
                     coalesce(bool_and(doubtful) FILTER (ran), false) AS doubtful, bool_or(known) AS known, {middles}
              FROM single GROUP BY w, p),
            many AS (
              SELECT w, p, {medians} FROM single
              WHERE (w, p) IN (SELECT (w, p) FROM few WHERE runs > 2) GROUP BY w, p)
            SELECT f.w AS workload_id, f.p AS partner_id,
                   CASE WHEN f.runs > 2 THEN n.own ELSE f.own END AS slowdown, f.low, f.high, {chosen},
                   CASE WHEN f.runs > 2 THEN n.p99 ELSE f.p99 END AS p99,
                   f.ran::INTEGER AS ran, (f.runs - f.ran)::INTEGER AS failed, f.capped, f.left_out, f.doubtful, f.known
            FROM few f LEFT JOIN many n ON n.w = f.w AND n.p = f.p""",
        _bound(dataset, gpu, mechanism),
    )


def cell_sources(
    database: Database, dataset: str, gpu: str, mechanism: str, workloads: list[int] | None, *, capped: bool
) -> pd.DataFrame:
    """Return the sources of the runs of two that count: source_id, simulated.

    Parameters
    ----------
    database, dataset, gpu, mechanism, capped
        As for `cells`.
    workloads : list of int or None
        Only runs of two of these; None for all.
    """
    if workloads is None and not capped:
        return database.query(
            f"""SELECT DISTINCT o.source_id, o.simulated FROM {counted.run(database)} r
                JOIN source o ON o.source_id = r.source_id
                WHERE o.dataset = $dataset AND r.gpu = $gpu AND r.mechanism = $mechanism AND r.k = 2""",
            _bound(dataset, gpu, mechanism),
        )
    inside = "" if workloads is None else "AND list_contains($inside, w) AND list_contains($inside, p)"
    return database.query(
        f"""WITH {_sides(database, capped)}
            SELECT source_id, simulated FROM source WHERE source_id IN (
                SELECT source_id FROM side WHERE kept {inside})""",
        _bound(dataset, gpu, mechanism) | ({} if workloads is None else {"inside": workloads}),
    )


def outcomes(database: Database, datasets: tuple[str, ...], gpu: str, mechanism: str) -> pd.DataFrame:
    """Bring the runs of two clients without a thread percentage below 100 to one row a pair.

    Returns
    -------
    pd.DataFrame
        first_id and second_id (of the workloads, the smaller one first), ran and failed (runs), first_slowdown and
        second_slowdown (medians over the runs whose values are all known; both members of a self pair share their
        mean), worst (largest S of a run, its median), first_marked and second_marked (every such run has a marked
        value of it), simulated (any run).
    """
    return database.query(
        f"""WITH one AS (
              SELECT m.run_id, m.slot, m.workload_id AS w, r.outcome = 'ran' AS ran,
                     CASE WHEN r.outcome = 'ran' AND m.outcome = 'ran' AND isfinite(m.slowdown)
                          THEN m.slowdown END AS s,
                     coalesce(m.thread_percentage, 100) AS cap, {_DOUBTFUL} AS marked, o.simulated
              FROM {counted.member(database)} m JOIN {counted.run(database)} r ON r.run_id = m.run_id
                   JOIN source o ON o.source_id = r.source_id
              WHERE list_contains($datasets, o.dataset) AND r.gpu = $gpu AND r.mechanism = $mechanism),
            sized AS (SELECT run_id FROM one GROUP BY run_id HAVING count(*) = 2 AND bool_and(cap = 100)),
            pair AS (
              SELECT a.w AS first, b.w AS second, a.ran, a.ran AND a.s IS NOT NULL AND b.s IS NOT NULL AS fine,
                     CASE WHEN a.w = b.w THEN (a.s + b.s) / 2 ELSE a.s END AS s,
                     CASE WHEN a.w = b.w THEN (a.s + b.s) / 2 ELSE b.s END AS t, greatest(a.s, b.s) AS worst,
                     a.marked OR (a.w = b.w AND b.marked) AS s_marked, b.marked OR (a.w = b.w AND a.marked) AS t_marked,
                     a.simulated
              FROM one a JOIN one b ON b.run_id = a.run_id AND (a.w < b.w OR (a.w = b.w AND a.slot < b.slot))
              WHERE a.run_id IN (SELECT run_id FROM sized)),
            few AS (
              SELECT first, second, count(*) AS runs, count(*) FILTER (ran) AS ran, count(*) FILTER (fine) AS fine,
                     (min(s) FILTER (fine) + max(s) FILTER (fine)) / 2 AS s,
                     (min(t) FILTER (fine) + max(t) FILTER (fine)) / 2 AS t,
                     (min(worst) FILTER (fine) + max(worst) FILTER (fine)) / 2 AS worst,
                     coalesce(bool_and(s_marked) FILTER (fine), false) AS s_marked,
                     coalesce(bool_and(t_marked) FILTER (fine), false) AS t_marked, bool_or(simulated) AS simulated
              FROM pair GROUP BY first, second),
            many AS (
              SELECT first, second, median(s) AS s, median(t) AS t, median(worst) AS worst FROM pair
              WHERE fine AND (first, second) IN (SELECT (first, second) FROM few WHERE few.fine > 2)
              GROUP BY first, second)
            SELECT f.first AS first_id, f.second AS second_id, f.ran::INTEGER AS ran,
                   (f.runs - f.ran)::INTEGER AS failed,
                   CASE WHEN f.fine > 2 THEN n.s ELSE f.s END AS first_slowdown,
                   CASE WHEN f.fine > 2 THEN n.t ELSE f.t END AS second_slowdown,
                   CASE WHEN f.fine > 2 THEN n.worst ELSE f.worst END AS worst,
                   f.s_marked AS first_marked, f.t_marked AS second_marked, f.simulated
            FROM few f LEFT JOIN many n ON n.first = f.first AND n.second = f.second""",
        {"datasets": list(datasets), "gpu": gpu, "mechanism": mechanism},
    )


def lowest(database: Database, dataset: str | None, gpu: str | None, again: pd.DataFrame) -> pd.DataFrame:
    """Return each workload's smallest slowdown over its partners in runs of two; repeats count as their median.

    Members under a thread percentage below 100 or on a MIG slice are left out.

    Parameters
    ----------
    database : Database
        The open database.
    dataset, gpu : str or None
        Restrict to one data set, one GPU.
    again : pd.DataFrame
        More slowdowns that count: dataset, gpu, workload, partner, slowdown, thread_percentage, mig_profile.

    Returns
    -------
    pd.DataFrame
        dataset, gpu, workload, minimum, gentlest (that partner; of several the first by name), partners (how many).
    """
    whole = "NOT coalesce(thread_percentage < 100, false) AND mig_profile IS NULL AND slowdown IS NOT NULL"
    extra = ""
    bound: dict[str, Any] = {"dataset": dataset, "gpu": gpu}
    if len(again):
        extra = "UNION ALL SELECT unnest($names), unnest($gpus), unnest($jobs), unnest($partners), unnest($values)"
        kept = again[~(again["thread_percentage"].astype(float) < 100) & again["mig_profile"].isna()]
        columns = {"names": "dataset", "gpus": "gpu", "jobs": "workload", "partners": "partner", "values": "slowdown"}
        bound |= {key: kept[name].tolist() for key, name in columns.items()}
    return database.query(
        f"""WITH one AS (
              SELECT m.run_id, m.slot, m.workload_id, o.dataset, r.gpu, m.slowdown, m.thread_percentage, m.mig_profile
              FROM {counted.member(database)} m JOIN {counted.run(database)} r ON r.run_id = m.run_id
                   JOIN source o ON o.source_id = r.source_id
              WHERE r.k = 2 AND ($dataset IS NULL OR o.dataset = $dataset) AND ($gpu IS NULL OR r.gpu = $gpu)),
            few AS (
              SELECT a.dataset, a.gpu, a.workload_id AS w, b.workload_id AS p, count(*) AS runs,
                     (min(a.slowdown) + max(a.slowdown)) / 2 AS slowdown
              FROM (SELECT * FROM one WHERE {whole}) a JOIN one b ON b.run_id = a.run_id AND b.slot <> a.slot
              GROUP BY ALL),
            named AS (
              SELECT f.dataset, f.gpu, x.name AS workload, y.name AS partner, f.runs, f.slowdown
              FROM few f JOIN workload x ON x.workload_id = f.w JOIN workload y ON y.workload_id = f.p),
            raw AS (
              SELECT a.dataset, a.gpu, x.name AS workload, y.name AS partner, a.slowdown
              FROM (SELECT * FROM one WHERE {whole}) a JOIN one b ON b.run_id = a.run_id AND b.slot <> a.slot
                   JOIN workload x ON x.workload_id = a.workload_id JOIN workload y ON y.workload_id = b.workload_id
              WHERE (a.dataset, a.gpu, a.workload_id, b.workload_id) IN (
                  SELECT (dataset, gpu, w, p) FROM few WHERE {"true" if extra else "runs > 2"}) {extra}),
            cell AS (
              {"" if extra else "SELECT dataset, gpu, workload, partner, slowdown FROM named WHERE runs <= 2 UNION ALL"}
              SELECT dataset, gpu, workload, partner, median(slowdown) AS slowdown FROM raw
              GROUP BY dataset, gpu, workload, partner),
            least_of AS (
              SELECT dataset, gpu, workload, min(slowdown) AS minimum, count(*) AS partners FROM cell GROUP BY ALL)
            SELECT l.dataset, l.gpu, l.workload, l.minimum, min(c.partner) AS gentlest, l.partners
            FROM least_of l JOIN cell c ON c.dataset = l.dataset AND c.gpu = l.gpu AND c.workload = l.workload
                 AND c.slowdown = l.minimum
            GROUP BY ALL ORDER BY l.dataset, l.gpu, l.workload""",
        bound,
    )


def peaks(database: Database, dataset: str, gpu: str) -> pd.DataFrame:
    """Return each workload's largest peak memory in its co-runs on a GPU: workload, peak_memory_mib, memory_kind."""
    return database.query(
        f"""WITH here AS (
              SELECT m.workload_id AS w, m.run_id, m.slot, m.peak_memory_mib AS peak, m.memory_kind AS kind
              FROM member m JOIN {counted.run(database)} r ON r.run_id = m.run_id
                   JOIN source o ON o.source_id = r.source_id
              WHERE o.dataset = $dataset AND r.gpu = $gpu AND m.peak_memory_mib IS NOT NULL),
            largest AS (SELECT w, max(peak) AS peak FROM here GROUP BY w),
            first AS (
              SELECT h.w, any_value(h.peak) AS peak, arg_min({{'kind': h.kind}}, (h.run_id, h.slot)) AS kind
              FROM here h JOIN largest l ON l.w = h.w AND l.peak = h.peak GROUP BY h.w)
            SELECT w.name AS workload, f.peak AS peak_memory_mib, f.kind.kind AS memory_kind
            FROM first f JOIN workload w ON w.workload_id = f.w""",
        {"dataset": dataset, "gpu": gpu},
    )
