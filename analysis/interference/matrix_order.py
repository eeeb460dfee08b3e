"""Orders and groupings of a matrix's workloads, each a way to see something in it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.cluster.hierarchy import leaves_list, linkage
from scipy.spatial.distance import squareform

from analysis.errors import UsageError
from analysis.interference.matrix import DID_NOT_RUN, FLAGGED, MEASURED, NOT_MEASURED, VALUES, SlowdownMatrix

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


#: How the cells of a group become one; all other values by their median.
_REDUCED = {"low": np.min, "high": np.max, "worst": np.max}


def by_family(matrix: SlowdownMatrix) -> SlowdownMatrix:
    """Return the matrix of families, as `by_group`; workloads without a known family stay families of their own."""
    return by_group(matrix, family_names(matrix), "families")


def family_names(matrix: SlowdownMatrix) -> list[str]:
    """Return each workload's family, its own name where it has none."""
    return [family or workload for family, workload in zip(matrix.families, matrix.workloads, strict=True)]


def by_group(matrix: SlowdownMatrix, groups: Sequence[str], noun: str) -> SlowdownMatrix:
    """Return the matrix of groups of workloads: each cell the median over the cells of its workloads.

    Parameters
    ----------
    matrix : SlowdownMatrix
        The matrix of workloads.
    groups : sequence of str
        One name a workload.
    noun : str
        What the groups are, in the plural, for the note.

    Returns
    -------
    SlowdownMatrix
        ``low`` and ``high`` are the smallest and largest S of the cells, ``worst`` the largest of the pairs, ``runs``
        and ``failed`` their sums. A cell is measured when one of its cells is, else flagged, else did not run, else not
        measured; flagged cells count only where all are.
    """
    order = sorted(set(groups), key=_natural)
    members = [np.flatnonzero([name == group for name in groups]) for group in order]
    size = len(order)
    fields: dict[str, Any] = {name: np.full((size, size), np.nan) for name in VALUES}
    state = np.full((size, size), NOT_MEASURED, dtype="<U12")
    counts: dict[str, Any] = {name: np.zeros((size, size), dtype=np.int64) for name in ("runs", "failed")}
    capped = np.zeros((size, size), dtype=np.bool_)
    for i, rows in enumerate(members):
        for j, columns in enumerate(members):
            block = np.ix_(rows, columns)
            states = matrix.state[block]
            state[i, j] = next((s for s in (MEASURED, FLAGGED, DID_NOT_RUN) if (states == s).any()), NOT_MEASURED)
            for name, total in counts.items():
                total[i, j] = getattr(matrix, name)[block].sum()
            capped[i, j] = matrix.capped[block].any()
            counted = states == state[i, j]
            for name in VALUES:
                values = getattr(matrix, name)[block][counted]
                values = values[~np.isnan(values)]
                if values.size:
                    fields[name][i, j] = _REDUCED.get(name, np.median)(values)
    note = (
        f"{len(matrix.workloads)} workloads are shown as {size} {noun}; a cell is the median of its workloads' cells."
    )
    return replace(
        matrix, **fields, **counts, capped=capped, state=state, workloads=tuple(order), families=tuple(order),
        flagged=frozenset(), notes=(*matrix.notes, note),
    )  # fmt: skip


def members_of(matrix: SlowdownMatrix, groups: Sequence[str], wanted: Sequence[str]) -> SlowdownMatrix:
    """Return the part of a matrix whose workloads belong to some of its groups."""
    return matrix.reordered([place for place, name in enumerate(groups) if name in wanted])


def _natural(name: str) -> tuple[float, str]:
    """Sort batch sizes as numbers and before all else."""
    return (float(name), "") if name.isdigit() else (np.inf, name.casefold())
