"""Who may sit beside a job: how much each suffers and hurts, and which pairs are safe at a limit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pandas as pd

from analysis.errors import NotFoundError
from analysis.interference.decision import Case, Forecast, Guess, check_limit, decide, measured_verdicts
from analysis.interference.matrix import DID_NOT_RUN, FLAGGED, MEASURED, NOT_MEASURED, SlowdownMatrix, slowdown_matrix
from analysis.interference.memory import TIGHT, capacity, memory_fit, memory_sentence, needs, peaks
from analysis.interference.rules.baselines import FASTER_THAN_ALONE
from analysis.numbers import significant
from analysis.store.database import Database
from analysis.store.queries import pairs as runs_of_two
from analysis.store.queries import sources

Places: TypeAlias = npt.NDArray[np.intp]


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
    return judge_pairs(database, dataset, gpu, mechanism, limit=limit, workload=workload, guess=guess).with_words()


@dataclass(frozen=True, eq=False)
class JudgedPairs:
    """Pairs with their figures; the sentences on a row are made when it is shown.

    Attributes
    ----------
    table : pd.DataFrame
        The columns of `safe_partners` without why and sentence, in their order, and the numbers of the row.
    case_of : callable
        Gives the case of a pair by the positions of its workloads.
    kinds : tuple of str or None
        What each workload's peak of memory is.
    fitted : ndarray of bool
        Whether a pair ran every time, n x n.
    """

    table: pd.DataFrame
    case_of: Callable[[int, int], Case]
    kinds: tuple[str | None, ...]
    fitted: npt.NDArray[np.bool_]

    def with_words(self, start: int = 0, stop: int | None = None) -> pd.DataFrame:
        """Return rows with the decision's words, as `safe_partners` says."""
        rows = self.table.iloc[start:stop]
        why, sentences = [], []
        words = ("slowdown", "partner_slowdown", "worst", "state", "within", "limit", "memory", "needed_mib")
        columns = [rows[name].tolist() for name in ("first", "second", *words, "capacity_mib")]
        for i, j, own, other, worst, state, within, limit, memory, needed, room in zip(*columns, strict=True):
            why.append(decide(self.case_of(i, j)).why)
            told = memory_sentence(memory, needed, room, [self.kinds[i], self.kinds[j]], ran=bool(self.fitted[i, j]))
            sentences.append(_sentence(min(own, other), worst, state, within, limit, told))
        rows = rows.drop(columns=["first", "second"])
        rows.insert(list(rows.columns).index("verdict") + 1, "why", why)
        return rows.assign(sentence=sentences)


def judge_pairs(
    database: Database,
    dataset: str,
    gpu: str | None,
    mechanism: str | None = None,
    *,
    limit: float,
    workload: str | None = None,
    guess: Guess | None = None,
    matrix: SlowdownMatrix | None = None,
) -> JudgedPairs:
    """Judge pairs as `safe_partners` does, all of them at once, and leave the sentences for later.

    Parameters
    ----------
    database, dataset, gpu, mechanism, limit, workload, guess
        As for `safe_partners`.
    matrix : SlowdownMatrix, optional
        The matrix of this place, where it is at hand.

    Raises
    ------
    NotFoundError, UsageError
        As `safe_partners`.
    """
    check_limit(limit)
    matrix = slowdown_matrix(database, dataset, gpu, mechanism) if matrix is None else matrix
    size = len(matrix.workloads)
    if workload is None:
        i, j = np.triu_indices(size)
    elif workload in matrix.workloads:
        i, j = np.full(size, matrix.workloads.index(workload)), np.arange(size)
    else:
        raise NotFoundError(f"{workload!r} was not measured on {matrix.gpu}", "Choose a workload of the matrix.")
    ran = _Outcomes.of(database, matrix)
    room = capacity(matrix.gpu)
    taken, kinds, peak = _needs(database, matrix)
    fitted = (ran.ran > 0) & (ran.failed == 0)
    memory, needed = _memory(taken[i], taken[j], room, fitted[i, j])
    unknown = (ran.fine[i, j] == 0) & (ran.failed[i, j] == 0)
    forecasts: dict[tuple[int, int], Forecast] = {}
    if guess and unknown.any():
        places = list(zip(i[unknown].tolist(), j[unknown].tolist(), strict=True))
        said = guess([(matrix.workloads[a], matrix.workloads[b]) for a, b in places])
        forecasts = dict(zip(places, said, strict=True))

    def case_of(a: int, b: int) -> Case:
        jobs = (matrix.workloads[a], matrix.workloads[b])
        fine = ran.fine[a, b] > 0
        return Case(
            limit,
            memory_fit([peak[a], peak[b]], [kinds[a], kinds[b]], room),
            (float(ran.slowdown[a, b]), float(ran.slowdown[b, a])) if fine else (),
            float(ran.worst[a, b]) if fine else None,
            int(ran.ran[a, b]),
            int(ran.failed[a, b]),
            tuple(dict.fromkeys(job for job, at in zip(jobs, ((a, b), (b, a)), strict=True) if ran.doubted[at])),
            forecasts.get((a, b)),
            bool(ran.simulated[a, b]),
        )

    own, other = matrix.slowdown[i, j], matrix.slowdown[j, i]
    state = _of_both(matrix.state[i, j], matrix.state[j, i])
    # The two of a self pair have one cell, their mean; the worse of them decides.
    worst = np.where(i == j, matrix.worst[i, j], np.maximum(own, other))
    measured = state == MEASURED
    with np.errstate(invalid="ignore"):
        within = measured & (worst <= limit)
        fast = measured & (np.minimum(own, other) < FASTER_THAN_ALONE)
    decided = _decided(ran, i, j, memory, limit, case_of)
    names = np.array(matrix.workloads, dtype=object)
    table = pd.DataFrame(
        {
            "workload": names[i], "partner": names[j], "slowdown": own, "partner_slowdown": other, "worst": worst,
            "stp": matrix.stp[i, j], "antt": matrix.antt[i, j], "fairness": matrix.fairness[i, j],
            "jain": matrix.jain[i, j], "state": state.astype(object), "within": within, "memory": memory,
            "needed_mib": needed, "capacity_mib": room, "safe": decided["verdict"] == "share",
            "doubtful": fast | (state == FLAGGED), "runs": matrix.runs[i, j], "failed": matrix.failed[i, j],
            "capped": matrix.capped[i, j], **decided, "limit": limit, "first": i, "second": j,
        }
    )  # fmt: skip
    rank = table["state"].map({MEASURED: 0, FLAGGED: 1, DID_NOT_RUN: 2, NOT_MEASURED: 3}).to_numpy()
    # Of several keys the last is the first; not a number goes last.
    order = np.lexsort([np.where(np.isnan(worst), np.inf, worst), rank, table["doubtful"], ~within, ~table["safe"]])
    return JudgedPairs(table.iloc[order].reset_index(drop=True), case_of, tuple(kinds), fitted)


@dataclass(frozen=True, eq=False)
class _Outcomes:
    """What ran of exactly two uncapped clients, n x n: the row's value beside the column."""

    ran: npt.NDArray[np.int64]
    failed: npt.NDArray[np.int64]
    fine: npt.NDArray[np.int64]
    slowdown: npt.NDArray[np.float64]
    worst: npt.NDArray[np.float64]
    doubted: npt.NDArray[np.bool_]
    simulated: npt.NDArray[np.bool_]

    @classmethod
    def of(cls, database: Database, matrix: SlowdownMatrix) -> _Outcomes:
        size = len(matrix.workloads)
        found = runs_of_two.outcomes(database, (matrix.dataset,), matrix.gpu, matrix.mechanism)
        position = {name: at for at, name in enumerate(matrix.workloads)}
        place = sources.workload_names(database, matrix.dataset)["workload"].map(position)
        first, second = (place.reindex(found[name]).to_numpy(float) for name in ("first_id", "second_id"))
        inside = np.isfinite(first) & np.isfinite(second)
        found = found[inside]
        a, b = first[inside].astype(int), second[inside].astype(int)
        slow, other = found["first_slowdown"].to_numpy(float), found["second_slowdown"].to_numpy(float)

        def spread(values: npt.ArrayLike, mirrored: npt.ArrayLike, nothing: float, kind: type) -> npt.NDArray[Any]:
            matrix_of: npt.NDArray[Any] = np.full((size, size), nothing, dtype=kind)
            matrix_of[a, b], matrix_of[b, a] = values, mirrored
            return matrix_of

        def alike(values: npt.ArrayLike, nothing: float, kind: type) -> npt.NDArray[Any]:
            return spread(values, values, nothing, kind)

        flagged = np.array([name in matrix.flagged for name in matrix.workloads], dtype=bool)
        with np.errstate(invalid="ignore"):
            own = found["first_marked"].to_numpy(bool) | (slow < FASTER_THAN_ALONE)
            beside = found["second_marked"].to_numpy(bool) | (other < FASTER_THAN_ALONE)
        return cls(
            alike(found["ran"], 0, np.int64), alike(found["failed"], 0, np.int64),
            alike(np.isfinite(slow), 0, np.int64), spread(slow, other, np.nan, np.float64),
            alike(found["worst"], np.nan, np.float64), spread(own, beside, 0, np.bool_) | flagged[:, None],
            alike(found["simulated"], 0, np.bool_),
        )  # fmt: skip


def _decided(
    ran: _Outcomes, i: Places, j: Places, memory: npt.NDArray[Any], limit: float, case_of: Callable[[int, int], Case]
) -> dict[str, npt.NDArray[Any]]:
    """Return verdict, figure, within_limit, evidence and n: at once where the set ran, else as `decide` says."""
    verdict = np.full(len(i), "", dtype=object)
    figure, within = np.full(len(i), np.nan), np.full(len(i), np.nan)
    evidence, n = np.full(len(i), "measured", dtype=object), ran.ran[i, j]
    fine = ran.fine[i, j] > 0
    own, other, worst = ran.slowdown[i, j], ran.slowdown[j, i], ran.worst[i, j]
    verdict[fine] = measured_verdicts(
        1 / own[fine] + 1 / other[fine], worst[fine], (ran.doubted[i, j] | ran.doubted[j, i])[fine],
        memory[fine] == "unknown", limit,
    )  # fmt: skip
    figure[fine] = worst[fine]
    for at in np.flatnonzero(~fine):
        said = decide(case_of(int(i[at]), int(j[at])))
        verdict[at], figure[at], within[at] = said.verdict, said.worst, said.within_limit
        evidence[at], n[at] = said.evidence, said.n
    return {
        "verdict": verdict, "figure": figure, "within_limit": within,
        "evidence": evidence, "n": n,
    }  # fmt: skip


def _of_both(own: npt.NDArray[np.str_], other: npt.NDArray[np.str_]) -> npt.NDArray[np.str_]:
    """Return the state of pairs: what is worse of both sides."""
    state = np.full(len(own), MEASURED, dtype="<U12")
    for one in (FLAGGED, NOT_MEASURED, DID_NOT_RUN):
        state[(own == one) | (other == one)] = one
    return state


def _needs(database: Database, matrix: SlowdownMatrix) -> tuple[npt.NDArray[np.float64], list[str | None], list[float]]:
    """Return the MiB that each workload takes, and the kind and value of its peak."""
    known = peaks(database, matrix.dataset, matrix.gpu).reindex(list(matrix.workloads))
    kinds = [kind if isinstance(kind, str) else None for kind in known["memory_kind"]]
    peak = [float(value) for value in known["peak_memory_mib"]]
    return needs(peak, kinds), kinds, peak


def _memory(
    own: npt.NDArray[np.float64], other: npt.NDArray[np.float64], room: float, ran: npt.NDArray[np.bool_]
) -> tuple[npt.NDArray[Any], npt.NDArray[np.float64]]:
    """Return `memory_fit` and the MiB needed of pairs: NaN where unknown, unless what is known is too much already."""
    known, taken = np.nan_to_num(own) + np.nan_to_num(other), own + other
    verdict = np.full(len(own), "fits", dtype=object)
    with np.errstate(invalid="ignore"):
        verdict[known > TIGHT * room] = "tight"
        verdict[np.isnan(taken) | np.isnan(room)] = "unknown"
        verdict[known > room] = "does_not_fit"
        verdict[((known > room) | (verdict == "unknown")) & ran] = "fits"  # as `after_running` says
    return verdict, np.where(verdict == "does_not_fit", known, taken)


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
