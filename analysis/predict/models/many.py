"""Predictions for many sets of jobs in one call: the jobs' profiles are read once, the model is asked once."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from analysis.errors import NotEnoughDataError, NotFoundError, UsageError
from analysis.interference.decision import LIMIT, Case, Decision, Forecast, Guess, check_limit, decide
from analysis.interference.memory import Memory, capacity, memory_fit, peaks
from analysis.interference.ran import ran_sets
from analysis.predict.evaluate.folding import deviation_of
from analysis.predict.evaluate.intervals import Calibration
from analysis.predict.frame import profiles, whitebox_sets
from analysis.predict.frame.features import rows_for_sets
from analysis.predict.frame.schema import Floats
from analysis.predict.frame.terms import WHITE_BOX
from analysis.predict.models import evidence as tier
from analysis.predict.models import models
from analysis.predict.models.composing import composed
from analysis.predict.models.jobs import PROTOCOLS, forecast_of, outside_rows, protocol_of, read_quantities
from analysis.predict.models.manifest import Manifest
from analysis.reference import gpus as reference
from analysis.store.database import Database

#: Sets that are predicted at once.
_BLOCK = 10_000


@dataclass(frozen=True)
class SetAnswer:
    """What is said of one set.

    Attributes
    ----------
    jobs : tuple of str
        The set.
    slowdowns : tuple of float
        S of each job, as measured, else as predicted or composed; NaN where unknown.
    memory : str
        As `memory_fit` says.
    extrapolating : bool
        Whether the prediction goes beyond what the model has seen.
    decision : Decision
        The verdict and what it rests on.
    """

    jobs: tuple[str, ...]
    slowdowns: tuple[float, ...]
    memory: Memory
    extrapolating: bool
    decision: Decision

    def to_json(self) -> dict[str, Any]:
        """Return it as one row of plain values."""
        said = self.decision
        return {
            "jobs": list(self.jobs),
            "slowdowns": [value if math.isfinite(value) else None for value in self.slowdowns],
            "worst": said.worst,
            "within_limit": said.within_limit,
            "limit": said.limit,
            "verdict": said.verdict,
            "evidence": said.evidence,
            "n": said.n,
            "memory": self.memory,
            "extrapolating": self.extrapolating,
            "why": said.why,
        }


def answers(
    database: Database,
    model_id: str,
    gpu: str,
    sets: Sequence[Sequence[str]],
    mechanism: str | None = None,
    limit: float = LIMIT,
) -> list[SetAnswer]:
    """Answer about many sets of a data set's jobs, as `models.predict` answers about one.

    Parameters
    ----------
    database : Database
        The open database.
    model_id : str
        A stored model, ``white-box:DATASET`` or ``no-model:DATASET``.
    gpu : str
        Where they would run, any way of writing it.
    sets : sequence of sequence of str
        Two workloads of the model's data set or more; a name may stand twice.
    mechanism : str, optional
        How they share; by default what the model has seen most.
    limit : float
        Largest slowdown that each job may have.

    Raises
    ------
    NotFoundError
        If the data set lacks a job.
    UsageError
        If a set has fewer than two jobs, or the limit is below 1.
    """
    check_limit(limit)
    wanted = [tuple(map(str, one)) for one in sets]
    if any(len(one) < 2 for one in wanted):
        number = next(number for number, one in enumerate(wanted, start=1) if len(one) < 2)
        raise UsageError(f"set {number} has fewer than two jobs", "Name two jobs or more for each set.")
    manifest, estimator = models.load(database, model_id)
    seen = reference.resolve(gpu, manifest.gpus)
    where = seen[0] if seen else reference.canonical(gpu)
    how = mechanism or manifest.mechanisms[0]
    forecasts = forecast_sets(database, manifest, estimator, where, how, wanted, limit, strange=not seen)
    ran = ran_sets(database, (manifest.dataset,), where, how)
    known, room = peaks(database, manifest.dataset, where), capacity(where)
    found = []
    for jobs, forecast in zip(wanted, forecasts, strict=True):
        here = ran.get(jobs)
        measured = here.of([(job, 100.0) for job in jobs]) if here else ()
        at = known.reindex(list(jobs))
        kinds = [kind if isinstance(kind, str) else None for kind in at["memory_kind"]]
        peak = [float(value) for value in at["peak_memory_mib"]]
        memory = memory_fit(peak, kinds, room)
        case = Case(
            limit, memory, measured, here.worst if here else None, here.ran if here else 0, here.failed if here else 0,
            ran.doubtful(jobs, here), forecast, bool(here and here.simulated),
        )  # fmt: skip
        found.append(
            SetAnswer(jobs, measured or forecast.slowdowns, case.memory_now, forecast.extrapolating, decide(case))
        )
    return found


def guess_of(database: Database, model_id: str, gpu: str, mechanism: str, limit: float) -> Guess:
    """Return a model's forecasts as `joining` and `safe_partners` take them; none where it can't be asked.

    Parameters
    ----------
    database, model_id, limit
        As `answers`.
    gpu, mechanism : str
        As stored.
    """
    manifest, estimator = models.load(database, model_id)
    strange = not reference.resolve(gpu, manifest.gpus)

    def guess(sets: list[tuple[str, ...]]) -> list[Forecast]:
        try:
            return forecast_sets(database, manifest, estimator, gpu, mechanism, sets, limit, strange=strange)
        except (NotEnoughDataError, NotFoundError):
            return [Forecast((math.nan,) * len(jobs)) for jobs in sets]

    return guess


@dataclass(frozen=True)
class Foreseen:
    """What a model says of one set, ready to be held against any limit.

    Attributes
    ----------
    logs : ndarray, shape (members,)
        Predicted ln S.
    deviation : ndarray or None
        Their standard deviations, where the calibration is scaled by them.
    calibration : Calibration or None
        That of the left-out groups which resemble the set; None where none covers it.
    extrapolating : bool
        Whether the set goes beyond what the model has seen.
    runs : int
        Runs behind the model.
    evidence : str
        Weakest evidence of the jobs' profiles.
    """

    logs: Floats
    deviation: Floats | None
    calibration: Calibration | None
    extrapolating: bool
    runs: int
    evidence: str

    @property
    def slowdowns(self) -> tuple[float, ...]:
        """S of each member; NaN where the model has no figure."""
        return tuple(np.exp(self.logs).tolist())

    def chance(self, limits: float | Sequence[float]) -> tuple[float, int] | None:
        """Return the probability that every member stays within its limit, and the left-out sets behind it."""
        if self.calibration is None:
            return None
        return self.calibration.within(self.logs, np.log(np.asarray(limits, dtype=np.float64)), self.deviation)

    def ends(self) -> tuple[Floats, Floats] | None:
        """Return the ends of the interval of each S; None without a calibration."""
        if self.calibration is None:
            return None
        low, high = self.calibration.interval(self.logs, self.deviation)
        return np.exp(low), np.exp(high)

    def at(self, limit: float) -> Forecast:
        """Return what it says at a limit."""
        return forecast_of(np.exp(self.logs), self.chance(limit), self.runs, self.extrapolating, self.evidence)


def forecast_sets(
    database: Database,
    manifest: Manifest,
    estimator: Any,
    gpu: str,
    mechanism: str,
    sets: Sequence[tuple[str, ...]],
    limit: float,
    *,
    strange: bool = False,
) -> list[Forecast]:
    """Return what a loaded model says of many sets; the measured pairs stand in where it has no figure.

    Parameters
    ----------
    database, manifest, estimator, gpu, mechanism, limit
        As `answers`, the names as stored.
    sets : sequence of tuple of str
        The sets.
    strange : bool
        Whether the model has not seen the GPU.
    """
    seen = foresee(database, manifest, estimator, gpu, mechanism, sets, strange=strange)
    found = [one.at(limit) for one in seen]
    lacking = [place for place, one in enumerate(found) if not one.known]
    pairs = composed(database, (manifest.dataset,), gpu, mechanism, [sets[at] for at in lacking])
    for place, one in zip(lacking, pairs, strict=True):
        found[place] = one
    return found


def foresee(
    database: Database,
    manifest: Manifest,
    estimator: Any,
    gpu: str,
    mechanism: str,
    sets: Sequence[tuple[str, ...]],
    *,
    strange: bool = False,
) -> list[Foreseen]:
    """Ask a loaded model about many sets, whatever the limit; parameters as `forecast_sets`."""
    if not sets:
        return []
    table = profiles.collect(database, manifest.dataset)
    if WHITE_BOX in manifest.columns:
        table = whitebox_sets.attach(table, database, manifest.dataset)
    known = set(table.index.get_level_values("workload").astype(str))
    unknown = [job for job in dict.fromkeys(job for one in sets for job in one) if job not in known]
    if unknown:
        raise NotFoundError(
            f"there is no workload {unknown[0]!r} in data set {manifest.dataset}",
            "Import its profile, or take the set out.",
        )
    read = read_quantities(manifest)
    blank = pd.Series(np.nan, index=table.columns, dtype=object)
    places = {key: row for row, key in enumerate(table.index)}
    tiers = {
        job: tier.evidence_of(table.iloc[places[gpu, job]] if (gpu, job) in places else blank, read)
        for job in dict.fromkeys(job for one in sets for job in one)
    }
    apart = strange or mechanism not in manifest.mechanisms
    learnt = frozenset(manifest.workloads)
    calibrations = {name: manifest.calibrated(name) for name in PROTOCOLS}
    found: list[Foreseen] = []
    for first in range(0, len(sets), _BLOCK):
        block = list(sets[first : first + _BLOCK])
        X = rows_for_sets(table, block, gpu, mechanism)
        predicted = np.asarray(estimator.predict(X), dtype=np.float64)
        beyond = outside_rows(manifest, X)
        deviations: dict[str, Floats | None] = {}
        start = 0
        for jobs in block:
            rows = slice(start, start + len(jobs))
            start += len(jobs)
            protocol = protocol_of(learnt, jobs)
            covered = not apart and manifest.runs > 0 and len(jobs) in manifest.k
            calibration = calibrations[protocol] if covered else None
            if calibration is not None and protocol not in deviations:
                deviations[protocol] = deviation_of(estimator, X, calibration)
            spread = deviations[protocol] if calibration is not None else None
            new = read is not None and not learnt.issuperset(jobs)
            guessed = new and any(tiers[job] == "none" for job in jobs)
            strayed = bool(beyond[rows].any()) or apart or (manifest.runs > 0 and not covered) or guessed
            found.append(
                Foreseen(
                    predicted[rows], None if spread is None else spread[rows], calibration, strayed, manifest.runs,
                    tier.weakest([tiers[job] for job in jobs]),
                )
            )  # fmt: skip
    return found
