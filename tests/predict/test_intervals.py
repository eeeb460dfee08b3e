"""Intervals cover what they promise on left-out groups, and are not made from too little."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analysis.predict.evaluate.intervals import LEAST_RESIDUALS, MOST_SETS, Calibration, calibrate


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 10_000), st.floats(0.01, 0.3), st.floats(0.0, 0.5))
def test_coverage_holds_on_new_rows_of_the_same_kind(seed: int, floor: float, slope: float) -> None:
    generator = np.random.default_rng(seed)
    predicted = generator.uniform(0.0, 1.5, 1200)
    measured = predicted + generator.normal(size=1200) * (floor + slope * predicted)
    found = calibrate(predicted[:600], measured[:600], 60, "pairs")
    low, high = found.interval(predicted[600:])
    covered = np.mean((measured[600:] >= low) & (measured[600:] <= high))
    assert 0.84 <= covered <= 0.96


def test_width_follows_the_difficulty() -> None:
    generator = np.random.default_rng(0)
    predicted = np.concatenate([np.full(300, 0.1), np.full(300, 1.0)])
    measured = predicted + generator.normal(size=600) * np.concatenate([np.full(300, 0.01), np.full(300, 0.2)])
    found = calibrate(predicted, measured, 50, "pairs")
    low, high = found.interval(np.array([0.1, 1.0]))
    assert (high - low)[1] > 5 * (high - low)[0]


def test_quantile_by_hand() -> None:
    predicted = np.zeros(20)
    measured = np.arange(1, 21) / 100.0
    found = calibrate(predicted, measured, 20, "pairs")
    # rank ceil(21 x 0.95) = 20: the largest residual; all are positive, so that nothing is below
    assert found.interval(np.array([0.0]))[1][0] == pytest.approx(0.20)
    assert found.interval(np.array([0.0]))[0][0] == pytest.approx(0.0)


def test_too_few_residuals_make_no_interval() -> None:
    values = np.zeros(LEAST_RESIDUALS - 1)
    assert calibrate(values, values, 19, "pairs") is None


def test_few_groups_guarantee_nothing() -> None:
    assert not Calibration(-1, 1, 0.1, 0.0, 100, 9, "families").guaranteed
    assert Calibration(-1, 1, 0.1, 0.0, 100, 10, "families").guaranteed


def test_an_interval_holds_the_prediction_even_when_all_residuals_lie_on_one_side() -> None:
    predicted = np.linspace(0, 1, 50)
    found = calibrate(predicted, predicted + 0.3, 50, "pairs")
    low, high = found.interval(predicted)
    assert (low <= predicted).all()
    assert (high >= predicted + 0.3 - 1e-9).all()


@pytest.mark.parametrize("count", [399, 400, 401, 527, 552, 1029, 2500])
def test_any_number_of_left_out_sets_is_thinned_evenly(count: int) -> None:
    generator = np.random.default_rng(count)
    predicted = generator.uniform(0.0, 1.0, 2 * count)
    measured = predicted + generator.normal(scale=0.1, size=2 * count)
    found = calibrate(predicted, measured, count, "pairs", sets=np.repeat(np.arange(count), 2))
    assert found is not None
    assert len(found.together) == min(count, MOST_SETS)
    worst = [max(one) for one in found.together]
    assert worst == sorted(worst)
