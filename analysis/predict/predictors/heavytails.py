"""Measurement noise with heavy tails: a run that fits badly counts less, so that it does not bend all the others."""

from __future__ import annotations

import numpy as np

from analysis.predict.frame.schema import Floats

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
