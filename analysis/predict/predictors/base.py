"""What all predictors share: they are scikit-learn regressors of ln S on the documented frame."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Self

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator, RegressorMixin

from analysis.predict.frame.quantities import BY_NAME
from analysis.predict.frame.schema import IDENTITY, Floats
from analysis.predict.frame.terms import WHITE_BOX, schema
from analysis.predict.predictors.contributions import (
    Contributions,
    Explained,
    by_sampling,
    columns_explained,
    of_columns,
)

#: A predictor is left without a figure when a quantity it needs is known for less than this share of the rows.
KNOWN_AT_LEAST = 0.5

#: Words for ``needs: ...``; other quantities say their meaning.
_NEEDS = {
    "sm_util": "SM utilisation", "mem_util": "memory utilisation", "compute_throughput": "SM throughput",
    "dram_throughput": "DRAM throughput", "memory_throughput": "memory throughput", "l2_throughput": "L2 throughput",
    "kernel_length": "kernel lengths", "long_short_ratio": "long and short kernels", "pcie_read": "PCIe bandwidth",
    "pcie_write": "PCIe bandwidth", "threads": "threads", "registers": "registers", "shared_memory": "shared memory",
    "peak_memory": "peak memory", "stall_memory_wait": "stall profiles", "step_length": "solo throughput",
    WHITE_BOX: "stall profiles",
}  # fmt: skip


#: Compiled arrays of scikit-learn's trees.
FOREST_ARRAYS = "sklearn.tree._tree.Tree"
BOOSTING_ARRAYS = "sklearn.ensemble._hist_gradient_boosting.predictor.TreePredictor"


class Predictor(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """Base of StallScope's predictors: ``fit(X, y)`` with y = ln S, ``predict(X)`` gives ln S.

    X is the frame of `features.build`: identity columns and the numeric columns of the schema.

    Attributes
    ----------
    requires : tuple of str
        Quantities without which the predictor says what it needs.
    holds : tuple of type or str
        Types outside of skops' own list, beside the class itself, that a fitted instance keeps in its attributes;
        compiled ones by their path. A model file may hold these and no others.
    explained_by : {"exact", "background", "sampled"}
        How `contributions` explains it, where that is the same for all instances.
    """

    requires: ClassVar[tuple[str, ...]] = ()
    holds: ClassVar[tuple[type | str, ...]] = ()
    explained_by: ClassVar[Explained] = "sampled"

    def fit(self, X: pd.DataFrame, y: Floats) -> Self:
        """Learn from members of measured runs.

        Parameters
        ----------
        X : pd.DataFrame, shape (rows, columns)
            The frame.
        y : ndarray, shape (rows,)
            ln S.
        """
        raise NotImplementedError

    def predict(self, X: pd.DataFrame) -> Floats:
        """Return ln S for every row, shape (rows,)."""
        raise NotImplementedError

    @property
    def explained(self) -> Explained:
        """How `contributions` explains this fitted predictor."""
        return self.explained_by

    def contributions(self, X: pd.DataFrame, background: pd.DataFrame | None = None) -> Contributions:
        """Return what each column of the frame, or who is who in it, adds to ln S.

        Parameters
        ----------
        X : pd.DataFrame
            Rows to explain.
        background : pd.DataFrame, optional
            Rows of the training frame, for predictors that are not explained exactly.

        Returns
        -------
        Contributions
            Base plus contributions is the prediction.

        Raises
        ------
        NotEnoughDataError
            If training rows are needed and there are none.
        """
        return by_sampling(self, X, background)

    def needed(self) -> tuple[str, ...]:
        """Return the quantities that this instance needs."""
        return self.requires


def needs(estimator: Any, X: pd.DataFrame) -> str | None:
    """Say what a predictor lacks in a frame, as ``needs: ...``; None when it can run."""
    wanted = estimator.needed() if isinstance(estimator, Predictor) else getattr(estimator, "requires", ())
    missing: list[str] = []
    for quantity in wanted:
        column = quantity if quantity == WHITE_BOX else f"own_{quantity}"
        known = float(X[column].notna().mean()) if len(X) else 0.0
        if known < KNOWN_AT_LEAST:
            missing.append(_NEEDS[quantity] if quantity in _NEEDS else BY_NAME[quantity].meaning)
    return f"needs: {', '.join(dict.fromkeys(missing))}" if missing else None


def own_and_others(X: pd.DataFrame, quantity: str, fill: tuple[float, float] | None = None) -> tuple[Floats, Floats]:
    """Return a quantity of the job and its sum over the co-runners in base units, undoing the frame's logarithm."""
    own = X[f"own_{quantity}"].to_numpy(dtype=np.float64)
    others = X[f"others_sum_{quantity}"].to_numpy(dtype=np.float64)
    if BY_NAME[quantity].scale == "magnitude":
        own, others = np.expm1(own), np.expm1(others)
    if fill is not None:
        own, others = np.where(np.isnan(own), fill[0], own), np.where(np.isnan(others), fill[1], others)
    return own, others


class FeatureModel(Predictor):
    """A learner on numeric columns: chooses them, fills gaps and scales with what the training rows say, nothing else.

    Parameters
    ----------
    what : sequence of str, optional
        Kinds of evidence to use, of `schema.What`; by default all that is measured, not the white-box prediction.
    exclude : sequence of str
        Quantities to leave out.
    """

    #: Whether the learner takes NaN as it is.
    takes_nan: ClassVar[bool] = False
    #: Whether the columns are brought to mean 0 and deviation 1.
    scales: ClassVar[bool] = False

    def __init__(self, what: Sequence[str] | None = None, exclude: Sequence[str] = ()) -> None:
        self.what = what
        self.exclude = exclude

    def make_model(self) -> Any:
        """Return a fresh learner with this instance's parameters."""
        raise NotImplementedError

    def fit(self, X: pd.DataFrame, y: Floats) -> Self:
        """Choose columns on the training rows and fit the learner."""
        self.columns_ = self._choose(X)
        values = X[self.columns_].to_numpy(dtype=np.float64)
        if len(self.columns_):
            self.fill_ = np.nanmedian(values, axis=0)
            filled = np.where(np.isnan(values), self.fill_, values)
            self.mean_ = filled.mean(axis=0)
            self.scale_ = np.where(filled.std(axis=0) > 0, filled.std(axis=0), 1.0)
        self.constant_ = float(np.mean(y))
        if len(self.columns_):
            self.model_ = self.make_model().fit(self.matrix(X), y)
        return self

    def predict(self, X: pd.DataFrame) -> Floats:
        """Return ln S; the training mean when the frame has no usable column."""
        if not self.columns_:
            return np.full(len(X), self.constant_)
        predicted: Floats = np.asarray(self.model_.predict(self.matrix(X)), dtype=np.float64)
        return predicted

    def matrix(self, X: pd.DataFrame) -> Floats:
        """Return the learner's input: the chosen columns, filled and scaled by training statistics."""
        values = X[self.columns_].to_numpy(dtype=np.float64)
        if not self.takes_nan:
            values = np.where(np.isnan(values), self.fill_, values)
        if self.scales:
            values = (values - self.mean_) / self.scale_
        return values

    @property
    def explained(self) -> Explained:
        """Exactly for trees and linear models, else by sampling."""
        return columns_explained(self)

    def contributions(self, X: pd.DataFrame, background: pd.DataFrame | None = None) -> Contributions:
        """Return the contributions of the columns that are read."""
        return of_columns(self, X, background)

    def candidates(self) -> list[str]:
        """Return the columns that this instance may use; the white-box prediction only where it is asked for."""
        excluded = {*self.exclude, *(() if self.what is not None else (WHITE_BOX,))}
        wanted = None if self.what is None else list(self.what)
        return [name for name in schema().select(what=wanted) if schema()[name].quantity not in excluded]

    def _choose(self, X: pd.DataFrame) -> list[str]:
        """Drop columns that are empty, constant or a copy of an earlier one among the training rows."""
        present = [name for name in self.candidates() if name in X.columns]
        values = X[present].to_numpy(dtype=np.float64)
        chosen: list[str] = []
        seen: set[bytes] = set()
        for number, name in enumerate(present):
            column = values[:, number]
            known = column[~np.isnan(column)]
            if len(known) == 0 or (known == known[0]).all():
                continue
            key = column.tobytes()
            if key not in seen:
                seen.add(key)
                chosen.append(name)
        return chosen


def contexts(X: pd.DataFrame) -> pd.Series:
    """Return where each row was run, GPU and mechanism as one text."""
    return X["gpu"].astype(str) + " | " + X["mechanism"].astype(str)


def identity(X: pd.DataFrame) -> pd.DataFrame:
    """Return the identity columns."""
    return X[list(IDENTITY)]
