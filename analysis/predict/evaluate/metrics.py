"""Figures of a comparison: errors in percent, intervals by bootstrap over workloads, coverage and width."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from analysis.predict.frame.schema import Floats

#: Draws of the bootstrap, and its seed.
DRAWS = 1000
SEED = 20240917


def absolute_percentage_errors(measured: Floats, predicted: Floats) -> Floats:
    """Return 100 |predicted / measured - 1|."""
    errors: Floats = 100.0 * np.abs(predicted / measured - 1.0)
    return errors


def figures(predictions: pd.DataFrame) -> dict[str, float | int | None]:
    """Return the error figures of one predictor's out-of-fold predictions.

    Parameters
    ----------
    predictions : pd.DataFrame
        measured and predicted (S), seed and fold, low and high (S; NaN without an interval).

    Returns
    -------
    dict
        n; mape (pooled over all test members of all folds), mape_folds (mean of the folds' figures), median_ape,
        p95_ape, within_10 (share within 10 %), bias (mean signed relative error; negative is too optimistic), all in
        percent; spearman; coverage in percent and width in S of the intervals, None without any.
    """
    measured = predictions["measured"].to_numpy(dtype=np.float64)
    predicted = predictions["predicted"].to_numpy(dtype=np.float64)
    errors = absolute_percentage_errors(measured, predicted)
    by_fold = pd.Series(errors).groupby([predictions["seed"].to_numpy(), predictions["fold"].to_numpy()]).mean()
    low = predictions["low"].to_numpy(dtype=np.float64)
    high = predictions["high"].to_numpy(dtype=np.float64)
    known = np.isfinite(low) & np.isfinite(high)
    inside = (measured >= low) & (measured <= high)
    return {
        "n": len(errors),
        "mape": float(errors.mean()),
        "mape_folds": float(by_fold.mean()),
        "median_ape": float(np.median(errors)),
        "p95_ape": float(np.percentile(errors, 95)),
        "within_10": float(100.0 * np.mean(errors <= 10.0 + 1e-9)),
        "spearman": spearman(measured, predicted),
        "bias": float(100.0 * np.mean(predicted / measured - 1.0)),
        "coverage": float(100.0 * inside[known].mean()) if known.any() else None,
        "width": float((high - low)[known].mean()) if known.any() else None,
    }


def spearman(measured: Floats, predicted: Floats) -> float | None:
    """Return the rank correlation; None where one side is constant."""
    if len(measured) < 3 or np.ptp(measured) == 0 or np.ptp(predicted) == 0:
        return None
    return float(stats.spearmanr(measured, predicted).statistic)


class WorkloadBootstrap:
    """Draws of workloads with replacement; a member weighs as often as all workloads of its run were drawn.

    A slowdown belongs to several workloads at once, so that drawing rows would count each of them as new evidence.
    Weights multiply over the run's members (the bootstrap of Owen, 2007, for crossed factors).

    Parameters
    ----------
    workloads : list of tuple of str
        The distinct workloads of each row's run.
    draws : int
        Number of draws.
    """

    def __init__(self, workloads: list[tuple[str, ...]], draws: int = DRAWS) -> None:
        names = sorted({name for row in workloads for name in row})
        self.count = len(names)
        index = {name: number for number, name in enumerate(names)}
        generator = np.random.default_rng(SEED)
        drawn = generator.multinomial(self.count, np.full(self.count, 1.0 / max(self.count, 1)), size=draws)
        drawn = drawn.astype(np.float32)
        # Rows with the same run members share a weight; there are far fewer of them than rows.
        sets = sorted(set(workloads))
        position = {row: number for number, row in enumerate(sets)}
        weights = np.ones((draws, len(sets)), dtype=np.float32)
        for number, row in enumerate(sets):
            for name in row:
                weights[:, number] *= drawn[:, index[name]]
        self._weights = weights
        self._row = np.array([position[row] for row in workloads], dtype=np.int64)

    def means(self, values: Floats) -> Floats:
        """Return the weighted mean of the values in every draw; draws that hold no row are left out."""
        count = self._weights.shape[1]
        sums = np.bincount(self._row, weights=values, minlength=count)
        sizes = np.bincount(self._row, minlength=count)
        total = self._weights @ sizes
        good = total > 0
        means: Floats = (self._weights[good] @ sums) / total[good]
        return means

    def interval(self, values: Floats, level: float = 0.95) -> tuple[float, float] | None:
        """Return the percentile interval of the mean; None with a single workload."""
        if self.count < 2:
            return None
        means = self.means(values)
        tail = 100.0 * (1.0 - level) / 2.0
        low, high = np.percentile(means, [tail, 100.0 - tail])
        return float(low), float(high)


def run_workloads(rows: pd.DataFrame) -> list[tuple[str, ...]]:
    """Return the distinct workloads of each row's run, sorted."""
    others: Any = rows["others"] if "others" in rows else rows["co_workloads"]
    return [tuple(sorted({own, *beside})) for own, beside in zip(rows["workload"], others, strict=True)]
