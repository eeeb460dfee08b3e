"""Means with 95 % confidence intervals of few repeats, by Student's t."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

#: 97.5 % quantiles of Student's t for 1 to 30 degrees of freedom; beyond, the normal's 1.96 with a first-order
#: correction is right to three digits.
_T = (
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131,
    2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
)  # fmt: skip


@dataclass(frozen=True)
class Mean:
    """A mean of repeats.

    Attributes
    ----------
    value : float
        Mean.
    low, high : float or None
        95 % confidence interval; None with a single repeat.
    n : int
        Repeats.
    windows : int
        Windows within them, where each had several.
    """

    value: float
    low: float | None
    high: float | None
    n: int
    windows: int = 0


def t_quantile(freedom: int) -> float:
    """Return the 97.5 % quantile of Student's t."""
    return _T[freedom - 1] if freedom <= len(_T) else 1.95996 + 2.37 / freedom


def mean(values: Sequence[float]) -> Mean:
    """Return the mean of some positive values with its interval.

    Ratios and rates vary in proportion, so the interval is one of the geometric mean's logarithm: with a single value
    none can be given.
    """
    if not values:
        raise ValueError("no values")
    logs = [math.log(value) for value in values]
    centre = sum(logs) / len(logs)
    if len(logs) < 2:
        return Mean(values[0], None, None, 1)
    spread = math.sqrt(sum((one - centre) ** 2 for one in logs) / (len(logs) - 1) / len(logs))
    half = t_quantile(len(logs) - 1) * spread
    return Mean(math.exp(centre), math.exp(centre - half), math.exp(centre + half), len(logs))


def slowdown(solo: Sequence[float], corun: Sequence[float]) -> Mean:
    """Return solo rate / co-run rate with its interval, by Welch's t of the difference of logarithms.

    Parameters
    ----------
    solo, corun : sequence of float
        Rates of the repeats alone and in the co-run.

    Returns
    -------
    Mean
        ``n`` is the smaller number of repeats; no interval unless both have two.
    """
    a, b = [math.log(one) for one in solo], [math.log(one) for one in corun]
    centre = sum(a) / len(a) - sum(b) / len(b)
    n = min(len(a), len(b))
    if n < 2:
        return Mean(math.exp(centre), None, None, n)
    parts = []
    for logs in (a, b):
        middle = sum(logs) / len(logs)
        parts.append(sum((one - middle) ** 2 for one in logs) / (len(logs) - 1) / len(logs))
    variance = sum(parts)
    if variance == 0:
        return Mean(math.exp(centre), math.exp(centre), math.exp(centre), n)
    below = sum(part**2 / (len(logs) - 1) for part, logs in zip(parts, (a, b), strict=True))
    half = t_quantile(max(1, int(variance**2 / below))) * math.sqrt(variance)
    return Mean(math.exp(centre), math.exp(centre - half), math.exp(centre + half), n)
