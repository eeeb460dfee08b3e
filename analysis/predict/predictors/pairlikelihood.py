"""How well hyper-parameters of a Gaussian process on pairs explain what was measured, and which way is better."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
from scipy.linalg import cho_solve

from analysis.predict.frame.schema import Floats, Ints
from analysis.predict.predictors.matrices import inverse_of

if TYPE_CHECKING:
    from analysis.predict.predictors.pairgp import Jobs, Kernel, PairGP

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
