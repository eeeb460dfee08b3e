"""Predictions for a set of jobs: slowdown, interval, how far the model is out of its depth, evidence and verdict."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pandas as pd

from analysis.interference.memory import memory_fit
from analysis.interference.rules.baselines import FASTER_THAN_ALONE, flagged_workloads
from analysis.predict.evaluate.folding import deviation_of
from analysis.predict.frame.naming import shown_number
from analysis.predict.frame.terms import schema
from analysis.predict.models import missing, verdict
from analysis.predict.models.gather import UNCAPPED, Gathered, gather
from analysis.predict.models.manifest import Manifest
from analysis.reference import gpus as reference
from analysis.store.database import Database
from analysis.store.filters import Filter
from analysis.store.queries import coruns

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
        Weakest evidence of the set: none, telemetry, counters, stalls; measured when this very set was.
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
    found = gather(database, manifest, gpu, jobs, mechanism, dataset, caps)
    predicted = np.asarray(estimator.predict(found.X), dtype=np.float64)
    slowdowns = np.exp(predicted)
    reasons = [(*found.notes, *outside(manifest, found.X.iloc[[row]])) for row in range(len(jobs))]
    protocol = _protocol(manifest, jobs)
    # Sets of a size that never ran have nothing to calibrate on.
    calibration = manifest.calibrated(protocol) if found.calibrated and len(jobs) in manifest.k else None
    lows: list[float | None] = [None] * len(jobs)
    highs: list[float | None] = [None] * len(jobs)
    if calibration is not None:
        low, high = calibration.interval(predicted, deviation_of(estimator, found.X, calibration))
        lows, highs = [float(value) for value in np.exp(low)], [float(value) for value in np.exp(high)]
    measured, simulated = _measured(database, found, jobs)
    read = _read(manifest)
    tiers = [verdict.evidence_of(found.profiles[job], read) for job in jobs]
    if read is not None and "none" in tiers and not set(jobs) <= set(manifest.workloads):
        reasons = [(*one, GUESS) for one in reasons]
    evidence = "measured" if all(value is not None for value in measured) else verdict.weakest(tiers)
    memory = memory_fit(
        [float(found.profiles[job]["peak_memory"]) for job in jobs],
        [_kind(found.profiles[job]) for job in jobs],
        _capacity(found.gpu),
    )
    known = [value if value is not None else float(slow) for value, slow in zip(measured, slowdowns, strict=True)]
    basis = known if evidence == "measured" else [float(value) for value in slowdowns]
    doubtful = _doubtful(database, found, jobs, measured)
    decision, why = verdict.verdict(
        memory,
        basis,
        lows,
        highs,
        extrapolating=any(reasons),
        evidence=evidence,
        simulated=simulated,
        doubtful=doubtful,
    )
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
            measured=measured[row],
            memory=memory,
            verdict=decision,
            why=why,
            missing=missing.missing_of(found, job, memory, evidence, read, doubtful=job in doubtful),
            simulated=simulated,
            thread_percentage=found.caps[row] if found.caps[row] < UNCAPPED else None,
        )
        for row, job in enumerate(jobs)
    ]


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


def _listed(names: Sequence[str], most: int = 3) -> str:
    """Return the first names of a list, and how many more there are."""
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more} more" if more > 0 else "")


def _protocol(manifest: Manifest, jobs: Sequence[str]) -> str:
    """Return the protocol whose left-out groups resemble this set."""
    return "unseen-pair" if set(jobs) <= set(manifest.workloads) else "leave-one-workload-out"


def _measured(database: Database, found: Gathered, jobs: Sequence[str]) -> tuple[list[float | None], bool]:
    """Return each job's median S in runs of exactly these jobs here, and whether a simulator ran them.

    Runs of capped clients answer another question than runs without caps.
    """
    chosen = Filter(
        datasets=found.datasets, gpus=(found.gpu,), mechanisms=(found.mechanism,), workloads=tuple(dict.fromkeys(jobs))
    )
    members = coruns.with_partners(database, chosen)
    if members.empty:
        return [None] * len(jobs), False
    here = members[(members["gpu"] == found.gpu) & (members["mechanism"] == found.mechanism)]
    cap = here["thread_percentage"].fillna(UNCAPPED)
    clients: list[Any] = list(zip(here["workload"].astype(str), cap.astype(float), strict=True))
    here = here.assign(client=pd.Series(clients, index=here.index, dtype=object))
    wanted = sorted(zip(jobs, found.caps, strict=True))
    runs = [run for run, found_clients in here.groupby("run_id")["client"] if sorted(found_clients) == wanted]
    same = here[here["run_id"].isin(runs) & here["slowdown"].notna()]
    medians = {str(job): float(value) for job, value in same.groupby("client")["slowdown"].median().items()}
    answers = [medians.get(str(client)) for client in zip(jobs, found.caps, strict=True)]
    return answers, bool(same["simulated"].any())


def _doubtful(
    database: Database, found: Gathered, jobs: Sequence[str], measured: Sequence[float | None]
) -> tuple[str, ...]:
    """Return the jobs whose slowdown proves nothing: a flagged baseline, or faster beside others than alone."""
    flagged = {name for one in found.datasets for _, name in flagged_workloads(database, one, found.gpu)}
    fast = {job for job, value in zip(jobs, measured, strict=True) if value is not None and value < FASTER_THAN_ALONE}
    return tuple(dict.fromkeys(job for job in jobs if job in flagged | fast))


def _capacity(gpu: str) -> float:
    known = reference.load()
    return float(known["memory_mib"].get(gpu, np.nan))


def _kind(profile: pd.Series[Any]) -> str | None:
    kind = profile["memory_kind"]
    return kind if isinstance(kind, str) else None


def _read(manifest: Manifest) -> set[str] | None:
    """Return the quantities that the model reads of a profile; None for one that goes by names or computes its own."""
    columns = [schema()[name] for name in manifest.columns]
    if not columns or any(column.what == "white box" for column in columns):
        return None
    return {column.quantity for column in columns}
