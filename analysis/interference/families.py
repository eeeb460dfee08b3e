"""A matrix too large to read, or to be read by kind: one row and column a family, phase, batch size or precision."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from analysis.interference.matrix import (
    DID_NOT_RUN,
    FLAGGED,
    MEASURED,
    NOT_MEASURED,
    VALUES,
    SlowdownMatrix,
)

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
