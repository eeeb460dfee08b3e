"""What can be said of jobs that were only profiled: for every pair a verdict, and for every job what to measure."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations_with_replacement
from typing import Any

import numpy as np
import pandas as pd

from analysis.errors import StallScopeError
from analysis.interference.decision import LIMIT, Case, Forecast, decide
from analysis.interference.memory import memory_fit
from analysis.predict.advise.square import predict_pairs
from analysis.predict.frame import profiles
from analysis.predict.models import evidence as tier
from analysis.predict.models import missing, untrained
from analysis.predict.models.gather import Gathered
from analysis.reference import gpus as reference
from analysis.reference.mechanism_names import MPS
from analysis.store.database import Database
from analysis.store.filters import Filter
from analysis.store.queries.sources import workloads

#: Jobs of which all pairs are listed; beyond, the table would be read by nobody.
MOST_JOBS = 24


def profiled(database: Database, dataset: str, gpus: Sequence[str] = ()) -> dict[str, list[str]]:
    """Return the profiled jobs on each GPU, the GPU with the most first; only some GPUs where they are named."""
    found: dict[str, list[str]] = {}
    known = workloads(database, Filter(datasets=(dataset,)))
    for job, places, count in zip(known["workload"], known["gpus"], known["profiles"], strict=True):
        for gpu in places if places is not None and count else ():
            if not gpus or gpu in gpus:
                found.setdefault(str(gpu), []).append(str(job))
    return dict(sorted(found.items(), key=lambda item: -len(item[1])))


def pairs(database: Database, dataset: str, gpu: str, mechanism: str = MPS, limit: float = LIMIT) -> pd.DataFrame:
    """Return a verdict on every pair of jobs that were profiled on a GPU, a job beside itself included.

    Parameters
    ----------
    database : Database
        The open database.
    dataset, gpu, mechanism : str
        Where they were profiled, as stored, and how they would share.
    limit : float
        Largest slowdown that each job may have.

    Returns
    -------
    pd.DataFrame
        One row a pair of at most `MOST_JOBS` jobs: workload, beside, slowdown and slowdown_beside (the white box's; NaN
        where it can't read a profile), memory, evidence, verdict, why.
    """
    jobs = profiled(database, dataset, (gpu,)).get(gpu, [])[:MOST_JOBS]
    of_job = _profiles(database, dataset, gpu, jobs)
    said = _white_box(database, dataset, gpu, mechanism, jobs)
    capacity = float(reference.load()["memory_mib"].get(gpu, np.nan))
    tiers = {job: tier.evidence_of(row) for job, row in of_job.items()}
    rows = []
    for (i, one), (j, other) in combinations_with_replacement(enumerate(jobs), 2):
        both = [of_job[one], of_job[other]]
        kinds = [row["memory_kind"] if isinstance(row["memory_kind"], str) else None for row in both]
        memory = memory_fit([float(row["peak_memory"]) for row in both], kinds, capacity)
        evidence = tier.weakest([tiers[one], tiers[other]])
        slowdowns = [float(said[i, j]), float(said[j, i])]
        decision = decide(Case(limit, memory, forecast=Forecast((slowdowns[0], slowdowns[1]), evidence=evidence)))
        rows.append((one, other, *slowdowns, memory, evidence, decision.verdict, decision.why))
    columns = ["workload", "beside", "slowdown", "slowdown_beside", "memory", "evidence", "verdict", "why"]
    return pd.DataFrame(rows, columns=columns)


def wanted(database: Database, dataset: str, gpu: str) -> dict[str, list[str]]:
    """Return what to measure on a GPU, each with the command that gets it, and of which jobs."""
    jobs = profiled(database, dataset, (gpu,)).get(gpu, [])
    of_job = _profiles(database, dataset, gpu, jobs)
    found: dict[str, list[str]] = {}
    for job, row in of_job.items():
        here = Gathered(pd.DataFrame(), {job: row}, gpu, MPS, (), calibrated=False)
        memory = "fits" if np.isfinite(float(row["peak_memory"])) else "unknown"
        for text in missing.missing_of(here, job, memory, "none", None):
            found.setdefault(text, []).append(job)
    return found


def _profiles(database: Database, dataset: str, gpu: str, jobs: Sequence[str]) -> dict[str, pd.Series[Any]]:
    table = profiles.collect(database, dataset)
    place = {key: row for row, key in enumerate(table.index)}
    nothing = pd.Series(np.nan, index=table.columns, dtype=object)
    return {job: table.iloc[place[gpu, job]] if (gpu, job) in place else nothing for job in jobs}


def _white_box(database: Database, dataset: str, gpu: str, mechanism: str, jobs: Sequence[str]) -> np.ndarray:
    """Return the white box's slowdown of every job beside every other; NaN where it has none."""
    try:
        untrained.card(database, dataset)
        values = predict_pairs(database, f"{untrained.NAME}:{dataset}", gpu, mechanism, jobs).values
    except StallScopeError:
        return np.full((len(jobs), len(jobs)), np.nan)
    return np.asarray(values.slowdown, dtype=np.float64)
