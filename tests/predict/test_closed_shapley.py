"""The structured predictor's contributions: its processes' are the Shapley values by definition, and sets add up."""

from __future__ import annotations

from itertools import combinations
from math import factorial

import numpy as np
import pandas as pd
import pytest

from analysis.predict.explain.shapley import contributions
from analysis.predict.frame import features
from analysis.predict.predictors.ensemble import Average, StallScope
from analysis.predict.predictors.learners import ExtraTrees
from analysis.predict.predictors.pairgp import Jobs, Mode, PairGP
from analysis.predict.predictors.set_shapley import UNSURE, shapley_of_pairs
from analysis.predict.predictors.structured import StructuredGP
from analysis.store.database import Database
from tests.predict.conftest import WORKLOADS, make


def jobs_by_lot(count: int = 6) -> Jobs:
    lot = np.random.default_rng(1)
    names = np.array([f"job{number}" for number in range(count)], dtype=object)
    return Jobs(lot.normal(size=(count, 3)), np.array([name[-1] in "024" for name in names], dtype=object), names)


def mixed(jobs: Jobs, mine: int, theirs: int, present: set[int], players: list[np.ndarray], first: int) -> Jobs:
    x = jobs.x[[theirs]].copy()
    for number, positions in enumerate(players):
        if first + number in present:
            x[0, positions] = jobs.x[mine, positions]
    known = mine if first + len(players) in present else theirs
    return Jobs(x, jobs.model[[known]], jobs.name[[known]])


@pytest.mark.parametrize("mode", ["direct", "symmetric", "antisymmetric"])
def test_closed_form_is_the_definition(mode: Mode) -> None:
    jobs = jobs_by_lot()
    i, j = np.array([(a, b) for a in range(4) for b in range(4) if a != b or mode != "antisymmetric"]).T
    lot = np.random.default_rng(2)
    value = np.sin(jobs.x[i, 0]) + 0.5 * jobs.x[j, 1] * jobs.x[i, 2] + 0.05 * lot.normal(size=len(i))
    process = PairGP(mode, max_iter=5).fit(i, j, value, jobs)
    players = [np.array([0, 2]), np.array([1])]
    (a, b), (behind_a, behind_b) = (4, 5), (1, 2)
    own, others = shapley_of_pairs(
        process, jobs, (np.array([a]), np.array([b])), (np.array([behind_a]), np.array([behind_b])), players
    )
    count = 2 * (len(players) + 1)

    def worth(present: set[int]) -> float:
        left = mixed(jobs, a, behind_a, present, players, 0)
        right = mixed(jobs, b, behind_b, present, players, len(players) + 1)
        both = Jobs(*(np.concatenate([getattr(one, of) for one in (left, right)]) for of in ("x", "model", "name")))
        return float(process.predict(both, np.array([0]), np.array([1]))[0])

    expected = np.zeros(count)
    for player in range(count):
        rest = [other for other in range(count) if other != player]
        for size in range(count):
            share = factorial(size) * factorial(count - size - 1) / factorial(count)
            for present in combinations(rest, size):
                expected[player] += share * (worth({*present, player}) - worth(set(present)))
    assert np.concatenate([own[0, 0], others[0, 0]]) == pytest.approx(expected, abs=1e-10)
    assert np.abs(expected).max() > 1e-3


def test_pairs_and_larger_sets_add_up_and_caution_is_what_is_taken_off(shared_syn: Database) -> None:
    frame = features.build(shared_syn, "syn")
    fitted = StructuredGP(max_iter=10).fit(frame.X, frame.y)
    found = contributions(fitted, frame.X, frame.X)
    predicted = fitted.predict(frame.X)
    members = fitted.reader_.read(frame.X)
    median = fitted.compose(fitted.jobs_of(members), members.own, members.others, variance=False)[0]
    assert set(frame.X["k"]) == {2, 3}
    assert fitted.shares_
    assert np.abs(found.total() - predicted).max() < 1e-9
    assert found.values[UNSURE].to_numpy() == pytest.approx(predicted - median, abs=1e-6)
    assert found.values.columns.is_unique
    assert "closed form" in found.method
    assert 0 < found.error < 0.1


def test_a_job_that_taught_the_shares_nothing_still_adds_up() -> None:
    """One job was only ever a co-runner: sets with it are weighted otherwise, and whose doing that is gets its part."""
    with Database(None) as database:
        make(database)
        frame = features.build(database, "syn")
    silent = WORKLOADS[0][0]
    rows = np.flatnonzero(frame.X["workload"].to_numpy() != silent)
    taught = frame.take(rows)
    fitted = StructuredGP(max_iter=10).fit(taught.X, taught.y)
    assert fitted.one_sided_ == [silent]
    found = contributions(fitted, frame.X, taught.X)
    members = fitted.reader_.read(frame.X)
    median = fitted.compose(fitted.jobs_of(members), members.own, members.others, variance=False)[0]
    assert found.values[UNSURE].to_numpy() == pytest.approx(fitted.predict(frame.X) - median, abs=1e-6)


def test_rows_may_have_weights_of_their_own(shared_syn: Database) -> None:
    """Trees have a say where a model is new: those rows are explained by both, the others by the processes alone."""
    frame = features.build(shared_syn, "syn")
    known = frame.take(np.flatnonzero(["delta" not in names for names in frame.rows["families"]]))
    fitted = StallScope(max_iter=5).fit(known.X, known.y)
    fitted.parts_ = [fitted.parts_[0], ("trees", ExtraTrees(n_estimators=10).fit(known.X, known.y))]
    fitted.weights_ = np.array([0.6, 0.4])
    found = contributions(fitted, frame.X, known.X)
    shares = fitted.shares(frame.X)
    assert set(np.unique(shares[:, 1])) == {0.0, 0.4}
    assert np.abs(found.total() - fitted.predict(frame.X)).max() < 1e-9
    rows = np.flatnonzero(shares[:, 1] == 0)
    alone = contributions(fitted.process_, frame.X.iloc[rows], known.X)
    assert np.abs(found.base[rows] - alone.base).max() < 1e-12


def test_an_average_with_trees_adds_up(shared_syn: Database) -> None:
    frame = features.build(shared_syn, "syn")
    both = Average([("processes", StructuredGP(max_iter=5)), ("trees", ExtraTrees(n_estimators=10))], [2.0, 1.0])
    fitted = both.fit(frame.X, frame.y)
    X: pd.DataFrame = frame.X.iloc[:20]
    found = contributions(fitted, X, frame.X)
    assert np.abs(found.total() - fitted.predict(X)).max() < 1e-9
    assert "closed form" in found.method
    assert "TreeSHAP" in found.method
