"""What explaining many rows costs beyond the explainer itself, and how long one pair takes to answer.

The bare explainer of the default predictor's Gaussian process is `setshapley.explain_sets`; that of tree ensembles is
SHAP's own TreeExplainer on each part's columns. Compared is what pages and commands ask for: contributions of all
parts, combined and summed back to features, in processor time, the best of three in turns; run with ``-m long -n 0``.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import shap

from analysis.predict.explain import explain
from analysis.predict.explain.shapley import contributions
from analysis.predict.frame import features
from analysis.predict.frame.frame import TrainingFrame
from analysis.predict.frame.naming import by_feature
from analysis.predict.models import models
from analysis.predict.predictors.ensemble import Average
from analysis.predict.predictors.learners import Boosting, ExtraTrees
from analysis.predict.predictors.profilescale import QUANTITIES, others_column
from analysis.predict.predictors.registry import DEFAULT, get
from analysis.predict.predictors.set_shapley import explain_sets
from analysis.predict.predictors.structured import StructuredGP
from analysis.store.database import Database
from tests.predict.conftest import make

pytestmark = pytest.mark.long

MOST, ROWS, COLUMNS = 1.2, 2000, 60

#: Seconds of processor time for one pair, predicted and explained, after the first.
MOST_OF_A_PAIR = 0.5


def seconds(*works: Callable[[], Any]) -> tuple[float, ...]:
    """Return the least processor time of each work; they take turns, so that a slow spell meets all."""
    spent: list[list[float]] = [[] for _ in works]
    for _ in range(3):
        for work, mine in zip(works, spent, strict=True):
            start = time.process_time()
            work()
            mine.append(time.process_time() - start)
    return tuple(map(min, spent))


def repeated(X: pd.DataFrame) -> pd.DataFrame:
    return pd.concat([X] * -(-ROWS // len(X)), ignore_index=True).iloc[:ROWS].reset_index(drop=True)


@pytest.fixture(scope="module")
def wide() -> TrainingFrame:
    """Pairs whose profiles have 30 quantities on either side."""
    with Database(None) as database:
        make(database)
        frame = features.build(database, "syn")
    job = {name: number for number, name in enumerate(frame.workloads)}
    lot = np.random.default_rng(0)
    filled = {}
    for name in QUANTITIES[: COLUMNS // 2]:
        of_job = lot.uniform(0.1, 0.9, len(job))
        beside = others_column(name)
        filled[f"own_{name}"] = frame.X[f"own_{name}"].fillna(
            pd.Series(of_job[[job[one] for one in frame.X["workload"]]], index=frame.X.index)
        )
        filled[beside] = frame.X[beside].fillna(
            pd.Series(of_job[[job[one[0]] for one in frame.X["others"]]], index=frame.X.index)
        )
    assert len(filled) == COLUMNS
    frame.X[list(filled)] = pd.DataFrame(filled)
    return frame


def whole(estimator: Any, X: pd.DataFrame, background: pd.DataFrame) -> None:
    by_feature(contributions(estimator, X, background).values)


def bare(estimator: Any, X: pd.DataFrame, background: pd.DataFrame) -> None:
    """Run nothing but the explainers of a predictor's parts."""
    for _, part in getattr(estimator, "parts_", [("", estimator)]):
        if isinstance(part, StructuredGP):
            explain_sets(part, X, background)
        else:
            explainer = shap.TreeExplainer(part.model_, feature_perturbation="tree_path_dependent")
            explainer.shap_values(part.matrix(X), check_additivity=False)


@pytest.mark.parametrize("name", [DEFAULT, "trees"])
def test_many_rows(wide: TrainingFrame, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    trees = Average([("boosting", Boosting()), ("trees", ExtraTrees())])
    fitted = (get(DEFAULT).make() if name == DEFAULT else trees).fit(wide.X, wide.y)
    X = repeated(wide.X)
    whole(fitted, X.iloc[:2], wide.X)
    alone, ours = seconds(lambda: bare(fitted, X, wide.X), lambda: whole(fitted, X, wide.X))
    with capsys.disabled():
        print(f"\n{name}, {ROWS} rows x {COLUMNS}: bare {alone:.1f} s, whole {ours:.1f} s, {ours / alone:.3f} times")
    assert ours <= MOST * alone


def test_one_pair_after_the_first(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    spent: list[tuple[float, float]] = []
    with Database(tmp_path / "bench.duckdb") as database:
        make(database, triples=30)
        card = models.train(database, "syn")
        for other in card.workloads:
            began = time.process_time(), time.perf_counter()
            models.predict(database, card.model_id, "V100", [card.workloads[0], other])
            explain.explain(database, card.model_id, "V100", [card.workloads[0], other])
            spent.append((time.process_time() - began[0], time.perf_counter() - began[1]))
    of_processor, on_the_clock = (float(np.median([one[place] for one in spent[1:]])) for place in (0, 1))
    with capsys.disabled():
        print(
            f"\none pair predicted and explained: the first {1000 * spent[0][0]:.0f} ms of processor time, then the "
            f"median {1000 * of_processor:.0f} ms ({1000 * on_the_clock:.0f} ms on the clock)"
        )
    assert of_processor < MOST_OF_A_PAIR
