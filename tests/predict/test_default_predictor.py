"""The default predictor: processes alone on what is known, trees beside them where a model is new."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
import skops.io

from analysis.predict.evaluate import protocols
from analysis.predict.evaluate.folding import calibrate_by_groups
from analysis.predict.explain.shapley import contributions
from analysis.predict.frame import features
from analysis.predict.frame.frame import TrainingFrame
from analysis.predict.models import modelfile
from analysis.predict.models.manifest import used_columns
from analysis.predict.predictors import ensemble, registry
from analysis.predict.predictors.ensemble import StallScope
from analysis.predict.predictors.learners import Boosting, ExtraTrees
from analysis.predict.predictors.structured import StructuredGP
from analysis.store.database import Database


def _rows(*sets: tuple[str, tuple[str, ...]]) -> pd.DataFrame:
    return pd.DataFrame({"model": [own for own, _ in sets], "models": [others for _, others in sets]})


def test_a_set_is_strange_when_any_of_its_models_is() -> None:
    X = _rows(("a", ("b",)), ("a", ("c",)), ("c", ("a",)), ("b", ("a", "c")))
    assert list(ensemble.strangers(X, ["a", "b"])) == [False, True, True, True]
    assert ensemble.models_of(X) == ["a", "b", "c"]


def test_a_rehearsal_leaves_a_model_out_with_all_its_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    X = _rows(("a", ("b",)), ("b", ("a",)), ("c", ("c",)), ("c", ("d",)), ("d", ("c",)))
    assert sorted(tuple(rows) for rows in ensemble.rehearsals(X)) == [(0, 1), (0, 1), (2, 3, 4), (3, 4)]
    monkeypatch.setattr(ensemble, "MOST_GROUPS", 2)
    # two models at a time; the other two would leave nothing to learn from
    assert [list(rows) for rows in ensemble.rehearsals(X)] == [[0, 1, 3, 4]]


def test_weights_by_hand() -> None:
    grid = ensemble.candidates(3)
    assert grid[0] == pytest.approx([1.0, 0.0, 0.0])
    assert grid.sum(axis=1) == pytest.approx(1.0)
    # the second part alone is best in each of six groups: 6 / (6 + 2) of all weight
    of_second = np.tile(1.0 - grid[:, 1], (6, 1))
    assert ensemble.best_weights(of_second, grid) == pytest.approx([0.25, 0.75, 0.0])
    assert ensemble.best_weights(np.tile(1.0 - grid[:, 0], (6, 1)), grid) == pytest.approx([1.0, 0.0, 0.0])
    # one group of many speaks for trees a little: too little to keep them
    torn = np.vstack([np.tile(1.0 - grid[:, 0], (11, 1)), 1.2 * (1.0 - grid[:, 1])])
    assert ensemble.best_weights(torn, grid)[0] == 1.0


@pytest.fixture(scope="module")
def pairs(shared_syn: Database) -> TrainingFrame:
    return protocols.prepare(features.build(shared_syn, "syn"), "leave-one-family-out")


def _few_trees(_: StallScope) -> list[tuple[str, Any]]:
    return [("extra trees", ExtraTrees(n_estimators=8)), ("boosting", Boosting(max_iter=10))]


@pytest.fixture(scope="module")
def mixed(pairs: TrainingFrame) -> tuple[StallScope, TrainingFrame, TrainingFrame]:
    """A predictor whose trees have a say, what it learnt from, and the rows with the family that it never saw."""
    fold = protocols.folds(pairs, "leave-one-family-out")[0]
    train = pairs.take(fold.train)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ensemble, "LEAST_PAIRS", 20)
        patch.setattr(ensemble, "learnt", lambda *_: np.array([0.5, 0.2, 0.3]))
        patch.setattr(StallScope, "_trees", _few_trees)
        return StallScope(max_iter=5).fit(train.X, train.y), train, pairs.take(fold.test)


def test_trees_speak_of_new_models_alone(mixed: tuple[StallScope, TrainingFrame, TrainingFrame]) -> None:
    model, train, new = mixed
    process, trees, boosting = (part for _, part in model.parts_)
    assert model.predict(train.X) == pytest.approx(process.predict(train.X), abs=1e-12)
    by_hand = 0.5 * process.predict(new.X) + 0.2 * trees.predict(new.X) + 0.3 * boosting.predict(new.X)
    assert model.predict(new.X) == pytest.approx(by_hand)
    assert np.abs(model.predict(new.X) - process.predict(new.X)).max() > 1e-3
    assert model.predict_std(new.X) == pytest.approx(process.predict_std(new.X))


def test_larger_sets_are_composed_by_the_processes(
    mixed: tuple[StallScope, TrainingFrame, TrainingFrame], shared_syn: Database
) -> None:
    model, _, _ = mixed
    frame = features.build(shared_syn, "syn")
    triples = frame.X[frame.rows["k"].to_numpy() == 3]
    assert ensemble.strangers(triples, model.models_).any()
    assert model.predict(triples) == pytest.approx(model.process_.predict(triples))


def test_few_models_leave_the_processes_alone(pairs: TrainingFrame) -> None:
    model = StallScope(max_iter=5).fit(pairs.X, pairs.y)
    assert len(ensemble.models_of(pairs.X)) < ensemble.LEAST_GROUPS
    assert [name for name, _ in model.parts_] == ["processes"]
    assert model.predict(pairs.X) == pytest.approx(StructuredGP(max_iter=5).fit(pairs.X, pairs.y).predict(pairs.X))


def test_weights_are_learnt_from_left_out_models(pairs: TrainingFrame, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ensemble, "LEAST_GROUPS", 3)
    model = StallScope(max_iter=5)
    every, rows = _few_trees(model), np.arange(len(pairs))
    sure = StructuredGP(max_iter=5).fit(pairs.X, pairs.y)
    weights = ensemble.learnt(sure, every, pairs.X, pairs.y, rows)
    assert weights.sum() == pytest.approx(1.0)

    def off_by(much: float) -> Any:
        def left_out(_: StructuredGP, held: list[np.ndarray]) -> tuple[np.ndarray, np.ndarray, None]:
            rows = np.concatenate(held)
            return rows, pairs.y[rows] + much, None

        return left_out

    # processes that are off by half have less to say
    monkeypatch.setattr(StructuredGP, "left_out", off_by(0.5))
    assert ensemble.learnt(sure, every, pairs.X, pairs.y, rows)[0] < min(weights[0], 0.7)
    monkeypatch.setattr(StructuredGP, "left_out", off_by(0.0))
    assert ensemble.learnt(sure, every, pairs.X, pairs.y, rows)[0] == 1.0


def test_left_out_rows_are_said_without_them(mixed: tuple[StallScope, TrainingFrame, TrainingFrame]) -> None:
    model, train, _ = mixed
    held = next(ensemble.rehearsals(train.X))
    rest = np.setdiff1d(np.arange(len(train)), held)
    single = np.flatnonzero(train.rows["pair"].to_numpy() == train.rows["pair"].iloc[rest[0]])
    rows, said, deviation = model.left_out([single, held], train.X, train.y)
    of_process = model.process_.left_out([single, held])[1]
    assert list(rows) == [*single, *held]
    assert said[: len(single)] == pytest.approx(of_process[: len(single)])  # its models are still known
    trees = [part.__class__(**part.get_params()).fit(train.X.iloc[rest], train.y[rest]) for _, part in model.parts_[1:]]
    by_trees = 0.2 * trees[0].predict(train.X.iloc[held]) + 0.3 * trees[1].predict(train.X.iloc[held])
    assert said[len(single) :] == pytest.approx(0.5 * of_process[len(single) :] + by_trees)
    assert (deviation > 0).all()


def test_intervals_are_of_the_mixture(
    mixed: tuple[StallScope, TrainingFrame, TrainingFrame], monkeypatch: pytest.MonkeyPatch
) -> None:
    model, train, new = mixed
    again = model.again(train.X, train.y, new.X)
    assert again.weights_ == pytest.approx(model.weights_)
    assert again.predict(new.X) == pytest.approx(model.predict(new.X))
    assert [name for name, _ in model.again(train.X, train.y, train.X).parts_] == ["processes"]
    refitted = calibrate_by_groups(model, train, "leave-one-family-out")
    monkeypatch.setattr("analysis.predict.evaluate.folding.REFIT_ROWS", 10)
    closed = calibrate_by_groups(model, train, "leave-one-family-out")
    assert refitted is not None
    assert closed is not None
    assert refitted.groups == closed.groups == 3


def test_stored_read_back_and_explained(mixed: tuple[StallScope, TrainingFrame, TrainingFrame]) -> None:
    model, train, new = mixed
    back = skops.io.loads(modelfile.to_bytes(model), trusted=sorted(registry.storable()))
    assert back.predict(new.X) == pytest.approx(model.predict(new.X))
    assert {"own_sm_util", "own_kernel_length"} <= set(used_columns(model))
    some = pd.concat([new.X.iloc[:6], train.X.iloc[:2]], ignore_index=True)
    found = contributions(model, some, train.X)
    assert found.total() == pytest.approx(model.predict(some), abs=1e-9)
    assert "TreeSHAP" in found.method


def test_too_few_pairs_for_trees(pairs: TrainingFrame, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ensemble, "learnt", lambda *_: pytest.fail("asked"))
    few = pairs.take(np.arange(ensemble.LEAST_PAIRS - 1))
    assert len(StallScope(max_iter=2).fit(few.X, few.y).parts_) == 1
