"""The structured predictor: two views of a pair, learnt by Gaussian processes and composed for larger sets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import ClassVar, Self

import numpy as np
import pandas as pd
from sklearn.base import clone

from analysis.predict.frame.quantities import BY_NAME
from analysis.predict.frame.schema import Floats, Ints
from analysis.predict.predictors.base import Predictor
from analysis.predict.predictors.contributions import Contributions, Explained, required
from analysis.predict.predictors.jobposterior import Features
from analysis.predict.predictors.pairgp import Jobs, PairGP
from analysis.predict.predictors.pairprofiles import Members, ProfileReader
from analysis.predict.predictors.profilescale import QUANTITIES, ProfileScale, others_column
from analysis.predict.predictors.set_shapley import explain_sets

#: Fewer complete pairs than this make no view of shares.
LEAST_PAIRS = 20

#: Pairs that are left out one by one to weigh the views, of large tables.
WEIGHED_PAIRS = 500

#: Pairs that are predicted at once.
BLOCK = 50_000


@dataclass(frozen=True)
class _Views:
    """What the two views say of pairs: ln S directly, ln of the pair's throughput, and ln of the ratio of shares.

    `one_sided` is 1 where one of the jobs has taught the view of shares nothing, though it was seen.
    """

    direct: Floats
    throughput: Floats
    odds: Floats
    variance: Floats
    one_sided: Floats


class StructuredGP(Predictor):
    """Sensitivity of a job, pressure of its co-runners and their shares of the GPU, learnt from pairs, for any set.

    Two views of a pair are averaged in ln S. *Direct*: own sensitivity + pressure of the other + interaction. *Share*:
    the pair's system throughput ``1/S_i + 1/S_j`` (symmetric) and the log odds of the shares ``d = ln S_i - ln S_j``
    (antisymmetric), from which ``ln S_i = softplus(d) - ln STP``. The weight of a view is chosen by its leave-one-pair-
    out error on the training rows, in closed form. For larger sets the direct view composes pairs by the geometric mean
    of product and sum; the share view divides the pairs' mean throughput by all odds.

    Parameters
    ----------
    max_rows, max_iter, seed
        As in `pairgp.PairGP`.
    least_weight : float
        Least weight of each view.
    shift : float
        Multiple of the predictive variance taken off ln S: 1 aims at the least expected percentage error, 0 at the
        median.
    most_shift : float
        Bound of the shift.
    least_slowdown : float
        No S below this is predicted.
    """

    holds = (PairGP, Jobs, Features, ProfileReader, ProfileScale)
    explained_by: ClassVar[Explained] = "background"

    def __init__(
        self,
        max_rows: int = 350,
        max_iter: int = 40,
        seed: int = 0,
        least_weight: float = 0.25,
        shift: float = 1.0,
        most_shift: float = 0.1,
        least_slowdown: float = 0.8,
    ) -> None:
        self.max_rows = max_rows
        self.max_iter = max_iter
        self.seed = seed
        self.least_weight = least_weight
        self.shift = shift
        self.most_shift = most_shift
        self.least_slowdown = least_slowdown

    def fit(self, X: pd.DataFrame, y: Floats) -> Self:
        """Learn from the pairs among the rows; larger sets are composed, not learnt."""
        self.reader_ = ProfileReader(QUANTITIES).remember(X)
        members = self.reader_.read(X)
        self.scale_ = ProfileScale(self.reader_.columns).fit(members.values)
        jobs = self.jobs_of(members)
        beside = (members.others >= 0).sum(axis=1)
        # Without any pair, each co-runner of a larger set stands for an equal part of ln S.
        learned = beside == 1 if (beside == 1).any() else beside >= 1
        self.rows_, slots = np.nonzero((members.others >= 0) & learned[:, None])
        self.beside_ = beside[self.rows_].astype(np.float64)
        i, j = members.own[self.rows_], members.others[self.rows_, slots]
        value = np.asarray(y, dtype=np.float64)[self.rows_] / self.beside_
        self.direct_ = self._gp("direct").fit(i, j, value, jobs)
        self.first_, self.second_ = _matched(i, j)
        self.shares_, self.weight_ = len(self.first_) >= LEAST_PAIRS, 0.0
        if self.shares_:
            first, second = self.first_, self.second_
            throughput = np.log(np.exp(-value[first]) + np.exp(-value[second]))
            self.odd_ = i[first] != j[first]
            odd_first, odd_second = first[self.odd_], second[self.odd_]
            self.symmetric_ = self._gp("symmetric").fit(i[first], j[first], throughput, jobs)
            self.antisymmetric_ = self._gp("antisymmetric").fit(
                i[odd_first], j[odd_first], value[odd_first] - value[odd_second], jobs
            )
            # A job that is only ever a co-runner without a slowdown of its own has taught the view of shares nothing.
            taught, asked = (set(jobs.name[np.concatenate([i[rows], j[rows]])]) for rows in (first, slice(None)))
            self.one_sided_ = sorted(str(name) for name in asked - taught)
            self.weight_ = self._choose_weight(value, np.minimum(i, j), np.maximum(i, j))
        return self

    def _choose_weight(self, value: Floats, low: Ints, high: Ints) -> float:
        """Return the share view's weight that makes the least error on pairs that are left out one by one."""
        code = low * (int(high.max()) + 1) + high
        block = pd.factorize(code)[0]
        held = np.split(np.argsort(block, kind="stable"), np.cumsum(np.bincount(block))[:-1])
        if self.direct_.by_job_ and len(held) > WEIGHED_PAIRS:
            held = [held[number] for number in np.random.default_rng(self.seed).permutation(len(held))[:WEIGHED_PAIRS]]
        rows, direct, share, _ = self._left_out_views(held)
        known = ~np.isnan(share)
        truth = value[rows][known]
        grid = np.linspace(self.least_weight, 1.0 - self.least_weight, 11)
        errors = [np.abs(np.expm1(part * share[known] + (1 - part) * direct[known] - truth)).mean() for part in grid]
        return float(grid[int(np.argmin(errors))])

    def left_out(self, held: Sequence[Ints]) -> tuple[Ints, Floats, Floats]:
        """Return what would be said of training rows had whole groups of them been left out, in closed form.

        Parameters
        ----------
        held : sequence of ndarray of int
            Rows of the training frame that are left out together.

        Returns
        -------
        rows, predicted, deviation : ndarray
            Row numbers of the training frame (those that it learned from), ln S, and its standard deviation. A row that
            is in several groups stands several times.
        """
        mine = [self.learned(rows) for rows in held]
        rows, direct, share, variance = self._left_out_views([found for found in mine if len(found)])
        out = np.where(np.isnan(share), direct, (1.0 - self.weight_) * direct + self.weight_ * share)
        out = np.maximum(out - np.minimum(self.shift * variance, self.most_shift), np.log(self.least_slowdown))
        return self.rows_[rows], out * self.beside_[rows], np.sqrt(variance) * self.beside_[rows]

    def among(self, rows: Ints) -> StructuredGP:
        """Return a predictor that has learnt from some of the rows alone, for what leaves rows out.

        Parameters
        ----------
        rows : ndarray of int
            Rows of the training frame, in their order; they are numbered anew. Hyper-parameters and weights stay.
        """
        found: StructuredGP = clone(self)
        found.__dict__.update(vars(self))
        number = np.full(int(self.rows_.max()) + 1, -1)
        inside = rows[rows < len(number)]
        number[inside] = np.arange(len(inside))
        kept = np.flatnonzero(number[self.rows_] >= 0)
        found.rows_, found.beside_ = number[self.rows_[kept]], self.beside_[kept]
        found.direct_ = self.direct_.among(kept)
        if self.shares_:
            place = np.full(len(self.rows_), -1)
            place[kept] = np.arange(len(kept))
            runs = np.flatnonzero((place[self.first_] >= 0) & (place[self.second_] >= 0))
            found.first_, found.second_, found.odd_ = (
                place[self.first_[runs]],
                place[self.second_[runs]],
                self.odd_[runs],
            )
            found.symmetric_ = self.symmetric_.among(runs)
            odd = np.cumsum(self.odd_) - 1
            found.antisymmetric_ = self.antisymmetric_.among(odd[runs[self.odd_[runs]]])
        return found

    def learned(self, rows: Ints) -> Ints:
        """Return where rows of the training frame stand among what it learned from, those of sets several times."""
        asked = np.zeros(max(int(self.rows_.max()), int(np.max(rows, initial=0))) + 1, dtype=bool)
        asked[rows] = True
        return np.flatnonzero(asked[self.rows_])

    def _left_out_views(self, held: Sequence[Ints]) -> tuple[Ints, Floats, Floats, Floats]:
        """Return rows, both views and the variance for held-out groups; the share view is NaN without both sides."""
        direct = self.direct_.left_out(held)
        rows = np.concatenate(held)
        mean = np.concatenate([found[0] for found in direct])
        variance = np.concatenate([found[1] for found in direct])
        share = np.full(len(rows), np.nan)
        if not self.shares_:
            return rows, mean, share, variance
        run_of = np.full(len(self.rows_), -1)
        run_of[self.first_] = run_of[self.second_] = np.arange(len(self.first_))
        odd_of = np.where(self.odd_, np.cumsum(self.odd_) - 1, -1)
        runs = [np.unique(run_of[group][run_of[group] >= 0]) for group in held]
        symmetric = self.symmetric_.left_out([group for group in runs if len(group)])
        odd = [odd_of[group][odd_of[group] >= 0] for group in runs]
        antisymmetric = self.antisymmetric_.left_out([group for group in odd if len(group)])
        at, of_symmetric, of_odd = 0, iter(symmetric), iter(antisymmetric)
        for group, run, odd_runs in zip(held, runs, odd, strict=True):
            if len(run):
                level, level_variance = next(of_symmetric)
                odds, odds_variance = np.zeros(len(run)), np.zeros(len(run))
                if len(odd_runs):
                    odds[self.odd_[run]], odds_variance[self.odd_[run]] = next(of_odd)
                inside = np.flatnonzero(run_of[group] >= 0)
                which = np.searchsorted(run, run_of[group[inside]])
                side = np.where(np.isin(group[inside], self.first_), 1.0, -1.0)
                ratio = side * odds[which]
                part = 1.0 / (1.0 + np.exp(-ratio))
                share[at + inside] = _softplus(ratio) - level[which]
                of_share = level_variance[which] + part**2 * odds_variance[which]
                mixed = (1.0 - self.weight_) * variance[at + inside] + self.weight_ * of_share
                variance[at + inside] = mixed
            at += len(group)
        return rows, mean, share, variance

    def predict(self, X: pd.DataFrame) -> Floats:
        """Return ln S."""
        members = self.reader_.read(X)
        return self.compose(self.jobs_of(members), members.own, members.others)[0]

    def contributions(self, X: pd.DataFrame, background: pd.DataFrame | None = None) -> Contributions:
        """Return the closed-form Shapley values of its processes, carried through to ln S."""
        found = explain_sets(self, X, required(background))
        method = (
            f"Shapley values of its Gaussian processes in closed form against {found.background} training pairs "
            f"(standard error of that choice at most {found.error:.3f} in ln S), carried through to ln S; their sum is "
            "exact"
        )
        return Contributions(found.base, found.values, method, "sets", error=found.error)

    def predict_std(self, X: pd.DataFrame) -> Floats:
        """Return the predictive standard deviation of ln S."""
        members = self.reader_.read(X)
        return np.sqrt(self.compose(self.jobs_of(members), members.own, members.others)[1])

    def compose(self, jobs: Jobs, own: Ints, others: Ints, variance: bool = True) -> tuple[Floats, Floats]:
        """Return ln S and its variance for rows of jobs, each beside its co-runners (-1: none).

        Without the variance, which costs most of the time, ln S is the median: the shift and the bound are left out.
        """
        rows, slots = np.nonzero(others >= 0)
        a, b = own[rows], others[rows, slots]
        # Sets share their pairs: each distinct pair is asked once.
        code = a * len(jobs.x) + b
        distinct, back = np.unique(code, return_inverse=True)
        pair = self._of_pairs(jobs, distinct, variance)
        count = len(own)
        beside = np.maximum((others >= 0).sum(axis=1), 1).astype(np.float64)

        def total(values: Floats) -> Floats:
            return np.asarray(np.bincount(rows, weights=values[back], minlength=count), dtype=np.float64)

        product, losses = total(pair.direct), np.log(np.maximum(1.0 + total(np.expm1(pair.direct)), 0.2))
        out = 0.5 * (product + losses)
        # How far the ways of composing a larger set are apart says how far each of them may be off.
        apart = 0.25 * (product - losses) ** 2
        if self.shares_:
            share = np.log1p(total(np.exp(pair.odds))) - total(pair.throughput) / beside
            weight = np.where(total(pair.one_sided) > 0, 0.0, self.weight_)
            apart = apart + weight * (1.0 - weight) * (share - out) ** 2
            out = (1.0 - weight) * out + weight * share
        spread = total(pair.variance) + np.where(beside > 1, apart, 0.0)
        if variance:
            out = out - np.minimum(self.shift * total(pair.variance), self.most_shift)
            out = np.maximum(out, np.log(self.least_slowdown))
        return out, spread

    def jobs_of(self, members: Members) -> Jobs:
        """Return the jobs of some rows as the kernels see them."""
        return Jobs(self.scale_.apply(members.values), members.model, members.workload)

    @property
    def columns_(self) -> list[str]:
        """Names of the frame's columns that the predictor reads."""
        kept = [name for name in self.scale_.kept_names if name in BY_NAME]
        return [column for name in kept for column in (f"own_{name}", others_column(name))]

    def _of_pairs(self, jobs: Jobs, code: Ints, variance: bool) -> _Views:
        """Return the views of pairs, numbered ``first * jobs + second``, a block at a time to bound the memory."""
        blocks = []
        for start in range(0, max(len(code), 1), BLOCK):
            first, second = np.divmod(code[start : start + BLOCK], len(jobs.x))
            blocks.append(self._views(jobs, first, second, variance))
        return _Views(*(np.concatenate([getattr(block, one.name) for block in blocks]) for one in fields(_Views)))

    def _views(self, jobs: Jobs, i: Ints, j: Ints, variance: bool) -> _Views:
        direct = self.direct_.predict(jobs, i, j)
        nothing = np.zeros(len(direct))
        spread = self.direct_.variance(jobs, i, j) if variance else nothing
        if not self.shares_:
            return _Views(direct, nothing, nothing, spread, nothing)
        throughput, odds = self.symmetric_.predict(jobs, i, j), self.antisymmetric_.predict(jobs, i, j)
        untaught = np.isin(jobs.name, self.one_sided_)
        one_sided = (untaught[i] | untaught[j]).astype(np.float64)
        if variance:
            weight = np.where(one_sided > 0, 0.0, self.weight_)
            share = 1.0 / (1.0 + np.exp(-odds))
            of_share = self.symmetric_.variance(jobs, i, j) + share**2 * self.antisymmetric_.variance(jobs, i, j)
            spread = (1.0 - weight) * spread + weight * of_share
        return _Views(direct, throughput, odds, spread, one_sided)

    def _gp(self, mode: str) -> PairGP:
        return PairGP(mode, self.max_rows, self.max_iter, self.seed)  # type: ignore[arg-type]


def _softplus(x: Floats) -> Floats:
    out: Floats = np.logaddexp(0.0, x)
    return out


def _matched(i: Ints, j: Ints) -> tuple[Ints, Ints]:
    """Return rows that are the two sides of a run: i beside j and j beside i, repeats in the order they came."""
    waiting: dict[tuple[int, int], list[int]] = {}
    first, second = [], []
    for row, pair in enumerate(zip(i.tolist(), j.tolist(), strict=True)):
        partner = waiting.get((pair[1], pair[0]))
        if partner:
            first.append(partner.pop(0))
            second.append(row)
        else:
            waiting.setdefault(pair, []).append(row)
    return np.array(first, dtype=np.int64), np.array(second, dtype=np.int64)
