"""What jobs pay side by side: measured first, predicted where nothing was measured, said to be unknown otherwise."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from analysis.errors import NotEnoughDataError
from analysis.predict.advise import alongside
from analysis.store.database import Database


def _model(monkeypatch: pytest.MonkeyPatch, predict) -> None:
    card = SimpleNamespace(dataset="own", gpus=["V100"], model_id="ridge-1", simulated=True)
    monkeypatch.setattr(alongside.models, "list_models", lambda database: [card])
    monkeypatch.setattr(alongside.models, "predict", predict)


def test_a_prediction_stands_where_nothing_was_measured(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    def predict(database, model_id, gpu, jobs):
        return [SimpleNamespace(workload=job, slowdown=1.0 + i, low=None, high=2.5) for i, job in enumerate(jobs, 1)]

    _model(monkeypatch, predict)
    pairs = alongside.pairwise(database, "own", "V100", ["a", "b", "a"])
    assert pairs[["workload", "beside", "slowdown", "origin", "model"]].to_numpy().tolist() == [
        ["a", "b", 2.0, "predicted", "ridge-1"], ["b", "a", 3.0, "predicted", "ridge-1"],
    ]  # fmt: skip
    assert pairs["low"].isna().all()
    assert pairs["simulated"].all()
    assert alongside.sentence(pairs) == (
        "Together, predicted by ridge-1, from simulated co-runs: a takes 2.00 x as long; b takes 3.00 x as long."
    )


def test_what_no_model_covers_is_not_known(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    def predict(database, model_id, gpu, jobs):
        raise NotEnoughDataError("no profile of b", "Profile it.")

    _model(monkeypatch, predict)
    pairs = alongside.pairwise(database, "own", "V100", ["a", "b"])
    assert set(pairs["origin"]) == {"not known"}
    assert "is not known" in alongside.sentence(pairs)
