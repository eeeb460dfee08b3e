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
from analysis.predict.frame import profiles, whitebox_sets
from analysis.predict.frame.features import rows_for_sets
from analysis.predict.frame.terms import WHITE_BOX
from analysis.predict.models import evidence as tier
from analysis.predict.models import models
from analysis.predict.models.composing import composed
from analysis.predict.models.jobs import forecast_of, outside_rows, protocol_of, read_quantities
from analysis.predict.models.manifest import Manifest
from analysis.reference import gpus as reference
from analysis.store.database import Database


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
        memory = memory_fit([float(value) for value in at["peak_memory_mib"]], kinds, room)
        case = Case(
            limit, memory, measured, here.worst if here else None, here.ran if here else 0, here.failed if here else 0,
            ran.doubtful(jobs, here), forecast, bool(here and here.simulated),
        )  # fmt: skip
        found.append(SetAnswer(jobs, measured or forecast.slowdowns, memory, forecast.extrapolating, decide(case)))
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
    X = rows_for_sets(table, list(sets), gpu, mechanism)
    predicted = np.asarray(estimator.predict(X), dtype=np.float64)
    beyond = outside_rows(manifest, X)
    read = read_quantities(manifest)
    blank = pd.Series(np.nan, index=table.columns, dtype=object)
    places = {key: row for row, key in enumerate(table.index)}
    tiers = {
        job: tier.evidence_of(table.iloc[places[gpu, job]] if (gpu, job) in places else blank, read)
        for job in dict.fromkeys(job for one in sets for job in one)
    }
    apart = strange or mechanism not in manifest.mechanisms
    deviations: dict[str, Any] = {}
    found, start = [], 0
    for jobs in sets:
        rows = slice(start, start + len(jobs))
        start += len(jobs)
        protocol = protocol_of(manifest, jobs)
        covered = not apart and manifest.runs > 0 and len(jobs) in manifest.k
        calibration = manifest.calibrated(protocol) if covered else None
        chance = None
        if calibration is not None:
            if protocol not in deviations:
                deviations[protocol] = deviation_of(estimator, X, calibration)
            spread = deviations[protocol]
            chance = calibration.within(predicted[rows], float(np.log(limit)), None if spread is None else spread[rows])
        new = read is not None and not set(jobs) <= set(manifest.workloads)
        guessed = new and any(tiers[job] == "none" for job in jobs)
        strayed = bool(beyond[rows].any()) or apart or (manifest.runs > 0 and not covered) or guessed
        weakest = tier.weakest([tiers[job] for job in jobs])
        found.append(forecast_of(np.exp(predicted[rows]), chance, manifest.runs, strayed, weakest))
    lacking = [place for place, one in enumerate(found) if not one.known]
    for place, one in zip(
        lacking, composed(database, (manifest.dataset,), gpu, mechanism, [sets[at] for at in lacking]), strict=True
    ):
        found[place] = one
    return found
