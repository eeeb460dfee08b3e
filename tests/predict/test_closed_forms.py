"""Baselines on cases small enough to work out by hand."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

from analysis.errors import UsageError
from analysis.predict.predictors.base import needs
from analysis.predict.predictors.closed_form import EqualShare, Gpulet, NoInterference, RooflineSum, SmSum, TrainMedian
from analysis.predict.predictors.effects import Composition, CopyOtherGpu, Effects, LowRank
from analysis.predict.predictors.published import KaceForest, KaceLinear, XuForest
from analysis.predict.predictors.registry import PREDICTORS, get


def frame(rows: list[tuple[str, tuple[str, ...]]], gpu: str = "V100", **columns: list[float]) -> pd.DataFrame:
    """Rows with identity columns, k, and the columns given."""
    return pd.DataFrame(
        {
            "workload": [own for own, _ in rows],
            "others": pd.Series([others for _, others in rows], dtype=object),
            "family": [own[0] for own, _ in rows],
            "gpu": gpu,
            "mechanism": "CUDA MPS",
            "k": [1.0 + len(others) for _, others in rows],
            **columns,
        }
    )


PAIR = [("a", ("b",)), ("b", ("a",))]
S = np.log([1.5, 1.2])


def test_no_interference_median_and_equal_share() -> None:
    X = frame([("a", ("b",)), ("a", ("b", "c"))])
    y = np.log([1.1, 1.9])
    assert list(np.exp(NoInterference().fit(X, y).predict(X))) == [1.0, 1.0]
    assert np.exp(TrainMedian().fit(X, y).predict(X)) == pytest.approx([1.5, 1.5])
    assert np.exp(EqualShare().fit(X, y).predict(X)) == pytest.approx([2.0, 3.0])


def test_sum_of_sm_utilisation() -> None:
    X = frame(PAIR, own_sm_util=[0.7, 0.3], others_sum_sm_util=[0.6, 0.2])
    assert np.exp(SmSum().fit(X, S).predict(X)) == pytest.approx([1.3, 1.0])


def test_roofline_takes_the_most_overloaded_resource() -> None:
    X = frame(
        PAIR,
        own_compute_throughput=[0.5, 0.4], others_sum_compute_throughput=[0.4, 0.5],
        own_dram_throughput=[0.9, 0.2], others_sum_dram_throughput=[0.7, 0.1],
        own_sm_util=[0.2, 0.6], others_sum_sm_util=[0.3, 0.6],
        **{f"{side}_{name}": [np.nan, np.nan] for side in ("own", "others_sum")
           for name in ("mem_util", "memory_throughput", "l2_throughput")},
    )  # fmt: skip
    assert np.exp(RooflineSum().fit(X, S).predict(X)) == pytest.approx([1.6, 1.2])


def _gpulet_frame() -> pd.DataFrame:
    generator = np.random.default_rng(0)
    columns = {
        f"{side}_{name}": list(generator.uniform(0.1, 0.9, 20))
        for side in ("own", "others_sum")
        for name in ("l2_throughput", "dram_throughput")
    }
    return frame(PAIR * 10, **columns)


def test_gpulet_with_published_coefficients() -> None:
    X = frame(
        PAIR, own_l2_throughput=[0.5, 0.1], others_sum_l2_throughput=[0.4, 0.2],
        own_dram_throughput=[0.3, 0.6], others_sum_dram_throughput=[0.2, 0.7],
    )  # fmt: skip
    first = 0.1129 * 0.5 + 0.7160 * 0.4 + 0.3549 * 0.3 + 0.0882 * 0.2 + 0.8954
    assert np.exp(Gpulet("RTX 2080 Ti").fit(X, S).predict(X))[0] == pytest.approx(first)
    second = -0.1799 * 0.1 + 0.0384 * 0.2 + 0.1255 * 0.6 - 0.0565 * 0.7 + 1.0184
    assert np.exp(Gpulet("RTX 3080").fit(X, S).predict(X))[1] == pytest.approx(second)


def test_gpulet_fitted_recovers_its_own_law() -> None:
    X = _gpulet_frame()
    truth = 1.0 + 0.3 * X["own_l2_throughput"] + 0.9 * X["others_sum_dram_throughput"]
    fitted = Gpulet().fit(X, np.log(truth.to_numpy()))
    assert fitted.weights_ == pytest.approx([0.3, 0.0, 0.0, 0.9, 1.0], abs=1e-9)


def test_effects_separate_victims_from_aggressors() -> None:
    victim, aggressor = {"a": 0.4, "b": -0.1, "c": 0.0}, {"a": 0.2, "b": 0.0, "c": -0.2}
    rows = [(own, (other,)) for own in victim for other in aggressor] * 4
    y = np.array([0.3 + victim[own] + aggressor[other[0]] for own, other in rows])
    X = frame(rows)
    fitted = Effects().fit(X, y)
    assert fitted.predict(X) == pytest.approx(y, abs=0.01)
    new = frame([("a", ("nobody",)), ("nobody", ("a",)), ("nobody", ("nobody else",))])
    predicted = fitted.predict(new)
    assert predicted[0] == pytest.approx(0.3 + 0.1 + 0.4 - 0.1, abs=0.02)  # the effects have mean 0.1 and 0
    assert predicted[2] == pytest.approx(y.mean(), abs=1e-6)


def test_effects_multiply_pairs_in_larger_sets() -> None:
    rows = [(own, (other,)) for own in "abc" for other in "abc"] * 3
    y = np.array([0.2 * ("abc".index(own) + 1) + 0.1 * "abc".index(other[0]) for own, other in rows])
    fitted = Effects().fit(frame(rows), y)
    pairs = fitted.predict(frame([("a", ("b",)), ("a", ("c",))]))
    triple = fitted.predict(frame([("a", ("b", "c"))]))
    assert triple[0] == pytest.approx(pairs.sum())


def test_completion_finds_an_interaction_that_effects_miss() -> None:
    names = [f"w{number}" for number in range(8)]
    sign = {name: (-1.0) ** number for number, name in enumerate(names)}
    rows = [(own, (other,)) for own in names for other in names]
    y = np.array([0.5 + 0.4 * sign[own] * sign[other[0]] for own, other in rows])
    held_out = np.array([(number % 11) == 5 for number in range(len(rows))])
    X = frame(rows)
    fit = {"X": X[~held_out].reset_index(drop=True), "y": y[~held_out]}
    low_rank = LowRank(rank=1, alpha=0.01).fit(**fit).predict(X[held_out].reset_index(drop=True))
    effects = Effects().fit(**fit).predict(X[held_out].reset_index(drop=True))
    assert np.abs(low_rank - y[held_out]).max() < 0.1
    assert np.abs(effects - y[held_out]).mean() > 0.3


def test_composition_by_hand() -> None:
    train = frame([("a", ("b",)), ("b", ("a",)), ("a", ("c",)), ("c", ("a",)), ("b", ("c",)), ("c", ("b",))])
    y = np.log([1.5, 1.1, 1.2, 1.3, 1.4, 1.0])
    X = frame([("a", ("b", "c")), ("c", ("a", "b"))])
    additive = np.exp(Composition("additive").fit(train, y).predict(X))
    product = np.exp(Composition("product").fit(train, y).predict(X))
    assert additive == pytest.approx([1.0 + 0.5 + 0.2, 1.0 + 0.3 + 0.0])
    assert product == pytest.approx([1.5 * 1.2, 1.3 * 1.0])


def test_composition_predicts_the_pairs_that_were_not_measured() -> None:
    rows = [(own, (other,)) for own in "abcd" for other in "abcd" if (own, other) != ("a", "b")]
    y = np.array([0.1 * "abcd".index(own) + 0.2 * "abcd".index(other[0]) for own, other in rows])
    X = frame([("a", ("b", "c"))])
    product = Composition("product").fit(frame(rows), y).predict(X)
    assert product[0] == pytest.approx((0.0 + 0.2) + (0.0 + 0.4), abs=0.05)


def test_copy_looks_up_the_same_set_elsewhere() -> None:
    train = pd.concat([frame(PAIR, "K80"), frame(PAIR, "P100")], ignore_index=True)
    fitted = CopyOtherGpu().fit(train, np.log([1.0, 1.2, 4.0, 1.2]))
    predicted = np.exp(fitted.predict(frame([("a", ("b",)), ("b", ("a",)), ("c", ("a",))], "V100")))
    assert predicted == pytest.approx([2.0, 1.2, 1.2])


@pytest.mark.parametrize("kind", [KaceLinear, KaceForest, XuForest])
def test_published_learners_see_own_values_and_sums_in_base_units(kind) -> None:
    from analysis.predict.frame.quantities import BY_NAME

    estimator = kind()
    columns = {}
    for number, name in enumerate(kind.quantities):
        for offset, side in enumerate(("own", "others_sum")):
            raw = [1.0 + number + offset, 2.0 + number * 3]
            columns[f"{side}_{name}"] = list(np.log1p(raw)) if BY_NAME[name].scale == "magnitude" else raw
    X = frame(PAIR, **columns)
    fitted = estimator.fit(X, S)
    assert fitted.matrix(X)[0] == pytest.approx([v for n in range(len(kind.quantities)) for v in (1.0 + n, 2.0 + n)])
    assert len(fitted.columns_) == 2 * len(kind.quantities)


def test_kace_linear_recovers_a_linear_law(shared_syn) -> None:
    from analysis.predict.frame import features
    from analysis.predict.predictors.published import ScaledLinear

    generator = np.random.default_rng(1)
    X = generator.normal(size=(50, 3)) * [1e6, 1.0, 1e-3] + 5
    y = X @ np.array([2e-6, -0.5, 100.0]) + 1.0
    assert ScaledLinear().fit(X, y).coef_ == pytest.approx([2e-6, -0.5, 100.0])
    assert features.build(shared_syn, "syn").X["own_registers"].isna().all()


def test_what_is_missing_is_said(shared_syn) -> None:
    from analysis.predict.frame import features

    X = features.build(shared_syn, "syn").X
    said = {name: needs(spec.make(), X) for name, spec in PREDICTORS.items()}
    assert said["gpulet"] == "needs: L2 throughput"
    assert said["boosting-stalls"] == said["boosting-both"] == "needs: stall profiles"
    assert said["kace-forest"] == "needs: memory throughput, registers, shared memory, memory utilisation"
    assert said["xu-forest"] == "needs: long and short kernels, PCIe bandwidth, memory utilisation"
    assert [name for name, text in said.items() if text is None and name.startswith(("sm", "roof", "boost"))] == [
        "sm-sum", "roofline-sum", "boosting",
    ]  # fmt: skip


@pytest.mark.parametrize("name", list(PREDICTORS))
def test_every_predictor_can_be_cloned_and_names_its_source(name: str) -> None:
    spec = PREDICTORS[name]
    copy = clone(spec.make())
    assert type(copy) is type(spec.make())
    assert copy.get_params() is not None
    assert len(spec.source) > 20
    assert len(spec.title) > 3


def test_own_predictors_are_found_by_path() -> None:
    spec = get("sklearn.dummy:DummyRegressor")
    assert spec.kind == "own"
    X = frame(PAIR, own_sm_util=[0.7, 0.3], others_sum_sm_util=[0.6, np.nan])
    fitted = spec.make().fit(X, S)
    assert fitted.predict(X) == pytest.approx([S.mean()] * 2)


@pytest.mark.parametrize(
    ("path", "match"),
    [
        ("nothing", "no predictor 'nothing'"),
        ("no.such.module:Thing", "can't be made: ModuleNotFoundError"),
        ("sklearn.linear_model:Missing", "can't be made: AttributeError"),
        ("builtins:dict", "no fit and predict"),
        ("sklearn.multioutput:MultiOutputRegressor", "can't be made: TypeError"),
        ("sklearn.preprocessing:StandardScaler", "no fit and predict"),
    ],
)
def test_own_predictors_that_do_not_fit_are_refused(path: str, match: str) -> None:
    with pytest.raises(UsageError, match=match):
        get(path)
