"""What to measure next: the choice against brute force, its limits, and its trial on workloads that are known."""

from __future__ import annotations

from itertools import combinations, pairwise

import numpy as np
import pytest

from analysis.errors import NotEnoughDataError, NotFoundError, UsageError
from analysis.predict.advise import measure_next as active
from analysis.predict.advise.measure_next import Candidates, in_words, measure_next
from analysis.predict.advise.next_check import check_choice
from analysis.predict.advise.next_check import in_words as check_in_words
from analysis.predict.frame import features
from analysis.predict.predictors.structured import StructuredGP
from analysis.store.database import Database
from analysis.store.queries import coruns
from tests.predict.conftest import WORKLOADS, make

NAMES = [row[0] for row in WORKLOADS]


def _candidates(runs: int = 6, seed: int = 0) -> Candidates:
    root = np.random.default_rng(seed).normal(size=(2 * runs, 3))
    return Candidates(
        root @ root.T + 0.01 * np.eye(2 * runs), 0.05, [np.array([2 * n, 2 * n + 1]) for n in range(runs)]
    )


def _brute_force(candidates: Candidates, chosen: tuple[int, ...]) -> float:
    """The expected error by the definition: a joint normal, conditioned on noisy values."""
    rows = np.concatenate([candidates.runs[number] for number in chosen])
    full = candidates.covariance
    gram = full[np.ix_(rows, rows)] + candidates.noise * np.eye(len(rows))
    after = full - full[:, rows] @ np.linalg.inv(gram) @ full[rows]
    return float(100 * np.sqrt(2 / np.pi) * np.sqrt(np.diag(after)).mean())


def test_first_choice_is_the_best_single_run_and_errors_are_those_of_the_definition() -> None:
    weighed = _candidates()
    chosen = active.greedy(weighed, 3)
    singles = [_brute_force(weighed, (number,)) for number in range(6)]
    assert chosen[0][0] == int(np.argmin(singles))
    taken = tuple(number for number, _ in chosen)
    for count in (1, 2, 3):
        assert chosen[count - 1][1] == pytest.approx(_brute_force(weighed, taken[:count]), rel=1e-9)
        assert active.expected_error(weighed, taken[:count]) == pytest.approx(chosen[count - 1][1], rel=1e-9)
    assert chosen[2][1] <= 1.1 * min(_brute_force(weighed, three) for three in combinations(range(6), 3))


def test_a_choice_is_expected_to_be_at_least_as_good_as_one_by_lot() -> None:
    for seed in range(5):
        weighed = _candidates(8, seed)
        chosen = [error for _, error in active.greedy(weighed, 4)]
        assert all(one <= lot for one, lot in zip(chosen, active.at_random(weighed, 4), strict=True))


def test_all_runs_by_lot_are_all_runs() -> None:
    weighed = _candidates(4)
    assert active.at_random(weighed, 9)[-1] == pytest.approx(active.expected_error(weighed, range(4)), rel=1e-9)


def test_measuring_moves_the_mean_to_what_was_measured() -> None:
    weighed = _candidates()
    sharp = Candidates(weighed.covariance, 1e-9, weighed.runs)
    rows = np.array([2, 3])
    after = active.condition(sharp, np.zeros(12), rows, np.array([0.3, 0.1]))
    assert after[rows] == pytest.approx([0.3, 0.1], abs=1e-5)


def test_covariance_has_the_variances_of_the_predictor(database: Database) -> None:
    make(database)
    frame = features.build(database, "syn")
    model = StructuredGP(max_iter=5).fit(frame.X, frame.y)
    members = model.reader_.read(frame.X.iloc[:20])
    jobs = model.jobs_of(members)
    own, other = members.own, members.others[:, 0]
    covariance = model.direct_.covariance(jobs, own, other)
    expected = model.direct_.variance(jobs, own, other) - model.direct_.noise_
    assert np.diag(covariance) == pytest.approx(expected, abs=1e-8)
    assert covariance == pytest.approx(covariance.T, abs=1e-9)


def _without_most_of(database: Database, name: str) -> None:
    """Take out all but two runs of a workload, its profile stays."""
    runs = coruns.members(database)
    mine = runs.loc[runs["workload"] == name, "run_id"].drop_duplicates().tolist()[2:]
    with database.write() as cursor:
        for table in ("member", "run"):
            cursor.execute(f"DELETE FROM {table} WHERE run_id IN (SELECT unnest(?))", [mine])


def test_plan_names_unmeasured_partners_and_what_they_bring(database: Database) -> None:
    make(database)
    _without_most_of(database, "gamma-b8")
    plan = measure_next(database, "syn", "gamma-b8", 3)
    measured = coruns.members(database)
    beside = set(measured.loc[measured["run_id"].isin(
        measured.loc[measured["workload"] == "gamma-b8", "run_id"]), "workload"])  # fmt: skip
    assert plan.measured == 2
    assert len(plan.suggestions) == 3
    assert not {one.co_workload for one in plan.suggestions} & (beside - {"gamma-b8"})
    errors = [plan.expected_error, *(one.expected_error for one in plan.suggestions)]
    assert errors == sorted(errors, reverse=True)
    gains = [one.gain for one in plan.suggestions]
    assert gains == pytest.approx([before - after for before, after in pairwise(errors)])
    assert plan.suggestions[0].co_workload in plan.suggestions[0].command
    assert plan.suggestions[0].co_workload in in_words(plan) or "second instance" in in_words(plan)
    assert plan.profiled
    assert not plan.simulated


def test_plan_is_refused_with_a_cure(database: Database) -> None:
    make(database)
    with pytest.raises(NotEnoughDataError, match="every pair of alpha-b2"):
        measure_next(database, "syn", "alpha-b2")
    with pytest.raises(NotFoundError, match="no workload 'nobody'"):
        measure_next(database, "syn", "nobody")
    with pytest.raises(UsageError):
        measure_next(database, "syn", "alpha-b2", 0)


def test_few_runs_choose_too_and_say_that_no_score_stands_behind_it(database: Database) -> None:
    make(database, names=NAMES[:4])
    _without_most_of(database, NAMES[0])
    plan = measure_next(database, "syn", NAMES[0], 1, limit=1.3)
    assert len(plan.suggestions) == 1
    assert "fewer than 30" in plan.notes[0]
    assert plan.suggestions[0].verdict in {"share", "don't", "measure first"}
    assert plan.limit == 1.3
    make(database, dataset="single", names=NAMES[:1])
    with pytest.raises(NotEnoughDataError, match="a choice needs 2"):
        measure_next(database, "single", NAMES[0])


def test_trial_compares_the_choice_with_lots_on_the_same_workloads(database: Database) -> None:
    make(database)
    found = check_choice(database, "syn", "V100-32GB", "CUDA MPS", 3)
    assert {row["workload"] for row in found.rows} == set(NAMES)
    assert all(row["pairs"] == len(NAMES) for row in found.rows)
    assert found.by_lot < found.none
    assert found.active == pytest.approx(np.mean([row["active"] for row in found.rows]))
    assert f"of {len(NAMES)}" in check_in_words(found)
    with pytest.raises(NotEnoughDataError):
        check_choice(database, "syn", "V100-32GB", "CUDA MPS", 8)
