"""Shapley values of a Gaussian process on pairs in closed form: its kernels are products over the quantities.

Given which quantities are those of the job and which those of a job to compare with, a squared-exponential kernel is a
product with one factor for each quantity, so that the posterior mean of a pair is a sum of products. Replacing every
factor by its mean when each quantity is the job's with probability q gives the multilinear extension of the game; the
Shapley value of a quantity is the integral of its derivative over q from 0 to 1 (Owen, *Multilinear extensions of
games*, 1972), which Gauss-Legendre nodes integrate exactly because the derivative is a polynomial. What belongs to one
job and one job to compare with is worked out once, however many pairs it is in.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from analysis.predict.frame.schema import Floats, Ints
from analysis.predict.predictors.pairgp import Jobs, PairGP

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
