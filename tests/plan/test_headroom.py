"""Pairing by predictions: the best takes everything, the reverse loses, and chance takes nothing."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from analysis.errors import NotEnoughDataError
from analysis.plan.headroom import headroom, in_words, matchings, measured_sets_of, precision_and_recall, worth
from analysis.predict.evaluate.evaluate import evaluate
from analysis.store.database import Database
from tests.predict.conftest import make


def _measured(count: int = 10, seed: int = 3) -> np.ndarray:
    values = 1 + np.random.default_rng(seed).random((count, count))
    np.fill_diagonal(values, np.nan)
    return values


def test_all_ways_to_pair_eight() -> None:
    ways = matchings(8)
    assert len(ways) == 105
    assert all(sorted(itertools.chain(*way)) == list(range(8)) for way in ways)


def test_only_sets_whose_pairs_are_all_measured_count() -> None:
    known = np.ones((5, 5), dtype=bool)
    known[0, 1] = False
    assert len(measured_sets_of(known, 4)) == 2


def test_the_truth_takes_all_and_its_reverse_less_than_nothing() -> None:
    measured = _measured()
    best = headroom(measured, measured, -1 / measured, sets=30)
    assert (best.antt_taken, best.stp_taken) == (pytest.approx(100), pytest.approx(100))
    assert best.best_partner == pytest.approx(1)
    worst = headroom(measured, -measured, 1 / measured, sets=30)
    assert worst.antt_taken < 0
    assert worst.stp_taken < 0


def test_precision_and_recall() -> None:
    found = precision_and_recall(np.array([1.1, 1.3, 1.1]), np.array([90.0, 85.0, 10.0]), 1.2, 80.0)
    assert found == {"pairs": 3, "share": 2, "precision": 50, "recall": 50}


def test_what_predictions_are_worth_is_read_from_stored_evaluations() -> None:
    with Database(None) as database:
        make(database)
        with pytest.raises(NotEnoughDataError, match="no predictor was evaluated") as refused:
            worth(database, "syn")
        assert "stallscope evaluate" in refused.value.cure
        evaluate(database, "syn", "unseen-pair", predictors=["effects"])
        found = worth(database, "syn", limit=1.5, sets=5)
    ours = found[0]
    assert (ours.by, ours.protocol, ours.headroom.sets) == ("effects", "unseen-pair", 5)
    # Effects of victim and aggressor add up to the same over every pairing: they can't take much.
    assert ours.headroom.antt_taken < 50
    assert 0 <= ours.precision <= 100
    assert {one.by for one in found if not one.protocol} <= {"sm_util", "dram_throughput"}
    assert "takes" in in_words(found)
    assert ours.row()["best_partner"] <= 100 + 1e-9


def test_without_enough_pairs_it_says_so() -> None:
    with pytest.raises(NotEnoughDataError, match="no set of 8 jobs"):
        headroom(_measured(5), _measured(5), _measured(5))
