"""The metrics, against numbers worked out by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.interference import metrics

S = st.floats(0.1, 50)
SETS = st.lists(S, min_size=1, max_size=8)


@pytest.mark.parametrize(
    ("measure", "solo", "corun", "expected"),
    [
        ("throughput", 12.0, 8.0, 1.5),
        ("normalised", 1.0, 0.8, 1.25),
        ("time", 4.0, 6.0, 1.5),
        ("latency", 2.0, 5.0, 2.5),
    ],
)
def test_slowdown_follows_the_direction_of_the_measure(measure, solo, corun, expected) -> None:
    assert metrics.slowdown(solo, corun, measure) == pytest.approx(expected)


def test_a_job_that_did_not_run_has_no_slowdown() -> None:
    result = metrics.slowdown([10.0, 10.0, 0.0, np.nan], [0.0, 5.0, 5.0, 5.0])
    assert np.isnan(result).tolist() == [True, False, True, True]


def test_slowdown_refuses_an_unknown_measure() -> None:
    with pytest.raises(ValueError, match="speed"):
        metrics.slowdown(1, 1, "speed")


def test_a_pair_by_hand() -> None:
    pair = [1.25, 2.0]  # speeds 0.8 and 0.5
    assert metrics.stp(pair) == pytest.approx(1.3)
    assert metrics.antt(pair) == pytest.approx(1.625)
    assert metrics.harmonic_speedup(pair) == pytest.approx(1 / 1.625)
    assert metrics.fairness(pair) == pytest.approx(0.625)
    assert metrics.unfairness(pair) == pytest.approx(1.6)
    assert metrics.jain(pair) == pytest.approx(1.69 / (2 * 0.89))
    assert metrics.worst(pair) == 2.0
    assert float(metrics.together_per_100(metrics.stp(pair))) == pytest.approx(76.923, abs=1e-3)


def test_three_members_by_hand() -> None:
    three = [1.0, 2.0, 4.0]  # speeds 1, 0.5, 0.25
    assert metrics.stp(three) == pytest.approx(1.75)
    assert metrics.antt(three) == pytest.approx(7 / 3)
    assert metrics.fairness(three) == pytest.approx(0.25)
    assert metrics.jain(three) == pytest.approx(1.75**2 / (3 * 1.3125))


@given(S, st.integers(1, 8))
def test_equal_members_are_perfectly_fair(value: float, k: int) -> None:
    assert metrics.jain([value] * k) == 1
    assert metrics.fairness([value] * k) == 1


@given(SETS)
def test_bounds_that_always_hold(values: list[float]) -> None:
    n = len(values)
    assert 1 / n - 1e-9 <= metrics.jain(values) <= 1 + 1e-9
    assert 0 < metrics.fairness(values) <= 1
    assert metrics.stp(values) >= n * metrics.harmonic_speedup(values) - 1e-9  # arithmetic over harmonic mean


@given(st.lists(st.tuples(st.floats(0.5, 100), st.floats(1.0, 5.0)), min_size=1, max_size=5))
def test_together_time_is_between_its_bounds(jobs: list[tuple[float, float]]) -> None:
    times, slowdowns = zip(*jobs, strict=True)
    result = metrics.together_time(times, slowdowns)
    assert max(times) - 1e-6 <= result <= max(t * s for t, s in jobs) + 1e-6


def test_an_unknown_member_makes_the_set_unknown() -> None:
    for metric in (metrics.stp, metrics.antt, metrics.fairness, metrics.jain, metrics.worst):
        assert math.isnan(metric([1.2, float("nan")]))
    assert math.isnan(metrics.together_time([1.0, float("nan")], [1.0, 1.0]))


@pytest.mark.parametrize("bad", [[], [1.0, 0.0], [1.0, -2.0]])
def test_no_member_and_no_slowdown_are_refused(bad: list[float]) -> None:
    with pytest.raises(ValueError, match=r"member|positive"):
        metrics.stp(bad)


def test_members_of_unequal_length_by_hand() -> None:
    # 40 min at S 1.25 ends at 50; the other has done 50/1.5 of its 60 min and goes on alone.
    assert metrics.together_time([60, 40], [1.5, 1.25]) == pytest.approx(50 + 60 - 50 / 1.5)
    assert metrics.serial_gain([60, 40], metrics.together_time([60, 40], [1.5, 1.25])) == pytest.approx(
        100 / (110 - 50 / 1.5)
    )


def test_three_members_of_unequal_length_by_hand() -> None:
    # All at S 2: the 10 min job ends at 20; the pair then at S 1.5: 20 left of 30, 50 left of 60; the shorter ends at
    # 20 + 30 = 50; the last has 50 - 20 = 30 left, alone: 80.
    assert metrics.together_time([10, 30, 60], [2, 2, 2], lambda left: [1.5] * len(left)) == pytest.approx(
        20 + 20 * 1.5 + 30
    )
    # Without the pairs: stays at S 2 until one is left: 20, then 20 * 2 = 40, then 30 alone.
    assert metrics.together_time([10, 30, 60], [2, 2, 2]) == pytest.approx(20 + 40 + 30)


def test_the_smaller_set_is_asked_for_by_position() -> None:
    asked = []

    def among(left: tuple[int, ...]) -> list[float]:
        asked.append(left)
        return [1.0] * len(left)

    metrics.together_time([1, 5, 6, 7], [1, 1, 1, 1], among)
    assert asked == [(1, 2, 3), (2, 3)]


def test_p99_and_slo() -> None:
    assert metrics.p99_inflation([10.0, np.nan], [39.0, 5.0])[0] == pytest.approx(3.9)
    assert metrics.slo_attainment([1.1, 1.2, 1.3, np.nan], 1.2) == pytest.approx(200 / 3)
    assert metrics.slo_attainment([10, 30], [20, 20]) == 50
    assert math.isnan(metrics.slo_attainment([np.nan], 1.2))
