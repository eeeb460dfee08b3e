"""The engine: figures by hand, no way for a test row into a fit, honest refusals, progress and cancel."""

from __future__ import annotations

import json
import time
from typing import ClassVar

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator, RegressorMixin

from analysis.errors import CancelledError, NotEnoughDataError, NotFoundError, UsageError
from analysis.predict.evaluate import execution, metrics, protocols
from analysis.predict.evaluate.comparison import ROW_COLUMNS
from analysis.predict.evaluate.evaluate import evaluate
from analysis.predict.evaluate.folding import FoldTask, run_fold
from analysis.predict.frame import features
from analysis.predict.predictors.base import Predictor
from analysis.report.comparison import missing_inputs
from analysis.store.database import Database
from analysis.store.queries import models as store
from tests.predict.conftest import WORKLOADS, make

QUICK = ["ridge", "knn", "effects"]


class Sentinel(Predictor):
    """Remembers every target it was ever fitted on, and is wrong on purpose."""

    seen: ClassVar[list[set[float]]] = []

    def fit(self, X: pd.DataFrame, y: np.ndarray) -> Sentinel:
        Sentinel.seen.append(set(np.round(y, 12)))
        self.train_ = set(np.round(y, 12))
        return self

    def predict(self, X: pd.DataFrame) -> np.ndarray:
        return np.zeros(len(X))


class Slow(BaseEstimator, RegressorMixin):
    """Takes a while in every fit."""

    def fit(self, X: pd.DataFrame, y: np.ndarray) -> Slow:
        time.sleep(1.2)
        return self

    def predict(self, X: pd.DataFrame) -> np.ndarray:
        return np.zeros(len(X))


class Breaks(BaseEstimator, RegressorMixin):
    def fit(self, X: pd.DataFrame, y: np.ndarray) -> Breaks:
        raise ValueError("on purpose")

    def predict(self, X: pd.DataFrame) -> np.ndarray:
        return np.zeros(len(X))


class Nans(Breaks):
    def fit(self, X, y):
        return self

    def predict(self, X):
        return np.full(len(X), np.nan)


class Huge(Nans):
    def predict(self, X):
        return np.full(len(X), 1e4)


class TooFew(Nans):
    def predict(self, X):
        return np.zeros(3)


def _row(found, name: str) -> dict:
    return next(row for row in found.rows if row["predictor"] == name)


def test_references_by_hand(shared_syn: Database) -> None:
    frame = protocols.prepare(features.build(shared_syn, "syn"), "unseen-pair")
    measured = frame.rows["slowdown"].to_numpy()
    found = evaluate(shared_syn, "syn", "unseen-pair", ["no-interference"], save=False)
    row = _row(found, "no-interference")
    assert row["mape"] == pytest.approx(100 * np.mean(1 - 1 / measured))
    assert row["bias"] == pytest.approx(-row["mape"])
    assert row["n"] == 3 * len(frame)
    assert row["fold_count"] == 15
    median = _row(found, "train-median")
    assert median["skill"] == 0.0
    assert row["skill"] == pytest.approx(1 - row["mape"] / median["mape"])
    assert (found.n, found.runs, found.workloads) == (90, 45, 9)
    assert found.left_out == {"not tested by this protocol": 90}


def test_rows_have_the_documented_fields_and_are_stored(syn: Database) -> None:
    found = evaluate(syn, "syn", "leave-one-family-out", [*QUICK, "gpulet"])
    assert [row["predictor"] for row in found.rows] == ["no-interference", "train-median", *QUICK, "gpulet"]
    assert all(list(row) == list(ROW_COLUMNS) for row in found.rows)
    assert _row(found, "gpulet") | {"status": "needs: L2 throughput", "mape": None} == _row(found, "gpulet")
    assert 0 <= _row(found, "knn")["within_10"] <= 100
    low, high = _row(found, "knn")["mape_ci"]
    assert low < _row(found, "knn")["mape"] < high
    stored = store.evaluation(syn, found.evaluation_id)
    assert stored["protocol"] == "leave-one-family-out"
    assert stored["result"]["rows"] == json.loads(json.dumps(found.rows))
    kept = store.predictions(syn, found.evaluation_id, "knn")
    assert len(kept) == _row(found, "knn")["n"]
    assert 100 * np.abs(kept["predicted"] / kept["measured"] - 1).mean() == pytest.approx(_row(found, "knn")["mape"])
    assert isinstance(list(kept["co_workloads"].iloc[0]), list)
    store.delete_evaluation(syn, found.evaluation_id)
    with pytest.raises(NotFoundError):
        store.evaluation(syn, found.evaluation_id)


def test_the_same_question_has_the_same_answer(shared_syn: Database) -> None:
    one, two = (evaluate(shared_syn, "syn", "unseen-pair", QUICK, save=False, n_jobs=jobs) for jobs in (1, 2))
    skip = ("fit_seconds", "predict_seconds")
    assert [{k: v for k, v in row.items() if k not in skip} for row in one.rows] == [
        {k: v for k, v in row.items() if k not in skip} for row in two.rows
    ]


def test_a_learnable_law_is_learned(shared_syn: Database) -> None:
    found = evaluate(shared_syn, "syn", "unseen-pair", ["ridge", "svr"], save=False)
    assert _row(found, "ridge")["skill"] > 0.5
    assert _row(found, "svr")["skill"] > 0.5


def test_permuted_targets_give_no_skill(shared_syn: Database) -> None:
    """Slowdowns shuffled among all rows carry nothing to learn: whatever finds skill in them leaks."""
    frame = protocols.prepare(features.build(shared_syn, "syn"), "unseen-pair")
    skills = []
    for seed in range(3):
        shuffled = np.random.default_rng(seed).permutation(len(frame))
        noise = frame.take(np.arange(len(frame)))
        noise.y[:] = frame.y[shuffled]
        errors = {}
        for name in ("train-median", "knn", "effects", "ridge"):
            estimator = evaluate_registry(name)
            parts = [
                run_fold(FoldTask(name, estimator, noise, fold, "unseen-pair", False, 10))
                for fold in protocols.folds(noise, "unseen-pair", seeds=(seed,))
            ]
            tests = np.concatenate([fold.test for fold in protocols.folds(noise, "unseen-pair", seeds=(seed,))])
            predicted = np.concatenate([part.predicted for part in parts])
            errors[name] = np.abs(np.exp(predicted - noise.y[tests]) - 1).mean()
        skills += [1 - errors[name] / errors["train-median"] for name in ("knn", "effects", "ridge")]
    assert np.mean(skills) < 0.05
    assert max(skills) < 0.2


def evaluate_registry(name: str):
    from analysis.predict.predictors.registry import get

    return get(name).make()


@pytest.mark.parametrize("protocol", ["unseen-pair", "leave-one-workload-out", "leave-one-family-out", "pairs-to-k"])
def test_test_rows_never_touch_a_fit(database: Database, protocol: str) -> None:
    """Every slowdown is unique, so that a test row in any fit, that of the calibration too, would be recognised."""
    make(database, triples=40)
    with database.write() as cursor:
        cursor.execute("UPDATE member SET slowdown = 1.0 + run_id * 0.001 + slot * 0.0001")
    frame = protocols.prepare(features.build(database, "syn"), protocol)
    assert len(set(np.round(frame.y, 12))) == len(frame)
    for fold in protocols.folds(frame, protocol):
        Sentinel.seen.clear()
        result = run_fold(FoldTask("sentinel", Sentinel(), frame, fold, protocol, True, 10))
        test = set(np.round(frame.y[fold.test], 12))
        assert len(Sentinel.seen) >= 3
        assert all(not (test & seen) for seen in Sentinel.seen)
        assert result.calibration is not None


def test_few_runs_carry_no_score(database: Database) -> None:
    make(database, names=[row[0] for row in WORKLOADS[:6]])
    found = evaluate(database, "syn", "unseen-pair", ["ridge"], save=False)
    assert {row["status"] for row in found.rows} == {"needs: 30 measured runs (there are 21, 9 are missing)"}
    assert all(row["mape"] is None for row in found.rows)
    told = missing_inputs({"rows": found.rows})
    assert told.startswith(f"None of {len(found.rows)} predictors has a figure: needed are 30 measured runs")


def test_calibrated_predictors_state_coverage_width_and_groups(shared_syn: Database) -> None:
    found = evaluate(shared_syn, "syn", "unseen-pair", ["sklearn.linear_model:LinearRegression"], save=False)
    row = _row(found, "sklearn.linear_model:LinearRegression")
    assert row["kind"] == "own"
    assert 60 <= row["coverage"] <= 100
    assert row["width"] > 0
    assert (row["groups"], row["group_unit"]) == (36, "pairs")


def test_progress_moves_and_ends_at_one(shared_syn: Database) -> None:
    seen: list[tuple[float, float, str]] = []
    evaluate(
        shared_syn, "syn", "unseen-pair", ["knn"], save=False,
        progress=lambda fraction, message: seen.append((time.monotonic(), fraction, message)),
    )  # fmt: skip
    fractions = [fraction for _, fraction, _ in seen]
    assert fractions == sorted(fractions)
    assert fractions[-1] == 1.0
    assert any("knn: seed 2, fold 5 of 5" in message for _, _, message in seen)


def test_progress_is_reported_during_a_long_fit_and_cancel_does_not_wait_for_it() -> None:
    seen: list[float] = []
    started = time.monotonic()

    def report(_: float, __: str) -> None:
        seen.append(time.monotonic() - started)
        if len(seen) == 4:
            raise CancelledError("the evaluation was cancelled", "Start it again.")

    with pytest.raises(CancelledError):
        list(execution.run(lambda seconds: time.sleep(seconds), [8.0, 8.0], report))
    assert time.monotonic() - started < 5.0
    assert max(np.diff(seen)) < 2.0


def test_a_predictor_that_breaks_spoils_its_own_row_alone(shared_syn: Database) -> None:
    names = [f"{__name__}:{name}" for name in ("Breaks", "Nans", "Huge", "TooFew")]
    found = {row["predictor"]: row for row in evaluate(shared_syn, "syn", "unseen-pair", names, save=False).rows}
    for name, words in zip(names, ("on purpose", "no finite slowdown", "no finite slowdown", "3 values"), strict=True):
        assert found[name]["status"].startswith("failed: "), name
        assert words in found[name]["status"]
        assert found[name]["mape"] is None
    assert found["train-median"]["status"] == "ok"
    assert found["train-median"]["mape"] > 0


def test_features_of_one_kind_alone(shared_syn: Database) -> None:
    stalls = evaluate(shared_syn, "syn", "unseen-pair", ["kace-linear", "ridge"], evidence=["stalls"], save=False)
    status = {row["predictor"]: row["status"] for row in stalls.rows}
    assert status["kace-linear"].startswith("needs: "), "there are no counters to be seen"
    counters = evaluate(shared_syn, "syn", "unseen-pair", ["ridge"], evidence=["counters"], save=False)
    assert counters.rows[-1]["status"] == "ok"
    assert "counters alone" in " ".join(counters.notes)
    with pytest.raises(UsageError, match="no features of the kind"):
        evaluate(shared_syn, "syn", "unseen-pair", ["ridge"], evidence=["magic"], save=False)


def test_refusals(shared_syn: Database) -> None:
    with pytest.raises(NotFoundError, match="no data set 'none'"):
        evaluate(shared_syn, "none", "unseen-pair")
    with pytest.raises(UsageError, match="no protocol 'leave-one-out'"):
        evaluate(shared_syn, "syn", "leave-one-out")
    with pytest.raises(UsageError, match="no predictor 'magic'"):
        evaluate(shared_syn, "syn", "unseen-pair", ["magic"])
    with pytest.raises(NotEnoughDataError, match="no co-run on K80"):
        evaluate(shared_syn, "syn", "unseen-pair", gpu="K80")
    with pytest.raises(NotEnoughDataError, match="V100-32GB only"):
        evaluate(shared_syn, "syn", "unseen-gpu", QUICK)


def test_a_gpu_may_be_named_by_its_family(shared_syn: Database) -> None:
    found = evaluate(shared_syn, "syn", "unseen-pair", ["knn"], gpu="V100", save=False)
    assert found.gpus == ["V100-32GB"]


def test_figures_by_hand() -> None:
    predictions = pd.DataFrame(
        {
            "measured": [1.0, 2.0, 4.0, 1.0],
            "predicted": [1.1, 1.5, 4.0, 2.0],
            "low": [0.9, 1.0, 4.5, np.nan],
            "high": [1.2, 1.8, 5.0, np.nan],
            "seed": 0,
            "fold": [0, 0, 0, 1],
        }
    )
    found = metrics.figures(predictions)
    assert found["mape"] == pytest.approx((10 + 25 + 0 + 100) / 4)
    assert found["mape_folds"] == pytest.approx(((10 + 25 + 0) / 3 + 100) / 2)
    assert found["median_ape"] == pytest.approx(17.5)
    assert found["within_10"] == pytest.approx(50.0)
    assert found["bias"] == pytest.approx((10 - 25 + 0 + 100) / 4)
    assert found["coverage"] == pytest.approx(100 / 3)
    assert found["width"] == pytest.approx((0.3 + 0.8 + 0.5) / 3)
    assert found["spearman"] == pytest.approx(0.6324555)


def test_bootstrap_draws_workloads_not_rows() -> None:
    """Many rows of one workload are one piece of evidence: the interval does not shrink with their number."""
    few = metrics.WorkloadBootstrap([("a", "b"), ("b", "c"), ("a", "c")])
    many = metrics.WorkloadBootstrap([("a", "b"), ("b", "c"), ("a", "c")] * 100)
    values = np.array([1.0, 2.0, 3.0])
    assert few.interval(values) == pytest.approx(many.interval(np.tile(values, 100)))
    low, high = few.interval(values)
    assert low < 2.0 < high
    assert metrics.WorkloadBootstrap([("a",)]).interval(np.array([1.0])) is None
