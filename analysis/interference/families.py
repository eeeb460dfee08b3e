"""A matrix too large to read, brought to one row and column a family."""

from __future__ import annotations

import numpy as np

from analysis.interference.matrix import DID_NOT_RUN, FLAGGED, MEASURED, NOT_MEASURED, SlowdownMatrix


def by_family(matrix: SlowdownMatrix) -> SlowdownMatrix:
    """Return the matrix of families: each cell the median over the cells of its workloads.

    Parameters
    ----------
    matrix : SlowdownMatrix
        Workloads without a known family stay families of their own.

    Returns
    -------
    SlowdownMatrix
        ``low`` and ``high`` are the smallest and largest S of the cells, ``runs`` their sum. A cell is measured when
        one of its cells is, else flagged, else did not run, else not measured; flagged cells count only where all are.
    """
    names = [family or workload for family, workload in zip(matrix.families, matrix.workloads, strict=True)]
    families = sorted(set(names), key=str.casefold)
    members = [np.flatnonzero([name == family for name in names]) for family in families]
    size = len(families)
    fields = {
        name: np.full((size, size), np.nan) for name in ("slowdown", "low", "high", "stp", "antt", "fairness", "p99")
    }
    state = np.full((size, size), NOT_MEASURED, dtype="<U12")
    runs = np.zeros((size, size), dtype=np.int64)
    for i, rows in enumerate(members):
        for j, columns in enumerate(members):
            block = np.ix_(rows, columns)
            states = matrix.state[block]
            state[i, j] = next((s for s in (MEASURED, FLAGGED, DID_NOT_RUN) if (states == s).any()), NOT_MEASURED)
            runs[i, j] = matrix.runs[block].sum()
            counted = states == state[i, j]
            for name, reduced, source in (
                ("slowdown", np.median, matrix.slowdown), ("low", np.min, matrix.low), ("high", np.max, matrix.high),
                ("stp", np.median, matrix.stp), ("antt", np.median, matrix.antt),
                ("fairness", np.median, matrix.fairness), ("p99", np.median, matrix.p99),
            ):  # fmt: skip
                values = source[block][counted]
                values = values[~np.isnan(values)]
                if values.size:
                    fields[name][i, j] = reduced(values)
    note = (
        f"{len(matrix.workloads)} workloads are shown as {size} families; a cell is the median of its workloads' cells."
    )
    return SlowdownMatrix(
        **{
            **matrix.__dict__, **fields, "workloads": tuple(families), "families": tuple(families), "state": state,
            "runs": runs, "flagged": frozenset(), "notes": (*matrix.notes, note),
        }
    )  # fmt: skip
