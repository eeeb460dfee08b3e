"""What stands behind one cell of the matrix."""

from __future__ import annotations

import numpy as np
import pandas as pd

from analysis.errors import NotFoundError
from analysis.interference.choose import choose
from analysis.interference.pairs import capped_members, with_metrics
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
