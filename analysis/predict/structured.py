"""The structured predictor: two views of a pair, learnt by Gaussian processes and composed for larger sets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
import pandas as pd

from analysis.predict.base import Predictor
from analysis.predict.pairgp import Jobs, PairGP, take
from analysis.predict.pairprofiles import Members, ProfileReader
from analysis.predict.quantities import BY_NAME, STALL_GROUPS
from analysis.predict.schema import Floats, Ints

#: Quantities of a job's profile. Magnitudes enter as logarithms.
QUANTITIES: tuple[str, ...] = (
    "step_length", "peak_memory", "threads", "registers", "shared_memory", "kernel_length", "kernel_threads",
    "short_kernel_length", "long_kernel_length", "long_short_ratio", "pcie_read", "pcie_write", "speedup_slow",
    "speedup_fast", "sm_util", "mem_util", "compute_throughput", "dram_throughput", "memory_throughput",
    "l2_throughput", "tensor_throughput", "occupancy", "issue_active", "half_precision", "training",
    "batch_elasticity", "relative_batch", "relative_step", "warp_cycles_per_issue",
    *(f"stall_{key}" for key in STALL_GROUPS),
)  # fmt: skip

#: Products that say more than their factors: work of a kernel, busy time of a step, of a kernel.
PRODUCTS: tuple[tuple[str, str, str], ...] = (
    ("work", "kernel_length", "kernel_threads"),
    ("busy_step", "step_length", "sm_util"),
    ("queue", "kernel_length", "sm_util"),
)

#: Fewer complete pairs than this make no view of shares.
LEAST_PAIRS = 20


@dataclass(frozen=True)
class _Views:
    """What the two views say of pairs: ln S directly, ln of the pair's throughput, and ln of the ratio of shares."""

    direct: Floats
    throughput: Floats
    odds: Floats
    variance: Floats


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
        rows = members.pairs if len(members.pairs) else np.arange(len(X))
        self._learn_scale(members)
        jobs = self.jobs_of(members)
        i, j = members.own[rows], members.others[rows, 0]
        value = np.asarray(y, dtype=np.float64)[rows]
        if not len(members.pairs):  # only larger sets: their mean effect of one co-runner
            value = value / (members.others[rows] >= 0).sum(axis=1)
        low, high = np.minimum(i, j), np.maximum(i, j)
        block = pd.factorize(pd.MultiIndex.from_arrays([low, high]))[0].astype(np.int64)
        self.direct_ = self._gp("direct").fit(i, j, value, jobs, block)
        first, second = _matched(i, j)
        self.shares_, self.weight_ = len(first) >= LEAST_PAIRS, 0.0
        if not self.shares_:
            return self
        throughput = np.log(np.exp(-value[first]) + np.exp(-value[second]))
        odd = i[first] != j[first]
        self.symmetric_ = self._gp("symmetric").fit(i[first], j[first], throughput, jobs, block[first])
        self.antisymmetric_ = self._gp("antisymmetric").fit(
            i[first][odd], j[first][odd], (value[first] - value[second])[odd], jobs, block[first][odd]
        )
        odds = np.zeros(len(first))
        odds[odd] = self.antisymmetric_.left_out_
        share = np.concatenate([_softplus(odds), _softplus(-odds)]) - np.tile(self.symmetric_.left_out_, 2)
        both = np.concatenate([first, second])
        direct, truth = self.direct_.left_out_[both], value[both]
        grid = np.linspace(self.least_weight, 1.0 - self.least_weight, 11)
        errors = [np.abs(np.expm1(part * share + (1 - part) * direct - truth)).mean() for part in grid]
        self.weight_ = float(grid[int(np.argmin(errors))])
        return self

    def predict(self, X: pd.DataFrame) -> Floats:
        """Return ln S."""
        members = self.reader_.read(X)
        return self.compose(self.jobs_of(members), members.own, members.others)[0]

    def predict_std(self, X: pd.DataFrame) -> Floats:
        """Return the predictive standard deviation of ln S."""
        members = self.reader_.read(X)
        return np.sqrt(self.compose(self.jobs_of(members), members.own, members.others)[1])

    def compose(self, jobs: Jobs, own: Ints, others: Ints, variance: bool = True) -> tuple[Floats, Floats]:
        """Return ln S and its variance for rows of jobs, each beside its co-runners (-1: none)."""
        rows, slots = np.nonzero(others >= 0)
        a, b = own[rows], others[rows, slots]
        # Sets share their pairs: each distinct pair is asked once.
        code = a * len(jobs.x) + b
        distinct, back = np.unique(code, return_inverse=True)
        pair = self._views(take(jobs, distinct // len(jobs.x)), take(jobs, distinct % len(jobs.x)), variance)
        count = len(own)
        beside = np.maximum((others >= 0).sum(axis=1), 1).astype(np.float64)

        def total(values: Floats) -> Floats:
            return np.asarray(np.bincount(rows, weights=values[back], minlength=count), dtype=np.float64)

        losses = np.log(np.maximum(1.0 + total(np.expm1(pair.direct)), 0.2))
        out = 0.5 * (total(pair.direct) + losses)
        if self.shares_:
            share = np.log1p(total(np.exp(pair.odds))) - total(pair.throughput) / beside
            out = (1.0 - self.weight_) * out + self.weight_ * share
        spread = total(pair.variance)
        if self.shift and variance:
            out = out - np.minimum(self.shift * spread, self.most_shift)
        return np.maximum(out, np.log(self.least_slowdown)), spread

    def jobs_of(self, members: Members) -> Jobs:
        """Return the jobs of some rows as the kernels see them."""
        return Jobs(self.standardise(members.values), members.model, members.workload)

    def standardise(self, values: Floats) -> Floats:
        """Return profiles in training deviations from the training mean; what is unknown is at the mean."""
        scaled = (self._extended(values)[:, self.kept_] - self.mean_) / self.scale_
        return np.asarray(np.nan_to_num(scaled, nan=0.0), dtype=np.float64)

    @property
    def columns_(self) -> list[str]:
        """Names of the frame's columns that the predictor reads."""
        names = [
            name
            for name, kept in zip(self.reader_.columns, self.kept_[: len(self.reader_.columns)], strict=True)
            if kept
        ]
        out = []
        for name in names:
            if name in BY_NAME:
                start = "others_mean" if BY_NAME[name].scale == "setting" else "others_sum"
                out += [f"own_{name}", f"{start}_{name}"]
        return out

    def _views(self, a: Jobs, b: Jobs, variance: bool) -> _Views:
        direct = self.direct_.predict(a, b)
        nothing = np.zeros(len(direct))
        spread = self.direct_.variance(a, b) if variance else nothing
        if not self.shares_:
            return _Views(direct, nothing, nothing, spread)
        throughput, odds = self.symmetric_.predict(a, b), self.antisymmetric_.predict(a, b)
        if variance:
            share = 1.0 / (1.0 + np.exp(-odds))
            of_share = self.symmetric_.variance(a, b) + share**2 * self.antisymmetric_.variance(a, b)
            spread = (1.0 - self.weight_) * spread + self.weight_ * of_share
        return _Views(direct, throughput, odds, spread)

    def _learn_scale(self, members: Members) -> None:
        values = self._extended(members.values)
        described = pd.DataFrame(values)
        deviation = described.std(axis=0).to_numpy(dtype=np.float64)
        self.kept_ = np.asarray(np.nan_to_num(deviation) > 1e-6, dtype=bool)
        self.mean_ = described.mean(axis=0).to_numpy(dtype=np.float64)[self.kept_]
        self.scale_ = deviation[self.kept_]

    def _extended(self, values: Floats) -> Floats:
        """Return profiles with logarithms of what the frame keeps as ln(1 + x), and the products."""
        columns = self.reader_.columns
        out = values.copy()
        with np.errstate(divide="ignore", invalid="ignore"):
            for number, name in enumerate(columns):
                if name in BY_NAME and BY_NAME[name].scale == "magnitude":
                    raw = np.expm1(values[:, number])
                    out[:, number] = np.log(np.where(raw > 0, raw, np.nan))
            products = []
            for _, left, right in PRODUCTS:
                parts = []
                for name in (left, right):
                    part = out[:, columns.index(name)]
                    parts.append(
                        part if BY_NAME[name].scale == "magnitude" else np.log(np.where(part > 0, part, np.nan))
                    )
                products.append(parts[0] + parts[1])
        return np.column_stack([out, *products])

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


__all__: Sequence[str] = ("PRODUCTS", "QUANTITIES", "StructuredGP")
