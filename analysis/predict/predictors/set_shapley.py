"""Why the structured predictor says what it says: closed-form Shapley values of its processes, carried through.

The players are the quantities of the job's own profile, those of its co-runners' profiles, who the job is, who they
are, and where they run. A player that is absent takes the value it has in a row of the background. For every pair in a
set the values of the three processes are shared out in closed form (`pairshapley`); how they are composed to ln S is
not a sum, and is followed along the straight line from the background's values to the set's (integrated gradients,
Sundararajan, Taly & Yan 2017; for one input this is the rescale rule of Chen, Lundberg & Lee 2022). What the predictor
takes off for being unsure is a contribution of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from analysis.predict.frame.quantities import BY_NAME
from analysis.predict.frame.schema import Floats, Ints
from analysis.predict.predictors.pairgp import Jobs, PairGP
from analysis.predict.predictors.pairprofiles import CAP, Members
from analysis.predict.predictors.profilescale import others_column, owner_of

if TYPE_CHECKING:
    from analysis.predict.predictors.structured import StructuredGP

#: Nodes of the integral. Sixteen are exact for games of 32 players; for more, the rest is far below rounding of S.
NODES = 16

#: Least logarithm of a factor, so that a product may be divided by it.
LEAST_LOG = -60.0

#: Bytes that the extensions of a batch of pairs may take.
MOST_BYTES = 2**28


@dataclass(frozen=True)
class _Terms:
    """A process as ``f(a, b) = L(a) u + L'(b) v + M(a) C M'(b)``, kernels by name."""

    own: tuple[str, str]
    others: tuple[str, str]
    of_own: Floats
    of_others: Floats
    cross: Floats


def shapley_of_pairs(
    process: PairGP, jobs: Jobs, pairs: tuple[Ints, Ints], background: tuple[Ints, Ints], players: Sequence[Ints]
) -> tuple[Floats, Floats]:
    """Explain the posterior mean of pairs against each pair of a background.

    Parameters
    ----------
    process : PairGP
        Fitted.
    jobs : Jobs
        All jobs that are spoken of.
    pairs : (ndarray of int, ndarray of int), shape (rows,) each
        The pairs to explain, as numbers of `jobs`: a job and the one beside it.
    background : (ndarray of int, ndarray of int), shape (background,) each
        The pairs to compare with.
    players : sequence of ndarray of int
        Positions of the columns of each quantity.

    Returns
    -------
    own, others : ndarray, shape (rows, background, players + 1)
        Shapley values of the quantities of the job and of the one beside it; the last is who it is. Together they sum
        to the posterior mean of the pair less that of the pair of the background.
    """
    terms = _terms(process)
    count = len(players) + 1
    own = np.zeros((len(pairs[0]), len(background[0]), count))
    others = np.zeros_like(own)
    nodes, weights = np.polynomial.legendre.leggauss(NODES)
    nodes, weights = 0.5 * (nodes + 1.0), 0.5 * weights
    one = len(background[0]) * NODES * len(process.jobs_.x) * own.itemsize
    order = np.lexsort((pairs[1], pairs[0]))
    per_batch = max(MOST_BYTES // max(2 * one, 1), 1)
    for start in range(0, len(order), per_batch):
        rows = order[start : start + per_batch]
        a, b = pairs[0][rows], pairs[1][rows]
        measure = _Measure(process, jobs, players, nodes, weights)
        pulls = {
            ("own", int(job)): measure.extension(terms.own[1], int(job), background[0]) @ terms.cross
            for job in np.unique(a)
        } | {
            ("others", int(job)): measure.extension(terms.others[1], int(job), background[1]) @ terms.cross.T
            for job in np.unique(b)
        }
        for side, mine, theirs, names, linear, behind, out in (
            ("others", a, b, terms.own, terms.of_own, background[0], own),
            ("own", b, a, terms.others, terms.of_others, background[1], others),
        ):
            for job in np.unique(mine):
                here = np.flatnonzero(mine == job)
                alone = measure.slopes(names[0], int(job), behind) @ linear
                slope = measure.slopes(names[1], int(job), behind)
                partners, back = np.unique(theirs[here], return_inverse=True)
                pull = np.stack([pulls[side, int(other)] for other in partners], axis=1)
                flat = slope.reshape(len(behind), count, -1).transpose(0, 2, 1)
                together = pull.reshape(len(behind), len(partners), -1) @ flat
                out[rows[here]] = (alone.sum(axis=2)[:, None] + together).transpose(1, 0, 2)[back]
    return own, others


def _terms(process: PairGP) -> _Terms:
    if process.mode == "direct":
        return _Terms(("O", "IO"), ("P", "IP"), process.sum_i_, process.sum_j_, process.cross_)
    sign = process.sign
    of_own = process.sum_i_ + sign * process.sum_j_
    return _Terms(("A", "I"), ("A", "I"), of_own, sign * of_own, process.cross_ + sign * process.cross_.T)


class _Measure:
    """Extensions of the kernels between a mixture of two jobs and the training jobs."""

    def __init__(self, process: PairGP, jobs: Jobs, players: Sequence[Ints], nodes: Floats, weights: Floats) -> None:
        self._process, self._jobs, self._players = process, jobs, players
        self._nodes, self._weights = nodes, weights
        known = process.jobs_
        self._same_model = (jobs.model[:, None] == known.model[None]).astype(np.float64)
        self._same_name = (jobs.name[:, None] == known.name[None]).astype(np.float64)

    def extension(self, group: str, job: int, behind: Ints) -> Floats:
        """Return the kernel's multilinear extension, shape (background, nodes, training jobs)."""
        _, mixed, model, name, weight = self._parts(group, job, behind)
        product = np.prod(mixed, axis=1)
        out: Floats = (weight[0] + weight[3] * model) * product + weight[1] * model + weight[2] * name
        return out

    def slopes(self, group: str, job: int, behind: Ints) -> Floats:
        """Return its derivatives times the nodes' weights, shape (background, players + 1, nodes, training jobs)."""
        change, mixed, model, _, weight = self._parts(group, job, behind)
        product = np.prod(mixed, axis=1)
        around = (weight[0] + weight[3] * model) * product
        of_quantities = around[:, None] * (change[:, :, None] / mixed)
        model_change = (self._same_model[job] - self._same_model[behind])[:, None]
        name_change = (self._same_name[job] - self._same_name[behind])[:, None]
        of_identity = model_change * (weight[1] + weight[3] * product) + weight[2] * name_change
        out: Floats = np.concatenate([of_quantities, of_identity[:, None]], axis=1)
        return out * self._weights[:, None]

    def _parts(self, group: str, job: int, behind: Ints) -> tuple[Floats, Floats, Floats, Floats, Floats]:
        process, q = self._process, self._nodes[:, None]
        columns = process.jobs_.x.shape[1]
        number = process.groups.index(group)
        part = np.exp(process.theta_[number * (columns + 4) : (number + 1) * (columns + 4)])
        rate, weight = part[:columns], part[columns:]
        mine, theirs = self._factors(rate, np.array([job])), self._factors(rate, behind)
        mixed = q * mine[:, :, None] + (1.0 - q) * theirs[:, :, None]
        model = q * self._same_model[job] + (1.0 - q) * self._same_model[behind][:, None]
        name = q * self._same_name[job] + (1.0 - q) * self._same_name[behind][:, None]
        return mine - theirs, mixed, model, name, weight

    def _factors(self, rate: Floats, numbers: Ints) -> Floats:
        """Return every quantity's factor of the squared exponential, shape (jobs, quantities, training jobs)."""
        out = np.empty((len(numbers), len(self._players), len(self._process.jobs_.x)))
        for place, positions in enumerate(self._players):
            mine, known = self._jobs.x[numbers][:, positions], self._process.jobs_.x[:, positions]
            out[:, place] = -0.5 * ((mine[:, None] - known[None]) ** 2 @ rate[positions])
        return np.exp(np.maximum(out, LEAST_LOG))


#: Background rows.
BACKGROUND_ROWS = 48

#: Steps of the line from the background's values to the set's.
STEPS = 12

#: Least sum of the losses of a set, as in `StructuredGP.compose`.
LEAST_SUM = 0.2

#: Rows that are explained at once.
CHUNK = 500

#: Contribution of what is taken off for being unsure.
UNSURE = "caution"


@dataclass(frozen=True)
class SetContributions:
    """Contributions against a background.

    Attributes
    ----------
    base : ndarray, shape (rows,)
        Mean over the background, ln S: a typical set of as many jobs.
    values : pd.DataFrame, shape (rows, players)
        Contributions to ln S; columns are columns of the frame or parts of the history.
    error : float
        Largest standard error of a contribution, from the choice of the background.
    background : int
        Rows of the background.
    """

    base: Floats
    values: pd.DataFrame
    error: float
    background: int


@dataclass(frozen=True)
class _Players:
    """Quantities as positions of the scaled profile's columns, and what they are called on either side."""

    positions: list[Ints]
    own: list[str]
    others: list[str]

    @property
    def names(self) -> list[str]:
        """Names in the order of the shared-out values; a place stands on both sides under one name."""
        return [*self.own, "workload", *self.others, "others"]


def explain_sets(estimator: StructuredGP, X: pd.DataFrame, background: pd.DataFrame) -> SetContributions:
    """Explain rows against a background.

    Parameters
    ----------
    estimator : StructuredGP
        Fitted.
    X, background : pd.DataFrame
        Rows to explain, and training rows to compare with.

    Returns
    -------
    SetContributions
        Base plus contributions is the prediction, to rounding.
    """
    sample = _spread(estimator, background)
    players = _players(estimator)
    names = list(dict.fromkeys(players.names))
    to_name = np.zeros((len(players.names), len(names)))
    to_name[np.arange(len(players.names)), [names.index(name) for name in players.names]] = 1.0
    out, base, spread = np.zeros((len(X), len(names))), np.zeros(len(X)), 0.0
    for start in range(0, len(X), CHUNK):
        part = slice(start, start + CHUNK)
        values, began = _shared_out(estimator, X.iloc[part], sample, players)
        by_name = values @ to_name
        out[part], base[part] = by_name.mean(axis=1), began.mean(axis=1)
        if len(sample) > 1 and len(by_name):
            spread = max(spread, float((by_name.std(axis=1, ddof=1) / np.sqrt(len(sample))).max()))
    unsure = estimator.predict(X) - base - out.sum(axis=1)
    found = pd.DataFrame(np.column_stack([out, unsure]), columns=[*names, UNSURE])
    return SetContributions(base, found, spread, len(sample))


def _spread(estimator: StructuredGP, background: pd.DataFrame) -> pd.DataFrame:
    """Return pairs of the background at even steps of their predicted slowdown, so that few rows stand for all."""
    kept = estimator.__dict__.get("_background")
    if kept is not None and kept[0] is background:
        found: pd.DataFrame = kept[1]
        return found
    found = background[background["others"].map(len).to_numpy() == 1]
    found = found if len(found) else background
    if len(found) > BACKGROUND_ROWS:
        order = np.argsort(estimator.predict(found), kind="stable")
        steps = np.linspace(0, len(order) - 1, 2 * BACKGROUND_ROWS + 1).astype(np.int64)[1::2]
        found = found.iloc[order[steps]]
    estimator.__dict__["_background"] = (background, found)  # asked again for every pair
    return found


#: The client's cap is a part of a job's profile, and a column of its own for the job and for those beside it.


def _players(estimator: StructuredGP) -> _Players:
    groups: dict[str, list[int]] = {}
    for position, name in enumerate(estimator.scale_.kept_names):
        groups.setdefault(owner_of(name), []).append(position)
    return _Players(
        [np.array(positions, dtype=np.int64) for positions in groups.values()],
        [f"own_{name}" if name in BY_NAME or name == CAP else name for name in groups],
        [others_column(name) if name in BY_NAME or name == CAP else name for name in groups],
    )


def _shared_out(
    estimator: StructuredGP, X: pd.DataFrame, sample: pd.DataFrame, players: _Players
) -> tuple[Floats, Floats]:
    """Return contributions, shape (rows, background, players), and where they start, shape (rows, background)."""
    members = estimator.reader_.read(pd.concat([X, sample], ignore_index=True))
    jobs = estimator.jobs_of(members)
    count = len(X)
    behind = members.own[count:], members.others[count:, 0]
    rows, slots = np.nonzero(members.others[:count] >= 0)
    pairs, back = np.unique(
        np.column_stack([members.own[rows], members.others[rows, slots]]), axis=0, return_inverse=True
    )
    back = np.ravel(back)
    processes = [estimator.direct_]
    if estimator.shares_:
        processes += [estimator.symmetric_, estimator.antisymmetric_]
    here = [one.predict(jobs, pairs[:, 0], pairs[:, 1])[back] for one in processes]
    there = [one.predict(jobs, *behind) for one in processes]
    sides = _sides(estimator, jobs, members, count, behind)
    slopes, of_weight, began = _along(here, there, (rows, count), estimator.weight_ * (1.0 - sides[-1]))
    out = np.zeros((count, len(behind[0]), len(players.names)))
    for process, slope in zip(processes, slopes, strict=True):
        shared = shapley_of_pairs(process, jobs, (pairs[:, 0], pairs[:, 1]), behind, players.positions)
        np.add.at(out, rows, np.concatenate(shared, axis=2)[back] * slope[:, :, None])
    for place, change in zip((len(players.own), -1), sides[:2], strict=True):
        out[:, :, place] -= estimator.weight_ * change * of_weight
    return out, began


def _sides(
    estimator: StructuredGP, jobs: Jobs, members: Members, count: int, behind: tuple[Ints, Ints]
) -> tuple[Floats, Floats, Floats]:
    """Say whose doing it is that a set has, or has not, a job that taught the view of shares nothing.

    Returns the changes from each background row that are the job's and its co-runners', shape (rows, background), and
    whether there is one at the background's and at the set's end, shape (2, rows, background).
    """
    untaught = np.isin(jobs.name, estimator.one_sided_ if estimator.shares_ else []).astype(np.float64)
    own, beside = members.own[:count], members.others[:count]
    a, b = untaught[own][:, None], np.where(beside >= 0, untaught[beside], 0.0).max(axis=1)[:, None]
    a0, b0 = untaught[behind[0]][None], untaught[behind[1]][None]

    def either(x: Floats, y: Floats) -> Floats:
        return 1.0 - (1.0 - x) * (1.0 - y)

    of_own = 0.5 * (either(a, b0) - either(a0, b0) + either(a, b) - either(a0, b))
    of_others = 0.5 * (either(a0, b) - either(a0, b0) + either(a, b) - either(a, b0))
    shape = np.broadcast_shapes(a.shape, a0.shape)
    ends = np.stack([np.broadcast_to(either(a0, b0), shape), np.broadcast_to(either(a, b), shape)])
    return of_own, of_others, ends


def _along(
    here: list[Floats], there: list[Floats], of: tuple[Ints, int], weights: Floats
) -> tuple[list[Floats], Floats, Floats]:
    """Follow the composition of `StructuredGP.compose` from the background's values to the sets'.

    Parameters
    ----------
    here, there : list of ndarray, shapes (pairs,) and (background,)
        What the processes say of the sets' pairs and of the background's: ln S, ln throughput, log odds.
    of : (ndarray of int, int)
        The set of each pair, and the number of sets.
    weights : ndarray, shape (2, sets, background)
        Weight of the view of shares at either end.

    Returns
    -------
    slopes : list of ndarray, shape (pairs, background)
        Mean derivative of ln S by each process's value.
    of_weight : ndarray, shape (sets, background)
        Mean derivative by the weight.
    began : ndarray, shape (sets, background)
        ln S of as many co-runners as the set has, all like that of the background's pair.
    """
    rows, count = of
    beside = np.maximum(np.bincount(rows, minlength=count), 1)[:, None].astype(np.float64)

    def total(values: Floats) -> Floats:
        out = np.zeros((count, values.shape[1]))
        np.add.at(out, rows, values)
        return out

    def at(step: float) -> tuple[list[Floats], Floats, Floats]:
        mixed = [then + step * (now[:, None] - then) for now, then in zip(here, there, strict=True)]
        weight = weights[0] + step * (weights[1] - weights[0])
        grown = 1.0 + total(np.expm1(mixed[0]))
        inside = (grown > LEAST_SUM).astype(np.float64)
        left = np.maximum(grown, LEAST_SUM)
        view = 0.5 * (total(mixed[0]) + np.log(left))
        slope = 0.5 * (1.0 + np.exp(mixed[0]) * (inside / left)[rows])
        if len(mixed) == 1:
            return [slope], np.zeros_like(view), view
        odds = np.exp(mixed[2])
        all_odds = 1.0 + total(odds)
        share = np.log(all_odds) - total(mixed[1]) / beside
        of_share = weight[rows]
        slopes = [(1.0 - of_share) * slope, -of_share / beside[rows], of_share * odds / all_odds[rows]]
        return slopes, share - view, (1.0 - weight) * view + weight * share

    nodes, parts = np.polynomial.legendre.leggauss(STEPS)
    slopes = [np.zeros((len(rows), len(there[0]))) for _ in here]
    of_weight = np.zeros((count, len(there[0])))
    for node, part in zip(nodes, parts, strict=True):
        found, by_weight, _ = at(0.5 * (node + 1.0))
        slopes = [sum_ + 0.5 * part * one for sum_, one in zip(slopes, found, strict=True)]
        of_weight += 0.5 * part * by_weight
    return slopes, of_weight, at(0.0)[2]
