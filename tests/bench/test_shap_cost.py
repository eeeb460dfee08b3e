"""What explaining many rows costs beyond the explainer itself, and how long one pair takes to answer.

The default predictor is a Gaussian process over jobs, explained by sampled Shapley values (`setshapley.explain_sets`):
that, asked for the same rows against the same background, is the bare explainer on its only part. For an average of
tree ensembles the bare explainers are SHAP's own TreeExplainer on each part's columns. Compared are the
contributions as pages and commands ask for them, in processor time, one run each; run with ``-m long -n 0``.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
import shap

from analysis.predict import explain, features, models
from analysis.predict.ensemble import Average
from analysis.predict.learners import Boosting, ExtraTrees
from analysis.predict.setshapley import explain_sets
from analysis.predict.shapley import contributions
from analysis.store.database import Database
from tests.predict.conftest import make

pytestmark = pytest.mark.long

MOST, ROWS, COLUMNS = 1.2, 2000, 60


def seconds(work: Callable[[], Any]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


def repeated(X: pd.DataFrame) -> pd.DataFrame:
    return pd.concat([X] * -(-ROWS // len(X)), ignore_index=True).iloc[:ROWS].reset_index(drop=True)


def whole(estimator: Any, X: pd.DataFrame, background: pd.DataFrame | None) -> None:
    parts = contributions(estimator, X, background)
    explain.explanations(X, parts, estimator.predict(X))


def test_the_default_predictor(tmp_path: Any, capsys: pytest.CaptureFixture[str]) -> None:
    with Database(tmp_path / "bench.duckdb") as database:
        make(database, triples=30)
        card = models.train(database, "syn")
        frame = features.build(database, "syn")
        _, fitted = models.load(database, card.model_id)
        X = repeated(frame.X)
        whole(fitted, X.iloc[:2], frame.X)
        bare = seconds(lambda: explain_sets(fitted, X, frame.X))
        ours = seconds(lambda: contributions(fitted, X, frame.X))
        jobs = list(frame.workloads)
        times = []
        for other in jobs[:8]:
            start = time.process_time()
            explain.explain(database, card.model_id, "V100", [jobs[0], other])
            times.append(time.process_time() - start)
    with capsys.disabled():
        print(f"\n{ROWS} rows: bare {bare:.1f} s, whole {ours:.1f} s, ratio {ours / bare:.3f}")
        print(f"one pair after the first: median {1000 * float(np.median(times[1:])):.0f} ms of processor time")
    assert ours <= MOST * bare


def test_an_average_of_trees(capsys: pytest.CaptureFixture[str]) -> None:
    with Database(None) as database:
        make(database, triples=30)
        frame = features.build(database, "syn")
    wide = [name for name in frame.schema.names if frame.X[name].notna().any()][:COLUMNS]
    fitted = Average([("boosting", Boosting()), ("trees", ExtraTrees())]).fit(frame.X, frame.y)
    X = repeated(frame.X)
    matrices = [(part.model_, part.matrix(X)) for _, part in fitted.parts_]
    whole(fitted, X.iloc[:2], None)

    def bare_parts() -> None:
        for model, matrix in matrices:
            shap.TreeExplainer(model, feature_perturbation="tree_path_dependent").shap_values(
                matrix, check_additivity=False
            )

    bare, ours = seconds(bare_parts), seconds(lambda: contributions(fitted, X))
    with capsys.disabled():
        print(f"\n{ROWS} rows x {len(wide)} columns, trees: bare {bare:.1f} s, ours {ours:.1f} s, {ours / bare:.3f}")
    assert ours <= MOST * bare
