"""Posterior of a process on pairs at a cost that grows with the jobs: the mean exact, the variance by features of jobs.

The rows are condensed to a table with one cell for each pair of jobs. There the covariance is a sum of products of
job-by-job kernels, so that it is applied to a table by multiplying tables, and the mean comes from conjugate gradients
without a covariance of rows (Saatçi, *Scalable Inference for Structured Gaussian Process Models*, 2012, chapter 5). The
variance rests on a weight for each job and for the strongest products of the eigenvectors of the jobs' kernels, what
they leave out counting as independent in each cell (FITC: Snelson and Ghahramani, NIPS 2006; Quiñonero-Candela and
Rasmussen, JMLR 6, 2005). The same features precondition the conjugate gradients.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Literal, TypeAlias
from weakref import WeakKeyDictionary

import numpy as np
from scipy.linalg import cho_solve, eigh, lapack, solve_triangular
from scipy.optimize import brentq
from scipy.sparse import coo_matrix, csr_matrix

from analysis.predict.frame.schema import Floats, Ints

Mode: TypeAlias = Literal["direct", "symmetric", "antisymmetric"]

#: Eigenvectors of each kernel of the interaction, and most of their products.
EIGENVECTORS = 32
PRODUCTS = 600

#: Conjugate gradients stop when the residual has fallen to this part, or after so many steps.
TOLERANCE = 1e-3
STEPS = 200

#: Cells whose variance is formed exactly to say what the features leave out, and how nearly.
PROBES = 8
PROBE_TOLERANCE = 0.1

#: Pairs whose variance is formed at once.
BLOCK = 4_000


#: Selections by the features that they are of; no part of them, as they are made again from what is stored.
_SELECTED: WeakKeyDictionary[Features, csr_matrix] = WeakKeyDictionary()


@dataclass(frozen=True)
class Jobwise:
    """What the features say of some jobs: effects by job, and eigenvectors on either side of the interaction.

    Attributes
    ----------
    effects : tuple of ndarray, shapes (jobs, effects)
        Own and other's effects in the direct mode, one of both in the others.
    left, right : ndarray, shape (jobs, eigenvectors)
        Eigenvectors, scaled so that a product has variance 1.
    """

    effects: tuple[Floats, ...]
    left: Floats
    right: Floats


class Features:
    """Features of pairs of jobs: a constant, effects of either job, and products of eigenvectors.

    Parameters
    ----------
    mode : {"direct", "symmetric", "antisymmetric"}
        What exchanging the jobs does.
    kernels : mapping of str to ndarray, shape (jobs, jobs)
        The job-by-job kernels of the process.
    const : float
        Variance of the constant.
    """

    def __init__(self, mode: Mode, kernels: Mapping[str, Floats], const: float) -> None:
        self.mode, self.const = mode, 0.0 if mode == "antisymmetric" else const
        self.to_effects = tuple(_whitening(kernels[name]) for name in self.effect_names)
        count = min(EIGENVECTORS, len(kernels[self.left_name]))
        self.to_left, self.of_left = _eigenvectors(kernels[self.left_name], count)
        self.to_right, self.of_right = self.to_left, self.of_left
        if mode == "direct":
            self.to_right, self.of_right = _eigenvectors(kernels[self.right_name], count)
        every = {"direct": count**2, "symmetric": count * (count + 1) // 2, "antisymmetric": count * (count - 1) // 2}
        self.kept = min(PRODUCTS, every[mode])

    @property
    def sign(self) -> float:
        """What exchanging the jobs does to a value's sign; 0 where it makes another value of it."""
        return {"direct": 0.0, "symmetric": 1.0, "antisymmetric": -1.0}[self.mode]

    @property
    def enter(self) -> tuple[tuple[float, float], ...]:
        """How the job itself and the one beside it enter each kind of effects."""
        return ((1.0, 0.0), (0.0, 1.0)) if self.mode == "direct" else ((1.0, self.sign),)

    @property
    def effect_names(self) -> tuple[str, ...]:
        """Kernels of the effects."""
        return ("O", "P") if self.mode == "direct" else ("A",)

    @property
    def left_name(self) -> str:
        """Kernel of the interaction on the job's own side."""
        return "IO" if self.mode == "direct" else "I"

    @property
    def right_name(self) -> str:
        """Kernel of the interaction on the side of the one beside it."""
        return "IP" if self.mode == "direct" else "I"

    @property
    def places(self) -> list[slice]:
        """Where the constant, the effects and the products stand among the features."""
        ends = np.cumsum([0, 1, *(one.shape[1] for one in self.to_effects), self.kept])
        return [slice(int(a), int(b)) for a, b in pairwise(ends)]

    @property
    def count(self) -> int:
        """Number of features."""
        return int(self.places[-1].stop)

    @property
    def select(self) -> csr_matrix:
        """The products of eigenvectors that are features, shape (all products, kept)."""
        found: csr_matrix | None = _SELECTED.get(self)
        if found is None:
            found = _SELECTED[self] = _products(self.of_left, self.of_right, self.sign, self.kept)
        return found

    def of_jobs(self, kernels: Mapping[str, Floats]) -> Jobwise:
        """Return the jobs' part of the features from their kernels with the training jobs, shape (new, jobs)."""
        return Jobwise(
            tuple(kernels[name] @ to for name, to in zip(self.effect_names, self.to_effects, strict=True)),
            kernels[self.left_name] @ self.to_left,
            kernels[self.right_name] @ self.to_right,
        )

    def gram(self, jobs: Jobwise, weight: Floats) -> Floats:
        """Return the weighted sum of the outer products of the features over a table of weights, shape (jobs, jobs)."""
        out = np.empty((self.count, self.count))
        at_const, *at_effects, at_products = self.places
        of_own, of_other = weight.sum(axis=1), weight.sum(axis=0)
        root = np.sqrt(self.const)
        left, right = jobs.left, jobs.right
        across = weight @ right
        out[at_const, at_const] = self.const * weight.sum()
        out[at_const, at_products] = root * self._chosen((left.T @ across).reshape(1, -1))
        by_own = (left[:, :, None] * across[:, None, :]).reshape(len(left), -1)
        by_other = ((weight.T @ left)[:, :, None] * right[:, None, :]).reshape(len(left), -1)
        for a, (at_a, effects, (own, other)) in enumerate(zip(at_effects, jobs.effects, self.enter, strict=True)):
            out[at_const, at_a] = root * (own * of_own + other * of_other) @ effects
            mixed = own * by_own if own else 0.0
            mixed = mixed + other * by_other if other else mixed
            out[at_a, at_products] = self._chosen(effects.T @ mixed)
            for at_b, of_b, (own_b, other_b) in list(zip(at_effects, jobs.effects, self.enter, strict=True))[a:]:
                table = own * other_b * weight + other * own_b * weight.T
                table[np.diag_indices_from(table)] += own * own_b * of_own + other * other_b * of_other
                out[at_a, at_b] = effects.T @ table @ of_b
        whole = _outer(left).T @ weight @ _outer(right)
        p, q = left.shape[1], right.shape[1]
        whole = whole.reshape(p, p, q, q).transpose(0, 2, 1, 3).reshape(p * q, p * q)
        out[at_products, at_products] = self._chosen(self._chosen(whole).T)
        lower = np.tril_indices(self.count, -1)
        out[lower] = out.T[lower]
        return out

    def project(self, jobs: Jobwise, table: Floats) -> Floats:
        """Return the sum of the features over a table of weights, shape (features,)."""
        of_own, of_other = table.sum(axis=1), table.sum(axis=0)
        effects = [
            (own * of_own + other * of_other) @ one for one, (own, other) in zip(jobs.effects, self.enter, strict=True)
        ]
        products = self._chosen((jobs.left.T @ table @ jobs.right).reshape(1, -1))[0]
        return np.concatenate([[np.sqrt(self.const) * table.sum()], *effects, products])

    def spread(self, jobs: Jobwise, weights: Floats) -> Floats:
        """Return what the features' weights say of every pair of the jobs, shape (jobs, jobs)."""
        at_const, *at_effects, at_products = self.places
        inside = (self.select @ weights[at_products]).reshape(jobs.left.shape[1], jobs.right.shape[1])
        out = jobs.left @ inside @ jobs.right.T
        out += np.sqrt(self.const) * weights[at_const][0]
        for at, effects, (own, other) in zip(at_effects, jobs.effects, self.enter, strict=True):
            said = effects @ weights[at]
            out += own * said[:, None] + other * said[None, :]
        return np.asarray(out, dtype=np.float64)

    def rows(self, a: Jobwise, b: Jobwise, i: Ints, j: Ints) -> Floats:
        """Return the features of job i of `a` beside job j of `b`, shape (rows, features)."""
        effects = [
            own * of_a[i] + other * of_b[j]
            for of_a, of_b, (own, other) in zip(a.effects, b.effects, self.enter, strict=True)
        ]
        products = (a.left[i][:, :, None] * b.right[j][:, None, :]).reshape(len(i), -1)
        return np.column_stack([np.full(len(i), np.sqrt(self.const)), *effects, self._chosen(products)])

    def squares(self, a: Jobwise, b: Jobwise, i: Ints, j: Ints, matrix: Floats) -> Floats:
        """Return ``f' M f`` for the features f of job i of `a` beside job j of `b`, shape (rows,).

        Formed by job first: a pair then costs as many steps as there are products of two eigenvectors.
        """
        _, *at_effects, at_products = self.places
        p, q = a.left.shape[1], b.right.shape[1]
        root = np.sqrt(self.const)
        out = np.full(len(i), float(self.const * matrix[0, 0]))
        of_own = np.zeros((len(a.left), q))
        of_other = np.zeros((len(b.right), p))
        of_own += 2 * root * a.left @ (self.select @ matrix[0, at_products]).reshape(p, q)
        alone_own, alone_other = np.zeros(len(a.left)), np.zeros(len(b.right))
        both = np.zeros((len(a.left), len(b.right)))
        parts = list(zip(at_effects, a.effects, b.effects, self.enter, strict=True))
        for at_x, a_x, b_x, (own, other) in parts:
            alone_own += 2 * root * own * (a_x @ matrix[at_x, 0])
            alone_other += 2 * root * other * (b_x @ matrix[at_x, 0])
            of_products = matrix[at_x, at_products] @ self.select.T
            if own:
                of_own += 2 * own * np.einsum("ap,apq->aq", a.left, (a_x @ of_products).reshape(-1, p, q))
            if other:
                of_other += 2 * other * np.einsum("bpq,bq->bp", (b_x @ of_products).reshape(-1, p, q), b.right)
            for at_y, a_y, b_y, (own_y, other_y) in parts:
                block = matrix[at_x, at_y]
                if own * own_y:
                    alone_own += own * own_y * np.einsum("ax,ax->a", a_x @ block, a_y)
                if other * other_y:
                    alone_other += other * other_y * np.einsum("bx,bx->b", b_x @ block, b_y)
                if own * other_y:
                    both += 2 * own * other_y * (a_x @ block @ b_y.T) if at_x != at_y else 0.0
                if at_x == at_y and own * other:
                    both += 2 * own * other * (a_x @ block @ b_x.T)
        whole = self.select @ (self.select @ matrix[at_products, at_products]).T
        whole = whole.reshape(p, q, p, q).transpose(0, 2, 1, 3).reshape(p * p, q * q)
        inner = _outer(a.left) @ whole
        beside = _outer(b.right)
        out += alone_own[i] + alone_other[j] + both[i, j]
        for start in range(0, len(i), BLOCK):
            r, c = i[start : start + BLOCK], j[start : start + BLOCK]
            part = np.einsum("rq,rq->r", of_own[r], b.right[c]) + np.einsum("rp,rp->r", of_other[c], a.left[r])
            out[start : start + BLOCK] += part + np.einsum("rq,rq->r", inner[r], beside[c])
        return out

    def _chosen(self, products: Floats) -> Floats:
        """Return the products that are features, of all products in the columns."""
        return np.asarray((self.select.T @ products.T).T, dtype=np.float64)


def _whitening(kernel: Floats) -> Floats:
    """Return what turns a kernel's columns into effects of variance 1: the inverse of the transposed factor."""
    size = len(kernel)
    jitter = 1e-9 * float(np.trace(kernel)) / size + 1e-12
    factor = np.linalg.cholesky(kernel + jitter * np.eye(size))
    return np.asarray(solve_triangular(factor, np.eye(size), lower=True).T, dtype=np.float64)


def _eigenvectors(kernel: Floats, count: int) -> tuple[Floats, Floats]:
    """Return what turns a kernel's columns into its leading eigenvectors of variance 1, and the eigenvalues."""
    size = len(kernel)
    values, vectors = eigh(kernel, subset_by_index=[size - count, size - 1])
    values, vectors = np.maximum(values[::-1], 1e-12), vectors[:, ::-1]
    return np.asarray(vectors / np.sqrt(values), dtype=np.float64), np.asarray(values, dtype=np.float64)


def _products(left: Floats, right: Floats, sign: float, kept: int) -> csr_matrix:
    """Return the products of eigenvectors that say most, shape (all products, kept): one of both orders with a sign."""
    p, q = np.indices((len(left), len(right))).reshape(2, -1)
    if sign:
        keep = p < q if sign < 0 else p <= q
        p, q = p[keep], q[keep]
    order = np.argsort(-(left[p] * right[q]), kind="stable")[:kept]
    p, q = p[order], q[order]
    at, scale = np.arange(len(p)), np.where((p == q) & (sign > 0), np.sqrt(0.5), 1.0)
    rows, columns, entries = [p * len(right) + q], [at], [scale]
    if sign:
        rows, columns, entries = [*rows, q * len(right) + p], [at, at], [scale, sign * scale]
    shape = (len(left) * len(right), len(p))
    return coo_matrix((np.concatenate(entries), (np.concatenate(rows), np.concatenate(columns))), shape=shape).tocsr()


def _outer(values: Floats) -> Floats:
    """Return every row's products of two entries, shape (rows, entries squared)."""
    return np.asarray((values[:, :, None] * values[:, None, :]).reshape(len(values), -1), dtype=np.float64)


class JobPosterior:
    """What rows teach a process, by job.

    Parameters
    ----------
    features : Features
        Features of the process.
    kernels : mapping of str to ndarray, shape (jobs, jobs)
        Its job-by-job kernels.
    i, j : ndarray of int, shape (rows,)
        The pair of each row.
    y : ndarray, shape (rows,)
        Values less their mean.
    noise : ndarray, shape (rows,)
        Noise variance of each row.
    unresolved : float, optional
        Part of what the features leave out that stays unknown of a pair of known jobs; measured when left out.
    start : ndarray, shape (jobs, jobs), optional
        Weights to start from.
    """

    def __init__(
        self,
        features: Features,
        kernels: Mapping[str, Floats],
        i: Ints,
        j: Ints,
        y: Floats,
        noise: Floats,
        unresolved: float | None = None,
        start: Floats | None = None,
    ) -> None:
        self.features, self.kernels = features, kernels
        self.i, self.j, self.y, self.noise = i, j, y, noise
        size = len(kernels[features.left_name])
        turned = (features.mode != "direct") & (i > j)
        self.sign = np.where(turned & (features.mode == "antisymmetric"), -1.0, 1.0)
        cells, self.cell = np.unique(np.where(turned, j * size + i, i * size + j), return_inverse=True)
        self.a, self.b = np.divmod(cells, size)
        self.known = np.bincount(np.concatenate([self.a, self.b]), minlength=size) > 0
        precision = np.bincount(self.cell, weights=1.0 / noise)
        self.mean = np.bincount(self.cell, weights=self.sign * y / noise) / precision
        self.cell_noise = 1.0 / precision
        self.jobs = features.of_jobs(kernels)
        by_features = features.squares(self.jobs, self.jobs, self.a, self.b, np.eye(features.count))
        self.rest = np.maximum(self.before(self.a, self.b) - by_features, 0.0)
        self.weight = 1.0 / (self.cell_noise + self.rest)
        precision_of_features = np.eye(features.count) + features.gram(self.jobs, self._table(self.weight))
        self.factor = np.linalg.cholesky(precision_of_features)
        lower = np.tril(lapack.dpotri(self.factor, lower=1)[0])
        #: Covariance of the features' weights after everything was seen, shape (features, features).
        self.unsure = np.asarray(lower + np.tril(lower, -1).T, dtype=np.float64)
        self.alpha = self._solve(self.mean, TOLERANCE, None if start is None else start[self.a, self.b])
        #: Posterior mean of every pair of the jobs.
        self.said = self._over_jobs(self.weights())
        self.unresolved = self._measure_unresolved() if unresolved is None else unresolved

    @cached_property
    def _by_features(self) -> Floats:
        return self.features.squares(self.jobs, self.jobs, self.a, self.b, self.unsure)

    def weights(self) -> Floats:
        """Return the weight of every pair of the jobs in the posterior mean, shape (jobs, jobs)."""
        return self._table(self.alpha)

    def before(self, i: Ints, j: Ints) -> Floats:
        """Return the variance of pairs of the jobs before anything was seen."""
        k = self.kernels
        if self.features.mode == "direct":
            effects = np.diag(k["O"])[i] + np.diag(k["P"])[j]
            return np.asarray(self.features.const + effects + np.diag(k["IO"])[i] * np.diag(k["IP"])[j])
        sign = self.features.sign
        effects = np.diag(k["A"])[i] + np.diag(k["A"])[j] + 2 * sign * k["A"][i, j]
        together = np.diag(k["I"])[i] * np.diag(k["I"])[j] + sign * k["I"][i, j] ** 2
        return np.asarray(self.features.const + effects + together)

    def variance(self, i: Ints, j: Ints) -> Floats:
        """Return the variance, noise not included, of pairs of the jobs that were not seen."""
        known = np.where(self.known[i] & self.known[j], self.unresolved, 1.0)
        jobs = self.jobs
        rest = self.before(i, j) - self.features.squares(jobs, jobs, i, j, np.eye(self.features.count))
        return np.asarray(known * np.maximum(rest, 0.0) + self.features.squares(jobs, jobs, i, j, self.unsure))

    def left_out_singly(self) -> tuple[Floats, Floats]:
        """Return the residual and the variance, noise included, of each row that is left out alone."""
        inverse = 1.0 / self.noise - self._of_cells(self.unresolved)[self.cell] / self.noise**2
        inverse = np.maximum(inverse, 1e-6 / self.noise)
        return self._alpha_of_rows() / inverse, 1.0 / inverse

    def left_out_together(self, rows: Ints) -> tuple[Floats, Floats]:
        """Return the residuals and the variances, noise included, of a few rows that are left out together."""
        cell, sign, noise = self.cell[rows], self.sign[rows], self.noise[rows]
        features = self.features.rows(self.jobs, self.jobs, self.a[cell], self.b[cell]) * sign[:, None]
        narrow = self._narrow(self.unresolved)
        seen = narrow[cell][:, None] * narrow[cell] * (features @ self.unsure @ features.T)
        same = (cell[:, None] == cell) * sign[:, None] * sign
        seen += same * (self.unresolved * self.rest * narrow)[cell]
        inverse = np.diag(1.0 / noise) - seen / noise[:, None] / noise
        covariance = np.linalg.inv(inverse)
        return covariance @ self._alpha_of_rows()[rows], np.diag(covariance).copy()

    def _alpha_of_rows(self) -> Floats:
        said = self.sign * (self.mean - self.cell_noise * self.alpha)[self.cell]
        return np.asarray((self.y - said) / self.noise, dtype=np.float64)

    def _narrow(self, unresolved: float) -> Floats:
        """Return what seeing a cell leaves of the variance that the features leave out."""
        return np.asarray(self.cell_noise / (self.cell_noise + unresolved * self.rest), dtype=np.float64)

    def _of_cells(self, unresolved: float) -> Floats:
        """Return the variance of each cell's value after everything was seen, noise not included."""
        narrow = self._narrow(unresolved)
        return np.asarray(unresolved * self.rest * narrow + narrow**2 * self._by_features, dtype=np.float64)

    def _measure_unresolved(self) -> float:
        """Find the part by the exact variance of a few cells that are left out alone."""
        cells = np.random.default_rng(0).choice(len(self.a), min(PROBES, len(self.a)), replace=False)
        exact = []
        for cell in cells:
            unit = np.zeros(len(self.a))
            unit[cell] = 1.0
            exact.append(self._solve(unit, PROBE_TOLERANCE)[cell])
        aim = float(np.log(exact).sum())
        noise = self.cell_noise[cells]

        def off(part: float) -> float:
            inverse = 1.0 / noise - self._of_cells(part)[cells] / noise**2
            return float(np.log(np.maximum(inverse, 1e-9)).sum()) - aim

        if off(1.0) > 0 or off(0.0) < 0:
            return 1.0 if off(1.0) > 0 else 0.0
        return float(brentq(off, 0.0, 1.0, xtol=1e-3))

    def _table(self, values: Floats) -> Floats:
        out = np.zeros((len(self.known), len(self.known)))
        out[self.a, self.b] = values
        return out

    def _over_jobs(self, table: Floats) -> Floats:
        """Return the covariance's product with a table of weights, for every pair of the jobs."""
        k, sign = self.kernels, self.features.sign
        total = self.features.const * table.sum()
        if not sign:
            out = k["IO"] @ table @ k["IP"]
            out += (k["O"] @ table.sum(axis=1))[:, None]
            out += (k["P"] @ table.sum(axis=0) + total)[None, :]
            return np.asarray(out, dtype=np.float64)
        inside = k["I"] @ table @ k["I"]
        effects = k["A"] @ (table.sum(axis=1) + sign * table.sum(axis=0))
        return np.asarray(inside + sign * inside.T + effects[:, None] + sign * effects[None, :] + total)

    def _solve(self, values: Floats, tolerance: float, start: Floats | None = None) -> Floats:
        """Return the inverse covariance of the cells times some values, by preconditioned conjugate gradients."""
        found, left = np.zeros_like(values), values.copy()
        enough = tolerance**2 * float(values @ self._nearly(values))
        if start is not None:
            found, left = start.copy(), values - self._ahead(start)
        near = self._nearly(left)
        way, slope = near, float(left @ near)
        for _ in range(STEPS):
            if slope <= enough:
                break
            ahead = self._ahead(way)
            step = slope / float(way @ ahead)
            found += step * way
            left -= step * ahead
            near = self._nearly(left)
            slope, last = float(left @ near), slope
            way = near + slope / last * way
        return found

    def _ahead(self, values: Floats) -> Floats:
        """Return the covariance of the cells, noise included, times some values."""
        return np.asarray(self._over_jobs(self._table(values))[self.a, self.b] + self.cell_noise * values)

    def _nearly(self, values: Floats) -> Floats:
        """Return the inverse covariance that the features give times some values."""
        weighted = self.weight * values
        said = cho_solve((self.factor, True), self.features.project(self.jobs, self._table(weighted)))
        return np.asarray(weighted - self.weight * self.features.spread(self.jobs, said)[self.a, self.b])
