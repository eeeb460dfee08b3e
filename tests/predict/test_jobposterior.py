"""Learning by job: the same answers as with the covariance of all rows, where both can run."""

from __future__ import annotations

import numpy as np
import pytest
import skops.io

from analysis.predict.evaluate import protocols
from analysis.predict.evaluate.folding import calibrate_by_groups, inner_groups
from analysis.predict.frame import features
from analysis.predict.frame.frame import TrainingFrame
from analysis.predict.models import modelfile
from analysis.predict.predictors import ensemble, jobposterior, pairgp, registry
from analysis.predict.predictors.ensemble import StallScope
from analysis.predict.predictors.pairgp import Jobs, PairGP
from analysis.store.database import Database

MODES = ["direct", "symmetric", "antisymmetric"]


def _data(count: int = 9) -> tuple[Jobs, np.ndarray, np.ndarray, np.ndarray]:
    """All pairs in both orders, some twice, of jobs of three models."""
    lot = np.random.default_rng(0)
    x = lot.normal(size=(count, 3))
    jobs = Jobs(
        x,
        np.array([f"m{number % 3}" for number in range(count)], dtype=object),
        np.array([f"w{number}" for number in range(count)], dtype=object),
    )
    i, j = (grid.ravel() for grid in np.meshgrid(np.arange(count), np.arange(count)))
    keep = np.flatnonzero(i != j)
    rows = np.concatenate([keep, keep[:7]])
    y = 0.4 * np.tanh(x[i, 0]) + 0.3 * x[j, 1] + 0.2 * np.maximum(x[i, 2] + x[j, 2], 0.0)
    return jobs, i[rows], j[rows], y[rows] + lot.normal(scale=0.03, size=len(rows))


def _exact(mode: str) -> PairGP:
    jobs, i, j, y = _data()
    if mode != "direct":
        keep = i < j
        i, j, y = i[keep], j[keep], y[keep]
        i[3], j[3] = j[3], i[3]  # a pair may stand in either order
        y[3] *= -1.0 if mode == "antisymmetric" else 1.0
    return PairGP(mode, max_iter=8).fit(i, j, y, jobs)  # type: ignore[arg-type]


def _by_job(exact: PairGP) -> PairGP:
    """Let a process with the same hyper-parameters and doubts learn by job."""
    rows = np.arange(len(exact.y_))
    found = exact.among(rows)
    found._keep(found._posterior_of(rows, exact.y_ - exact.mean_))
    return found


@pytest.mark.parametrize("mode", MODES)
def test_with_all_products_it_is_the_exact_process(mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobposterior, "TOLERANCE", 1e-9)
    exact = _exact(mode)
    by_job, jobs, i, j = _by_job(exact), exact.jobs_, exact.i_, exact.j_
    a, b = np.divmod(np.arange(len(jobs.x) ** 2), len(jobs.x))
    new = np.random.default_rng(3).normal(size=(4, 3))
    strange = Jobs(new, np.array(["m0", "m1", "x", "y"], dtype=object), np.array(list("pqrs"), dtype=object))
    c, d = np.divmod(np.arange(16), 4)
    for some, first, second in ((jobs, a, b), (strange, c, d)):
        assert by_job.predict(some, first, second) == pytest.approx(exact.predict(some, first, second), abs=1e-6)
        seen = by_job.variance(some, first, second)
        assert seen == pytest.approx(exact.variance(some, first, second), rel=1e-3)
    assert by_job.covariance(strange, c, d) == pytest.approx(exact.covariance(strange, c, d), abs=1e-5)
    held = [np.array([3]), np.array([1, 5]), np.flatnonzero((i == 2) | (j == 2))]
    for ours, theirs in zip(by_job.left_out(held), exact.left_out(held), strict=True):
        assert ours[0] == pytest.approx(theirs[0], abs=1e-5)
        assert ours[1] == pytest.approx(theirs[1], rel=1e-3)


def test_what_the_products_leave_out_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobposterior, "TOLERANCE", 1e-9)
    monkeypatch.setattr(jobposterior, "PRODUCTS", 40)
    exact = _exact("direct")
    narrow, jobs = _by_job(exact), exact.jobs_
    assert 0.0 <= narrow.unresolved_ <= 1.0
    a, b = np.divmod(np.arange(len(jobs.x) ** 2), len(jobs.x))
    assert narrow.predict(jobs, a, b) == pytest.approx(exact.predict(jobs, a, b), abs=1e-6)
    alone = [np.array([row]) for row in range(len(exact.y_))]
    ours, theirs = ([float(one[1][0]) for one in gp.left_out(alone)] for gp in (narrow, exact))
    assert np.mean(np.log(ours)) == pytest.approx(np.mean(np.log(theirs)), abs=0.1)


@pytest.fixture(scope="module")
def pairs(shared_syn: Database) -> TrainingFrame:
    return protocols.prepare(features.build(shared_syn, "syn"), "unseen-pair")


@pytest.fixture
def by_job(monkeypatch: pytest.MonkeyPatch) -> None:
    """Learn by job however few rows there are, and leave few groups out."""
    monkeypatch.setattr(pairgp, "EXACT_ROWS", 20)
    monkeypatch.setattr("analysis.predict.evaluate.folding.SAMPLED_ROWS", 20)
    monkeypatch.setattr("analysis.predict.evaluate.folding.REFIT_ROWS", 20)


def test_figures_agree_where_both_run(pairs: TrainingFrame, request: pytest.FixtureRequest) -> None:
    (fold, *_) = protocols.folds(pairs, "unseen-pair", seeds=(0,))
    train, test = pairs.take(fold.train), pairs.take(fold.test)

    def figures() -> tuple[float, float]:
        model = StallScope().fit(train.X, train.y)
        assert model.process_.direct_.by_job_ == (len(train) > pairgp.EXACT_ROWS)
        said, calibration = model.predict(test.X), calibrate_by_groups(model, train, "unseen-pair")
        assert calibration is not None
        low, high = calibration.interval(said, model.predict_std(test.X))
        return 100 * float(np.abs(np.expm1(said - test.y)).mean()), float((high - low).mean())

    mape, width = figures()
    request.getfixturevalue("by_job")
    by_job, wide = figures()
    assert by_job == pytest.approx(mape, abs=0.1)
    assert wide == pytest.approx(width, rel=0.25)


@pytest.mark.usefixtures("by_job")
def test_it_is_stored_and_left_out_from(pairs: TrainingFrame, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ensemble, "MOST_WORKLOADS", 7)
    model = StallScope(max_iter=5).fit(pairs.X, pairs.y)
    assert model.process_.direct_.by_job_
    back = skops.io.loads(modelfile.to_bytes(model), trusted=sorted(registry.storable()))
    assert back.predict(pairs.X) == pytest.approx(model.predict(pairs.X))
    assert back.predict_std(pairs.X) == pytest.approx(model.predict_std(pairs.X))
    kept = ensemble.familiar(pairs.X)
    assert kept is not None
    few = pairs.take(kept)
    assert len(few.workloads) == 7
    for protocol, unit in (("unseen-pair", "pairs"), ("leave-one-workload-out", "workloads"),
                           ("leave-one-family-out", "families")):  # fmt: skip
        held, count, said = inner_groups(few, protocol)
        assert said == unit
        assert count >= 1
        rows, predicted, deviation = model.among(kept).left_out(held, few.X, few.y)
        assert sorted(rows) == sorted(np.concatenate(held))
        truth = few.y[rows]
        assert np.abs(predicted - truth).mean() < 2 * np.abs(truth - np.median(few.y)).mean()
        assert (deviation > 0).all()
        found = calibrate_by_groups(model, pairs, protocol)
        assert found is not None
        assert found.unit == unit


def test_large_frames_are_drawn(shared_syn: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(features, "MOST_MEMBERS", 50)
    frame = features.build(shared_syn, "syn")
    assert 45 <= len(frame) <= 50
    assert frame.left_out[features.NOT_DRAWN] == 180 - len(frame)
    assert frame.rows.groupby("run_id").size().equals(frame.rows.groupby("run_id")["k"].first())
