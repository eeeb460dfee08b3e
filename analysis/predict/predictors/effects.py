"""Baselines that know only who runs beside whom: effects, completion, composition of pairs, copying."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Literal, Self

import numpy as np
import pandas as pd
from scipy import sparse
from sklearn.linear_model import RidgeCV

from analysis.predict.frame.schema import Floats
from analysis.predict.predictors.base import Predictor, contexts
from analysis.predict.predictors.contributions import Contributions, Explained


class Effects(Predictor):
    """ln S = sum over co-runners of (mean + victim effect + aggressor effect), shrunk by a ridge.

    The two-way effects model of a matrix with rows slowed and columns slowing; for a pair the sum has one term, for a
    larger set the pairs' slowdowns multiply. A workload that never occurred has effect 0. With several GPUs or
    mechanisms each workload also has effects of its own in each of them. The ridge is chosen on the training rows.

    Parameters
    ----------
    alphas : sequence of float
        Ridge strengths to choose from by leave-one-out error.
    """

    explained_by: ClassVar[Explained] = "exact"

    def __init__(self, alphas: Sequence[float] = (0.03, 0.1, 0.3, 1.0, 3.0, 10.0)) -> None:
        self.alphas = alphas

    def fit(self, X: pd.DataFrame, y: Floats) -> Self:
        """Fit the effects."""
        self.several_ = contexts(X).nunique() > 1
        labels = sorted({label for row in self._labels(X) for label in row})
        self.index_ = {label: number for number, label in enumerate(labels)}
        ridge = RidgeCV(alphas=list(self.alphas)).fit(self.design(X).toarray(), y / _beside(X))
        self.effect_ = np.asarray(ridge.coef_, dtype=np.float64)
        self.mean_ = float(ridge.intercept_)
        return self

    def predict(self, X: pd.DataFrame) -> Floats:
        """Return ln S."""
        predicted: Floats = (self.design(X) @ self.effect_ + self.mean_) * _beside(X)
        return predicted

    def contributions(self, X: pd.DataFrame, background: pd.DataFrame | None = None) -> Contributions:
        """Return what the job, its co-runners, the place and the number of co-runners add."""
        design = self.design(X).toarray() * self.effect_
        beside = X["others"].map(len).to_numpy(dtype=np.float64).clip(min=1.0)
        labels = np.array(sorted(self.index_, key=lambda label: self.index_[label]), dtype=object)
        values = pd.DataFrame(
            {
                name: design[:, [label.startswith(start) for label in labels]].sum(axis=1) * beside
                for name, start in (("workload", "victim"), ("others", "aggressor"), ("gpu and mechanism", "place"))
            }
        )
        values["k"] = self.mean_ * (beside - 1.0)
        return Contributions(np.full(len(X), self.mean_), values, "exact: effects of who runs beside whom")

    def design(self, X: pd.DataFrame) -> sparse.csr_matrix:
        """Return how much of each effect enters each row for one co-runner; unknown workloads enter nothing."""
        rows, columns, weights = [], [], []
        beside = _beside(X)
        for number, labels in enumerate(self._labels(X)):
            for label in labels:
                if label in self.index_:
                    rows.append(number)
                    columns.append(self.index_[label])
                    weights.append(1.0 / beside[number] if label.startswith("aggressor") else 1.0)
        return sparse.csr_matrix((weights, (rows, columns)), shape=(len(X), len(self.index_)))

    def _labels(self, X: pd.DataFrame) -> list[list[str]]:
        labels = [
            [f"victim {own}", *(f"aggressor {other}" for other in others)]
            for own, others in zip(X["workload"], X["others"], strict=True)
        ]
        if self.several_:
            for row, place in zip(labels, contexts(X), strict=True):
                row += [*(f"{label} @ {place}" for label in row), f"place {place}"]
        return labels


def _beside(X: pd.DataFrame) -> Floats:
    """Return the number of co-runners of each row."""
    count: Floats = X["others"].map(len).to_numpy(dtype=np.float64).clip(min=1.0)
    return count


class LowRank(Predictor):
    """Completion of the slowdown matrix: effects plus a product of `rank` hidden factors of victim and aggressor.

    Source: the collaborative-filtering estimator of Gavel (D. Narayanan, K. Santhanam, F. Kazhamiaka, A. Phanishayee,
    M. Zaharia, *Heterogeneity-Aware Cluster Scheduling Policies for Deep Learning Workloads*, OSDI 2020, section 6,
    after Quasar), here by alternating ridge regressions in ln S. For more than two jobs the aggressors' products add.

    Parameters
    ----------
    rank : int
        Hidden factors.
    alpha : float
        Ridge on the factors.
    iterations : int
        Rounds of alternation.
    random_state : int
        Seed of the start.
    """

    explained_by: ClassVar[Explained] = "exact"

    def __init__(self, rank: int = 2, alpha: float = 0.3, iterations: int = 30, random_state: int = 0) -> None:
        self.rank = rank
        self.alpha = alpha
        self.iterations = iterations
        self.random_state = random_state

    def fit(self, X: pd.DataFrame, y: Floats) -> Self:
        """Fit the effects, then the factors on their residuals; sets of three and more teach the effects only."""
        self.effects_ = Effects().fit(X, y)
        residual = y - self.effects_.predict(X)
        self.several_ = contexts(X).nunique() > 1
        own, others = self._keys(X)
        names = sorted(set(own) | {name for row in others for name in row})
        self.index_ = {name: number for number, name in enumerate(names)}
        pairs = [number for number, row in enumerate(others) if len(row) == 1]
        i = np.array([self.index_[own[number]] for number in pairs], dtype=np.int64)
        j = np.array([self.index_[others[number][0]] for number in pairs], dtype=np.int64)
        r = residual[pairs]
        generator = np.random.default_rng(self.random_state)
        self.victim_ = generator.normal(0, 0.1, (len(names), self.rank))
        self.aggressor_ = generator.normal(0, 0.1, (len(names), self.rank))
        for _ in range(self.iterations):
            self.victim_ = _half_step(self.aggressor_, i, j, r, self.alpha)
            self.aggressor_ = _half_step(self.victim_, j, i, r, self.alpha)
        return self

    def predict(self, X: pd.DataFrame) -> Floats:
        """Return ln S; factors of unknown workloads are 0."""
        own, others = self._keys(X)
        extra = np.zeros(len(X))
        for number, (name, row) in enumerate(zip(own, others, strict=True)):
            if name in self.index_:
                known = [self.index_[other] for other in row if other in self.index_]
                extra[number] = float(self.victim_[self.index_[name]] @ self.aggressor_[known].sum(axis=0))
        predicted: Floats = self.effects_.predict(X) + extra
        return predicted

    def contributions(self, X: pd.DataFrame, background: pd.DataFrame | None = None) -> Contributions:
        """Return the effects, and what the hidden factors of the combination add to them."""
        effects = self.effects_.contributions(X)
        values = effects.values.assign(**{"workload and others": self.predict(X) - effects.total()})
        return Contributions(effects.base, values, "exact: effects and hidden factors of who runs beside whom")

    def _keys(self, X: pd.DataFrame) -> tuple[list[str], list[list[str]]]:
        place = [f" @ {text}" if self.several_ else "" for text in contexts(X)]
        own = [f"{name}{at}" for name, at in zip(X["workload"], place, strict=True)]
        others = [[f"{name}{at}" for name in row] for row, at in zip(X["others"], place, strict=True)]
        return own, others


def _half_step(fixed: Floats, rows: np.ndarray, columns: np.ndarray, target: Floats, alpha: float) -> Floats:
    """Solve a ridge for every row's factors while the columns' factors stay."""
    out = np.zeros_like(fixed)
    identity = alpha * np.eye(fixed.shape[1])
    for row in np.unique(rows):
        mine = rows == row
        beside = fixed[columns[mine]]
        out[row] = np.linalg.solve(beside.T @ beside + identity, beside.T @ target[mine])
    return out


class Composition(Predictor):
    """Slowdown in a set of three or more from its pairs: additive 1 + sum(S_ij - 1), or the product of S_ij.

    Pairs that were measured among the training rows enter as measured (their mean), the others as `Effects` predicts.

    Parameters
    ----------
    rule : {"additive", "product"}
        How the pairs combine.
    """

    explained_by: ClassVar[Explained] = "exact"

    def __init__(self, rule: Literal["additive", "product"] = "additive") -> None:
        self.rule = rule

    def fit(self, X: pd.DataFrame, y: Floats) -> Self:
        """Remember the measured pairs."""
        pairs = X["others"].map(len).to_numpy() == 1
        self.effects_ = Effects().fit(X[pairs], y[pairs])
        keys = zip(contexts(X)[pairs], X["workload"][pairs], X["others"][pairs], strict=True)
        found: dict[str, list[float]] = {}
        for (place, own, others), value in zip(keys, np.exp(y[pairs]), strict=True):
            found.setdefault(_pair_key(place, own, others[0]), []).append(float(value))
        self.pairs_ = {key: float(np.mean(values)) for key, values in found.items()}
        return self

    def predict(self, X: pd.DataFrame) -> Floats:
        """Return ln S of the composition, at least ln 0.05."""
        rows = X[["workload", "others", "gpu", "mechanism"]].reset_index(drop=True)
        long = rows.explode("others").rename_axis("row").reset_index()
        long["others"] = [(other,) for other in long["others"]]
        values = np.exp(self.effects_.predict(long))
        places = contexts(long)
        for number, (place, own, others) in enumerate(zip(places, long["workload"], long["others"], strict=True)):
            values[number] = self.pairs_.get(_pair_key(place, own, others[0]), values[number])
        if self.rule == "product":
            total = pd.Series(np.log(values)).groupby(long["row"]).sum()
        else:
            total = np.log((1 + pd.Series(values - 1).groupby(long["row"]).sum()).clip(lower=0.05))
        return np.asarray(total.reindex(range(len(rows))).fillna(0.0), dtype=np.float64)

    def contributions(self, X: pd.DataFrame, background: pd.DataFrame | None = None) -> Contributions:
        """Return ln S as what the combination of jobs adds to a job alone."""
        values = pd.DataFrame({"workload and others": self.predict(X)})
        return Contributions(np.zeros(len(X)), values, "exact: measured slowdowns of these jobs", "alone")


def _pair_key(place: str, own: str, other: str) -> str:
    return f"{place} | {own} | {other}"


class CopyOtherGpu(Predictor):
    """The same set's slowdown on the GPUs it was measured on, averaged in ln S; the training median where it was not.

    What "a slowdown is a property of the pair" would mean; a slowdown does not travel.
    """

    explained_by: ClassVar[Explained] = "exact"

    def fit(self, X: pd.DataFrame, y: Floats) -> Self:
        """Remember every set."""
        keys = [_set_key(own, others) for own, others in zip(X["workload"], X["others"], strict=True)]
        means = pd.Series(y).groupby(np.array(keys, dtype=object)).mean()
        self.known_ = {str(key): float(value) for key, value in means.items()}
        self.median_ = float(np.log(np.median(np.exp(y))))
        return self

    def predict(self, X: pd.DataFrame) -> Floats:
        """Return ln S."""
        return np.array(
            [
                self.known_.get(_set_key(own, others), self.median_)
                for own, others in zip(X["workload"], X["others"], strict=True)
            ],
            dtype=np.float64,
        )

    def contributions(self, X: pd.DataFrame, background: pd.DataFrame | None = None) -> Contributions:
        """Return what the combination of jobs adds to the median of the training rows."""
        values = pd.DataFrame({"workload and others": self.predict(X) - self.median_})
        return Contributions(np.full(len(X), self.median_), values, "exact: measured slowdowns of these jobs")


def _set_key(own: str, others: Sequence[str]) -> str:
    return " | ".join((own, *others))
