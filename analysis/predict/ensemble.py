"""StallScope's default predictor."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
import pandas as pd
from sklearn.base import clone

from analysis.predict.base import Predictor
from analysis.predict.schema import Floats
from analysis.predict.structured import StructuredGP


class Average(Predictor):
    """Weighted mean, in ln S, of several predictors that are fitted on the same rows.

    Parameters
    ----------
    parts : sequence of (str, estimator)
        The predictors by name.
    weights : sequence of float, optional
        One for each part; equal by default. They are scaled to sum 1.
    """

    def __init__(self, parts: Sequence[tuple[str, Any]] = (), weights: Sequence[float] | None = None) -> None:
        self.parts = parts
        self.weights = weights

    def members(self) -> list[tuple[str, Any]]:
        """Return the unfitted parts."""
        return list(self.parts)

    def fit(self, X: pd.DataFrame, y: Floats) -> Self:
        """Fit a clone of every part."""
        members = self.members()
        self.parts_ = [(name, clone(part).fit(X, y)) for name, part in members]
        weights = np.ones(len(members)) if self.weights is None else np.asarray(self.weights, dtype=np.float64)
        self.weights_ = weights / weights.sum()
        return self

    def predict(self, X: pd.DataFrame) -> Floats:
        """Return the weighted mean of the parts' ln S."""
        total: Floats = np.zeros(len(X))
        for weight, (_, part) in zip(self.weights_, self.parts_, strict=True):
            total = total + weight * part.predict(X)
        return total


class StallScope(StructuredGP):
    """The default: the structured Gaussian process.

    It knows the jobs it has seen, falls back on their model and then on their profiles for those it has not, composes
    pairs for larger sets, and says how sure it is.
    """


__all__ = ["Average", "StallScope"]
