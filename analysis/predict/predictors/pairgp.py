"""Gaussian process on pairs of jobs whose kernels live on the jobs: sensitivity, pressure, and their interaction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self, TypeAlias
from weakref import WeakKeyDictionary

import numpy as np
from scipy.linalg import cho_solve, lapack, solve_triangular
from scipy.optimize import minimize

from analysis.predict.frame.schema import Floats, Ints
from analysis.predict.predictors.jobposterior import Features, JobPosterior, Mode

#: Degrees of freedom of Student's t; small enough to doubt a run, large enough to believe most of them.
FREEDOM = 4.0

#: Times that doubts are formed, and iterations in which the hyper-parameters then follow.
DOUBTS = 2
MORE_ITERATIONS = 12

#: Up to so many rows the covariance of all rows is formed; beyond, `jobposterior.JobPosterior` takes its place.
EXACT_ROWS = 2_500

#: Jobs among which the rows for the hyper-parameters are drawn where there are more rows.
DRAWN_JOBS = 60

#: Groups of up to so many rows are left out in closed form there.
FEW_ROWS = 8

#: Rows that are predicted at once.
BLOCK = 5_000


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
    inverse = lapack.dpotri(np.asfortranarray(factor), lower=1)[0]
    # The upper triangle of the factor is zero, and stays so.
    out = inverse + inverse.T
    out[np.diag_indices_from(out)] *= 0.5
    return np.asarray(out, dtype=np.float64)


def rowwise(left: Floats, right: Floats) -> Floats:
    """Return the dot product of each row of one matrix with the same row of another, shape (rows,)."""
    return np.asarray(np.einsum("ra,ra->r", left, right), dtype=np.float64)


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
    marginal likelihood under log-normal priors. The noise has heavy tails (`noise_multiples`).
    What rows teach is gathered by job; beyond `EXACT_ROWS` rows it is also formed by job (`jobposterior`).

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

    #: Whether it was learnt by job; so that models stored before there was a choice are read.
    by_job_ = False

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
        subset = _drawn(i, j, self.max_rows, self.seed)
        used, at = np.unique(np.concatenate([i[subset], j[subset]]), return_inverse=True)
        few, few_jobs = np.split(at.ravel(), 2), take(jobs, used)
        apart = between(few_jobs, few_jobs)
        self.theta_, self.multiple_ = prior.copy(), np.ones(len(y))
        for doubts in range(DOUBTS + 1):
            found = minimize(
                loss, self.theta_,
                args=(self, *few, centred[subset], few_jobs, prior, self.multiple_[subset], apart), jac=True,
                method="L-BFGS-B", options={"maxiter": MORE_ITERATIONS if doubts else self.max_iter},
            )  # fmt: skip
            self.theta_ = np.asarray(found.x, dtype=np.float64)
            self.noise_ = float(np.exp(self.theta_[-1]))
            residual, spread = self._condition(centred, last=doubts == DOUBTS)
            if doubts < DOUBTS:
                self.multiple_ = noise_multiples(residual, spread, self.noise_, self.multiple_)
        self.y_ = y
        return self

    def _condition(self, centred: Floats, *, last: bool) -> tuple[Floats, Floats]:
        """Learn from the rows at the hyper-parameters; return residual and variance of each row left out alone."""
        i, j, jobs = self.i_, self.j_, self.jobs_
        self.by_job_ = len(centred) > EXACT_ROWS
        nothing = np.zeros(0)
        if self.by_job_:
            before = _remembered(self).pop("_posterior", None)
            posterior = self._posterior_of(np.arange(len(centred)), centred, start=before and before.weights())
            _remembered(self)["_posterior"] = posterior
            self.cholesky_ = np.zeros((0, 0))
            self._keep(posterior)
            return (nothing, nothing) if last else posterior.left_out_singly()
        gram = self.gram(self.kernels(self.theta_, jobs, jobs)[0], i, j, i, j)
        gram[np.diag_indices_from(gram)] += self.noise_ * self.multiple_
        self.cholesky_ = cholesky(gram)
        if not last:
            return left_out_singly(inverse_of(self.cholesky_), centred)
        table = np.zeros((len(jobs.x), len(jobs.x)))
        np.add.at(table, (i, j), cho_solve((self.cholesky_, True), centred))
        self._gather_weights(table)
        return nothing, nothing

    def _posterior_of(
        self, rows: Ints, centred: Floats, unresolved: float | None = None, start: Floats | None = None
    ) -> JobPosterior:
        """Return what some of the rows teach, by job."""
        found = _remembered(self).get("_features")
        if found is None or not np.array_equal(found[0], self.theta_):
            kernels = self._to_training(self.jobs_)
            found = self.theta_, kernels, Features(self.mode, kernels, self.const_)
            _remembered(self)["_features"] = found
        _, kernels, features = found
        noise = self.noise_ * self.multiple_[rows]
        return JobPosterior(features, kernels, self.i_[rows], self.j_[rows], centred[rows], noise, unresolved, start)

    def _keep(self, posterior: JobPosterior) -> None:
        """Keep of a posterior by job what predictions need."""
        self._gather_weights(posterior.weights())
        self.features_, self.known_, self.unresolved_ = posterior.features, posterior.known, posterior.unresolved
        self.unsure_ = posterior.unsure[np.tril_indices(len(posterior.unsure))].astype(np.float32)

    def left_out(self, held: Sequence[Ints]) -> list[tuple[Floats, Floats]]:
        """Return what the process would say of some of its rows had it not seen them.

        In closed form; of more than `EXACT_ROWS` rows, larger groups are left out by learning from the others again.

        Parameters
        ----------
        held : sequence of ndarray of int
            Rows that are left out together. Hyper-parameters stay as they are.

        Returns
        -------
        list of (mean, variance)
            For each group, for each of its rows; noise included.
        """
        if self.by_job_:
            return [self._left_out_by_job(rows) for rows in held]
        inverse = self._inverse()
        alpha = inverse @ (self.y_ - self.mean_)
        out = []
        for rows in held:
            covariance = np.linalg.inv(inverse[np.ix_(rows, rows)])
            # A new measurement has the common noise, whatever is thought of the one that is left out.
            surprise = np.diag(covariance) + self.noise_ * (1.0 - self.multiple_[rows])
            out.append((self.y_[rows] - covariance @ alpha[rows], np.maximum(surprise, self.noise_)))
        return out

    def among(self, rows: Ints) -> PairGP:
        """Return a process that has learnt by job from some of the rows alone; hyper-parameters and doubts stay."""
        found = PairGP(self.mode, self.max_rows, self.max_iter, self.seed)
        used, at = np.unique(np.concatenate([self.i_[rows], self.j_[rows]]), return_inverse=True)
        found.i_, found.j_ = np.split(at.ravel(), 2)
        found.jobs_, found.y_, found.multiple_ = take(self.jobs_, used), self.y_[rows], self.multiple_[rows]
        found.theta_, found.noise_, found.const_, found.mean_ = self.theta_, self.noise_, self.const_, self.mean_
        found.by_job_ = True
        if self.by_job_:
            found.unresolved_ = self.unresolved_
        return found

    def _left_out_by_job(self, rows: Ints) -> tuple[Floats, Floats]:
        centred = self.y_ - self.mean_
        whole = _remembered(self).get("_posterior")
        if whole is None:
            every = np.arange(len(centred))
            whole = _remembered(self)["_posterior"] = self._posterior_of(
                every, centred, getattr(self, "unresolved_", None)
            )
        if len(rows) <= FEW_ROWS:
            residual, variance = whole.left_out_together(rows)
            surprise = variance + self.noise_ * (1.0 - self.multiple_[rows])
            return self.y_[rows] - residual, np.maximum(surprise, self.noise_)
        rest = np.delete(np.arange(len(centred)), rows)
        again = self._posterior_of(rest, centred, whole.unresolved, whole.weights())
        i, j = self.i_[rows], self.j_[rows]
        return self.mean_ + again.said[i, j], again.variance(i, j) + self.noise_

    def _inverse(self) -> Floats:
        found: Floats | None = _remembered(self).get("_inverted")
        if found is None:
            found = _remembered(self)["_inverted"] = inverse_of(self.cholesky_)
        return found

    def predict(self, jobs: Jobs, i: Ints, j: Ints) -> Floats:
        """Return the posterior mean of job ``i[r]`` beside job ``j[r]`` for every r."""
        of = self._to_training(jobs)
        level = self.mean_ + (self.const_ * self.total_ if self.sign > 0 else 0.0)
        if self.mode == "direct":
            own, other = of["O"] @ self.sum_i_, of["P"] @ self.sum_j_
            left, right = of["IO"] @ self.cross_, of["IP"]
        else:
            own = of["A"] @ (self.sum_i_ + self.sign * self.sum_j_)
            other = self.sign * own
            left, right = of["I"] @ (self.cross_ + self.sign * self.cross_.T), of["I"]
        out: Floats = own[i] + other[j] + level
        for start in range(0, len(i), BLOCK):
            part = slice(start, start + BLOCK)
            out[part] += rowwise(left[i[part]], right[j[part]])
        return out

    def variance(self, jobs: Jobs, i: Ints, j: Ints) -> Floats:
        """Return the posterior variance of a measured value (noise included) for every r."""
        of = self._to_training(jobs)
        if self.by_job_:
            table = self.features_.of_jobs(of)
            known = np.isin(jobs.name, self.jobs_.name[self.known_])
            rest = self._prior_variance(jobs, i, j)
            rest -= self.features_.squares(table, table, i, j, np.eye(self.features_.count))
            rest = np.maximum(rest, 0.0) * np.where(known[i] & known[j], self.unresolved_, 1.0)
            rest += self.features_.squares(table, table, i, j, self._unsure())
            return np.asarray(rest + self.noise_, dtype=np.float64)
        out = np.empty(len(i))
        for start in range(0, len(i), BLOCK):
            part = slice(start, start + BLOCK)
            reduced = solve_triangular(self.cholesky_, self._across(of, i[part], j[part]).T, lower=True)
            out[part] = (reduced**2).sum(axis=0)
        return np.maximum(self._prior_variance(jobs, i, j) - out, 1e-9) + self.noise_

    def _unsure(self) -> Floats:
        """Return the covariance of the features' weights, which is kept as its lower half."""
        found: Floats | None = _remembered(self).get("_unpacked")
        if found is None:
            found = np.zeros((self.features_.count, self.features_.count))
            lower = np.tril_indices(len(found))
            found[lower] = self.unsure_
            found.T[lower] = self.unsure_
            _remembered(self)["_unpacked"] = found
        return found

    def covariance(self, jobs: Jobs, i: Ints, j: Ints) -> Floats:
        """Return the posterior covariance of the values of job i beside job j without noise, shape (rows, rows)."""
        of = self._to_training(jobs)
        before = self.gram(self.kernels(self.theta_, jobs, jobs)[0], i, j, i, j)
        if self.by_job_:
            table = self.features_.of_jobs(of)
            rows = self.features_.rows(table, table, i, j)
            return np.asarray(before - rows @ rows.T + rows @ self._unsure() @ rows.T, dtype=np.float64)
        reduced = solve_triangular(self.cholesky_, self._across(of, i, j).T, lower=True)
        return np.asarray(before - reduced.T @ reduced, dtype=np.float64)

    @property
    def groups(self) -> tuple[str, ...]:
        """Names of the kernels on jobs."""
        return ("O", "P", "IO", "IP") if self.mode == "direct" else ("A", "I")

    @property
    def sign(self) -> int:
        """What exchanging the jobs does to the sign of a value."""
        return -1 if self.mode == "antisymmetric" else 1

    def _gather_weights(self, table: Floats) -> None:
        """Sum the weights by job, so that predicting a row costs as many steps as there are jobs, not rows."""
        self.total_ = float(table.sum())
        self.sum_i_, self.sum_j_, self.cross_ = table.sum(axis=1), table.sum(axis=0), table

    def kernels(
        self, theta: Floats, a: Jobs, b: Jobs, apart: Worker | None = None
    ) -> tuple[dict[str, Kernel], Floats, Floats, Floats]:
        """Return the kernels on jobs, their distance by column, and whether they share a model and a name."""
        columns = a.x.shape[1]
        distance, same_model, same_name = apart or between(a, b)
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

    def _across(self, of: Mapping[str, Floats], a: Ints, b: Ints) -> Floats:
        """Return the covariance of job a beside job b with the training rows."""
        i, j = self.i_, self.j_
        if self.mode == "direct":
            out = of["O"][a][:, i] + of["P"][b][:, j] + self.const_
            return out + of["IO"][a][:, i] * of["IP"][b][:, j]
        sign = self.sign
        out = of["A"][a][:, i] + of["A"][b][:, j] + sign * (of["A"][a][:, j] + of["A"][b][:, i])
        out = out + of["I"][a][:, i] * of["I"][b][:, j] + sign * of["I"][a][:, j] * of["I"][b][:, i]
        return out + (self.const_ if sign > 0 else 0.0)

    def _prior_variance(self, jobs: Jobs, i: Ints, j: Ints) -> Floats:
        """Return the variance of each pair before any training row is seen."""
        columns = jobs.x.shape[1]
        same_model = (jobs.model[i] == jobs.model[j]).astype(np.float64)
        same_name = (jobs.name[i] == jobs.name[j]).astype(np.float64)
        at_home, apart = {}, {}
        for number, group in enumerate(self.groups):
            part = np.exp(self.theta_[number * (columns + 4) : (number + 1) * (columns + 4)])
            rate, weight = part[:columns], part[columns:]
            at_home[group] = float(weight.sum())
            if self.mode != "direct":
                rbf = np.exp(-0.5 * ((jobs.x[i] - jobs.x[j]) ** 2 @ rate))
                apart[group] = weight[0] * rbf + weight[1] * same_model + weight[2] * same_name
                apart[group] = apart[group] + weight[3] * same_model * rbf
        if self.mode == "direct":
            flat = at_home["O"] + at_home["P"] + at_home["IO"] * at_home["IP"] + self.const_
            return np.full(len(i), flat)
        sign = self.sign
        out: Floats = 2 * at_home["A"] + 2 * sign * apart["A"] + at_home["I"] ** 2 + sign * apart["I"] ** 2
        return out + (self.const_ if sign > 0 else 0.0)


#: What processes form once and use again, such as an inverse; no part of them, so that it is not stored.
_REMEMBERED: WeakKeyDictionary[PairGP, dict[str, Any]] = WeakKeyDictionary()


def _remembered(process: PairGP) -> dict[str, Any]:
    return _REMEMBERED.setdefault(process, {})


def take(jobs: Jobs, rows: Any) -> Jobs:
    """Return some jobs, by number."""
    return Jobs(jobs.x[rows], jobs.model[rows], jobs.name[rows])


#: How far jobs are apart by column, and whether they share a model and a name.
Worker: TypeAlias = tuple[Floats, Floats, Floats]


def between(a: Jobs, b: Jobs) -> Worker:
    """Return how far jobs are apart, shape (a, b, columns), and whether they share a model and a name, shape (a, b)."""
    distance = (a.x[:, None, :] - b.x[None]) ** 2
    same_model = (a.model[:, None] == b.model[None]).astype(np.float64)
    same_name = (a.name[:, None] == b.name[None]).astype(np.float64)
    return distance, same_model, same_name


def _drawn(i: Ints, j: Ints, rows: int, seed: int) -> Ints:
    """Draw rows for the hyper-parameters; of large tables from among some jobs, so that each is seen several times."""
    lot = np.random.default_rng(seed)
    if len(i) <= max(EXACT_ROWS, rows):
        return lot.permutation(len(i))[:rows]
    rank = lot.permutation(int(max(i.max(), j.max())) + 1)
    latest = np.maximum(rank[i], rank[j])
    most = max(DRAWN_JOBS, int(np.partition(latest, rows - 1)[rows - 1]) + 1)
    return lot.permutation(np.flatnonzero(latest < most))[:rows]


#: Spread of the log-normal priors on all hyper-parameters.
PRIOR_SPREAD = 1.5


def loss(
    theta: Floats,
    process: PairGP,
    i: Ints,
    j: Ints,
    y: Floats,
    jobs: Jobs,
    prior: Floats,
    multiple: Floats,
    apart: Worker | None = None,
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
    apart : tuple, optional
        What `between` says of the jobs, formed once for all steps.
    """
    columns = jobs.x.shape[1]
    kernels, distance, same_model, same_name = process.kernels(theta, jobs, jobs, apart)
    noise = float(np.exp(theta[-1])) * multiple
    gram = process.gram(kernels, i, j, i, j)
    gram[np.diag_indices_from(gram)] += noise
    try:
        factor = np.asarray(np.linalg.cholesky(gram))
    except np.linalg.LinAlgError:
        return 1e10, np.zeros_like(theta)
    alpha = cho_solve((factor, True), y)
    inner = 0.5 * (inverse_of(factor) - np.outer(alpha, alpha))
    slopes = _slopes(process, kernels, inner, i, j, len(jobs.x))
    gradient = np.zeros_like(theta)
    for number, group in enumerate(process.groups):
        kernel, slope, at = kernels[group], slopes[group], number * (columns + 4)
        smooth = slope * (kernel.weight[0] + kernel.weight[3] * same_model) * kernel.rbf
        gradient[at : at + columns] = -0.5 * kernel.rate * (smooth.ravel() @ distance.reshape(smooth.size, columns))
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
