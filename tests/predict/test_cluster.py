"""The same comparison on a Dask cluster of two workers gives the same numbers."""

from __future__ import annotations

import pytest
from distributed import LocalCluster

from analysis.errors import UsageError
from analysis.predict.evaluate import execution
from analysis.predict.evaluate.evaluate import evaluate
from analysis.store.database import Database
from tests.predict.conftest import make

PREDICTORS = ["effects", "ridge"]


def test_two_workers_give_the_same_numbers(database: Database) -> None:
    make(database)
    here = evaluate(database, "syn", "unseen-pair", PREDICTORS, save=False)
    seen: list[float] = []
    with (
        LocalCluster(
            n_workers=2, threads_per_worker=1, processes=False, protocol="tcp", dashboard_address=None, host="127.0.0.1"
        ) as two,
        execution.connected(two.scheduler_address) as backend,
    ):
        there = evaluate(
            database, "syn", "unseen-pair", PREDICTORS, save=False, n_jobs=-1, backend=backend,
            progress=lambda fraction, _: seen.append(fraction),
        )  # fmt: skip
    assert [row["predictor"] for row in there.rows] == [row["predictor"] for row in here.rows]
    for mine, theirs in zip(here.rows, there.rows, strict=True):
        for name in ("n", "mape", "mape_folds", "bias"):
            assert theirs[name] == pytest.approx(mine[name], rel=1e-9), name
    assert seen[-1] == 1.0


def test_an_absent_scheduler_is_said_with_the_cure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(execution, "TIMEOUT", 0.5)
    with pytest.raises(UsageError, match="no Dask scheduler answers"), execution.connected("tcp://127.0.0.1:9"):
        pass


def test_no_address_needs_no_cluster() -> None:
    with execution.connected(None) as backend:
        assert backend is None
