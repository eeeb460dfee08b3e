"""Who may sit beside a job: how much each suffers and hurts, and which pairs are safe at a limit."""

from __future__ import annotations

import numpy as np
import pandas as pd

from analysis.errors import NotFoundError
from analysis.interference.decision import Case, Forecast, Guess, check_limit, decide
from analysis.interference.matrix import DID_NOT_RUN, FLAGGED, NOT_MEASURED, SlowdownMatrix, slowdown_matrix
from analysis.interference.memory import after_running, capacity, memory_fit, memory_sentence, needs, peaks
from analysis.interference.ran import RanSets, ran_sets
from analysis.interference.rules.baselines import FASTER_THAN_ALONE
from analysis.numbers import significant
from analysis.store.database import Database


def sensitivity_and_pressure(matrix: SlowdownMatrix) -> pd.DataFrame:
    """Return how much each workload suffers and how much it hurts.

    Parameters
    ----------
    matrix : SlowdownMatrix
        The pairs. Rows of workloads with a doubtful solo baseline count for nothing.

    Returns
    -------
    pd.DataFrame
        One row a workload: workload, family, suffers (its median S over partners, itself included), suffers_low,
        suffers_high, hurts (median S of the others beside it), hurts_low, hurts_high, partners (how many it was
        measured with), failed (with how many it did not run), flagged. NaN where nothing is known.
    """
    doubtful = np.array([name in matrix.flagged for name in matrix.workloads], dtype=bool)
    values = np.where(doubtful[:, None], np.nan, matrix.slowdown)
    rows = []
    for place, name in enumerate(matrix.workloads):
        others = np.arange(len(matrix.workloads)) != place
        rows.append(
            {
                "workload": name,
                "family": matrix.families[place],
                **_spread("suffers", values[place]),
                **_spread("hurts", values[others, place]),
                "partners": int((~np.isnan(matrix.slowdown[place])).sum()),
                "failed": int((matrix.state[place] == DID_NOT_RUN).sum()),
                "flagged": bool(doubtful[place]),
            }
        )
    return pd.DataFrame(rows)


def safe_partners(
    database: Database,
    dataset: str,
    gpu: str | None,
    mechanism: str | None = None,
    *,
    limit: float,
    workload: str | None = None,
    guess: Guess | None = None,
) -> pd.DataFrame:
    """Judge every pair, or every partner of one workload, against a limit.

    A pair is safe when the decision on it says share, the one that is asked everywhere. With memory unknown it is not
    called safe, however well it ran: that it ran once, at one size, is no proof for the peak.

    Parameters
    ----------
    database : Database
        The open database.
    dataset : str
        Data set.
    gpu, mechanism : str, optional
        See `analysis.interference.choose.choose`.
    limit : float
        Largest slowdown that each member may have, at least 1.
    workload : str, optional
        Only pairs with this one, from its side.
    guess : callable, optional
        A model's forecasts for pairs that were not measured.

    Returns
    -------
    pd.DataFrame
        One row a pair (each once, or for one workload each of its partners), the best first: workload, partner,
        slowdown, partner_slowdown, worst, stp, antt, fairness, jain,
        state (of the pair: measured, not_measured, did_not_run, flagged),
        within (both within the limit), memory (fits, tight, does_not_fit, unknown), needed_mib, capacity_mib, safe,
        doubtful (flagged, or one of them faster beside the other than alone: never called safe),
        runs, failed (runs that did not run), capped (whether a client behind it was), verdict, why,
        figure (worst S, as measured or predicted), within_limit, evidence, n and limit (as `decide` says), sentence.

    Raises
    ------
    NotFoundError, UsageError
        If the workload is not in the matrix, the limit is below 1, or as `choose`.
    """
    check_limit(limit)
    matrix = slowdown_matrix(database, dataset, gpu, mechanism)
    known = peaks(database, dataset, matrix.gpu)
    room = capacity(matrix.gpu)
    size = len(matrix.workloads)
    if workload is None:
        pairs = [(i, j) for i in range(size) for j in range(i, size)]
    elif workload in matrix.workloads:
        at = matrix.workloads.index(workload)
        pairs = [(at, j) for j in range(size)]
    else:
        raise NotFoundError(f"{workload!r} was not measured on {matrix.gpu}", "Choose a workload of the matrix.")
    clients = ran_sets(database, (dataset,), matrix.gpu, matrix.mechanism)
    sets: list[tuple[str, ...]] = [(matrix.workloads[i], matrix.workloads[j]) for i, j in pairs]
    unknown = [one for one in sets if (here := clients.get(one)) is None or not (here.slowdowns or here.failed)]
    guessed = dict(zip(unknown, guess(unknown), strict=True)) if guess and unknown else {}
    rows = [
        _judge(matrix, i, j, limit, known, room, clients, guessed.get(one))
        for (i, j), one in zip(pairs, sets, strict=True)
    ]
    table = pd.DataFrame(rows)
    order = {"measured": 0, FLAGGED: 1, DID_NOT_RUN: 2, NOT_MEASURED: 3}
    table["rank"] = table["state"].map(order)
    sort = ["safe", "within", "doubtful", "rank", "worst"]
    table = table.sort_values(sort, ascending=[False, False, True, True, True], kind="stable")
    return table.drop(columns="rank").reset_index(drop=True)


def never_meet(pairs: pd.DataFrame) -> pd.DataFrame:
    """Return the pairs that should never meet: they did not run, or together take longer than in turn (STP below 1).

    Parameters
    ----------
    pairs : pd.DataFrame
        As `safe_partners` gives them.

    Returns
    -------
    pd.DataFrame
        Those rows with why (``did not run together`` or ``slower than in turn``), the worst first.
    """
    failed = pairs["state"] == DID_NOT_RUN
    slower = (pairs["state"] == "measured") & (pairs["stp"] < 1)
    found = pairs[failed | slower].copy()
    found["why"] = np.where(failed[failed | slower], "did not run together", "slower than in turn")
    return found.sort_values(["why", "stp"], kind="stable").reset_index(drop=True)


def did_not_run_pairs(matrix: SlowdownMatrix) -> pd.DataFrame:
    """Return the unordered pairs that did not run together: workload, partner."""
    found = [(i, j) for i, j in np.argwhere(matrix.state == DID_NOT_RUN) if i <= j]
    names = matrix.workloads
    return pd.DataFrame([(names[i], names[j]) for i, j in found], columns=["workload", "partner"])


def _judge(matrix: SlowdownMatrix, i: int, j: int, limit: float, known: pd.DataFrame, room: float,
           clients: RanSets, forecast: Forecast | None) -> dict[str, object]:  # fmt: skip
    own, other = float(matrix.slowdown[i, j]), float(matrix.slowdown[j, i])
    states = {str(matrix.state[i, j]), str(matrix.state[j, i])}
    state = next((s for s in (DID_NOT_RUN, NOT_MEASURED, FLAGGED) if s in states), "measured")
    # The two of a self pair have one cell, their mean; the worse of them decides.
    worst = float(matrix.worst[i, j]) if i == j else max(own, other) if not np.isnan(own + other) else np.nan
    within = state == "measured" and worst <= limit
    fast = state == "measured" and min(own, other) < FASTER_THAN_ALONE
    names = [matrix.workloads[i], matrix.workloads[j]]
    there = known.reindex(names)
    kinds = [kind if isinstance(kind, str) else None for kind in there["memory_kind"]]
    peak = [float(value) for value in there["peak_memory_mib"]]
    here = clients.get(names)
    ran = here.ran if here else 0
    fitted = ran > 0 and not (here and here.failed)
    memory = after_running(memory_fit(peak, kinds, room), fitted)
    # Of what is unknown the sum is unknown too, but what is known can be too much already.
    taken = needs(peak, kinds)
    needed = float(np.nansum(taken) if memory == "does_not_fit" else taken.sum())
    told = memory_sentence(memory, needed, room, kinds, ran=fitted)
    measured = here.of([(job, 100.0) for job in names]) if here else ()
    decision = decide(
        Case(
            limit, memory, measured, here.worst if here else None, ran, here.failed if here else 0,
            clients.doubtful(names, here), forecast, bool(here and here.simulated),
        )
    )  # fmt: skip
    return {
        "workload": names[0],
        "partner": names[1],
        "slowdown": own,
        "partner_slowdown": other,
        "worst": worst,
        "stp": float(matrix.stp[i, j]),
        "antt": float(matrix.antt[i, j]),
        "fairness": float(matrix.fairness[i, j]),
        "jain": float(matrix.jain[i, j]),
        "state": state,
        "within": within,
        "memory": memory,
        "needed_mib": needed,
        "capacity_mib": room,
        "safe": decision.verdict == "share",
        "doubtful": fast or state == FLAGGED,
        "runs": int(matrix.runs[i, j]),
        "failed": int(matrix.failed[i, j]),
        "capped": bool(matrix.capped[i, j]),
        "verdict": decision.verdict,
        "why": decision.why,
        "figure": decision.worst,
        "within_limit": decision.within_limit,
        "evidence": decision.evidence,
        "n": decision.n,
        "limit": limit,
        "sentence": _sentence(min(own, other), worst, state, within, limit, told),
    }


def _of(needed_mib: float, capacity_mib: float) -> str:
    return f"{significant(needed_mib / 1024)} of {significant(capacity_mib / 1024)} GiB"


def _sentence(best: float, worst: float, state: str, within: bool, limit: float, memory: str) -> str:
    if state == DID_NOT_RUN:
        return f"They did not run together. {memory}"
    if state == NOT_MEASURED:
        return f"They were never measured together. {memory}"
    largest = significant(worst) if not np.isnan(worst) else "unknown"
    if state == FLAGGED:
        return f"The slowdowns are doubtful (worst {largest} x): a solo baseline or a value is flagged. {memory}"
    if best < FASTER_THAN_ALONE:
        return (
            f"One of them was faster beside the other than alone ({significant(best)} x): its baseline is off. {memory}"
        )
    side = "within" if within else "beyond"
    return f"The worse of the two slows down by {largest} x, {side} the limit of {limit:g} x. {memory}"


def _spread(name: str, values: np.ndarray[tuple[int], np.dtype[np.float64]]) -> dict[str, float]:
    known = values[~np.isnan(values)]
    if known.size == 0:
        return {name: np.nan, f"{name}_low": np.nan, f"{name}_high": np.nan}
    return {name: float(np.median(known)), f"{name}_low": float(known.min()), f"{name}_high": float(known.max())}
