"""Model files that were made to harm are refused when they are read, and never reach a prediction."""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import skops.io
from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestRegressor
from sklearn.linear_model import LinearRegression, Ridge, RidgeCV
from sklearn.neighbors import KNeighborsRegressor
from sklearn.neural_network import MLPRegressor
from sklearn.svm import SVR
from sklearn.tree._tree import Tree

from analysis.errors import ModelRefusedError
from analysis.predict.frame.terms import schema
from analysis.predict.models import modelfile
from analysis.predict.models.manifest import Manifest, package_versions, schema_hash
from analysis.predict.models.validators import VALIDATORS
from analysis.predict.predictors.registry import storable

X = np.random.default_rng(0).random((60, 3))
Y = X @ np.array([1.0, 2.0, 3.0])


def manifest(payload: bytes) -> Manifest:
    return Manifest(
        model_id="m", predictor="p", title="t", source="s", dataset="d", simulated=False, gpus=[], mechanisms=[],
        workloads=[], families=[], k=[], rows=1, runs=1, left_out={}, flagged=[], data_hash="",
        schema_hash=schema_hash(schema()), columns=[], ranges={}, calibration={}, versions=package_versions(),
        created_at="now", payload_sha256=hashlib.sha256(payload).hexdigest(), payload_bytes=len(payload),
    )  # fmt: skip


def read(estimator: Any) -> Any:
    """Write an estimator as someone with other intentions would, and read it as a user's file is read."""
    payload = bytes(skops.io.dumps(estimator))
    return modelfile.from_bytes(manifest(payload), payload)


def forest(change: Callable[[dict[str, Any]], None]) -> Any:
    made = RandomForestRegressor(3, random_state=0, n_jobs=1).fit(X, Y)
    tree = made.estimators_[1].tree_
    state = tree.__getstate__()
    state["nodes"], state["values"] = state["nodes"].copy(), state["values"].copy()
    change(state)
    forged = Tree(tree.n_features, np.array([1], dtype=np.intp), 1)
    forged.__setstate__(state)
    made.estimators_[1].tree_ = forged
    return made


def at(field: str, value: float, place: int = 0) -> Callable[[dict[str, Any]], None]:
    def change(state: dict[str, Any]) -> None:
        state["nodes"][field][place] = value

    return change


def value_nan(state: dict[str, Any]) -> None:
    state["values"][0] = np.nan


FORGED_TREES = {
    "child beyond": at("left_child", 2_000_000_000),
    "child before": at("right_child", 0),
    "child of itself": at("left_child", 0),
    "negative child": at("left_child", -77),
    "one child": at("right_child", -1),
    "feature beyond": at("feature", 1 << 40),
    "negative feature": at("feature", -5),
    "threshold": at("threshold", np.nan),
    "value": value_nan,
}


@pytest.mark.parametrize("name", FORGED_TREES)
def test_a_forged_forest_is_refused(name: str) -> None:
    with pytest.raises(ModelRefusedError) as refused:
        read(forest(FORGED_TREES[name]))
    assert "Train the model again" in refused.value.sentence


def test_a_tree_that_claims_more_nodes_has_those_it_has() -> None:
    payload = bytes(skops.io.dumps(RandomForestRegressor(1, n_jobs=1).fit(X, Y)))
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(payload)) as before, zipfile.ZipFile(out, "w") as after:
        for entry in before.infolist():
            data = before.read(entry)
            if entry.filename == "schema.json":
                held = json.loads(data)
                _raise_count(held)
                data = json.dumps(held).encode()
            after.writestr(entry.filename, data)
    held = modelfile.from_bytes(manifest(out.getvalue()), out.getvalue())
    # scikit-learn itself takes no more than there are; should that change, the validator refuses it.
    assert held.estimators_[0].tree_.node_count == held.estimators_[0].tree_.capacity
    assert np.isfinite(held.predict(X)).all()


def _raise_count(node: Any) -> None:
    if isinstance(node, dict):
        if "node_count" in node and isinstance(node["node_count"], dict):
            node["node_count"]["content"] = "5000000"
        for one in node.values():
            _raise_count(one)
    elif isinstance(node, list):
        for one in node:
            _raise_count(one)


@pytest.mark.parametrize(
    ("field", "value"),
    [("left", 4_000_000_000), ("right", 0), ("feature_idx", 99), ("feature_idx", -1), ("value", np.inf),
     ("num_threshold", np.nan), ("is_categorical", 1)],
)  # fmt: skip
def test_a_forged_boosting_is_refused(field: str, value: float) -> None:
    made = HistGradientBoostingRegressor(max_iter=2, min_samples_leaf=2).fit(X, Y)
    assert read(made) is not None
    made._predictors[1][0].nodes[field][0] = value
    with pytest.raises(ModelRefusedError):
        read(made)


def _change(estimator: Any, name: str, value: Any) -> Any:
    setattr(estimator, name, value)
    return estimator


OTHERS: dict[str, Callable[[], Any]] = {
    "support of another count": lambda: _change(SVR().fit(X, Y), "_n_support", np.array([9999, 1], dtype=np.int32)),
    "support of other columns": lambda: _change(SVR().fit(X, Y), "support_vectors_", np.ones((4, 1))),
    "coefficients of other columns": lambda: _change(LinearRegression().fit(X, Y), "coef_", np.ones(2)),
    "coefficients that are not finite": lambda: _change(RidgeCV().fit(X, Y), "coef_", np.array([1.0, np.inf, 1.0])),
    "an index of neighbours": lambda: KNeighborsRegressor(algorithm="kd_tree").fit(X, Y),
    "a layer too few": lambda: _change(
        MLPRegressor(hidden_layer_sizes=(4,), solver="lbfgs", max_iter=3).fit(X, Y), "coefs_", []
    ),
    "threads": lambda: _change(RandomForestRegressor(1, n_jobs=1).fit(X, Y), "n_jobs", 10_000),
    "a type that skops trusts and nobody checks": lambda: Ridge().fit(X, Y),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", OTHERS)
def test_other_forgeries_are_refused(name: str) -> None:
    with pytest.raises(ModelRefusedError):
        read(OTHERS[name]())


def test_every_type_that_may_be_stored_has_a_validator() -> None:
    assert storable() <= set(VALIDATORS)


def test_a_type_without_a_validator_is_not_stored() -> None:
    with pytest.raises(ModelRefusedError) as refused:
        modelfile.to_bytes(Ridge().fit(X, Y))
    assert "Ridge" in refused.value.sentence
