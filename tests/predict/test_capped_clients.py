"""Every predictor is trained, asked and explained where clients of MPS run under thread percentages."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from analysis.errors import StallScopeError
from analysis.predict.explain.explain import explain
from analysis.predict.frame import features
from analysis.predict.models import models
from analysis.predict.predictors.base import needs
from analysis.predict.predictors.registry import PREDICTORS
from analysis.report.jobsreport import prediction_report
from analysis.store.database import Database
from tests.predict.conftest import make

JOBS = ["alpha-b8", "beta-b8"]


@pytest.fixture(scope="module")
def capped() -> Iterator[Database]:
    with Database(None) as database:
        make(database, caps=(100.0, 50.0, 30.0))
        yield database


@pytest.mark.parametrize("name", list(PREDICTORS))
def test_it_is_explained_and_reported(name: str, capped: Database) -> None:
    if needs(PREDICTORS[name].make(), features.build(capped, "syn").X):
        with pytest.raises(StallScopeError, match="needs"):
            models.train(capped, "syn", predictor=name)
        return
    model = models.train(capped, "syn", predictor=name)
    found = explain(capped, model.model_id, "V100-32GB", JOBS, None, None, [100.0, 50.0])
    for one in found:
        total = one.base + sum(part.shap for part in one.contributions)
        assert total == pytest.approx(one.prediction, abs=1e-6)
        assert one.sentence
    assert prediction_report(capped, "syn", model.model_id, JOBS, gpu="V100-32GB", caps=[100.0, 50.0]).sections
