"""Learned baselines from the literature, on their own inputs and on the corrected target ln S."""

from __future__ import annotations

from typing import Any, ClassVar, Self

import numpy as np
import pandas as pd
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import LinearRegression

from analysis.predict.frame.quantities import BY_NAME
from analysis.predict.frame.schema import Floats
from analysis.predict.predictors.base import FOREST_ARRAYS, Predictor, own_and_others
from analysis.predict.predictors.contributions import Contributions, Explained, columns_explained, of_columns


class OwnAndSum(Predictor):
    """A learner on raw quantities of the job and their sums over the co-runners, nothing else."""

    quantities: ClassVar[tuple[str, ...]] = ()

    def make_model(self) -> Any:
        """Return a fresh learner."""
        raise NotImplementedError

    def fit(self, X: pd.DataFrame, y: Floats) -> Self:
        """Fill gaps with training medians and fit."""
        raw = self._raw(X)
        self.fill_ = np.nan_to_num(np.nanmedian(raw, axis=0)) if len(X) else np.zeros(raw.shape[1])
        self.model_ = self.make_model().fit(self.matrix(X), y)
        return self

    def predict(self, X: pd.DataFrame) -> Floats:
        """Return ln S."""
        predicted: Floats = np.asarray(self.model_.predict(self.matrix(X)), dtype=np.float64)
        return predicted

    def needed(self) -> tuple[str, ...]:
        """Return the quantities of the publication."""
        return self.quantities

    @property
    def columns_(self) -> list[str]:
        """Names of the frame's columns that the learner's inputs stand for, in order."""
        return [f"{side}_{name}" for name in self.quantities for side in ("own", "others_sum")]

    def matrix(self, X: pd.DataFrame) -> Floats:
        """Return the learner's input, in base units."""
        raw = self._raw(X)
        return np.where(np.isnan(raw), self.fill_, raw)

    @property
    def explained(self) -> Explained:
        """Exactly for trees and linear models, else by sampling."""
        return columns_explained(self)

    def contributions(self, X: pd.DataFrame, background: pd.DataFrame | None = None) -> Contributions:
        """Return the contributions of the columns that are read."""
        return of_columns(self, X, background)

    def _raw(self, X: pd.DataFrame) -> Floats:
        return np.column_stack([part for name in self.quantities for part in own_and_others(X, name)])


class XuForest(OwnAndSum):
    """Random forest of Xu et al. on kernel length, long/short ratio, PCIe traffic, threads and utilisation.

    Source: X. Xu, N. Zhang, M. Cui, M. He, R. Surana, *Characterization and Prediction of Performance Interference on
    Mediated Passthrough GPUs for Interference-aware Scheduler*, USENIX HotCloud 2019.

    Parameters
    ----------
    n_estimators : int
        Trees.
    random_state : int
        Seed.
    """

    quantities = ("kernel_length", "long_short_ratio", "pcie_read", "pcie_write", "threads", "sm_util", "mem_util")
    holds = (FOREST_ARRAYS,)

    def __init__(self, n_estimators: int = 200, random_state: int = 0) -> None:
        self.n_estimators = n_estimators
        self.random_state = random_state

    def make_model(self) -> Any:
        """Return a random forest."""
        return RandomForestRegressor(self.n_estimators, random_state=self.random_state, n_jobs=1)


KACE_QUANTITIES = (
    "threads", "compute_throughput", "dram_throughput", "memory_throughput", "registers", "shared_memory", "sm_util",
    "mem_util", "peak_memory",
)  # fmt: skip


class ScaledLinear:
    """Least squares on columns of mean 0 and deviation 1; predictions as without scaling, numerically sound."""

    def fit(self, X: Floats, y: Floats) -> Self:
        """Fit."""
        self.mean_ = X.mean(axis=0)
        deviation = X.std(axis=0)
        self.scale_ = np.where(deviation > 0, deviation, 1.0)
        self.linear_ = LinearRegression().fit((X - self.mean_) / self.scale_, y)
        return self

    def predict(self, X: Floats) -> Floats:
        """Return the fitted values."""
        predicted: Floats = self.linear_.predict((X - self.mean_) / self.scale_)
        return predicted

    def scaled_contributions(self, X: Floats) -> tuple[float, Floats]:
        """Return the mean prediction over the training rows, and what each column adds to it, shape (rows, columns)."""
        return float(self.linear_.intercept_), (X - self.mean_) * self.coef_

    @property
    def coef_(self) -> Floats:
        """Coefficients on the unscaled columns."""
        return np.asarray(self.linear_.coef_ / self.scale_, dtype=np.float64)


class KaceLinear(OwnAndSum):
    """Linear regression of KACE, on own values and the sum over the other members.

    Source: B.-S. Han, T. Paul, Z. Liu, A. Gandhi, *KACE: Kernel-Aware Colocation for Efficient GPU Spatial Sharing*,
    ACM SoCC 2024. The target is ln S of each member instead of the pair's summed raw throughput, and nothing is
    standardised with the test set's own statistics.
    """

    quantities = KACE_QUANTITIES
    holds = (ScaledLinear,)

    def make_model(self) -> Any:
        """Return ordinary least squares on standardised columns, so that units of 1e9 don't hurt the solver."""
        return ScaledLinear()


class KaceForest(OwnAndSum):
    """Random forest of KACE, on own values and the sum over the other members; source as `KaceLinear`.

    Parameters
    ----------
    n_estimators : int
        Trees.
    random_state : int
        Seed.
    """

    quantities = KACE_QUANTITIES
    holds = (FOREST_ARRAYS,)

    def __init__(self, n_estimators: int = 200, random_state: int = 0) -> None:
        self.n_estimators = n_estimators
        self.random_state = random_state

    def make_model(self) -> Any:
        """Return a random forest."""
        return RandomForestRegressor(self.n_estimators, random_state=self.random_state, n_jobs=1)


assert all(name in BY_NAME for name in (*KACE_QUANTITIES, *XuForest.quantities))  # noqa: S101
