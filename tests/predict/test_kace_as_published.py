"""KACE as its artifact evaluates it: the figures it published, and what they hide, on the real and on a small table."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from analysis.errors import NotEnoughDataError
from analysis.ingest.catalogue import load_dataset
from analysis.predict.evaluate.kace_as_published import Pairs, once, read_pairs, reproduce, split
from analysis.store.database import Database
from tests.predict.conftest import make


def test_published_figures_come_out(database: Database, datasets: Path) -> None:
    load_dataset(database, "kace", files=[datasets / "kace_pairs.csv"])
    found = reproduce(database, "kace", times=(2, 10)).set_index("times")
    assert found.loc[2, "training"] == pytest.approx(16, abs=1)
    assert found.loc[2, "linear"] == pytest.approx(0.204, abs=0.02)
    assert found.loc[10, "linear"] == pytest.approx(0.130, abs=0.02)
    assert (found["linear_sound"] > found["linear"]).all()
    assert (found["slowdown_error"] > 25).all(), "no better than the train median"


def _pairs(level: float) -> Pairs:
    """Pairs whose throughput together is exactly linear in that alone; `level` is lost whatever the jobs are."""
    alone = np.arange(1.0, 9.0)
    rows = np.array([(a, b) for a in range(8) for b in range(a, 8)])
    solo = alone[rows]
    together = 0.6 * solo + level
    return Pairs(
        X=np.column_stack([rows, solo.sum(axis=1)]).astype(float), solo=solo.sum(axis=1), together=together.sum(axis=1),
        slowdowns=solo / together, names=np.array([[f"w{n}" for n in row] for row in rows], dtype=object),
    )  # fmt: skip


def test_a_linear_law_is_learnt_and_leaves_no_slowdown_error() -> None:
    found = once(_pairs(0.0), 4, seed=0)
    assert found["linear"] == pytest.approx(0.0, abs=0.02), "what the two scalings differ by"
    assert found["linear_sound"] == pytest.approx(0.0, abs=1e-12)
    assert found["slowdown_error"] == pytest.approx(0.0, abs=1e-6)
    assert found["impossible"] == 0.0


def test_own_statistics_of_the_test_pairs_are_not_those_of_training() -> None:
    found = once(_pairs(0.3), 2, seed=0)
    assert found["linear"] != pytest.approx(found["linear_sound"], abs=1e-9)


def test_training_holds_every_workload_often_enough() -> None:
    names = np.array([(a, b) for a in "abcdef" for b in "abcdef" if a <= b], dtype=object)
    train, test = split(names, 3, seed=1)
    assert not set(train) & set(test)
    assert len(train) + len(test) == len(names)
    assert all(sum(name in names[row] for row in train) >= 3 for name in "abcdef")


def test_a_data_set_without_raw_throughputs_is_refused(database: Database) -> None:
    make(database)
    with pytest.raises(NotEnoughDataError, match="KACE needs 30"):
        read_pairs(database, "syn")
