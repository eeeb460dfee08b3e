"""Averages of predictors, and StallScope's default: processes, with trees beside them where a model is new."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
import pandas as pd
from sklearn.base import clone

from analysis.predict.frame.schema import Floats, Ints
from analysis.predict.predictors import mixing, novelty
from analysis.predict.predictors.base import Predictor
from analysis.predict.predictors.learners import Boosting, ExtraTrees
from analysis.predict.predictors.structured import StructuredGP

#: Fewer pairs than this teach trees nothing worth a weight.
LEAST_PAIRS = 60


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

    def shares(self, X: pd.DataFrame) -> Floats:
        """Return the weight of every part in every row, shape (rows, parts)."""
        return np.broadcast_to(self.weights_, (len(X), len(self.weights_)))

    def predict(self, X: pd.DataFrame) -> Floats:
        """Return the weighted mean of the parts' ln S."""
        total: Floats = np.zeros(len(X))
        for weight, (_, part) in zip(self.weights_, self.parts_, strict=True):
            total = total + weight * part.predict(X)
        return total


class StallScope(Predictor):
    """The default: the structured Gaussian process, and trees beside it where a model is new.

    It knows the jobs it has seen, falls back on their model and then on their profiles for those it has not, composes
    pairs for larger sets, and says how sure it is. For a pair with a job of a model that was never seen, extra trees
    and gradient boosting have a say too: they stay within what was measured where a process goes on along a trend. How
    much of a say is learnt by leaving models of the training rows out (`mixing`); a part without one is not kept.

    Parameters
    ----------
    max_rows, max_iter, seed
        As in `pairgp.PairGP`.
    """

    def __init__(self, max_rows: int = 350, max_iter: int = 40, seed: int = 0) -> None:
        self.max_rows = max_rows
        self.max_iter = max_iter
        self.seed = seed

    def fit(self, X: pd.DataFrame, y: Floats) -> Self:
        """Fit the processes, learn the weights of the trees, and fit those that have one."""
        process, trees, pairs = self._process().fit(X, y), self._trees(), _pairs(X)
        weights = np.eye(1 + len(trees))[0]
        if len(pairs) >= LEAST_PAIRS:
            weights = mixing.learnt(process, trees, X, y, pairs)
        kept = [number for number in range(1, len(weights)) if weights[number] > 0]
        self.models_ = novelty.models_of(X)
        self.weights_ = weights[[0, *kept]]
        self.parts_ = [("processes", process), *_fitted([trees[number - 1] for number in kept], X, y, pairs)]
        return self

    def again(self, X: pd.DataFrame, y: Floats, asked: pd.DataFrame) -> StallScope:
        """Return a predictor with the same weights that has learnt from other rows, to be asked about some rows."""
        found: StallScope = clone(self)
        found.models_, found.weights_ = novelty.models_of(X), self.weights_
        found.parts_ = [("processes", self._process().fit(X, y))]
        if novelty.strangers(asked, found.models_).any():
            found.parts_ += _fitted([(name, clone(part)) for name, part in self.parts_[1:]], X, y, _pairs(X))
        else:
            found.weights_ = np.ones(1)
        return found

    def shares(self, X: pd.DataFrame) -> Floats:
        """Return the weight of every part in every row, shape (rows, parts); trees speak of pairs with a new model."""
        out = np.zeros((len(X), len(self.parts_)))
        out[:, 0] = 1.0
        if len(self.parts_) > 1:
            alone = np.zeros(len(X), dtype=bool)
            alone[_pairs(X)] = True
            out[alone & novelty.strangers(X, self.models_)] = self.weights_
        return out

    def predict(self, X: pd.DataFrame) -> Floats:
        """Return ln S."""
        return _mixed(self.shares(X), self.process_.predict(X), X, [part for _, part in self.parts_[1:]])

    def predict_std(self, X: pd.DataFrame) -> Floats:
        """Return the processes' standard deviation of ln S, which tells sure rows from unsure ones."""
        return self.process_.predict_std(X)

    def left_out(self, held: Sequence[Ints], X: pd.DataFrame, y: Floats) -> tuple[Ints, Floats, Floats]:
        """Return what would be said of training rows had whole groups of them been left out.

        The processes leave them out in closed form, the trees are fitted again.

        Parameters
        ----------
        held : sequence of ndarray of int
            Rows that are left out together.
        X, y
            The training rows.

        Returns
        -------
        rows, predicted, deviation : ndarray
            As `StructuredGP.left_out`.
        """
        rows, predicted, deviation = self.process_.left_out(held)
        sizes = [int(np.isin(self.process_.rows_, group).sum()) for group in held]
        start, pairs = 0, _pairs(X)
        for group, size in zip(held, sizes, strict=True):
            place = slice(start, start + size)
            start += size
            rest = np.setdiff1d(pairs, group)
            asked = X.iloc[rows[place]]
            strange = novelty.strangers(asked, novelty.models_of(X.iloc[rest]))
            if len(self.parts_) > 1 and strange.any() and len(rest):
                shares = np.where(strange[:, None], self.weights_, np.eye(len(self.parts_))[0])
                trees = _fitted([(name, clone(part)) for name, part in self.parts_[1:]], X, y, rest)
                predicted[place] = _mixed(shares, predicted[place], asked, [tree for _, tree in trees])
        return rows, predicted, deviation

    @property
    def process_(self) -> StructuredGP:
        """The processes."""
        found: StructuredGP = self.parts_[0][1]
        return found

    def _process(self) -> StructuredGP:
        return StructuredGP(self.max_rows, self.max_iter, self.seed)

    def _trees(self) -> list[tuple[str, Any]]:
        return [
            ("extra trees", ExtraTrees(n_estimators=60, random_state=self.seed)),
            ("boosting", Boosting(max_iter=75, learning_rate=0.1, random_state=self.seed)),
        ]


def _fitted(trees: Sequence[tuple[str, Any]], X: pd.DataFrame, y: Floats, pairs: Ints) -> list[tuple[str, Any]]:
    return [(name, tree.fit(X.iloc[pairs], y[pairs])) for name, tree in trees]


def _mixed(shares: Floats, processes: Floats, X: pd.DataFrame, trees: Sequence[Any]) -> Floats:
    """Return the weighted mean of ln S; trees are asked only where they have a weight."""
    out: Floats = shares[:, 0] * processes
    for column, tree in enumerate(trees, start=1):
        asked = np.flatnonzero(shares[:, column])
        if len(asked):
            out[asked] += shares[asked, column] * tree.predict(X if len(asked) == len(X) else X.iloc[asked])
    return out


def _pairs(X: pd.DataFrame) -> Ints:
    """Return the rows with exactly one co-runner."""
    return np.flatnonzero(X["others"].map(len).to_numpy() == 1)


__all__ = ["Average", "StallScope"]
