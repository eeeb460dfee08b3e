"""What a matrix can show beside its measurements: predictions, and how far they are off."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from analysis.interference.matrix import DID_NOT_RUN, NOT_MEASURED, VALUES, SlowdownMatrix

Array = npt.NDArray[np.float64]

#: Values of a pair that follow from both slowdowns, so that a prediction can fill them in.
PREDICTABLE = frozenset({"slowdown", "stp", "antt", "fairness", "jain", "worst", "together"})


@dataclass(frozen=True, eq=False)
class Predicted:
    """Predicted slowdowns in the order of a matrix's workloads, NaN where there is none.

    Attributes
    ----------
    slowdown, low, high : ndarray of float
        Value and interval, n x n.
    """

    slowdown: Array
    low: Array
    high: Array


def numbers_of(matrix: SlowdownMatrix, values: str, predicted: Predicted | None = None) -> Array:
    """Return what a chart of the matrix shows, n x n, predictions in the gaps."""
    if values == "difference" and predicted is not None:
        return 100 * (predicted.slowdown / matrix.slowdown - 1)
    if values == "together":
        return np.asarray(100 / numbers_of(matrix, "stp", predicted), dtype=np.float64)
    shown: Array = getattr(matrix, values)
    if predicted is None or values not in PREDICTABLE:
        return shown
    own, other = predicted.slowdown, predicted.slowdown.T
    guess = {
        "slowdown": own,
        "stp": 1 / own + 1 / other,
        "antt": (own + other) / 2,
        "fairness": np.minimum(own, other) / np.maximum(own, other),
        "jain": (own + other) ** 2 / (2 * (own**2 + other**2)),
        "worst": np.maximum(own, other),
    }[values]
    filled: Array = np.where(np.isnan(shown) & (matrix.state == NOT_MEASURED), guess, shown)
    return filled


def only_predicted(matrix: SlowdownMatrix, predicted: Predicted) -> SlowdownMatrix:
    """Return the matrix without its measurements, so that a chart shows the predictions in their place.

    Pairs that did not run stay: they have no slowdown, whatever a model says of them.
    """
    there = (matrix.state != DID_NOT_RUN) & ~np.isnan(predicted.slowdown)
    empty: dict[str, Any] = {name: np.where(there, np.nan, getattr(matrix, name)) for name in VALUES}
    return replace(
        matrix, **empty, state=np.where(there, NOT_MEASURED, matrix.state), runs=np.where(there, 0, matrix.runs)
    )
