"""What stands behind one cell of the matrix."""

from __future__ import annotations

import numpy as np
import pandas as pd

from analysis.errors import NotFoundError
from analysis.interference.choose import choose
from analysis.interference.memory import peaks
from analysis.interference.pairs import capped_members, with_metrics
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
    pairs = coruns.pairs(database, Filter((dataset,), (choice.gpu,), (choice.mechanism,)))
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
