"""Orders of a matrix's workloads, each a way to see something in it."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy.cluster.hierarchy import leaves_list, linkage
from scipy.spatial.distance import squareform

from analysis.errors import UsageError
from analysis.interference.matrix import SlowdownMatrix

ORDERS = ("name", "family", "sensitivity", "pressure", "cluster")


def order(matrix: SlowdownMatrix, by: str = "name") -> npt.NDArray[np.int64]:
    """Return the positions of the workloads in an order.

    Parameters
    ----------
    matrix : SlowdownMatrix
        The matrix, for `SlowdownMatrix.reordered`.
    by : {"name", "family", "sensitivity", "pressure", "cluster"}
        ``sensitivity``: those that suffer most first (median of log S over partners); ``pressure``: those that hurt
        most first; ``cluster``: similar workloads side by side (average linkage on rows and columns of log S, optimal
        leaf order).

    Raises
    ------
    UsageError
        If the order is unknown.
    """
    size = len(matrix.workloads)
    if by == "name":
        return np.array(sorted(range(size), key=lambda i: matrix.workloads[i].casefold()), dtype=np.int64)
    if by == "family":
        keys = [(matrix.families[i].casefold(), matrix.workloads[i].casefold()) for i in range(size)]
        return np.array(sorted(range(size), key=keys.__getitem__), dtype=np.int64)
    if by in ("sensitivity", "pressure"):
        axis = 1 if by == "sensitivity" else 0
        return np.argsort(-_median(np.log(matrix.slowdown), axis), kind="stable").astype(np.int64)
    if by == "cluster":
        return _clustered(np.log(matrix.slowdown))
    raise UsageError(f"unknown order {by!r}", f"Choose one of {', '.join(ORDERS)}.")


def _median(values: npt.NDArray[np.float64], axis: int) -> npt.NDArray[np.float64]:
    """Median without NaN; a line without a single value sorts last."""
    known = ~np.isnan(values)
    result = np.full(values.shape[0], -np.inf)
    some = known.any(axis=axis)
    if some.any():
        lines = values[some] if axis == 1 else values[:, some]
        result[some] = np.nanmedian(lines, axis=axis)
    return result


def distances(log_slowdown: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Compare workloads on the partners that both were measured with, as victims and as aggressors.

    Parameters
    ----------
    log_slowdown : ndarray, shape (n, n)
        ln S, NaN where there is none.

    Returns
    -------
    ndarray, shape (n, n)
        Root mean square difference of ln S: 0.05 is a typical difference of 5 %. Workloads that share no partner are as
        far apart as any two are.
    """
    profile = np.hstack([log_slowdown, log_slowdown.T])
    known = ~np.isnan(profile)
    filled = np.where(known, profile, 0.0)
    both = known.astype(float) @ known.T.astype(float)
    squares = (filled**2) @ known.T.astype(float)
    total = squares + squares.T - 2 * filled @ filled.T
    distance = np.sqrt(np.clip(np.divide(total, both, out=np.full_like(total, np.nan), where=both > 0), 0, None))
    farthest = np.nanmax(distance) if np.isfinite(distance).any() else 1.0
    distance = np.where(np.isnan(distance), farthest, distance)
    np.fill_diagonal(distance, 0)
    return np.asarray((distance + distance.T) / 2, dtype=np.float64)


def _clustered(log_slowdown: npt.NDArray[np.float64]) -> npt.NDArray[np.int64]:
    if len(log_slowdown) < 3:
        return np.arange(len(log_slowdown), dtype=np.int64)
    tree = linkage(squareform(distances(log_slowdown), checks=False), "average", optimal_ordering=True)
    return leaves_list(tree).astype(np.int64)
