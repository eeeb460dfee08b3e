"""One decision, by tables: what is known of a set, and what is said of it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from analysis.errors import UsageError
from analysis.interference.decision import Case, Forecast, check_limit, decide, measured_verdicts

FITS: dict[str, Any] = {"limit": 1.2, "memory": "fits"}


def forecast(within: float | None, *slow: float, **kept: Any) -> Forecast:
    return Forecast(slow or (1.1, 1.1), within, n=40, evidence="counters", **kept)


@pytest.mark.parametrize(
    ("known", "verdict", "said"),
    [
        ({"measured": (1.1, 1.15), "ran": 3}, "share", "3 runs"),
        ({"measured": (1.1, 1.25), "ran": 1}, "don't", "beyond the limit of 1.2 x"),
        ({"measured": (1.1, 1.15), "worst": 1.3, "ran": 1}, "don't", "1.30 x"),
        ({"measured": (1.9, 2.0), "ran": 1, "limit": 3.0}, "don't", "only 1.03 times"),
        ({"measured": (1.1, 1.15), "ran": 1, "memory": "unknown"}, "share", "they ran together, so they fit"),
        ({"measured": (1.1, 1.15), "ran": 1, "failed": 1, "memory": "unknown"}, "measure first", "not all of their"),
        ({"measured": (1.5, 1.15), "ran": 1, "memory": "unknown"}, "don't", "beyond the limit"),
        ({"measured": (1.1, 1.15), "ran": 1, "memory": "does_not_fit"}, "share", "yet they ran"),
        ({"measured": (1.1, 1.15), "ran": 1, "memory": "tight"}, "share", "tight"),
        ({"measured": (0.9, 1.1), "ran": 1, "doubtful": ("a",)}, "measure first", "baseline of a is doubtful"),
        ({"failed": 2}, "don't", "all 2 runs failed"),
        ({"failed": 1, "forecast": forecast(0.99)}, "don't", "the run failed"),
        ({"memory": "does_not_fit", "forecast": forecast(0.99)}, "don't", "more than the GPU has"),
        ({"memory": "unknown", "forecast": forecast(0.99)}, "measure first", "memory together is unknown"),
        ({}, "measure first", "never ran together"),
        ({"forecast": forecast(0.8)}, "share", "probability of 80 %"),
        ({"forecast": forecast(0.79)}, "measure first", "too close to call"),
        ({"forecast": forecast(0.2, 1.5, 1.2)}, "don't", "probability of 20 %"),
        ({"forecast": forecast(0.99, extrapolating=True)}, "measure first", "beyond what the model has seen"),
        ({"forecast": forecast(None)}, "measure first", "no measured co-run"),
        ({"forecast": forecast(0.99), "doubtful": ("b",)}, "measure first", "baseline of b is doubtful"),
        ({"forecast": forecast(None, 1.1, 1.3, 1.1, basis="composed")}, "measure first", "beyond the limit"),
        ({"forecast": forecast(0.99, float("nan"), 1.1)}, "measure first", "without a model"),
    ],
)
def test_what_is_known_decides(known: dict[str, Any], verdict: str, said: str) -> None:
    found = decide(Case(**FITS | known))
    assert (found.verdict, said in found.why) == (verdict, True), found.why
    assert found.limit == known.get("limit", 1.2)


def test_a_measurement_is_the_figure_and_carries_no_probability() -> None:
    found = decide(Case(**FITS, measured=(1.1, 1.15), ran=2, forecast=forecast(0.1, 3.0, 3.0)))
    assert (found.worst, found.evidence, found.n, found.within_limit) == (1.15, "measured", 2, None)
    guessed = decide(Case(**FITS, forecast=forecast(0.9, 1.1, 1.15)))
    assert (guessed.worst, guessed.evidence, guessed.n, guessed.within_limit) == (1.15, "counters", 40, 90.0)


def test_few_runs_say_that_they_have_no_score() -> None:
    few = Forecast((1.1, 1.15, 1.1), basis="composed", n=21)
    assert "no score: fewer than 30 runs" in decide(Case(**FITS, forecast=few)).why
    assert "no score" not in decide(Case(**FITS, forecast=Forecast((1.1, 1.1), basis="composed", n=30))).why


@pytest.mark.parametrize("within", [None, 0.0, 0.5, 1.0])
@pytest.mark.parametrize("extrapolating", [True, False])
def test_unknown_memory_never_says_share(within: float | None, extrapolating: bool) -> None:
    found = decide(Case(1.2, "unknown", forecast=forecast(within, extrapolating=extrapolating)))
    assert found.verdict == "measure first"


def test_a_limit_below_one_is_refused() -> None:
    with pytest.raises(UsageError, match="can't be met"):
        check_limit(0.9)


def test_many_sets_that_ran_get_the_verdicts_of_each() -> None:
    cases = [
        Case(limit, memory, slowdowns, ran=1, failed=failed, doubtful=doubtful)
        for limit in (1.0, 1.2, 3.0)
        for memory in ("fits", "tight", "does_not_fit", "unknown")
        for slowdowns in ((1.0, 1.1), (1.2, 1.2), (1.19, 1.9), (2.0, 2.5), (0.9, 1.0))
        for doubtful in ((), ("a",))
        for failed in (0, 1)
    ]
    assert {decide(case).verdict for case in cases} == {"share", "don't", "measure first"}
    for case in cases:
        found = measured_verdicts(
            np.array([sum(1 / value for value in case.measured)]), np.array([max(case.measured)]),
            np.array([bool(case.doubtful)]), np.array([case.memory_now == "unknown"]), case.limit,
        )  # fmt: skip
        assert list(found) == [decide(case).verdict]
