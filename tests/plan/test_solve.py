"""The solver against every possible plan, and the rules that no plan may break."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy.optimize import linear_sum_assignment

from analysis.errors import CancelledError
from analysis.plan.problem import OBJECTIVES, GpuKind, Job, Objective, Problem, broken_rule, pair
from analysis.plan.sets import FixedFigures, SetFigures, decide, of_matrix
from analysis.plan.solve import Plan, solve


def _jobs(count: int, memory: float = 1000.0) -> tuple[Job, ...]:
    return tuple(Job(f"j{number}", f"w{number}", memory_mib=memory) for number in range(count))


def _figures(count: int, k: int, seed: int) -> FixedFigures:
    draw = np.random.default_rng(seed)
    rows = []
    for size in range(2, k + 1):
        for one in itertools.combinations([f"w{number}" for number in range(count)], size):
            slow = tuple(float(value) for value in 1 + (size - 1) * draw.random(size))
            rows.append(SetFigures(one, slow, slow, slow, "measured", ran=True))
    return FixedFigures(rows)


def _partitions(items: tuple[int, ...], k: int, most: int) -> Iterator[tuple[tuple[int, ...], ...]]:
    if not items:
        yield ()
        return
    if most == 0:
        return
    first, rest = items[0], items[1:]
    for size in range(min(k, len(items))):
        for others in itertools.combinations(rest, size):
            left = tuple(one for one in rest if one not in others)
            for more in _partitions(left, k, most - 1):
                yield ((first, *others), *more)


def _brute_force(problem: Problem, figures: FixedFigures) -> float:
    """Try every plan that places every job; infinite where there is none."""
    best = math.inf
    total = sum(kind.count for kind in problem.gpus)
    for plan in _partitions(tuple(range(len(problem.jobs))), problem.k, total):
        slow: list[float] = []
        cost = 0.0
        for part in plan:
            names = tuple(sorted(problem.jobs[at].workload for at in part))
            if len(part) == 1:
                own: tuple[float, ...] = (1.0,)
            else:
                found = figures.of("G", [names])[names]
                if not problem.over_limit and decide(found, problem.limit).verdict != "share":
                    break
                if broken_rule(problem, [problem.jobs[at] for at in part]):
                    break
                own = found.slowdowns
            slow += own
            cost += {
                "stp": -sum(1 / value for value in own),
                "antt": sum(own),
                "worst": 0.0,
                "fairness": -len(own) * min(own) / max(own),
                "gpus": 1.0,
            }[problem.objective]
        else:
            best = min(best, max(slow) if problem.objective == "worst" else cost)
    return best


def _value(plan: Plan) -> float:
    objective = plan.problem.objective
    if objective == "worst":
        return plan.worst
    if objective == "gpus":
        return float(plan.gpus_used)
    if objective == "stp":
        return -plan.stp
    if objective == "antt":
        return sum(one.slowdown for one in plan.members)
    parts = [[one.slowdown for one in place.members] for place in plan.placements]
    return -sum(len(part) * min(part) / max(part) for part in parts)


def _same_as_brute_force(problem: Problem, figures: FixedFigures) -> None:
    best = _brute_force(problem, figures)
    plan = solve(problem, figures, gap=1e-9)
    assert len(plan.members) + len(plan.waiting) == len(problem.jobs)
    if math.isinf(best):
        assert plan.waiting
    else:
        assert not plan.waiting
        assert _value(plan) == pytest.approx(best, rel=1e-6)
        assert plan.gap == pytest.approx(0, abs=1e-3)


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    count=st.integers(2, 10), seed=st.integers(0, 10_000), objective=st.sampled_from(sorted(OBJECTIVES)),
    spare=st.integers(0, 3), over=st.booleans(), limit=st.sampled_from([1.2, 1.5, 1.9]),
)  # fmt: skip
def test_pairs_equal_brute_force(
    count: int, seed: int, objective: Objective, spare: int, over: bool, limit: float
) -> None:
    gpus = (GpuKind("G", (count + 1) // 2 + spare, 16_000.0),)
    problem = Problem(_jobs(count), gpus, objective=objective, over_limit=over, limit=limit)
    _same_as_brute_force(problem, _figures(count, 2, seed))


@settings(max_examples=8, deadline=None, suppress_health_check=list(HealthCheck))
@given(seed=st.integers(0, 10_000), objective=st.sampled_from(sorted(OBJECTIVES)), spare=st.integers(0, 2))
def test_sets_of_three_equal_brute_force(seed: int, objective: Objective, spare: int) -> None:
    problem = Problem(_jobs(9), (GpuKind("G", 3 + spare, 16_000.0),), k=3, objective=objective, over_limit=True)
    _same_as_brute_force(problem, _figures(9, 3, seed))


def _matching(cost: np.ndarray, gpus: int) -> float:
    """Return the least cost of jobs alone or in pairs on so many GPUs: a table over all subsets, no programme."""
    count = len(cost)
    best = np.full((1 << count, gpus + 1), np.inf)
    best[0, 0] = 0.0
    for taken in range((1 << count) - 1):
        first = next(at for at in range(count) if not taken >> at & 1)
        for other in range(first, count):
            if not taken >> other & 1:
                then = taken | 1 << first | 1 << other
                best[then, 1:] = np.minimum(best[then, 1:], best[taken, :-1] + cost[first, other])
    return float(best[-1].min())


@settings(max_examples=6, deadline=None, suppress_health_check=list(HealthCheck))
@given(seed=st.integers(0, 10_000), spare=st.integers(0, 3))
def test_pairs_equal_a_matching_over_subsets(seed: int, spare: int) -> None:
    count, gpus = 12, 6 + spare
    slow = 1 + np.random.default_rng(seed).random((count, count))
    problem = Problem(_jobs(count), (GpuKind("G", gpus, 16_000.0),), objective="antt", over_limit=True)
    plan = solve(problem, of_matrix([job.workload for job in problem.jobs], slow), gap=1e-9)
    cost = slow + slow.T
    np.fill_diagonal(cost, 1.0)
    assert sum(one.slowdown for one in plan.members) == pytest.approx(_matching(cost, gpus))


def test_no_large_plan_is_below_the_bound_of_an_assignment() -> None:
    count = 60
    slow = 1 + np.random.default_rng(7).random((count, count))
    problem = Problem(_jobs(count), (GpuKind("G", count // 2, 16_000.0),), objective="antt", over_limit=True)
    plan = solve(problem, of_matrix([job.workload for job in problem.jobs], slow))
    cost = slow + slow.T
    np.fill_diagonal(cost, np.inf)
    bound = cost[linear_sum_assignment(cost)].sum() / 2
    assert bound - 1e-9 <= sum(one.slowdown for one in plan.members) <= 1.05 * bound
    assert plan.gap is not None
    assert plan.gap <= 0.01


@pytest.mark.parametrize("spare", [0, 3])
def test_no_objective_is_served_better_by_the_plan_of_another(spare: int) -> None:
    figures = _figures(10, 2, 11)
    base = Problem(_jobs(10), (GpuKind("G", 5 + spare, 16_000.0),), over_limit=True)
    plans = {name: solve(replace(base, objective=name), figures, gap=1e-9) for name in OBJECTIVES}
    better = {"stp": -1, "antt": 1, "worst": 1, "fairness": -1, "gpus": 1}
    figure = {"gpus": "gpus_used"}
    for name, sign in better.items():
        values = {other: sign * getattr(plan, figure.get(name, name)) for other, plan in plans.items()}
        assert values[name] <= min(values.values()) + 1e-9, (name, values)


@settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_rules_hold_in_every_plan(data: st.DataObject) -> None:
    count = data.draw(st.integers(2, 8))
    jobs = tuple(
        Job(
            f"j{number}", data.draw(st.sampled_from(["", f"w{number}"])), data.draw(st.sampled_from(["ada", "bo"])),
            data.draw(st.sampled_from([1, 1, 1, 2])), data.draw(st.sampled_from([math.nan, 3000.0, 9000.0])),
            mechanisms=data.draw(st.sampled_from([(), (), ("time-slicing",)])),
            threads=data.draw(st.sampled_from([None, 40.0, 70.0])),
        )
        for number in range(count)
    )  # fmt: skip
    names = [job.name for job in jobs]
    forbidden = frozenset({pair(names[0], names[1])}) if data.draw(st.booleans()) else frozenset()
    gpus = (GpuKind("small", data.draw(st.integers(2, 3)), 10_000.0), GpuKind("large", 2, 20_000.0))
    problem = Problem(jobs, gpus, forbidden=forbidden, over_limit=True, k=3)
    plan = solve(problem, _figures(count, 3, 1))
    sizes = {kind.name: kind for kind in gpus}
    used: dict[str, set[int]] = {kind.name: set() for kind in gpus}
    for place in plan.placements:
        together = [one.job for one in place.members]
        if len(together) > 1:
            assert broken_rule(problem, together) is None
            assert sum(job.memory_mib for job in together) <= sizes[place.gpu].memory_mib * (1 - problem.reserve)
        numbers = set(range(place.index, place.index + place.gpus))
        assert not numbers & used[place.gpu]
        used[place.gpu] |= numbers
        assert max(numbers) < sizes[place.gpu].count
    assert sorted([one.job.name for one in plan.members] + [one.job.name for one in plan.waiting]) == sorted(names)
    assert all(one.why for one in plan.waiting)


def test_jobs_alike_are_counted_and_all_named() -> None:
    figures = of_matrix(["a", "b"], [[1.9, 1.1], [1.05, 1.8]])
    jobs = tuple(Job(f"{kind}{number}", kind, memory_mib=10.0) for number in range(50) for kind in "ab")
    plan = solve(Problem(jobs, (GpuKind("G", 50, 16_000.0),)), figures)
    assert plan.considered == 3
    assert len({one.job.name for one in plan.members}) == 100
    assert plan.worst == 1.1
    assert plan.gap == 0


def test_wishes_are_kept_and_bring_what_they_cost() -> None:
    figures = of_matrix(list("abcd"), 1 + np.arange(16).reshape(4, 4) / 20)
    jobs = tuple(Job(name, name, memory_mib=10.0) for name in "abcd")
    wanted = frozenset({pair("a", "d")})
    plan = solve(Problem(jobs, (GpuKind("G", 4, 16_000.0),), wanted=wanted), figures)
    together = [{one.job.name for one in place.members} for place in plan.placements]
    assert {"a", "d"} in together
    assert {"b"} in together


def test_higher_priority_comes_first() -> None:
    jobs = (Job("low", "w0"), Job("high", "w1", priority=5))
    plan = solve(Problem(jobs, (GpuKind("G", 1, 16_000.0),)), _figures(2, 2, 0))
    assert [one.job.name for one in plan.members] == ["high"]
    assert "unknown" in plan.waiting[0].why


def test_a_cancelled_search_keeps_the_best_so_far() -> None:
    said: list[str] = []

    def progress(part: float, text: str) -> None:
        said.append(text)
        if len(said) > 1:
            raise CancelledError("stopped", "Start again.")

    problem = Problem(_jobs(24), (GpuKind("G", 8, 16_000.0),), k=3, over_limit=True, objective="fairness")
    plan = solve(problem, _figures(24, 3, 5), progress=progress, gap=0.0)
    assert len(plan.members) + len(plan.waiting) == 24
    assert said


@pytest.mark.parametrize("risk", ["upper", "probability"])
def test_risk_prefers_the_surer_pair(risk: str) -> None:
    def one(a: str, b: str, slow: float, high: float) -> SetFigures:
        within = 0.95 if high < 1.2 else 0.4
        return SetFigures(
            (a, b), (slow, slow), (1.0, 1.0), (high, high), "counters", chance=lambda limits: (within, 40)
        )

    rows = [one("a", "b", 1.05, 3.0), one("a", "c", 1.1, 1.12), one("b", "c", 1.1, 1.12)]
    jobs = tuple(Job(name, name, memory_mib=10.0) for name in "abc")
    base = Problem(jobs, (GpuKind("G", 2, 16_000.0),), over_limit=True)
    assert solve(base, FixedFigures(rows)).worst == 1.05
    assert solve(Problem(**{**base.__dict__, "risk": risk}), FixedFigures(rows)).worst == 1.1


def test_a_prediction_from_a_doubted_baseline_is_doubted(monkeypatch: pytest.MonkeyPatch) -> None:
    from analysis.plan import sets
    from analysis.predict.models import models
    from analysis.store.database import Database
    from tests.predict.conftest import make

    names = ["alpha-b2", "alpha-b8", "beta-b2", "beta-b8", "gamma-b2", "delta-b4"]
    with Database(None) as database:
        make(database, names=names)
        model = models.train(database, "syn", predictor="effects")
        asked = [("alpha-b2", "beta-b2", "gamma-b2"), ("beta-b2", "beta-b8", "gamma-b2")]
        for doubtful in (frozenset(), frozenset({"alpha-b2"})):
            there = replace(sets.ran_sets(database, ("syn",), "V100-32GB", "CUDA MPS"), flagged=doubtful)
            with monkeypatch.context() as patch:
                patch.setattr(sets, "ran_sets", lambda *_, there=there: there)
                found = sets.LibraryFigures(database, "syn", None, model.model_id).of("V100-32GB", asked)
            assert [bool(found[one].doubtful) for one in asked] == [bool(doubtful), False]
        assert sets.decide(found[asked[0]], 5.0).verdict == "measure first"
