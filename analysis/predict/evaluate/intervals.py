"""Prediction intervals from groups that were left out of fitting, and the honesty to say how many groups there were."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from analysis.predict.frame.schema import Floats

#: Nominal level of every interval.
LEVEL = 0.90

#: With fewer groups than this a level of 90 % can't be guaranteed: the largest of n residuals covers n / (n + 1).
GROUPS_FOR_GUARANTEE = 10

#: Left-out sets of one size that a calibration keeps.
MOST_SETS = 400

#: Fewer left-out residuals than this make no interval.
LEAST_RESIDUALS = 20


@dataclass(frozen=True)
class Calibration:
    """What turns a prediction into an interval.

    The half widths are quantiles of left-out residuals in ln S, divided by a scale: the predictor's own standard
    deviation where it has one, else one that grows with the predicted slowdown, because a strongly slowed job is also
    harder to predict.

    Attributes
    ----------
    below, above : float
        Quantiles of the scaled residuals (measured minus predicted ln S).
    floor, slope : float
        The scale is ``floor + slope * max(predicted ln S, 0)`` without a standard deviation.
    residuals : int
        Left-out residuals behind the quantiles.
    groups : int
        Groups (pairs, workloads, families or GPUs) that were left out in turn.
    unit : str
        What a group is.
    level : float
        Nominal level.
    by_deviation : bool
        Whether the scale is the predictor's own standard deviation.
    together : sequence of sequences of float
        Scaled residuals of left-out sets, the members of a set side by side, that of the largest prediction first.
    """

    below: float
    above: float
    floor: float
    slope: float
    residuals: int
    groups: int
    unit: str
    level: float = LEVEL
    by_deviation: bool = False
    together: Sequence[Sequence[float]] = ()

    @property
    def guaranteed(self) -> bool:
        """Whether there are groups enough for the nominal level."""
        return self.groups >= GROUPS_FOR_GUARANTEE

    def interval(self, predicted: Floats, deviation: Floats | None = None) -> tuple[Floats, Floats]:
        """Return the lower and upper end in ln S for predictions in ln S, and their deviations where they count."""
        scale = self._scale(predicted, deviation)
        return predicted + self.below * scale, predicted + self.above * scale

    def within(
        self, predicted: Floats, bound: float | Floats, deviation: Floats | None = None
    ) -> tuple[float, int] | None:
        """Return the probability that every member of one set stays within a bound.

        The conformal predictive distribution of the set: each left-out set's residuals, scaled to these predictions,
        are one way that it may come out. Members of one set go together, as what slows one often slows the other.

        Parameters
        ----------
        predicted : ndarray, shape (members,)
            ln S of one set.
        bound : float or ndarray
            ln S that none may exceed, or that each may not.
        deviation : ndarray, optional
            The predictions' standard deviations, where they count.

        Returns
        -------
        (float, int) or None
            The probability and the number of left-out sets behind it; None with too few.
        """
        chosen = self._of_size(len(predicted))
        if len(chosen) < LEAST_RESIDUALS:
            return None
        order = np.argsort(-predicted, kind="stable")
        room = (bound - predicted) / np.maximum(self._scale(predicted, deviation), 1e-12)
        good = int((chosen <= room[order]).all(axis=1).sum())
        return (good + 0.5) / (len(chosen) + 1), len(chosen)

    def _of_size(self, k: int) -> Floats:
        """Return the residuals of left-out sets as sets of k, one a row; a plan asks for them by the ten thousand."""
        if k not in self._sizes:
            chosen = [one for one in self.together if len(one) == k]
            if len(chosen) < LEAST_RESIDUALS:
                # A larger set gives the residuals of its first members, a smaller one its worst to those it lacks.
                chosen = [[*one[:k], *[max(one)] * (k - len(one))] for one in self.together]
            self._sizes[k] = np.asarray(chosen, dtype=np.float64)
        return self._sizes[k]

    @cached_property
    def _sizes(self) -> dict[int, Floats]:
        return {}

    def _scale(self, predicted: Floats, deviation: Floats | None) -> Floats:
        if not self.by_deviation:
            return self.floor + self.slope * np.maximum(predicted, 0.0)
        if deviation is None:
            raise ValueError("this calibration needs the predictions' standard deviations")
        return deviation


def calibrate(
    predicted: Floats,
    measured: Floats,
    groups: int,
    unit: str,
    level: float = LEVEL,
    deviation: Floats | None = None,
    sets: npt.NDArray[np.int64] | None = None,
) -> Calibration | None:
    """Calibrate on left-out predictions.

    Parameters
    ----------
    predicted, measured : ndarray, shape (rows,)
        ln S; every prediction made by a model that had not seen the row's group.
    groups : int
        Number of groups behind the rows.
    unit : str
        What a group is.
    level : float
        Nominal level.
    deviation : ndarray, optional
        The predictor's own standard deviation of every prediction, in ln S.
    sets : ndarray of int, optional
        The set that each row is a member of, for the probability that all of a set stay within a limit.

    Returns
    -------
    Calibration or None
        None with fewer than `LEAST_RESIDUALS` rows: no interval is better than an invented one.
    """
    if len(predicted) < LEAST_RESIDUALS:
        return None
    residual = measured - predicted
    tail = (1.0 - level) / 2.0
    if deviation is not None:
        scaled = residual / np.maximum(deviation, 1e-9)
        below, above = -_upper_quantile(-scaled, 1.0 - tail), _upper_quantile(scaled, 1.0 - tail)
        return Calibration(
            min(below, 0.0), max(above, 0.0), 0.0, 0.0, len(residual), groups, unit, level, by_deviation=True,
            together=_side_by_side(scaled, predicted, sets),
        )  # fmt: skip
    strength = np.maximum(predicted, 0.0)
    design = np.column_stack([np.ones(len(residual)), strength])
    floor, slope = np.linalg.lstsq(design, np.abs(residual), rcond=None)[0]
    typical = float(np.abs(residual).mean())
    if slope <= 0 or floor < 0.2 * typical:  # no growth to speak of, or a scale that would vanish near S = 1
        slope = max(float(slope), 0.0)
        floor = max(float(floor), 0.2 * typical) if slope > 0 else typical
    floor = max(float(floor), 1e-6)
    scaled = residual / (floor + slope * strength)
    below = -_upper_quantile(-scaled, 1.0 - tail)
    above = _upper_quantile(scaled, 1.0 - tail)
    return Calibration(
        min(below, 0.0), max(above, 0.0), floor, float(slope), len(residual), groups, unit, level,
        together=_side_by_side(scaled, predicted, sets),
    )  # fmt: skip


def _side_by_side(scaled: Floats, predicted: Floats, sets: npt.NDArray[np.int64] | None) -> list[list[float]]:
    """Return the residuals of each set, that of the largest prediction first; evenly thinned to `MOST_SETS` a size."""
    if sets is None:
        return []
    order = np.lexsort((-predicted, sets))
    _, starts = np.unique(sets[order], return_index=True)
    found = [part.tolist() for part in np.split(scaled[order], starts[1:])]
    kept: list[list[float]] = []
    for size in sorted({len(one) for one in found}):
        own = sorted((one for one in found if len(one) == size), key=max)
        # Whole numbers: steps of a fraction add up past the end for some lengths.
        count = min(len(own), MOST_SETS)
        kept += [[round(value, 5) for value in own[at * len(own) // count]] for at in range(count)]
    return kept


def _upper_quantile(values: Floats, level: float) -> float:
    """Return the quantile with the correction of split conformal prediction, ceil((n + 1) level) / n."""
    n = len(values)
    rank = min(int(np.ceil((n + 1) * level)), n)
    return float(np.sort(values)[rank - 1])
