"""Predictions for a set of jobs: slowdown, interval, how far the model is out of its depth, evidence and verdict."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pandas as pd

from analysis.interference.decision import LIMIT, Case, Decision, Forecast, check_limit, decide
from analysis.interference.memory import capacity, memory_fit, peaks
from analysis.interference.ran import ran_sets
from analysis.predict.evaluate.folding import deviation_of
from analysis.predict.frame.naming import shown_number
from analysis.predict.frame.terms import schema
from analysis.predict.models import evidence as tier
from analysis.predict.models import missing
from analysis.predict.models.composing import composed
from analysis.predict.models.gather import UNCAPPED, Gathered, gather
from analysis.predict.models.manifest import Manifest
from analysis.store.database import Database

#: What is said where a model knows nothing of a job that it could use.
GUESS = (
    "the model knows nothing of a job that it could use, so that this is hardly more than its mean; with stall "
    "profiles the white box (model white-box:DATASET) says more"
)

#: A value this far beyond the training range, as a part of the range, still counts as inside.
MARGIN = 0.05


@dataclass(frozen=True)
class JobPrediction:
    """What a model says of one job in a set.

    Attributes
    ----------
    workload : str
        The job.
    co_workloads : tuple of str
        The others.
    slowdown : float
        S; NaN where no model answers.
    low, high : float or None
        Ends of the interval; None where no measured co-run stands behind one.
    coverage : float or None
        Nominal level of the interval in percent.
    groups, calibrated_by : int or None, str or None
        Left-out groups behind the interval, and the protocol they were left out by.
    extrapolating : bool
        Whether an input is outside of what the model has seen.
    reasons : tuple of str
        Which, in words.
    evidence : str
        Weakest evidence of the set: none, telemetry, counters, stalls; measured when this very set was; composed, or
        effects, where the runs of others answer.
    measured : float or None
        Median measured S of this job in this very set.
    memory : str
        fits, tight, does_not_fit, unknown.
    verdict, why : str
        share, don't or measure first, and the reason.
    missing : tuple of str
        What would make the answer better.
    simulated : bool
        Whether what stands as measured was run by a simulator.
    thread_percentage : float or None
        The client's cap under MPS; None without one.
    within_limit : float or None
        Probability in percent that every job of the set stays within the limit; None where it was measured, and where
        no calibration covers it.
    limit : float
        The limit of the verdict.
    worst : float or None
        The figure of the verdict: the largest S of the set.
    n : int
        Runs behind a measurement or composed pairs, left-out sets behind a probability.
    rests_on : str
        What the verdict rests on: measured, did not run, composed, or the evidence of a prediction.
    doubtful : tuple of str
        Jobs of the set whose baseline the data checks doubt, or that ran faster beside the others than alone.
    """

    workload: str
    co_workloads: tuple[str, ...]
    slowdown: float
    low: float | None
    high: float | None
    coverage: float | None
    groups: int | None
    calibrated_by: str | None
    extrapolating: bool
    reasons: tuple[str, ...]
    evidence: str
    measured: float | None
    memory: str
    verdict: str
    why: str
    missing: tuple[str, ...]
    simulated: bool = False
    thread_percentage: float | None = None
    within_limit: float | None = None
    limit: float = LIMIT
    worst: float | None = None
    n: int = 0
    rests_on: str = "none"
    doubtful: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return the fields as plain values; a slowdown that nobody knows is None."""
        return {**asdict(self), "slowdown": self.slowdown if np.isfinite(self.slowdown) else None}


def predict_jobs(
    database: Database,
    manifest: Manifest,
    estimator: Any,
    gpu: str,
    jobs: Sequence[str],
    mechanism: str | None = None,
    dataset: str | None = None,
    caps: Sequence[float | None] | None = None,
    limit: float = LIMIT,
) -> list[JobPrediction]:
    """Predict a set of jobs with a loaded model.

    Parameters
    ----------
    database : Database
        The open database.
    manifest, estimator
        As `models.load` returns them.
    gpu : str
        Where they would run, any way of writing it.
    jobs : sequence of str
        At least two workload names.
    mechanism : str, optional
        How they share; by default what the model has seen most.
    dataset : str, optional
        Where the jobs' profiles are; by default the model's data set, then any other.
    caps : sequence of float or None, optional
        MPS thread percentage of each job; None, or 100, for a client without a cap.
    limit : float
        Largest slowdown that each job may have.

    Returns
    -------
    list of JobPrediction
        One a job, in the order given.

    Raises
    ------
    NotFoundError
        If nothing is known of a job.
    UsageError
        With fewer than two jobs.
    """
    check_limit(limit)
    found = gather(database, manifest, gpu, jobs, mechanism, dataset, caps)
    predicted = np.asarray(estimator.predict(found.X), dtype=np.float64)
    reasons = [(*found.notes, *outside(manifest, found.X.iloc[[row]])) for row in range(len(jobs))]
    protocol = protocol_of(frozenset(manifest.workloads), jobs)
    # Sets of a size that never ran have nothing to calibrate on.
    calibration = manifest.calibrated(protocol) if found.calibrated and len(jobs) in manifest.k else None
    lows: list[float | None] = [None] * len(jobs)
    highs: list[float | None] = [None] * len(jobs)
    chance: tuple[float, int] | None = None
    if calibration is not None:
        deviation = deviation_of(estimator, found.X, calibration)
        low, high = calibration.interval(predicted, deviation)
        lows, highs = [float(value) for value in np.exp(low)], [float(value) for value in np.exp(high)]
        chance = calibration.within(predicted, float(np.log(limit)), deviation)
    sets = ran_sets(database, found.datasets, found.gpu, found.mechanism)
    here = sets.get(jobs, found.caps)
    measured = here.of(list(zip(jobs, found.caps, strict=True))) if here else ()
    read = read_quantities(manifest)
    tiers = [tier.evidence_of(found.profiles[job], read) for job in jobs]
    if read is not None and "none" in tiers and not set(jobs) <= set(manifest.workloads):
        reasons = [(*one, GUESS) for one in reasons]
    memory = memory_fit(*_peaks(database, found, jobs), capacity(found.gpu))
    slowdowns = np.exp(predicted)
    forecast = forecast_of(slowdowns, chance, manifest.runs, any(reasons), tier.weakest(tiers))
    # Pairs answer where no model does; those of clients with caps say nothing of others.
    if not forecast.known and all(cap == UNCAPPED for cap in found.caps):
        forecast = composed(database, found.datasets, found.gpu, found.mechanism, [tuple(jobs)])[0]
        slowdowns = np.asarray(forecast.slowdowns, dtype=np.float64)
    doubtful = sets.doubtful(jobs, here)
    case = Case(
        limit, memory, measured, here.worst if here else None, here.ran if here else 0, here.failed if here else 0,
        doubtful, forecast, bool(here and here.simulated),
    )  # fmt: skip
    decision: Decision = decide(case)
    evidence: str = "measured" if measured else tier.weakest(tiers)
    if not measured and forecast.known and forecast.basis != "predicted":
        evidence = forecast.basis
    return [
        JobPrediction(
            workload=job,
            co_workloads=tuple(jobs[:row]) + tuple(jobs[row + 1 :]),
            slowdown=float(slowdowns[row]),
            low=lows[row],
            high=highs[row],
            coverage=100.0 * calibration.level if calibration is not None else None,
            groups=calibration.groups if calibration is not None else None,
            calibrated_by=protocol if calibration is not None else None,
            extrapolating=bool(reasons[row]),
            reasons=tuple(reasons[row]),
            evidence=evidence,
            measured=measured[row] if measured else None,
            memory=case.memory_now,
            verdict=decision.verdict,
            why=decision.why,
            missing=missing.missing_of(found, job, memory, evidence, read, doubtful=job in doubtful),
            simulated=case.simulated,
            thread_percentage=found.caps[row] if found.caps[row] < UNCAPPED else None,
            within_limit=decision.within_limit,
            limit=limit,
            worst=decision.worst,
            n=decision.n,
            rests_on=decision.evidence,
            doubtful=doubtful,
        )
        for row, job in enumerate(jobs)
    ]


def forecast_of(
    slowdowns: Sequence[float] | np.ndarray[Any, Any],
    chance: tuple[float, int] | None,
    runs: int,
    extrapolating: bool,
    evidence: str,
) -> Forecast:
    """Return what a model says of a set: its figures, the probability of the limit, and how far out of its depth."""
    return Forecast(
        tuple(float(value) for value in slowdowns),
        chance[0] if chance else None,
        extrapolating,
        "predicted",
        chance[1] if chance else runs,
        evidence,
    )


def outside(manifest: Manifest, X: pd.DataFrame) -> list[str]:
    """Say which inputs of a row are beyond the training data, or unknown though the model uses them.

    One reason a quantity and owner: where a co-runner's value is too large, its sum and maximum say the same. What is
    unknown stands in one reason for the job and one for its co-runners.
    """
    found: dict[tuple[str, str], str] = {}
    unknown: dict[str, list[str]] = {}
    for name, (low, high) in manifest.ranges.items():
        value = float(X[name].iloc[0])
        slack = MARGIN * (high - low)
        column = schema()[name]
        if np.isnan(value):
            if column.whose in ("target", "co-runners") and column.what != "configuration":
                what = missing.BRACKETS.sub("", column.meaning).split(":")[0].split(",")[0].strip()
                if what not in (named := unknown.setdefault(column.whose, [])):
                    named.append(what)
        elif value < low - slack or value > high + slack:
            side, end, word = ("below", low, "least") if value < low else ("above", high, "most")
            shown, limit = shown_number(column, value), shown_number(column, end)
            text = f"{column.meaning} is {shown}, {side} {limit}, the {word} in training"
            found.setdefault((column.whose, column.quantity), text)
    whose = {"target": "its own profile", "co-runners": "the profile of those beside it"}
    lacking = [f"{whose[owner]} lacks {_listed(names)}" for owner, names in unknown.items()]
    return [*lacking, *found.values()]


def outside_rows(manifest: Manifest, X: pd.DataFrame) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Say of many rows at once whether `outside` would have a word on them."""
    found = np.zeros(len(X), dtype=bool)
    for name, (low, high) in manifest.ranges.items():
        values = X[name].to_numpy(dtype=np.float64)
        slack = MARGIN * (high - low)
        column = schema()[name]
        found |= (values < low - slack) | (values > high + slack)
        if column.whose in ("target", "co-runners") and column.what != "configuration":
            found |= np.isnan(values)
    return found


def _listed(names: Sequence[str], most: int = 3) -> str:
    """Return the first names of a list, and how many more there are."""
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more} more" if more > 0 else "")


#: Protocols whose left-out groups resemble sets of known jobs, and sets with a new one.
PROTOCOLS = ("unseen-pair", "leave-one-workload-out")


def protocol_of(learnt: frozenset[str], jobs: Sequence[str]) -> str:
    """Return the protocol whose left-out groups resemble a set, by the jobs that the model has learnt from."""
    return PROTOCOLS[0] if learnt.issuperset(jobs) else PROTOCOLS[1]


def _peaks(database: Database, found: Gathered, jobs: Sequence[str]) -> tuple[list[float], list[str | None]]:
    """Return each job's peak memory on the GPU and what kind it is; else that of its profile, wherever it is from."""
    known: dict[str, tuple[float, str | None]] = {}
    for job in dict.fromkeys(jobs):
        kind = found.profiles[job]["memory_kind"]
        known[job] = float(found.profiles[job]["peak_memory"]), kind if isinstance(kind, str) else None
    for name in found.datasets:
        here = peaks(database, name, found.gpu)
        for job in set(here.index) & set(known):
            kind = here.at[job, "memory_kind"]
            known[job] = float(here["peak_memory_mib"][job]), kind if isinstance(kind, str) else None
    return [known[job][0] for job in jobs], [known[job][1] for job in jobs]


def read_quantities(manifest: Manifest) -> set[str] | None:
    """Return the quantities that the model reads of a profile; None for one that goes by names or computes its own."""
    columns = [schema()[name] for name in manifest.columns]
    if not columns or any(column.what == "white box" for column in columns):
        return None
    return {column.quantity for column in columns}
