"""Which co-runs teach a Gaussian process most about a workload: greedy choice on its own posterior covariance."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from analysis.predict.frame.schema import Floats, Ints

#: Random choices that stand beside the active one.
DRAWS = 50

#: Mean of the absolute value of a standard normal variable: standard deviation to expected absolute error.
_HALF_NORMAL = float(np.sqrt(2.0 / np.pi))


@dataclass(frozen=True)
class Candidates:
    """Values that could be measured, and which of them one run brings.

    Attributes
    ----------
    covariance : ndarray, shape (values, values)
        Posterior covariance of ln S, without noise.
    noise : float
        Variance of one measurement.
    runs : list of ndarray of int
        The values that each run measures: both members of a pair.
    """

    covariance: Floats
    noise: float
    runs: Sequence[Ints]


def expected_error(candidates: Candidates, chosen: Sequence[int] = ()) -> float:
    """Return the expected percentage error of the values, once some runs are measured.

    Parameters
    ----------
    candidates : Candidates
        What could be measured.
    chosen : sequence of int
        Numbers of the measured runs.

    Returns
    -------
    float
        Mean over all values of ``100 sqrt(2 / pi) sd``, in percent, the expectation of ``100 |error of ln S|`` for a
        normal posterior. The noise of a measurement is not part of it.
    """
    covariance = candidates.covariance
    if len(chosen):
        rows = np.concatenate([candidates.runs[number] for number in chosen])
        covariance = _after(covariance, rows, candidates.noise)
    return _error(np.diag(covariance))


def greedy(candidates: Candidates, count: int) -> list[tuple[int, float]]:
    """Choose runs one after the other, each the one that leaves the least expected error.

    The posterior covariance of a Gaussian process doesn't depend on what will be measured, so that the whole choice can
    be made before the first run (Krause, Singh and Guestrin, Journal of Machine Learning Research 9, 2008, for greedy
    placement; the criterion here is the mean deviation, not mutual information).

    Parameters
    ----------
    candidates : Candidates
        What could be measured.
    count : int
        Runs to choose; fewer when there are fewer.

    Returns
    -------
    list of (int, float)
        Number of each run, and the expected error in percent after it and all before it.
    """
    covariance = candidates.covariance
    left = list(range(len(candidates.runs)))
    out: list[tuple[int, float]] = []
    while left and len(out) < count:
        errors = [_error(_variances_after(covariance, candidates.runs[run], candidates.noise)) for run in left]
        best = int(np.argmin(errors))
        run = left.pop(best)
        covariance = _after(covariance, candidates.runs[run], candidates.noise)
        out.append((run, float(errors[best])))
    return out


def at_random(candidates: Candidates, count: int, seed: int = 0, draws: int = DRAWS) -> list[float]:
    """Return the mean expected error after 1, 2, ... runs that are chosen by lot."""
    generator = np.random.default_rng(seed)
    count = min(count, len(candidates.runs))
    total = np.zeros(count)
    for _ in range(draws):
        covariance = candidates.covariance
        for step, run in enumerate(generator.permutation(len(candidates.runs))[:count]):
            covariance = _after(covariance, candidates.runs[run], candidates.noise)
            total[step] += _error(np.diag(covariance))
    return [float(value) for value in total / draws]


def condition(candidates: Candidates, mean: Floats, rows: Ints, values: Floats) -> Floats:
    """Return the posterior mean of all values once some of them were measured.

    Parameters
    ----------
    candidates : Candidates
        What could be measured.
    mean : ndarray, shape (values,)
        Posterior mean before.
    rows : ndarray of int
        Which values were measured.
    values : ndarray, shape of `rows`
        What was measured, in ln S.
    """
    across = candidates.covariance[:, rows]
    gram = candidates.covariance[np.ix_(rows, rows)] + candidates.noise * np.eye(len(rows))
    out: Floats = mean + across @ np.linalg.solve(gram, values - mean[rows])
    return out


def _error(variances: Floats) -> float:
    return float(100.0 * _HALF_NORMAL * np.sqrt(np.maximum(variances, 0.0)).mean())


def _gain(covariance: Floats, rows: Ints, noise: float) -> tuple[Floats, Floats]:
    across = covariance[:, rows]
    solved = np.linalg.solve(covariance[np.ix_(rows, rows)] + noise * np.eye(len(rows)), across.T)
    return across, np.asarray(solved, dtype=np.float64)


def _after(covariance: Floats, rows: Ints, noise: float) -> Floats:
    across, solved = _gain(covariance, rows, noise)
    return np.asarray(covariance - across @ solved, dtype=np.float64)


def _variances_after(covariance: Floats, rows: Ints, noise: float) -> Floats:
    across, solved = _gain(covariance, rows, noise)
    return np.asarray(np.diag(covariance) - np.einsum("ra,ar->r", across, solved), dtype=np.float64)
