"""The measured pairs most like a given one: what is known where nothing, or too little, was measured."""

from __future__ import annotations

import numpy as np
import pandas as pd

from analysis.interference.matrix import MEASURED, SlowdownMatrix
from analysis.interference.order import distances


def nearest_pairs(matrix: SlowdownMatrix, slowed: str, beside: str, most: int = 5) -> pd.DataFrame:
    """Return other measured pairs, those of the most similar jobs first.

    Two jobs are alike when they were slowed and slowed others alike beside the same partners; the pair in question is
    left out of that comparison. A job that shares no partner with another is compared by its family.

    Parameters
    ----------
    matrix : SlowdownMatrix
        The pairs.
    slowed, beside : str
        The pair in question.
    most : int
        Rows at most.

    Returns
    -------
    pd.DataFrame
        workload (in the place of the slowed job), beside, slowdown, beside_slowdown, stp, difference (percent: typical
        difference of the two jobs' slowdowns from those of the pair in question, summed over both).
    """
    row, column = matrix.workloads.index(slowed), matrix.workloads.index(beside)
    known = np.log(matrix.slowdown)
    known[row, column] = known[column, row] = np.nan
    apart = distances(known)
    families = np.array([family or name for family, name in zip(matrix.families, matrix.workloads, strict=True)])
    empty = np.isnan(known)
    nobody = np.asarray(empty.all(axis=0) & empty.all(axis=1), dtype=np.bool_)
    for place in (row, column):
        if nobody[place]:
            apart[place] = np.where(families == families[place], 0.0, apart[place])
            apart[place, place] = 0.0
    total = apart[row][:, None] + apart[column][None, :]
    there = np.asarray((matrix.state == MEASURED) & ~np.isnan(matrix.slowdown), dtype=np.bool_)
    there[row, column] = there[column, row] = False
    total = np.where(there, total, np.inf)
    places = np.argsort(total, axis=None, kind="stable")
    rows = []
    for place in places[:most]:
        i, j = np.unravel_index(place, total.shape)
        if not np.isfinite(total[i, j]):
            break
        rows.append(
            {
                "workload": matrix.workloads[i],
                "beside": matrix.workloads[j],
                "slowdown": float(matrix.slowdown[i, j]),
                "beside_slowdown": float(matrix.slowdown[j, i]),
                "stp": float(matrix.stp[i, j]),
                "difference": 100 * float(total[i, j]),
            }
        )
    columns = ["workload", "beside", "slowdown", "beside_slowdown", "stp", "difference"]
    return pd.DataFrame(rows, columns=columns)
