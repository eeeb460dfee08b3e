"""One more job on a GPU: who may join a set, by measurement, else by a model, else by the composition of pairs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from analysis.errors import NotFoundError
from analysis.interference.decision import Case, Forecast, Guess, check_limit, decide
from analysis.interference.matrix import DID_NOT_RUN, FLAGGED, MEASURED, NOT_MEASURED, slowdown_matrix
from analysis.interference.memory import capacity, memory_fit, memory_sentence, needs, peaks
from analysis.interference.ran import RanSets, ran_sets
from analysis.interference.sets import compose, doubtful_pair, figures, measured_sets
from analysis.numbers import significant
from analysis.store.database import Database

MEASURED_SET, PREDICTED_SET, COMPOSED_SET = "measured", "predicted by the model", "composed of pairs"
EFFECTS_SET = "effects of each job"


def joining(
    database: Database,
    dataset: str,
    gpu: str | None,
    mechanism: str | None,
    jobs: Sequence[str],
    *,
    limit: float,
    guess: Guess | None = None,
) -> pd.DataFrame:
    """Judge every workload that could join jobs which share a GPU already.

    Parameters
    ----------
    database : Database
        The open database.
    dataset : str
        Data set.
    gpu, mechanism : str, optional
        See `analysis.interference.choose.choose`.
    jobs : sequence of str
        The jobs that are there, one or more; a name may stand twice.
    limit : float
        Largest slowdown that each member may have, at least 1.
    guess : callable, optional
        A model's forecasts for sets that were not measured. Without it, and for what it does not know, the additive
        composition of the measured pairs stands in, and says so.

    Returns
    -------
    pd.DataFrame
        One row a workload, the best first: partner, k, basis (measured, predicted by the model, composed of pairs, or
        none), worst, stp, stp_gain (over the jobs without it, NaN where those were not measured), antt, fairness, jain,
        slowdowns (tuple: the jobs', then its own), state, within, memory, needed_mib, capacity_mib, safe (the
        verdict is share), verdict, why, within_limit, evidence, n and limit (as `decide` says), failed, sentence.

    Raises
    ------
    NotFoundError, UsageError
        If a job is not in the matrix, the limit is below 1, or as `choose`.
    """
    check_limit(limit)
    matrix = slowdown_matrix(database, dataset, gpu, mechanism)
    for job in jobs:
        if job not in matrix.workloads:
            raise NotFoundError(f"{job!r} was not measured on {matrix.gpu}", "Choose a workload of the matrix.")
    sets = measured_sets(database, dataset, matrix.gpu, matrix.mechanism or None)
    there: dict[tuple[str, ...], Any] = {tuple(row["jobs"]): row for row in sets.to_dict("records")}
    before = _stp_of(there, jobs)
    wanted = {name: (*jobs, name) for name in matrix.workloads}
    unknown = [name for name, full in wanted.items() if _missing(there, full)]
    guessed = dict(zip(unknown, guess([wanted[name] for name in unknown]), strict=True)) if guess and unknown else {}
    known, room = peaks(database, dataset, matrix.gpu), capacity(matrix.gpu)
    clients = ran_sets(database, (dataset,), matrix.gpu, matrix.mechanism)
    rows = []
    for name, full in wanted.items():
        one = there.get(tuple(sorted(full)))
        state, basis, failed, slow = NOT_MEASURED, "none", 0, (math.nan,) * len(full)
        forecast: Forecast | None = None
        worst = math.nan
        if one is not None:
            failed = int(one["failed"])
            state = DID_NOT_RUN if one["ran"] == 0 else FLAGGED if one["flagged"] else MEASURED
            if not _missing(there, full):
                basis, slow = MEASURED_SET, _in_order(one["jobs"], one["slowdowns"], full)
                worst = float(one["worst"])
        if basis == "none" and state != DID_NOT_RUN:
            forecast = guessed.get(name)
            if forecast is not None and forecast.known:
                basis, slow, state = PREDICTED_SET, forecast.slowdowns, NOT_MEASURED
                if forecast.basis != "predicted":
                    basis = COMPOSED_SET if forecast.basis == "composed" else EFFECTS_SET
                    state = FLAGGED if doubtful_pair(matrix, full) else NOT_MEASURED
            else:
                composed = compose(matrix, full)
                if all(math.isfinite(value) for value in composed):
                    basis, slow = COMPOSED_SET, composed
                    forecast = Forecast(composed, None, False, "composed", matrix.n, "measured")
                    state = FLAGGED if doubtful_pair(matrix, full) else NOT_MEASURED
        worst = max(slow) if math.isnan(worst) else worst
        rows.append(_row(name, full, basis, state, slow, worst, failed, limit, before, known, room,
                         clients, forecast))  # fmt: skip
    table = pd.DataFrame(rows)
    rank = {MEASURED_SET: 0, PREDICTED_SET: 1, COMPOSED_SET: 2, EFFECTS_SET: 2, "none": 3}
    table["rank"] = table["basis"].map(rank) + 4 * table["state"].isin([DID_NOT_RUN, FLAGGED])
    table = table.sort_values(["safe", "within", "rank", "worst"], ascending=[False, False, True, True], kind="stable")
    return table.drop(columns="rank").reset_index(drop=True)


def _missing(there: dict[tuple[str, ...], Any], full: Sequence[str]) -> bool:
    one = there.get(tuple(sorted(full)))
    return one is None or not math.isfinite(one["stp"])


def _stp_of(there: dict[tuple[str, ...], Any], jobs: Sequence[str]) -> float:
    if len(jobs) == 1:
        return 1.0
    one = there.get(tuple(sorted(jobs)))
    return math.nan if one is None else float(one["stp"])


def _in_order(names: Sequence[str], values: Sequence[float], wanted: Sequence[str]) -> tuple[float, ...]:
    """Members of one name have one value, so that the order among them does not matter."""
    of = dict(zip(names, values, strict=True))
    return tuple(of[name] for name in wanted)


def _row(
    name: str, full: tuple[str, ...], basis: str, state: str, slow: tuple[float, ...], worst: float, failed: int,
    limit: float, before: float, known: pd.DataFrame, room: float, clients: RanSets, forecast: Forecast | None,
) -> dict[str, Any]:  # fmt: skip
    found = figures(slow)
    within = bool(state in (MEASURED, NOT_MEASURED) and worst <= limit) if basis != "none" else False
    at = known.reindex(list(full))
    kinds = [kind if isinstance(kind, str) else None for kind in at["memory_kind"]]
    peak = [float(value) for value in at["peak_memory_mib"]]
    here = clients.get(full)
    memory = memory_fit(peak, kinds, room)
    taken = needs(peak, kinds)
    needed = float(np.nansum(taken) if memory == "does_not_fit" else taken.sum())
    case = Case(
        limit, memory, here.of([(job, 100.0) for job in full]) if here else (), here.worst if here else None,
        here.ran if here else 0, here.failed if here else 0, clients.doubtful(full, here), forecast,
        bool(here and here.simulated),
    )  # fmt: skip
    decision = decide(case)
    words = {
        DID_NOT_RUN: "This set did not run.", NOT_MEASURED: "This set was never measured.",
    }  # fmt: skip
    about_memory = memory_sentence(case.memory_now, needed, room, ran=case.fitted)
    said = f"The worst of the {len(full)} slows down by {significant(worst)} x ({basis})." if basis != "none" else ""
    return {
        "partner": name, "k": len(full), "basis": basis, "worst": worst, "stp": found["stp"],
        "stp_gain": found["stp"] - before, "antt": found["antt"], "fairness": found["fairness"], "jain": found["jain"],
        "slowdowns": slow, "state": state, "within": within, "memory": case.memory_now, "needed_mib": needed,
        "capacity_mib": room, "safe": decision.verdict == "share",
        "verdict": decision.verdict, "why": decision.why, "within_limit": decision.within_limit,
        "evidence": decision.evidence, "n": decision.n, "limit": limit, "failed": failed,
        "sentence": " ".join(filter(None, [said or words.get(state, ""), about_memory])),
    }  # fmt: skip
