"""What sharing costs and gains: slowdown and the metrics of a set of co-running jobs.

All functions of a set take the slowdowns of its members and give NaN when one of them is unknown: the cost of a set
with an unknown member is unknown.

References
----------
.. [1] S. Eyerman and L. Eeckhout, System-level performance metrics for multiprogram workloads, IEEE Micro 28(3), 2008:
   STP and ANTT.
.. [2] R. Gabor, S. Weiss and A. Mendelson, Fairness and throughput in switch on event multithreading, MICRO 2006: the
   ratio of the smallest to the largest progress.
.. [3] R. Jain, D. Chiu and W. Hawe, A quantitative measure of fairness and discrimination, DEC-TR-301, 1984.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

Values = npt.ArrayLike
Array = npt.NDArray[np.float64]

#: Measures that grow when a job runs faster.
_UPWARD = frozenset({"throughput", "normalised"})
#: Measures that grow when a job runs slower.
_DOWNWARD = frozenset({"time", "latency"})


def slowdown(solo: Values, corun: Values, measure: str = "throughput") -> Array:
    """Return the slowdown S = co-run time / solo time = solo throughput / co-run throughput.

    Parameters
    ----------
    solo, corun : array-like of float
        The same measure of the same work, alone and beside others, in the same unit.
    measure : {"throughput", "normalised", "time", "latency", "slowdown"}
        What was measured; for ``slowdown`` the co-run value is S already.

    Returns
    -------
    ndarray of float
        S, NaN where a value is missing or not positive: a job that did not run has no slowdown, neither 0 nor infinity.

    Raises
    ------
    ValueError
        If the measure is unknown.
    """
    alone, beside = np.asarray(solo, dtype=float), np.asarray(corun, dtype=float)
    if measure == "slowdown":
        return np.where(beside > 0, beside, np.nan)
    if measure not in _UPWARD | _DOWNWARD:
        raise ValueError(f"unknown measure {measure!r}")
    above, below = (alone, beside) if measure in _UPWARD else (beside, alone)
    valid = (alone > 0) & (beside > 0) & np.isfinite(alone) & np.isfinite(beside)
    result: Array = np.full(valid.shape, np.nan)
    np.divide(above, below, out=result, where=valid)
    return result


def _set(slowdowns: Values) -> Array:
    values = np.asarray(slowdowns, dtype=float)
    if values.ndim != 1 or values.size == 0:
        raise ValueError("a set has at least one member")
    if np.any(values <= 0):
        raise ValueError("a slowdown is positive")
    return values


def stp(slowdowns: Values) -> float:
    """Return the system throughput, the sum of 1/S: jobs' worth of solo work done in a unit of time [1]_."""
    return float(np.sum(1 / _set(slowdowns)))


def antt(slowdowns: Values) -> float:
    """Return the average normalised turnaround time, the mean of S [1]_."""
    return float(np.mean(_set(slowdowns)))


def harmonic_speedup(slowdowns: Values) -> float:
    """Return the harmonic mean of the members' speeds, 1/ANTT."""
    return 1 / antt(slowdowns)


def fairness(slowdowns: Values) -> float:
    """Return min(1/S) / max(1/S): 1 when all suffer alike, towards 0 when one pays for the others [2]_."""
    values = _set(slowdowns)
    return float(np.min(values) / np.max(values))


def unfairness(slowdowns: Values) -> float:
    """Return max S / min S, the inverse of `fairness`."""
    values = _set(slowdowns)
    return float(np.max(values) / np.min(values))


def jain(slowdowns: Values) -> float:
    """Return Jain's index (sum x)^2 / (n sum x^2) of the members' speeds x = 1/S, between 1/n and 1 [3]_."""
    # Scaled by the fastest member, equal members give exactly 1.
    speeds = np.min(_set(slowdowns)) / _set(slowdowns)
    return float(np.sum(speeds) ** 2 / (speeds.size * np.sum(speeds**2)))


def worst(slowdowns: Values) -> float:
    """Return the largest S of the set."""
    return float(np.max(_set(slowdowns)))


def p99_inflation(p99_solo: Values, p99_shared: Values) -> Array:
    """Return p99 latency beside others over p99 latency alone, NaN where either is missing."""
    return slowdown(p99_solo, p99_shared, "latency")


def slo_attainment(values: Values, limits: Values) -> float:
    """Return the percentage of members whose slowdown or latency is within its limit.

    Parameters
    ----------
    values : array-like of float
        Slowdowns or latencies; members without a value are not counted.
    limits : float or array-like of float
        One limit for all or one a member, in the unit of the values.

    Returns
    -------
    float
        Percent; NaN without a single value.
    """
    measured, allowed = np.broadcast_arrays(np.asarray(values, dtype=float), np.asarray(limits, dtype=float))
    known = ~np.isnan(measured) & ~np.isnan(allowed)
    return float(100 * np.mean(measured[known] <= allowed[known])) if known.any() else float("nan")


def together_time(
    solo_times: Values,
    slowdowns: Values,
    among: Callable[[tuple[int, ...]], Sequence[float]] | None = None,
) -> float:
    """Return the time until the last member of a set that starts together has finished.

    When a member finishes, the others go on at the slowdowns of the smaller set; the last one goes on as if alone.

    Parameters
    ----------
    solo_times : array-like of float
        Time of each member's work alone, any one unit.
    slowdowns : array-like of float
        S of each member in the whole set.
    among : callable, optional
        Gives the slowdowns of a smaller set of two or more, from the positions of its members. Without it they keep the
        slowdown of the whole set until one is left, which makes the time an upper bound for three members or more.

    Returns
    -------
    float
        In the unit of the solo times.

    Examples
    --------
    Two jobs of 60 and 40 minutes, S = 1.5 and 1.25: the second finishes after 50 minutes; the first has done
    50 / 1.5 = 33.3 minutes of its work and needs another 26.7 alone.

    >>> round(together_time([60, 40], [1.5, 1.25]), 1)
    76.7
    """
    left = np.array(solo_times, dtype=float)
    now = _set(slowdowns).copy()
    if left.shape != now.shape:
        raise ValueError("one solo time and one slowdown a member")
    if np.isnan(left).any() or np.isnan(now).any():
        return float("nan")
    active = [int(position) for position in np.flatnonzero(left > 0)]
    clock = 0.0
    while active:
        needed = left[active] * now[active]
        step = float(needed.min())
        clock += step
        left[active] -= step / now[active]
        finished = {position for position, need in zip(active, needed, strict=True) if need <= step}
        active = [position for position in active if position not in finished]
        if len(active) == 1:
            now[active[0]] = 1.0
        elif active and among is not None:
            now[active] = _set(among(tuple(active)))
    return clock


def serial_gain(solo_times: Values, makespan: float) -> float:
    """Return the sum of the solo times over the makespan of the co-run: above 1, sharing beats taking turns."""
    return float(np.sum(np.asarray(solo_times, dtype=float)) / makespan)


def together_per_100(system_throughput: Values) -> Array:
    """Return how long jobs that never run out need together for what takes 100 units of time one after the other.

    This is what STP means: 100 / STP. ``together 71 min, one after the other 100`` is an STP of 1.41.
    """
    return 100 / np.asarray(system_throughput, dtype=float)
