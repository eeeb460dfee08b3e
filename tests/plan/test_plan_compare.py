"""A plan beside simple rules: each obeys the rules, and none is better than the measured best."""

from __future__ import annotations

import numpy as np
import pytest

from analysis.plan.compare import compare
from analysis.plan.problem import GpuKind, Job, Problem
from analysis.plan.sets import FixedFigures, SetFigures, decide, of_matrix
from analysis.plan.solve import solve

NAMES = tuple("abcdefgh")
MATRIX = 1 + np.random.default_rng(2).random((8, 8))


def _problem(**more: object) -> Problem:
    jobs = tuple(Job(name, name, memory_mib=1000.0) for name in NAMES)
    return Problem(jobs, (GpuKind("G", 4, 16_000.0),), **{"over_limit": True, **more})  # type: ignore[arg-type]


@pytest.mark.parametrize("objective", ["stp", "antt"])
def test_no_rule_beats_the_measured_best(objective: str) -> None:
    figures = of_matrix(NAMES, MATRIX)
    plan = solve(_problem(objective=objective), figures)
    rows = {one.rule: one for one in compare(plan, figures, {"a": 0.2, "b": 0.3}, draws=20)}
    assert set(rows) == {"plan", "exclusive", "random", "first_fit", "best_partner", "oracle"}
    assert getattr(rows["plan"], objective) == pytest.approx(getattr(rows["oracle"], objective))
    for rule in ("random", "first_fit", "best_partner"):
        assert rows[rule].placed == 8
        assert rows[rule].regret_stp is not None
        assert rows[rule].regret_stp >= -1e-6
        assert rows[rule].regret_antt is not None
        assert rows[rule].regret_antt >= -1e-6
    assert rows["exclusive"].placed == 4
    low, high = rows["random"].antt_low, rows["random"].antt_high
    assert low is not None
    assert high is not None
    assert low < rows["random"].antt < high


def test_without_measurements_there_is_no_oracle() -> None:
    figures = of_matrix(NAMES, MATRIX, evidence="counters")
    plan = solve(_problem(), figures)
    assert "oracle" not in {one.rule for one in compare(plan, figures, draws=3)}


def _one(slow: tuple[float, float], within: float | None = None, **more: object) -> SetFigures:
    nothing = (None, None)
    chance = (lambda limits: (within, 40)) if within is not None else None
    return SetFigures(("a", "b"), slow, nothing, nothing, "counters", chance=chance, **more)  # type: ignore[arg-type]


def test_the_answer_follows_the_probability() -> None:
    assert decide(_one((1.05, 1.05), 0.95), 1.2).verdict == "share"
    assert decide(_one((1.5, 1.05), 0.02), 1.2).verdict == "don't"
    assert decide(_one((1.19, 1.05), 0.55), 1.2).verdict == "measure first"
    assert decide(_one((1.05, 1.05)), 1.2).verdict == "measure first"
    assert decide(_one((1.05, 1.05), 0.95, beyond=True), 1.2).verdict == "measure first"
    assert decide(_one((1.05, 1.05), 0.95, doubtful=("a",)), 1.2).verdict == "measure first"
    assert decide(_one((1.05, 1.05), 0.95), 1.2, "unknown").verdict == "measure first"
    assert decide(_one((float("nan"), 1.0)), 1.2).verdict == "measure first"
    assert FixedFigures([]).of("G", [("a", "b")])["a", "b"].evidence == "none"
