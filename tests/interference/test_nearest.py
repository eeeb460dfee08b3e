"""The most similar other pairs: like jobs beside like partners come first."""

from __future__ import annotations

from analysis.interference.cell import nearest_pairs
from analysis.interference.matrix import slowdown_matrix
from analysis.store.database import Database


def test_like_jobs_come_first(database: Database, coruns) -> None:
    kind = {"a1": 3.0, "a2": 3.05, "b1": 1.1, "b2": 1.12}
    names = list(kind)
    pairs = [(x, y) for i, x in enumerate(names) for y in names[i:]]
    coruns([{"members": [(x, kind[x]), (y, kind[y])]} for x, y in pairs])
    found = nearest_pairs(slowdown_matrix(database, "own"), "a1", "b1", most=3)
    assert {tuple(row) for row in found[["workload", "beside"]].to_numpy()} == {
        ("a1", "b2"), ("a2", "b1"), ("a2", "b2"),
    }  # fmt: skip
    assert found["difference"].is_monotonic_increasing
    assert found["slowdown"].min() >= 3.0


def test_nothing_measured_nothing_near(database: Database, coruns) -> None:
    coruns([{"members": [("a", 1.5), ("b", 1.1)]}], solos={"a": 1.0, "b": 1.0, "c": 1.0})
    matrix = slowdown_matrix(database, "own")
    assert nearest_pairs(matrix, "a", "b").empty
    assert len(nearest_pairs(matrix, "c", "a")) == 2
