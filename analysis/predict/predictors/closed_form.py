"""Baselines that need no learning, or one number: what any predictor has to beat."""

from __future__ import annotations

from typing import ClassVar, Literal, Self

import numpy as np
import pandas as pd

from analysis.predict.frame.quantities import BY_NAME
from analysis.predict.frame.schema import Floats
from analysis.predict.predictors.base import Predictor, own_and_others
from analysis.predict.predictors.contributions import Contributions, Explained, constant


class NoInterference(Predictor):
    """S = 1: sharing costs nothing. The floor of every comparison."""

    explained_by: ClassVar[Explained] = "exact"

    def fit(self, X: pd.DataFrame, y: Floats) -> Self:
        """Learn nothing."""
        self.fitted_ = True
        return self

    def predict(self, X: pd.DataFrame) -> Floats:
        """Return zeros."""
        return np.zeros(len(X))

    def contributions(self, X: pd.DataFrame, background: pd.DataFrame | None = None) -> Contributions:
        """Return a constant."""
        return constant(np.asarray(self.predict(X), dtype=np.float64))


class TrainMedian(Predictor):
    """The median slowdown of the training rows, for every row. Skill is measured against it."""

    explained_by: ClassVar[Explained] = "exact"

    def fit(self, X: pd.DataFrame, y: Floats) -> Self:
        """Take the median of S."""
        self.median_ = float(np.log(np.median(np.exp(y))))
        return self

    def predict(self, X: pd.DataFrame) -> Floats:
        """Return the median."""
        return np.full(len(X), self.median_)

    def contributions(self, X: pd.DataFrame, background: pd.DataFrame | None = None) -> Contributions:
        """Return a constant."""
        return constant(np.asarray(self.predict(X), dtype=np.float64))


class EqualShare(Predictor):
    """S = k: every job gets an equal part of the GPU's time, as under ideal time-slicing without idle time."""

    explained_by: ClassVar[Explained] = "exact"

    def fit(self, X: pd.DataFrame, y: Floats) -> Self:
        """Learn nothing."""
        self.fitted_ = True
        return self

    def predict(self, X: pd.DataFrame) -> Floats:
        """Return ln k."""
        predicted: Floats = np.log(X["k"].to_numpy(dtype=np.float64))
        return predicted

    def contributions(self, X: pd.DataFrame, background: pd.DataFrame | None = None) -> Contributions:
        """Return ln k as the contribution of the number of jobs."""
        values = pd.DataFrame({"k": self.predict(X)})
        return Contributions(np.zeros(len(X)), values, "exact: the logarithm of k", "alone")


class _Overload(Predictor):
    """S = max(1, demand over capacity) of the most overloaded resource."""

    resources: ClassVar[tuple[str, ...]] = ()

    def fit(self, X: pd.DataFrame, y: Floats) -> Self:
        """Remember the usual demand, for rows in which a demand is unknown."""
        self.fill_ = {
            name: tuple(float(np.nanmedian(values)) for values in own_and_others(X, name))
            for name in self.resources
            if X[f"own_{name}"].notna().any()
        }
        return self

    def predict(self, X: pd.DataFrame) -> Floats:
        """Return ln of the largest demand, at least 0."""
        worst = np.ones(len(X))
        for name, fill in self.fill_.items():
            own, others = own_and_others(X, name, (fill[0], fill[1]))
            worst = np.maximum(worst, own + others)
        return np.log(worst)


class SmSum(_Overload):
    """S = max(1, sum of the jobs' SM utilisations): the rule of thumb of utilisation-based packing."""

    requires = ("sm_util",)
    resources = ("sm_util",)


class RooflineSum(_Overload):
    """S = max over resources of max(1, sum of demands): the jobs slow to the rate of the first resource they exhaust.

    Demands are ncu's throughputs in percent of peak, weighted by how long kernels run, beside the busy shares.
    """

    requires = ("compute_throughput", "dram_throughput")
    resources = ("sm_util", "mem_util", "compute_throughput", "dram_throughput", "memory_throughput", "l2_throughput")


#: Published coefficients: L2 own, L2 others, DRAM own, DRAM others, constant.
GPULET_COEFFICIENTS = {
    "RTX 2080 Ti": (0.1129, 0.7160, 0.3549, 0.0882, 0.8954),
    "RTX 3080": (-0.1799, 0.0384, 0.1255, -0.0565, 1.0184),
}


class Gpulet(Predictor):
    """The linear interference model of gpulet, S = c1 L2_own + c2 L2_others + c3 DRAM_own + c4 DRAM_others + c0.

    Source: S. Choi, S. Lee, Y. Kim, J. Park, Y. Kwon, J. Huh, *Serving Heterogeneous Machine Learning Models on
    Multi-GPU Servers with Spatio-Temporal Sharing*, USENIX ATC 2022, section 4. Utilisations enter as fractions.

    Parameters
    ----------
    coefficients : {"fitted", "RTX 2080 Ti", "RTX 3080"}
        Least squares on S of the training rows, or the coefficients published for a GPU. Their signs differ: a linear
        model of one GPU does not travel.
    """

    requires = ("l2_throughput", "dram_throughput")

    def __init__(self, coefficients: Literal["fitted", "RTX 2080 Ti", "RTX 3080"] = "fitted") -> None:
        self.coefficients = coefficients

    def fit(self, X: pd.DataFrame, y: Floats) -> Self:
        """Fit the five coefficients, or take the published ones."""
        self.fill_ = np.nanmedian(self._raw(X), axis=0)
        if self.coefficients == "fitted":
            design = np.column_stack([self._inputs(X), np.ones(len(X))])
            self.weights_ = np.linalg.lstsq(design, np.exp(y), rcond=None)[0]
        else:
            self.weights_ = np.array(GPULET_COEFFICIENTS[self.coefficients])
        return self

    def predict(self, X: pd.DataFrame) -> Floats:
        """Return ln S, S kept positive."""
        predicted: Floats = np.log(np.maximum(self._inputs(X) @ self.weights_[:4] + self.weights_[4], 0.05))
        return predicted

    def _raw(self, X: pd.DataFrame) -> Floats:
        columns = [own_and_others(X, name) for name in ("l2_throughput", "dram_throughput")]
        return np.column_stack([part for pair in columns for part in pair])

    def _inputs(self, X: pd.DataFrame) -> Floats:
        raw = self._raw(X)
        return np.where(np.isnan(raw), self.fill_, raw)


assert all(name in BY_NAME for name in RooflineSum.resources)  # noqa: S101 - a misspelt resource would be ignored
