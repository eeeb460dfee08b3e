"""Explanations add up, say whose and what, and name no cause that is none."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.predict.explain import explain, importance
from analysis.predict.explain.explanation import LEAST, causes, sentence
from analysis.predict.explain.shapley import contributions, explained_exactly
from analysis.predict.frame import features
from analysis.predict.frame.frame import TrainingFrame
from analysis.predict.frame.naming import feature_of, shown_number, shown_value
from analysis.predict.frame.terms import schema
from analysis.predict.models import modelfile, models
from analysis.predict.predictors.base import needs
from analysis.predict.predictors.contributions import HISTORY
from analysis.predict.predictors.ensemble import Average
from analysis.predict.predictors.learners import Boosting, ExtraTrees, Forest, RidgeModel
from analysis.predict.predictors.registry import PREDICTORS
from analysis.store.database import Database

SMALL = {
    "forest": Forest(n_estimators=20),
    "extra trees": ExtraTrees(n_estimators=20),
    "boosting": Boosting(max_iter=40),
    "ridge": RidgeModel(),
    "average": Average([("trees", ExtraTrees(n_estimators=10)), ("boosting", Boosting(max_iter=20))], [1.0, 3.0]),
    "nested": Average(
        [("inner", Average([("ridge", RidgeModel()), ("trees", Forest(n_estimators=5))])), ("b", Boosting(max_iter=9))]
    ),
}


@pytest.fixture(scope="module")
def frame(shared_syn: Database) -> TrainingFrame:
    return features.build(shared_syn, "syn")


@pytest.mark.parametrize("name", list(SMALL))
def test_base_and_contributions_are_the_prediction(frame: TrainingFrame, name: str) -> None:
    fitted = SMALL[name].fit(frame.X, frame.y)
    found = contributions(fitted, frame.X)
    assert np.abs(found.total() - fitted.predict(frame.X)).max() < 1e-6
    assert "exact" in found.method
    assert np.ptp(found.base) < 1e-12
    assert modelfile.to_bytes(fitted)  # what was explained can still be stored


@pytest.mark.parametrize(
    "name",
    ["no-interference", "train-median", "equal-share", "effects", "low-rank-2", "additive-pairs", "product-pairs",
     "copy-gpu", "ridge"],
)  # fmt: skip
def test_closed_forms_add_up_too(frame: TrainingFrame, name: str) -> None:
    fitted = PREDICTORS[name].make().fit(frame.X, frame.y)
    found = contributions(fitted, frame.X)
    assert np.abs(found.total() - fitted.predict(frame.X)).max() < 1e-9
    assert explained_exactly(fitted)


def test_what_can_not_be_exact_says_so_and_still_adds_up(frame: TrainingFrame) -> None:
    fitted = PREDICTORS["svr"].make().fit(frame.X, frame.y)
    found = contributions(fitted, frame.X.iloc[:1], frame.X)
    assert np.abs(found.total() - fitted.predict(frame.X.iloc[:1])).max() < 1e-6
    assert found.method.startswith("estimated: permutation SHAP")
    assert not explained_exactly(fitted)


def test_a_linear_model_is_explained_by_its_own_coefficients(frame: TrainingFrame) -> None:
    fitted = RidgeModel().fit(frame.X, frame.y)
    found = contributions(fitted, frame.X)
    assert found.base[0] == pytest.approx(frame.y.mean())
    scaled = fitted.matrix(frame.X)
    column = fitted.columns_.index("overload_sm_util")
    assert found.values["overload_sm_util"].to_numpy() == pytest.approx(scaled[:, column] * fitted.model_.coef_[column])


def test_columns_are_summed_back_to_what_people_know(shared_syn: Database) -> None:
    model = models.train(shared_syn, "syn", "ridge")
    found = explain.explain(shared_syn, model.model_id, "V100", ["alpha-b8", "gamma-b8", "beta-b2"])
    assert [one.workload for one in found] == ["alpha-b8", "gamma-b8", "beta-b2"]
    predicted = models.predict(shared_syn, model.model_id, "V100", ["alpha-b8", "gamma-b8", "beta-b2"])
    for one, job in zip(found, predicted, strict=True):
        assert one.slowdown == pytest.approx(job.slowdown)
        assert one.additivity_error < 1e-9
        labels = [part.feature for part in one.contributions]
        assert len(labels) == len(set(labels))
        assert not any("mechanism_" in label or "others_" in label for label in labels)
        total = sum(part.shap for part in one.contributions)
        assert sum(one.by_whose.values()) == pytest.approx(total)
        assert sum(one.by_group.values()) == pytest.approx(total)
        assert set(one.by_whose) <= {"target", "co-runners", "pair", "GPU"}
        sizes = [abs(part.shap) for part in one.contributions]
        assert sizes == sorted(sizes, reverse=True)
        assert list(one.to_json()) == [
            "workload", "co_workloads", "base", "prediction", "contributions", "by_whose", "by_group", "sentence",
            "method", "additivity_error", "start",
        ]  # fmt: skip
        assert list(one.table().columns) == ["feature", "whose", "what", "group", "value", "shap", "factor"]


def test_global_importance_sums_to_the_predictions(shared_syn: Database) -> None:
    model = models.train(shared_syn, "syn", "ridge")
    found = importance.global_importance(shared_syn, model.model_id, rows=50)
    assert found.shap.shape == found.values.shape
    assert len(found.shap) == len(found.rows) == 50
    assert found.additivity_error < 1e-9
    assert found.table["mean_abs"].is_monotonic_decreasing
    first = found.table["feature"].iloc[0]
    assert found.table["mean_abs"].iloc[0] == pytest.approx(found.shap[first].abs().mean())


def test_the_known_cause_comes_first_and_a_control_blames_nothing(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only DRAM demand slows: memory is named. Nothing slows: nothing is named."""
    monkeypatch.setattr(models, "CALIBRATED", ())
    from tests.predict.conftest import WORKLOADS, make

    dram = {row[0]: row[5] / 100 for row in WORKLOADS}

    def law(jobs, slot):
        return 1.0 + max(sum(dram[job] for job in jobs) - 1.0, 0.0)

    with Database(tmp_path / "dram.duckdb") as database:
        make(database, law=law)
        model = models.train(database, "syn", "boosting")
        one = explain.explain(database, model.model_id, "V100", ["delta-b16", "beta-b8"])[0]
        assert one.contributions[0].group == "DRAM and caches"
        assert "DRAM" in one.sentence
    with Database(tmp_path / "none.duckdb") as database:
        make(database, law=lambda jobs, slot: 1.0)
        model = models.train(database, "syn", "boosting")
        one = explain.explain(database, model.model_id, "V100", ["delta-b16", "beta-b8"])[0]
        assert "No single feature" in one.sentence
        assert "Up:" not in one.sentence


def test_numbers_in_a_sentence_are_those_of_the_table() -> None:
    parts = [("kernel length, of the co-runners", 0.3), ("threads, own", -0.1), ("PCIe reads, own", 0.001)]
    text = sentence("bert", np.log(1.4), np.log(1.4) + 0.201, parts)
    assert text.startswith(f"bert is predicted to take {1.4 * np.exp(0.201):.2f} times its solo time")
    assert f"kernel length, of the co-runners (x {np.exp(0.3):.2f})" in text
    assert f"Down: threads, own (x {np.exp(-0.1):.2f})" in text
    assert "PCIe" not in text
    grouped = sentence("bert", 0.0, 0.201, parts, groups={"kernel lengths": 0.3, "launch size": -0.1})
    assert grouped.endswith(f"By stall group and resource most comes from kernel lengths: x {np.exp(0.3):.2f}.")
    few = [("kernel length, of the co-runners", 0.03), *((f"small {number}", 0.004) for number in range(20))]
    assert f"The other 20, each small, make x {np.exp(0.08):.2f} together." in sentence("bert", 0.0, 0.11, few)
    assert "put together from pairs" in sentence("bert", 0.0, 0.201, parts, "sets", jobs=3)


@given(st.dictionaries(st.text(min_size=1, max_size=5), st.floats(-1, 1, allow_nan=False), max_size=12))
def test_a_contribution_near_zero_is_never_named(parts: dict[str, float]) -> None:
    worse, better = causes(list(parts.items()))
    for name, value in (*worse, *better):
        assert abs(value) >= LEAST
        assert parts[name] == value
    assert all(value > 0 for _, value in worse)
    assert all(value < 0 for _, value in better)
    assert len(worse) <= 3
    assert len(better) <= 3
    factors = re.findall(r"\(x (\d+\.\d+)\)", sentence("job", 0.0, sum(parts.values()), list(parts.items())))
    assert len(factors) == len(worse) + len(better)


def test_every_column_has_a_label_a_group_and_a_value(frame: TrainingFrame) -> None:
    row = frame.X.iloc[0]
    for name in (*schema().names, *HISTORY):
        feature = feature_of(name)
        assert feature.label
        assert feature.group
        assert isinstance(shown_value(feature, row), str)
    assert feature_of("others_max_kernel_length") == feature_of("others_sum_kernel_length")
    assert feature_of("ratio_batch_size") == feature_of("fraction_batch_size")
    assert feature_of("own_stall_memory_wait").group == "global/local memory wait"
    assert feature_of("own_reason_barrier").group == "synchronisation"
    assert feature_of("mechanism_mps").label == feature_of("mechanism_other").label == "sharing mechanism"
    assert shown_value(feature_of("own_kernel_length"), row) == "60 µs"
    assert shown_value(feature_of("own_sm_util"), row) == "30.0 %"
    columns = {column.name: column for column in schema()}
    assert shown_number(columns["own_step_length"], float(np.log(512_600.0))) == "513 ms"
    assert shown_number(columns["own_threads"], float(np.log(4.278e6))) == "4.28 million threads"
    assert shown_number(columns["own_shared_memory"], float(np.log1p(25_480.0))) == "24.9 KiB"
    assert shown_number(columns["own_training"], 1.0) == "training"


@pytest.mark.parametrize("name", ["kace-forest", "xu-forest", "kace-linear"])
def test_published_learners_name_their_columns(frame: TrainingFrame, name: str) -> None:
    estimator = PREDICTORS[name].make()
    filled = frame.X.copy()
    for quantity in estimator.quantities:
        for side in ("own", "others_sum"):
            column = f"{side}_{quantity}"
            filled[column] = filled[column].fillna(pd.Series(np.linspace(0.1, 1.0, len(filled))))
    assert needs(estimator, filled) is None
    if hasattr(estimator, "n_estimators"):
        estimator.set_params(n_estimators=10)
    fitted = estimator.fit(filled, frame.y)
    found = contributions(fitted, filled.iloc[:5])
    assert np.abs(found.total() - fitted.predict(filled.iloc[:5])).max() < 1e-6
    assert set(found.values.columns) == set(fitted.columns_)
