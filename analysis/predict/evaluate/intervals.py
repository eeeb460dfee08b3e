"""Prediction intervals from groups that were left out of fitting, and the honesty to say how many groups there were."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from analysis.predict.frame.schema import Floats

#: Nominal level of every interval.
LEVEL = 0.90

#: With fewer groups than this a level of 90 % can't be guaranteed: the largest of n residuals covers n / (n + 1).
GROUPS_FOR_GUARANTEE = 10

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

    @property
    def guaranteed(self) -> bool:
        """Whether there are groups enough for the nominal level."""
        return self.groups >= GROUPS_FOR_GUARANTEE

    def interval(self, predicted: Floats, deviation: Floats | None = None) -> tuple[Floats, Floats]:
        """Return the lower and upper end in ln S for predictions in ln S, and their deviations where they count."""
        if self.by_deviation:
            if deviation is None:
                raise ValueError("this calibration needs the predictions' standard deviations")
            scale = deviation
        else:
            scale = self.floor + self.slope * np.maximum(predicted, 0.0)
        return predicted + self.below * scale, predicted + self.above * scale


def calibrate(
    predicted: Floats,
    measured: Floats,
    groups: int,
    unit: str,
    level: float = LEVEL,
    deviation: Floats | None = None,
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
            min(below, 0.0), max(above, 0.0), 0.0, 0.0, len(residual), groups, unit, level, by_deviation=True
        )
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
    return Calibration(min(below, 0.0), max(above, 0.0), floor, float(slope), len(residual), groups, unit, level)


def _upper_quantile(values: Floats, level: float) -> float:
    """Return the quantile with the correction of split conformal prediction, ceil((n + 1) level) / n."""
    n = len(values)
    rank = min(int(np.ceil((n + 1) * level)), n)
    return float(np.sort(values)[rank - 1])
