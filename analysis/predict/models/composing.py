"""What the measured pairs of a set say of it, where it never ran and no model answers."""

from __future__ import annotations

import math
from collections.abc import Sequence

from analysis.errors import StallScopeError
from analysis.interference.decision import Forecast
from analysis.interference.matrix import slowdown_matrix
from analysis.interference.sets import compose
from analysis.store.database import Database


def composed(
    database: Database, datasets: Sequence[str], gpu: str, mechanism: str, sets: Sequence[tuple[str, ...]]
) -> list[Forecast]:
    """Add up the measured pairs of sets of three jobs and more.

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
        One a set: 1 + the sum of (S - 1) beside each of the others, NaN where a pair is unknown; no probability.
    """
    nothing = [Forecast((math.nan,) * len(jobs)) for jobs in sets]
    if len(datasets) != 1 or all(len(jobs) < 3 for jobs in sets):
        return nothing
    try:
        matrix = slowdown_matrix(database, datasets[0], gpu, mechanism or None)
    except StallScopeError:  # nothing ran there
        return nothing
    return [
        Forecast(compose(matrix, jobs), None, False, "composed", matrix.n, "measured") if len(jobs) > 2 else empty
        for jobs, empty in zip(sets, nothing, strict=True)
    ]
