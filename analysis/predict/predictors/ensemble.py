"""Averages of predictors, and StallScope's default: processes, with trees beside them where a model is new."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from itertools import product
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import pandas as pd
from sklearn.base import clone

from analysis.predict.frame.schema import Floats, Ints
from analysis.predict.predictors.base import Predictor
from analysis.predict.predictors.contributions import Contributions, Explained, Start
from analysis.predict.predictors.learners import Boosting, ExtraTrees
from analysis.predict.predictors.pairgp import EXACT_ROWS
from analysis.predict.predictors.structured import StructuredGP

#: Most rehearsals; models beyond that are left out several at a time.
MOST_GROUPS = 12

#: Rehearsals of processes that are learnt by job, where each is a new fit; models are then left out together.
FEW_GROUPS = 6


def models_of(X: pd.DataFrame) -> list[str]:
    """Return the models that occur in a frame's rows, of targets and of co-runners, sorted."""
    beside = {str(name) for names in set(X["models"]) for name in names}
    return sorted({str(name) for name in X["model"].unique()} | beside)


def strangers(
    X: pd.DataFrame, models: Collection[str], who: tuple[str, str] = ("model", "models")
) -> npt.NDArray[np.bool_]:
    """Say which rows have a job of a model that is not among those given.

    Parameters
    ----------
    X : pd.DataFrame
        Rows of the frame.
    models : collection of str
        Models that were seen, as targets or as co-runners.
    who : (str, str)
        Columns of the target's and the co-runners' names; ``workload`` and ``others`` ask about workloads.

    Returns
    -------
    ndarray of bool, shape (rows,)
    """
    seen = frozenset(models)
    # Each distinct name and set of co-runners is looked at once: frames may have millions of rows.
    code, distinct = pd.factorize(X[who[0]].to_numpy(dtype=object))
    strange = np.array([str(name) not in seen for name in distinct], dtype=bool)
    beside, sets = pd.factorize(X[who[1]].to_numpy(dtype=object))
    any_strange = np.array([any(str(name) not in seen for name in found) for found in sets], dtype=bool)
    return np.asarray(strange[code] | any_strange[beside], dtype=bool)


#: Workloads among which rows are left out, of those that a table has.
MOST_WORKLOADS = 150


def familiar(X: pd.DataFrame) -> Ints | None:
    """Return the rows between `MOST_WORKLOADS` workloads that are drawn by lot; None where there are no more."""
    names = sorted({str(name) for name in X["workload"].unique()})
    if len(names) <= MOST_WORKLOADS:
        return None
    kept = np.random.default_rng(0).permutation(np.array(names, dtype=object))[:MOST_WORKLOADS]
    return np.flatnonzero(~strangers(X, kept.tolist(), ("workload", "others")))


def rehearsals(X: pd.DataFrame, most: int | None = None) -> Iterator[Ints]:
    """Leave models out in turn, each with all runs that it is in: rows that are as strange to the rest as a new model.

    Yields
    ------
    ndarray of int
        Rows that are left out together.
    """
    names = models_of(X)
    order = np.random.default_rng(0).permutation(len(names))
    count = min(most or MOST_GROUPS, len(names))
    for number in range(count):
        group = [names[place] for place in order[number::count]]
        rows = np.flatnonzero(strangers(X, set(names).difference(group)))
        if 0 < len(rows) < len(X):
            yield rows


#: Rows that trees learn from at most; more would cost more than they teach.
TREE_ROWS = 2_500


def drawn(rows: Ints) -> Ints:
    """Return rows, or as many of them as trees learn from at most, drawn by lot, in their order."""
    if len(rows) <= TREE_ROWS:
        return rows
    return rows[np.sort(np.random.default_rng(0).permutation(len(rows))[:TREE_ROWS])]


#: Steps in which weights are tried: 1/8.
STEPS = 8

#: Left-out models that speak for the processes alone before any was left out, and how many make a weight.
PRIOR_GROUPS = 2.0
LEAST_GROUPS = 5

#: Draws of models over which the best weights are averaged.
DRAWS = 200

#: Smaller weights are none: trees that hardly count are not worth their time.
LEAST_WEIGHT = 0.04


def learnt(process: StructuredGP, trees: Sequence[tuple[str, Any]], X: pd.DataFrame, y: Floats, pairs: Ints) -> Floats:
    """Return the weights of the processes and of each tree part for sets with a model that was never seen.

    Models are left out of the training rows in turn: of the processes in closed form, of the trees by fitting again.

    Parameters
    ----------
    process : StructuredGP
        Fitted on all rows.
    trees : sequence of (str, estimator)
        The tree parts, unfitted.
    X, y
        The training rows and ln S.
    pairs : ndarray of int
        Those with one co-runner, which trees learn from.

    Returns
    -------
    ndarray, shape (1 + trees,)
        Sums to 1.
    """
    grid = candidates(1 + len(trees))
    errors = []
    if process.direct_.by_job_ and (rows := familiar(X)) is not None:
        X, y, process = X.iloc[rows], y[rows], process.among(rows)
        pairs = _pairs(X)
    groups = list(rehearsals(X[["model", "models"]].iloc[pairs], FEW_GROUPS if process.direct_.by_job_ else None))
    if len(groups) < LEAST_GROUPS:
        first: Floats = grid[0]
        return first
    _, left_out, _ = process.left_out([pairs[held] for held in groups])
    for held, said in zip(groups, np.split(left_out, np.cumsum([len(held) for held in groups])[:-1]), strict=True):
        rest, few = drawn(np.delete(pairs, held)), drawn(np.arange(len(held)))
        rows = pairs[held[few]]
        parts = [said[few], *(tree.predict(X.iloc[rows]) for _, tree in _fitted(_cloned(trees), X, y, rest))]
        mixed = np.column_stack(parts) @ grid.T
        errors.append(np.abs(np.expm1(mixed - y[rows][:, None])).mean(axis=0))
    return best_weights(np.array(errors), grid)


def candidates(parts: int) -> Floats:
    """Return the weights that are tried, shape (candidates, parts), the first part alone first."""
    rest = [found for found in product(range(STEPS + 1), repeat=parts - 1) if sum(found) <= STEPS]
    return np.array([[STEPS - sum(found), *found] for found in rest], dtype=np.float64) / STEPS


def best_weights(errors: Floats, grid: Floats) -> Floats:
    """Return the weights of least error, averaged over draws of the groups, drawn to the first part with few of them.

    Parameters
    ----------
    errors : ndarray, shape (groups, candidates)
        Mean absolute percentage error of each left-out group with each candidate.
    grid : ndarray, shape (candidates, parts)
        The candidates.
    """
    groups = len(errors)
    lot = np.random.default_rng(0)
    best = [grid[int(np.argmin(errors[lot.integers(0, groups, groups)].mean(axis=0)))] for _ in range(DRAWS)]
    weights: Floats = np.mean(best, axis=0) * groups / (groups + PRIOR_GROUPS)
    weights[weights < LEAST_WEIGHT] = 0.0
    weights[0] = 1.0 - weights[1:].sum()
    return weights


#: Fewer pairs than this teach trees nothing worth a weight.
LEAST_PAIRS = 60


def expected_seconds(rows: int, workloads: int) -> float:
    """Return about how many seconds one core takes to train the default with its intervals, to be said before.

    Parameters
    ----------
    rows : int
        Members to learn from.
    workloads : int
        Workloads among them.
    """
    if rows <= EXACT_ROWS:
        return float(4.0 + 14.0 * (rows / 2000.0) ** 1.5)
    return 0.18 * workloads + 6e-5 * workloads**2


class Mixture(Predictor):
    """What averages of fitted parts share: `parts_`, and the weight of every part in every row."""

    parts_: list[tuple[str, Any]]

    def shares(self, X: pd.DataFrame) -> Floats:
        """Return the weight of every part in every row, shape (rows, parts)."""
        raise NotImplementedError

    @property
    def explained(self) -> Explained:
        """As the part that is explained least exactly."""
        order: list[Explained] = ["exact", "background", "sampled"]
        found: list[Explained] = [part.explained for _, part in self.parts_]
        return max(found, key=order.index)

    def contributions(self, X: pd.DataFrame, background: pd.DataFrame | None = None) -> Contributions:
        """Return the weighted means of the parts' contributions; rows may have weights of their own."""
        shares = self.shares(X)
        base: Floats = np.zeros(len(X))
        values: pd.DataFrame | None = None
        methods: list[str] = []
        starts: set[Start] = set()
        error = 0.0
        for share, (name, part) in zip(shares.T, self.parts_, strict=True):
            rows = np.flatnonzero(share)
            if len(X) and not len(rows):
                continue
            told = part.contributions(X if len(rows) == len(X) else X.iloc[rows], background)
            base[rows] += share[rows] * told.base
            scaled = told.values.set_axis(rows, axis=0).mul(share[rows], axis=0).reindex(range(len(X)), fill_value=0.0)
            values = scaled if values is None else values.add(scaled, fill_value=0.0)
            methods.append(told.method if len(self.parts_) == 1 else f"{name}: {told.method}")
            starts.add(told.start)
            error += float(share.max(initial=0.0)) * told.error
        start: Start = next(iter(starts)) if len(starts) == 1 else "typical"
        return Contributions(base, pd.DataFrame() if values is None else values, "; ".join(methods), start, error)


class Average(Mixture):
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


class StallScope(Mixture):
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

    holds = (StructuredGP, ExtraTrees, Boosting)

    def __init__(self, max_rows: int = 350, max_iter: int = 40, seed: int = 0) -> None:
        self.max_rows = max_rows
        self.max_iter = max_iter
        self.seed = seed

    def fit(self, X: pd.DataFrame, y: Floats) -> Self:
        """Fit the processes, learn the weights of the trees, and fit those that have one."""
        process, trees, pairs = self._process().fit(X, y), self._trees(), _pairs(X)
        weights = np.eye(1 + len(trees))[0]
        if len(pairs) >= LEAST_PAIRS:
            weights = learnt(process, trees, X, y, pairs)
        kept = [number for number in range(1, len(weights)) if weights[number] > 0]
        self.models_ = models_of(X)
        self.weights_ = weights[[0, *kept]]
        self.parts_ = [("processes", process), *_fitted([trees[number - 1] for number in kept], X, y, drawn(pairs))]
        return self

    def again(self, X: pd.DataFrame, y: Floats, asked: pd.DataFrame) -> StallScope:
        """Return a predictor with the same weights that has learnt from other rows, to be asked about some rows."""
        found: StallScope = clone(self)
        found.models_, found.weights_ = models_of(X), self.weights_
        found.parts_ = [("processes", self._process().fit(X, y))]
        if strangers(asked, found.models_).any():
            found.parts_ += _fitted(_cloned(self.parts_[1:]), X, y, drawn(_pairs(X)))
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
            out[alone & strangers(X, self.models_)] = self.weights_
        return out

    def predict(self, X: pd.DataFrame) -> Floats:
        """Return ln S."""
        return _mixed(self.shares(X), self.process_.predict(X), X, [part for _, part in self.parts_[1:]])

    def predict_std(self, X: pd.DataFrame) -> Floats:
        """Return the processes' standard deviation of ln S, which tells sure rows from unsure ones."""
        return self.process_.predict_std(X)

    def among(self, rows: Ints) -> StallScope:
        """Return a predictor whose processes have learnt from some of the rows alone; see `StructuredGP.among`."""
        found: StallScope = clone(self)
        found.models_, found.weights_ = self.models_, self.weights_
        found.parts_ = [("processes", self.process_.among(rows)), *self.parts_[1:]]
        return found

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
        sizes = [len(self.process_.learned(group)) for group in held]
        start, pairs = 0, _pairs(X)
        for group, size in zip(held, sizes, strict=True):
            place = slice(start, start + size)
            start += size
            rest = np.setdiff1d(pairs, group)
            if len(self.parts_) == 1 or not len(rest):
                continue
            who = X[["model", "models"]]
            strange = strangers(who.iloc[rows[place]], models_of(who.iloc[rest]))
            if strange.any():
                shares = np.where(strange[:, None], self.weights_, np.eye(len(self.parts_))[0])
                trees = _fitted(_cloned(self.parts_[1:]), X, y, drawn(rest))
                asked = X.iloc[rows[place]]
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


def _cloned(trees: Sequence[tuple[str, Any]]) -> list[tuple[str, Any]]:
    return [(name, clone(tree)) for name, tree in trees]


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
