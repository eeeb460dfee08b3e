"""A matrix of families is the median of its workloads' cells."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from analysis.interference.matrix import slowdown_matrix
from analysis.interference.matrix_order import by_family
from analysis.store.database import Database
from analysis.store.loader import SourceInfo, load
from analysis.store.parsed import Parsed


def test_cells_are_medians_and_states_the_best_known(database: Database, coruns) -> None:
    names = {"a1": "A", "a2": "A", "b1": "B", "c": None}
    frame = pd.DataFrame({"name": list(names), "family": pd.Series(list(names.values()), dtype="string")})
    load(database, Parsed(format="x", rows_read=0, frames={"workload": frame}), SourceInfo("own", "w", "w", 1))
    runs = [
        {"members": [("a1", 1.2), ("b1", 1.1)]},
        {"members": [("a2", 1.8), ("b1", 1.3)]},
        {"members": [("a1", None), ("c", None)], "outcome": "did_not_run"},
    ]
    coruns(runs, solos=dict.fromkeys(names, 1.0))
    found = by_family(slowdown_matrix(database, "own"))
    assert found.workloads == ("A", "B", "c")
    assert found.slowdown[0, 1] == pytest.approx(1.5)
    assert (found.low[0, 1], found.high[0, 1], found.runs[0, 1]) == (1.2, 1.8, 2)
    assert found.slowdown[1, 0] == pytest.approx(1.2)
    assert found.state.tolist() == [
        ["not_measured", "measured", "did_not_run"],
        ["measured", "not_measured", "not_measured"],
        ["did_not_run", "not_measured", "not_measured"],
    ]
    assert np.isnan(found.slowdown[0, 2])
    assert "4 workloads are shown as 3 families" in found.notes[-1]
