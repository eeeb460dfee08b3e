"""The same pairs on two GPUs: error of copying, rank correlation and changed verdicts by hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from analysis.ingest.importer import import_paths
from analysis.interference.architectures import changed_sides, matrices, same_pairs, transfers
from analysis.store.database import Database

SOLOS = {"a": 10.0, "b": 20.0, "c": 30.0}


@pytest.fixture
def two(database: Database, coruns) -> Database:
    first = [
        {"members": [("a", 1.1), ("b", 1.15)]},
        {"members": [("a", 1.5), ("c", 2.0)]},
        {"members": [("b", 1.1), ("c", 1.1)]},
    ]
    second = [
        {"members": [("a", 1.32), ("b", 1.15)]},
        {"members": [("a", 2.0), ("c", 2.5)]},
        {"members": [("b", None), ("c", None)], "outcome": "did_not_run"},
    ]
    coruns(first, gpu="P100", solos=SOLOS, name="first")
    coruns(second, gpu="V100", solos=SOLOS, name="second")
    return database


def test_copying_and_ranks_by_hand(two: Database) -> None:
    pairs = same_pairs(matrices(two, "own"))
    row = transfers(pairs, 1.2).set_index(["source", "target"]).loc[("P100", "V100")]
    errors = [1.1 / 1.32 - 1, 1.15 / 1.15 - 1, 1.5 / 2.0 - 1, 2.0 / 2.5 - 1]
    assert row["cells"] == 4
    assert row["copy_error"] == pytest.approx(100 * sum(map(abs, errors)) / 4)
    assert row["bias"] == pytest.approx(100 * sum(errors) / 4)
    assert row["spearman"] == pytest.approx(0.8)
    assert (row["pairs"], row["changed"], row["did_not_run"]) == (2, 1, 1)


def test_pairs_that_change_sides(two: Database) -> None:
    found = changed_sides(same_pairs(matrices(two, "own")), "P100", "V100", 1.2)
    changed = found[found["changed"]].set_index(["workload", "beside"])["change"].to_dict()
    assert changed == {
        ("a", "b"): "within on P100, beyond on V100",
        ("b", "c"): "within on P100, did not run on V100",
    }


def test_mechanisms_are_not_mixed(two: Database, coruns) -> None:
    coruns([{"members": [("a", 9.0), ("b", 9.0)], "mechanism": "time-slicing"}], gpu="K80", name="third")
    found = matrices(two, "own")
    assert list(found) == ["P100", "V100"]
    assert {one.mechanism for one in found.values()} == {"CUDA MPS"}
    assert list(matrices(two, "own", gpus=("P100",))) == ["P100"]


def test_public_campaign(database: Database, datasets: Path) -> None:
    import_paths(database, [datasets / "gavel_oracle_throughputs.json"], dataset="gavel-oracle")
    table = transfers(same_pairs(matrices(database, "gavel-oracle")), 1.2).set_index(["source", "target"])
    assert len(table) == 6
    assert table.loc[("P100", "V100"), "copy_error"] == pytest.approx(15, abs=1)
    assert table["copy_error"].between(14, 55).all()
    assert table.loc[("K80", "V100"), "pairs"] == 296
    assert table.loc[("K80", "V100"), "did_not_run"] == 55
