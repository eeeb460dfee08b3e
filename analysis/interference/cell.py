"""What stands behind one cell of the matrix."""

from __future__ import annotations

import numpy as np
import pandas as pd

from analysis.errors import NotFoundError
from analysis.interference.choose import choose
from analysis.interference.matrix import MEASURED, SlowdownMatrix, capped_members, with_metrics
from analysis.interference.matrix_order import distances
from analysis.interference.memory import peaks
from analysis.interference.rules.baselines import minimum_slowdowns
from analysis.store.database import Database
from analysis.store.filters import Filter
from analysis.store.queries import coruns, sources


def cell(
    database: Database, dataset: str, gpu: str | None, mechanism: str | None, victim: str, aggressor: str
) -> pd.DataFrame:
    """Return both members of every run behind one cell.

    Parameters
    ----------
    database : Database
        The open database.
    dataset, gpu, mechanism
        As for `slowdown_matrix`.
    victim, aggressor : str
        The row and the column.

    Returns
    -------
    pd.DataFrame
        The columns of `analysis.store.queries.coruns.pairs` and role (``slowed`` or ``beside it``), stp, antt and
        fairness of the run, capped (whether client caps were set); ordered by run and slot. Empty where the pair was
        not measured.

    Raises
    ------
    NotFoundError
        If a workload is not in the data set.
    """
    choice = choose(database, dataset, gpu, mechanism)
    known = set(sources.workloads(database, Filter(datasets=(dataset,)))["workload"])
    for name in (victim, aggressor):
        if name not in known:
            raise NotFoundError(f"data set {dataset!r} has no workload {name!r}", "Names are written as in its files.")
    pairs = coruns.pairs(database, Filter((dataset,), (choice.gpu,), (choice.mechanism,), (victim, aggressor)))
    own = (pairs["workload"] == victim) & (pairs["partner"] == aggressor)
    other = (pairs["workload"] == aggressor) & (pairs["partner"] == victim)
    chosen = with_metrics(pairs[own | other].copy())
    chosen["role"] = np.where(chosen["workload"] == victim, "slowed", "beside it")
    chosen["capped"] = capped_members(chosen)
    return chosen.sort_values(["run_id", "slot"], kind="stable").reset_index(drop=True)


def alone(
    database: Database, dataset: str, gpu: str | None, mechanism: str | None, victim: str, aggressor: str
) -> pd.DataFrame:
    """Return what is known of both jobs alone.

    Returns
    -------
    pd.DataFrame
        One row a job (one, where both are the same): workload, measure, value, unit (of the first solo measurement;
        repeats as their median), peak_memory_mib and memory_kind (the largest known), minimum (smallest S over all its
        partners), gentlest (that partner), baseline (``sound``, ``doubtful``, or ``not checked`` without co-runs).
    """
    choice = choose(database, dataset, gpu, mechanism)
    here = Filter(datasets=(dataset,), gpus=(choice.gpu,))
    solos = coruns.solos(database, here)
    memory = peaks(database, dataset, choice.gpu)
    checked = {str(row["workload"]): row for row in minimum_slowdowns(database, dataset, choice.gpu).to_dict("records")}
    rows = []
    for name in dict.fromkeys((victim, aggressor)):
        own = solos[(solos["workload"] == name) & solos["value"].notna()]
        first = own.iloc[0] if len(own) else None
        units = own["unit"].fillna("")
        same = own[(own["measure"] == first["measure"]) & (units == units.iloc[0])] if first is not None else own
        there = checked.get(name)
        rows.append(
            {
                "workload": name,
                "measure": None if first is None else first["measure"],
                "value": float(same["value"].median()) if len(same) else np.nan,
                "unit": None if first is None else first["unit"],
                "peak_memory_mib": float(memory["peak_memory_mib"].get(name, np.nan)),
                "memory_kind": memory["memory_kind"].get(name),
                "minimum": float(there["minimum"]) if there else np.nan,
                "gentlest": there["gentlest"] if there else None,
                "baseline": ("doubtful" if there["excluded"] else "sound") if there else "not checked",
            }
        )
    return pd.DataFrame(rows)


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
