"""Gaussian process on pairs of jobs whose kernels live on the jobs: sensitivity, pressure, and their interaction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Self

import numpy as np
from scipy.linalg import cho_solve, lapack, solve_triangular
from scipy.optimize import minimize

from analysis.predict.frame.schema import Floats, Ints

#: Degrees of freedom of Student's t; small enough to doubt a run, large enough to believe most of them.
FREEDOM = 4.0

#: Times that doubts are formed, and iterations in which the hyper-parameters then follow.
DOUBTS = 2
MORE_ITERATIONS = 12


def noise_multiples(residual: Floats, spread: Floats, noise: float, multiple: Floats) -> Floats:
    """Return by how much the noise variance of each row should exceed the common one.

    Student's t with f degrees of freedom is a Gaussian with a gamma-distributed precision. Given a residual r with
    variance v the expected precision is (f + 1) / (f + r^2 / v); one step of expectation maximisation divides the noise
    by it (Lange, Little and Taylor, Journal of the American Statistical Association 84, 1989). The residuals are those
    of rows that are left out one by one, so that no row speaks for itself.

    Parameters
    ----------
    residual, spread : ndarray, shape (rows,)
        Measured minus predicted value of each left-out row, and the predictive variance, noise of the row included.
    noise : float
        Common noise variance.
    multiple : ndarray, shape (rows,)
        Multiples that `spread` was made with.

    Returns
    -------
    ndarray, shape (rows,)
        New multiples: f / (f + 1) for a row that fits exactly, without bound for one that doesn't.
    """
    usual = np.maximum(spread - noise * multiple, 0.0) + noise
    doubt: Floats = (FREEDOM + residual**2 / usual) / (FREEDOM + 1.0)
    return doubt


def left_out_singly(inverse: Floats, centred: Floats) -> tuple[Floats, Floats]:
    """Return the residual and the variance of each row that is left out alone, from the inverse covariance.

    Sundararajan and Keerthi, Neural Computation 13, 2001; Rasmussen and Williams 2006, equations 5.10 to 5.12.
    """
    variance: Floats = 1.0 / np.diag(inverse)
    return (inverse @ centred) * variance, variance


def cholesky(matrix: Floats) -> Floats:
    """Return the lower factor of a covariance, shape (n, n), with as much jitter as it takes."""
    jitter = 0.0
    while True:
        try:
            factor: Floats = np.asarray(np.linalg.cholesky(matrix + jitter * np.eye(len(matrix))), dtype=np.float64)
        except np.linalg.LinAlgError:
            jitter = max(10 * jitter, 1e-10 * float(np.trace(matrix)) / len(matrix))
        else:
            return factor


def inverse_of(factor: Floats) -> Floats:
    """Return the inverse of a covariance from its lower factor, shape (n, n)."""
    lower = np.tril(lapack.dpotri(np.asfortranarray(factor), lower=1)[0])
    return np.asarray(lower + np.tril(lower, -1).T, dtype=np.float64)


def rowwise(left: Floats, right: Floats) -> Floats:
    """Return the dot product of each row of one matrix with the same row of another, shape (rows,)."""
    return np.asarray(np.einsum("ra,ra->r", left, right), dtype=np.float64)


Mode = Literal["direct", "symmetric", "antisymmetric"]


@dataclass(frozen=True)
class Jobs:
    """Jobs as kernels see them: standardised profiles, the model they are of, and their name."""

    x: Floats
    model: np.ndarray
    name: np.ndarray


@dataclass(frozen=True)
class Kernel:
    """A job-by-job kernel with what its gradient needs."""

    value: Floats
    rbf: Floats
    rate: Floats
    weight: Floats


class PairGP:
    """Gaussian process on pairs (i, j) of jobs.

    ``direct`` learns a value of job i beside job j: ``K = O[i,i'] + P[j,j'] + IO[i,i'] IP[j,j']``, own sensitivity,
    pressure of the other, and their interaction. ``symmetric`` and ``antisymmetric`` learn a value of the unordered
    pair that keeps or changes its sign when the jobs are exchanged. Each of O, P, ... is a kernel on jobs,
    ``v0 rbf + v1 same model + v2 same name + v3 same model x rbf`` with a length scale for each column: known jobs
    keep effects of their own, new ones fall back on their model, then on their profile. Hyper-parameters maximise the
    marginal likelihood under log-normal priors. The noise has heavy tails (`heavytails`).

    Parameters
    ----------
    mode : {"direct", "symmetric", "antisymmetric"}
        What a value belongs to.
    max_rows : int
        Rows, drawn with `seed`, on which hyper-parameters are fitted; the weights use all rows.
    max_iter : int
        Iterations of L-BFGS-B.
    seed : int
        Seed of the draw.
    """

    def __init__(self, mode: Mode = "direct", max_rows: int = 350, max_iter: int = 40, seed: int = 0) -> None:
        self.mode = mode
        self.max_rows = max_rows
        self.max_iter = max_iter
        self.seed = seed

    def fit(self, i: Ints, j: Ints, y: Floats, jobs: Jobs) -> Self:
        """Fit hyper-parameters and weights.

        Parameters
        ----------
        i, j : ndarray of int, shape (rows,)
            The pair of each row, as numbers of `jobs`.
        y : ndarray, shape (rows,)
            Values.
        jobs : Jobs
            The jobs.
        """
        columns = jobs.x.shape[1]
        self.jobs_, self.i_, self.j_ = jobs, i, j
        self.mean_ = 0.0 if self.mode == "antisymmetric" else float(y.mean())
        centred = y - self.mean_
        variance = max(float(centred.var()), 1e-4)
        self.const_ = 0.1 * variance
        start: list[float] = []
        for group in self.groups:
            scale = np.sqrt(0.3 * variance) if group.startswith("I") else 0.4 * variance
            start += [float(np.log(0.3 / max(columns, 1)))] * columns
            start += [float(value) for value in np.log(np.array([1.0, 0.2, 0.2, 0.3]) * scale)]
        prior = np.array([*start, np.log(0.03 * variance)])
        subset = np.random.default_rng(self.seed).permutation(len(y))[: self.max_rows]
        self.theta_, self.multiple_ = prior.copy(), np.ones(len(y))
        for doubts in range(DOUBTS + 1):
            found = minimize(
                loss, self.theta_,
                args=(self, i[subset], j[subset], centred[subset], jobs, prior, self.multiple_[subset]), jac=True,
                method="L-BFGS-B", options={"maxiter": MORE_ITERATIONS if doubts else self.max_iter},
            )  # fmt: skip
            self.theta_ = np.asarray(found.x, dtype=np.float64)
            self.noise_ = float(np.exp(self.theta_[-1]))
            gram = self.gram(self.kernels(self.theta_, jobs, jobs)[0], i, j, i, j)
            self.cholesky_ = cholesky(gram + np.diag(self.noise_ * self.multiple_))
            if doubts < DOUBTS:
                residual, spread = left_out_singly(inverse_of(self.cholesky_), centred)
                self.multiple_ = noise_multiples(residual, spread, self.noise_, self.multiple_)
        alpha: Floats = cho_solve((self.cholesky_, True), centred)
        self._gather_weights(alpha, len(jobs.x))
        self.y_ = y
        return self

    def left_out(self, held: Sequence[Ints]) -> list[tuple[Floats, Floats]]:
        """Return what the process would say of some of its rows had it not seen them, in closed form.

        Parameters
        ----------
        held : sequence of ndarray of int
            Rows that are left out together. Hyper-parameters stay as they are.

        Returns
        -------
        list of (mean, variance)
            For each group, for each of its rows; noise included.
        """
        inverse = inverse_of(self.cholesky_)
        alpha = inverse @ (self.y_ - self.mean_)
        out = []
        for rows in held:
            covariance = np.linalg.inv(inverse[np.ix_(rows, rows)])
            # A new measurement has the common noise, whatever is thought of the one that is left out.
            surprise = np.diag(covariance) + self.noise_ * (1.0 - self.multiple_[rows])
            out.append((self.y_[rows] - covariance @ alpha[rows], np.maximum(surprise, self.noise_)))
        return out

    def predict(self, a: Jobs, b: Jobs) -> Floats:
        """Return the posterior mean of job ``a[r]`` beside job ``b[r]`` for every r."""
        of_a, of_b = self._to_training(a), self._to_training(b)
        if self.mode == "direct":
            out = of_a["O"] @ self.sum_i_ + of_b["P"] @ self.sum_j_
            out = out + (self.mean_ + self.const_ * self.total_)
            return out + rowwise(of_a["IO"] @ self.cross_, of_b["IP"])
        sign = self.sign
        own = self.sum_i_ + sign * self.sum_j_
        out = of_a["A"] @ own + sign * (of_b["A"] @ own)
        out = out + (self.mean_ + (self.const_ * self.total_ if sign > 0 else 0.0))
        out = out + rowwise(of_a["I"] @ self.cross_, of_b["I"])
        return out + sign * rowwise(of_b["I"] @ self.cross_, of_a["I"])

    def variance(self, a: Jobs, b: Jobs, rows: int = 5_000) -> Floats:
        """Return the posterior variance of a measured value (noise included) for every r."""
        out = np.empty(len(a.x))
        for start in range(0, len(a.x), rows):
            part = slice(start, start + rows)
            left, right = (Jobs(jobs.x[part], jobs.model[part], jobs.name[part]) for jobs in (a, b))
            across = self._across(self._to_training(left), self._to_training(right))
            reduced = solve_triangular(self.cholesky_, across.T, lower=True)
            out[part] = np.maximum(self._prior_variance(left, right) - (reduced**2).sum(axis=0), 1e-9)
        return out + self.noise_

    def covariance(self, jobs: Jobs, i: Ints, j: Ints) -> Floats:
        """Return the posterior covariance of the values of job i beside job j without noise, shape (rows, rows)."""
        across = self._across(self._to_training(take(jobs, i)), self._to_training(take(jobs, j)))
        reduced = solve_triangular(self.cholesky_, across.T, lower=True)
        before = self.gram(self.kernels(self.theta_, jobs, jobs)[0], i, j, i, j)
        return np.asarray(before - reduced.T @ reduced, dtype=np.float64)

    @property
    def groups(self) -> tuple[str, ...]:
        """Names of the kernels on jobs."""
        return ("O", "P", "IO", "IP") if self.mode == "direct" else ("A", "I")

    @property
    def sign(self) -> int:
        """What exchanging the jobs does to the sign of a value."""
        return -1 if self.mode == "antisymmetric" else 1

    def _gather_weights(self, alpha: Floats, jobs: int) -> None:
        """Sum the weights by job, so that predicting a row costs as many steps as there are jobs, not rows."""
        self.total_ = float(alpha.sum())
        self.sum_i_, self.sum_j_ = np.zeros(jobs), np.zeros(jobs)
        np.add.at(self.sum_i_, self.i_, alpha)
        np.add.at(self.sum_j_, self.j_, alpha)
        self.cross_ = np.zeros((jobs, jobs))
        np.add.at(self.cross_, (self.i_, self.j_), alpha)

    def kernels(self, theta: Floats, a: Jobs, b: Jobs) -> tuple[dict[str, Kernel], Floats, Floats, Floats]:
        """Return the kernels on jobs, their distance by column, and whether they share a model and a name."""
        columns = a.x.shape[1]
        distance = (a.x[:, None, :] - b.x[None]) ** 2
        same_model = (a.model[:, None] == b.model[None]).astype(np.float64)
        same_name = (a.name[:, None] == b.name[None]).astype(np.float64)
        out = {}
        for number, group in enumerate(self.groups):
            part = np.exp(theta[number * (columns + 4) : (number + 1) * (columns + 4)])
            rate, weight = part[:columns], part[columns:]
            rbf = np.exp(-0.5 * (distance @ rate))
            value = weight[0] * rbf + weight[1] * same_model + weight[2] * same_name + weight[3] * same_model * rbf
            out[group] = Kernel(value, rbf, rate, weight)
        return out, distance, same_model, same_name

    def gram(self, k: Mapping[str, Kernel], i: Ints, j: Ints, i2: Ints, j2: Ints) -> Floats:
        """Return the covariance of rows i beside j with rows i2 beside j2, before anything was seen."""
        out: Floats
        if self.mode == "direct":
            out = k["O"].value[np.ix_(i, i2)] + k["P"].value[np.ix_(j, j2)] + self.const_
            return out + k["IO"].value[np.ix_(i, i2)] * k["IP"].value[np.ix_(j, j2)]
        a, b, sign = k["A"].value, k["I"].value, self.sign
        out = a[np.ix_(i, i2)] + a[np.ix_(j, j2)] + sign * (a[np.ix_(i, j2)] + a[np.ix_(j, i2)])
        out += b[np.ix_(i, i2)] * b[np.ix_(j, j2)] + sign * b[np.ix_(i, j2)] * b[np.ix_(j, i2)]
        return out + (self.const_ if sign > 0 else 0.0)

    def _to_training(self, jobs: Jobs) -> dict[str, Floats]:
        """Return every kernel between jobs and the training jobs, without a table of distances by column."""
        columns = jobs.x.shape[1]
        same_model = (jobs.model[:, None] == self.jobs_.model[None]).astype(np.float64)
        same_name = (jobs.name[:, None] == self.jobs_.name[None]).astype(np.float64)
        out = {}
        for number, group in enumerate(self.groups):
            part = np.exp(self.theta_[number * (columns + 4) : (number + 1) * (columns + 4)])
            weight, stretch = part[columns:], np.sqrt(part[:columns])
            left, right = jobs.x * stretch, self.jobs_.x * stretch
            squares = (left**2).sum(axis=1)[:, None] + (right**2).sum(axis=1)[None] - 2.0 * left @ right.T
            rbf = np.exp(-0.5 * np.maximum(squares, 0.0))
            out[group] = (weight[0] + weight[3] * same_model) * rbf + weight[1] * same_model + weight[2] * same_name
        return out

    def _across(self, of_a: Mapping[str, Floats], of_b: Mapping[str, Floats]) -> Floats:
        """Return the covariance of new rows with the training rows."""
        i, j = self.i_, self.j_
        if self.mode == "direct":
            out = of_a["O"][:, i] + of_b["P"][:, j] + self.const_
            return out + of_a["IO"][:, i] * of_b["IP"][:, j]
        sign = self.sign
        out = of_a["A"][:, i] + of_b["A"][:, j] + sign * (of_a["A"][:, j] + of_b["A"][:, i])
        out = out + of_a["I"][:, i] * of_b["I"][:, j] + sign * of_a["I"][:, j] * of_b["I"][:, i]
        return out + (self.const_ if sign > 0 else 0.0)

    def _prior_variance(self, a: Jobs, b: Jobs) -> Floats:
        """Return the variance of each pair before any training row is seen."""
        columns = a.x.shape[1]
        same_model = (a.model == b.model).astype(np.float64)
        same_name = (a.name == b.name).astype(np.float64)
        at_home, apart = {}, {}
        for number, group in enumerate(self.groups):
            part = np.exp(self.theta_[number * (columns + 4) : (number + 1) * (columns + 4)])
            rate, weight = part[:columns], part[columns:]
            rbf = np.exp(-0.5 * ((a.x - b.x) ** 2 @ rate))
            at_home[group] = float(weight.sum())
            apart[group] = weight[0] * rbf + weight[1] * same_model + weight[2] * same_name
            apart[group] = apart[group] + weight[3] * same_model * rbf
        if self.mode == "direct":
            flat = at_home["O"] + at_home["P"] + at_home["IO"] * at_home["IP"] + self.const_
            return np.full(len(a.x), flat)
        sign = self.sign
        out: Floats = 2 * at_home["A"] + 2 * sign * apart["A"] + at_home["I"] ** 2 + sign * apart["I"] ** 2
        return out + (self.const_ if sign > 0 else 0.0)


def take(jobs: Jobs, rows: Any) -> Jobs:
    """Return some jobs, by number."""
    return Jobs(jobs.x[rows], jobs.model[rows], jobs.name[rows])


#: Spread of the log-normal priors on all hyper-parameters.
PRIOR_SPREAD = 1.5


def loss(
    theta: Floats, process: PairGP, i: Ints, j: Ints, y: Floats, jobs: Jobs, prior: Floats, multiple: Floats
) -> tuple[float, Floats]:
    """Return the negative log posterior of a process's hyper-parameters and its gradient.

    Rasmussen and Williams 2006, equations 5.8 and 5.9, with log-normal priors.

    Parameters
    ----------
    theta : ndarray
        Logarithms of the hyper-parameters, in the order of `PairGP.kernels`, the noise variance last.
    process : PairGP
        Whose kernels they are.
    i, j : ndarray of int, shape (rows,)
        The pair of each row, as numbers of `jobs`.
    y : ndarray, shape (rows,)
        Values less their mean.
    jobs : Jobs
        The jobs.
    prior : ndarray
        Centre of the priors, in logarithms.
    multiple : ndarray, shape (rows,)
        By how much the noise variance of a row exceeds the common one.
    """
    columns = jobs.x.shape[1]
    kernels, distance, same_model, same_name = process.kernels(theta, jobs, jobs)
    noise = float(np.exp(theta[-1])) * multiple
    try:
        factor = np.asarray(np.linalg.cholesky(process.gram(kernels, i, j, i, j) + np.diag(noise)))
    except np.linalg.LinAlgError:
        return 1e10, np.zeros_like(theta)
    alpha = cho_solve((factor, True), y)
    inner = 0.5 * (inverse_of(factor) - np.outer(alpha, alpha))
    slopes = _slopes(process, kernels, inner, i, j, len(jobs.x))
    gradient = np.zeros_like(theta)
    for number, group in enumerate(process.groups):
        kernel, slope, at = kernels[group], slopes[group], number * (columns + 4)
        smooth = slope * (kernel.weight[0] + kernel.weight[3] * same_model) * kernel.rbf
        gradient[at : at + columns] = -0.5 * kernel.rate * np.einsum("ab,abd->d", smooth, distance)
        gradient[at + columns : at + columns + 4] = kernel.weight * np.array(
            [
                (slope * kernel.rbf).sum(), (slope * same_model).sum(), (slope * same_name).sum(),
                (slope * same_model * kernel.rbf).sum(),
            ]
        )  # fmt: skip
    gradient[-1] = noise @ np.diag(inner)
    away = (theta - prior) / PRIOR_SPREAD
    loss = 0.5 * y @ alpha + np.log(np.diag(factor)).sum() + 0.5 * away @ away
    return float(loss), gradient + away / PRIOR_SPREAD


def _slopes(process: PairGP, k: Mapping[str, Kernel], inner: Floats, i: Ints, j: Ints, jobs: int) -> dict[str, Floats]:
    """Return the derivative of the loss by every entry of the job-by-job kernels."""
    at = np.arange(len(i))
    of_i, of_j = np.zeros((len(i), jobs)), np.zeros((len(i), jobs))
    of_i[at, i], of_j[at, j] = 1.0, 1.0
    if process.mode == "direct":
        return {
            "O": of_i.T @ inner @ of_i,
            "P": of_j.T @ inner @ of_j,
            "IO": of_i.T @ (inner * k["IP"].value[np.ix_(j, j)]) @ of_i,
            "IP": of_j.T @ (inner * k["IO"].value[np.ix_(i, i)]) @ of_j,
        }
    sign, b = process.sign, k["I"].value
    both = of_i + sign * of_j
    cross = of_i.T @ (inner * b[np.ix_(j, i)]) @ of_j
    straight = of_i.T @ (inner * b[np.ix_(j, j)]) @ of_i + of_j.T @ (inner * b[np.ix_(i, i)]) @ of_j
    return {"A": both.T @ inner @ both, "I": straight + sign * (cross + cross.T)}
