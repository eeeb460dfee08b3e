"""What the measured runs say of a set that never ran, where no model answers: its pairs, else the jobs' effects."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from analysis.errors import StallScopeError
from analysis.interference.decision import Forecast
from analysis.interference.matrix import slowdown_matrix
from analysis.interference.sets import compose
from analysis.predict.frame import features, profiles
from analysis.predict.frame.features import rows_for_sets
from analysis.predict.predictors.effects import Effects
from analysis.store.database import Database

#: Measured runs from which on effects are told apart at all.
LEAST_RUNS = 2


def composed(
    database: Database, datasets: Sequence[str], gpu: str, mechanism: str, sets: Sequence[tuple[str, ...]]
) -> list[Forecast]:
    """Answer for sets from the runs alone: add up their measured pairs, else what each job suffers and does.

    Parameters
    ----------
    database : Database
        The open database.
    datasets : sequence of str
        Where the jobs are; pairs of two data sets are never put together.
    gpu, mechanism : str
        As stored.
    sets : sequence of tuple of str
        The sets.

    Returns
    -------
    list of Forecast
        One a set, without a probability. Three jobs and more: 1 + the sum of (S - 1) beside each of the others. Where a
        pair is unknown: how sensitive each job is and how hard the others press, by least squares over all runs. NaN
        where a job never ran.
    """
    nothing = [Forecast((math.nan,) * len(jobs)) for jobs in sets]
    if len(datasets) != 1 or not sets:
        return nothing
    try:
        matrix = slowdown_matrix(database, datasets[0], gpu, mechanism or None)
    except StallScopeError:  # nothing ran there
        return nothing
    found = [
        Forecast(compose(matrix, jobs), None, False, "composed", matrix.n, "measured") if len(jobs) > 2 else empty
        for jobs, empty in zip(sets, nothing, strict=True)
    ]
    lacking = [place for place, one in enumerate(found) if not one.known]
    by_effects = _effects(database, datasets[0], gpu, matrix.mechanism, [sets[place] for place in lacking])
    for place, one in zip(lacking, by_effects, strict=True):
        found[place] = one if one.known else nothing[place]
    return found


def _effects(
    database: Database, dataset: str, gpu: str, mechanism: str, sets: Sequence[tuple[str, ...]]
) -> list[Forecast]:
    nothing = [Forecast((math.nan,) * len(jobs)) for jobs in sets]
    if not sets:
        return nothing
    learnt = database.cached("effects", (dataset, gpu, mechanism), lambda: _learn(database, dataset, gpu, mechanism))
    if learnt is None:
        return nothing
    model, jobs_there, runs = learnt
    places = [place for place, one in enumerate(sets) if jobs_there.issuperset(one)]
    if not places:
        return nothing
    asked = [sets[place] for place in places]
    said = np.exp(model.predict(rows_for_sets(profiles.collect(database, dataset), asked, gpu, mechanism)))
    start = 0
    for place, one in zip(places, asked, strict=True):
        values = tuple(float(value) for value in said[start : start + len(one)])
        start += len(one)
        nothing[place] = Forecast(values, None, False, "effects", runs, "measured")
    return nothing


def _learn(database: Database, dataset: str, gpu: str, mechanism: str) -> tuple[Effects, frozenset[str], int] | None:
    try:
        frame = features.build(database, dataset, [gpu], [mechanism])
    except StallScopeError:  # no run with a sound baseline
        return None
    if frame.runs < LEAST_RUNS:
        return None
    return Effects().fit(frame.X, frame.y), frozenset(frame.workloads), frame.runs
