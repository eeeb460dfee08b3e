"""Dense matrices of Gaussian processes: factors and inverses that survive rounding."""

from __future__ import annotations

import numpy as np
from scipy.linalg import lapack

from analysis.predict.frame.schema import Floats


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
