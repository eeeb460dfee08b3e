"""The model card: every figure beside the baselines, what it must not be trusted with, hostile names harmless."""

from __future__ import annotations

import pytest

from analysis.errors import NotFoundError
from analysis.predict.evaluate.evaluate import evaluate
from analysis.predict.models import activemodel, models
from analysis.report.card import model_card
from analysis.store.database import Database
from tests.predict.conftest import make


@pytest.fixture
def trained(database: Database) -> Database:
    """A data set with a comparison and two models."""
    make(database)
    evaluate(database, "syn", "unseen-pair", ["ridge"])
    models.train(database, "syn", "ridge")
    models.train(database, "syn", "effects")
    return database


def test_card_says_what_the_model_is_for_and_how_far_off(trained: Database) -> None:
    card = next(one for one in models.list_models(trained) if one.predictor == "ridge")
    text = model_card(card)
    own = next(row for row in card.protocol_results if row["predictor"] == "ridge")
    for wanted in (
        "## Intended use",
        "## Results",
        "## Limits",
        "unseen\\-pair",
        "Median of the training rows",
        "pairs only",
    ):
        assert wanted in text, wanted
    assert f"{own['mape']:.3g}" in text
    assert card.data_hash in text


def test_card_without_a_comparison_claims_nothing(trained: Database) -> None:
    card = next(one for one in models.list_models(trained) if one.predictor == "effects")
    assert "no error is known" in model_card(card.model_copy(update={"protocol_results": []}))


def test_hostile_names_stay_text(trained: Database) -> None:
    card = models.list_models(trained)[0].model_copy(
        update={"dataset": "<script>alert(1)</script> **x** |", "gpus": ["`a`"]}
    )
    text = model_card(card)
    assert "<script>" not in text
    assert "**x**" not in text


def test_simulated_data_is_said(trained: Database) -> None:
    card = models.list_models(trained)[0].model_copy(update={"simulated": True})
    assert model_card(card).count("simulated") >= 3


def test_the_newest_answers_until_another_is_made_active(trained: Database) -> None:
    newest, oldest = models.list_models(trained)
    assert activemodel.active(trained, "syn") == newest.model_id
    activemodel.activate(trained, oldest.model_id)
    assert activemodel.active(trained, "syn") == oldest.model_id
    assert activemodel.active_first(trained, [newest, oldest]) == [oldest, newest]
    models.delete(trained, oldest.model_id)
    assert activemodel.active(trained, "syn") == newest.model_id
    with pytest.raises(NotFoundError):
        activemodel.activate(trained, "nothing")
