"""The structured predictor: its process against brute force, its composition by hand, its explanation."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import approx_fprime
from sklearn.base import clone

from analysis.predict.evaluate import protocols
from analysis.predict.explain.shapley import contributions
from analysis.predict.frame import features
from analysis.predict.frame.frame import TrainingFrame
from analysis.predict.predictors import pairgp, structured
from analysis.predict.predictors.pairgp import Jobs, PairGP
from analysis.predict.predictors.pairprofiles import ProfileReader
from analysis.predict.predictors.profilescale import PRODUCTS, ProfileScale
from analysis.predict.predictors.structured import StructuredGP, _matched
from analysis.store.database import Database
from tests.predict.conftest import make

MODES = ["direct", "symmetric", "antisymmetric"]


def _jobs(seed: int = 0, count: int = 6) -> Jobs:
    generator = np.random.default_rng(seed)
    model = np.array([f"m{number % 3}" for number in range(count)], dtype=object)
    return Jobs(generator.normal(size=(count, 3)), model, np.array([f"w{n}" for n in range(count)], dtype=object))


def _rows(count: int = 6) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    generator = np.random.default_rng(1)
    i, j = (grid.ravel() for grid in np.meshgrid(np.arange(count), np.arange(count)))
    off = i != j
    return i[off], j[off], generator.normal(size=int(off.sum()))


@pytest.mark.parametrize("mode", MODES)
def test_gradient_of_the_marginal_likelihood(mode: str) -> None:
    jobs, (i, j, y) = _jobs(), _rows()
    gp = PairGP(mode)
    gp.const_ = 0.1
    groups = len(gp.groups)
    theta = np.random.default_rng(2).normal(-1.0, 0.3, groups * 7 + 1)
    prior = np.zeros_like(theta)
    doubt = np.random.default_rng(3).uniform(0.8, 4.0, len(y))
    exact = pairgp.loss(theta, gp, i, j, y, jobs, prior, doubt)[1]
    numeric = approx_fprime(theta, lambda t: pairgp.loss(t, gp, i, j, y, jobs, prior, doubt)[0], 1e-6)
    assert exact == pytest.approx(numeric, rel=1e-3, abs=1e-3)


@pytest.mark.parametrize("mode", MODES)
def test_mean_and_variance_are_those_of_the_full_covariance(mode: str) -> None:
    jobs, (i, j, y) = _jobs(), _rows()
    gp = PairGP(mode, max_iter=5).fit(i, j, y, jobs)
    new = _jobs(seed=5, count=4)
    a, b = np.array([0, 1, 2, 3]), np.array([1, 0, 3, 2])
    both = Jobs(
        np.concatenate([jobs.x, new.x]), np.concatenate([jobs.model, new.model]), np.concatenate([jobs.name, new.name])
    )
    kernels = gp.kernels(gp.theta_, both, both)[0]
    at_i, at_j = np.array([6, 7, 8, 9]), np.array([7, 6, 9, 8])
    across = gp.gram(kernels, at_i, at_j, i, j)
    own = gp.gram(kernels, at_i, at_j, at_i, at_j)
    gram = gp.gram(kernels, i, j, i, j) + gp.noise_ * np.diag(gp.multiple_)
    mean = gp.mean_ + across @ np.linalg.solve(gram, y - gp.mean_)
    variance = np.diag(own - across @ np.linalg.solve(gram, across.T)) + gp.noise_
    assert gp.predict(new, a, b) == pytest.approx(mean, abs=1e-8)
    assert gp.variance(new, a, b) == pytest.approx(variance, abs=1e-8)


@pytest.mark.parametrize("mode", MODES)
def test_leaving_groups_out_in_closed_form_is_fitting_without_them(mode: str) -> None:
    jobs, (i, j, y) = _jobs(), _rows()
    gp = PairGP(mode, max_iter=5).fit(i, j, y, jobs)
    held = [np.flatnonzero((i == 0) | (j == 0)), np.array([3])]
    for rows, (mean, variance) in zip(held, gp.left_out(held), strict=True):
        rest = np.setdiff1d(np.arange(len(y)), rows)
        again = PairGP(mode, max_iter=0)
        again.fit(i[rest], j[rest], y[rest], jobs)
        # the same hyper-parameters, constant and mean; only the rows differ
        again.theta_, again.noise_, again.const_, again.mean_ = gp.theta_, gp.noise_, gp.const_, gp.mean_
        kernels = gp.kernels(gp.theta_, jobs, jobs)[0]
        noise = gp.noise_ * np.diag(gp.multiple_[rest])
        gram = gp.gram(kernels, i[rest], j[rest], i[rest], j[rest]) + noise
        across = gp.gram(kernels, i[rows], j[rows], i[rest], j[rest])
        own = gp.gram(kernels, i[rows], j[rows], i[rows], j[rows])
        expected = gp.mean_ + across @ np.linalg.solve(gram, y[rest] - gp.mean_)
        spread = np.diag(own - across @ np.linalg.solve(gram, across.T)) + gp.noise_
        assert mean == pytest.approx(expected, abs=1e-7)
        assert variance == pytest.approx(spread, abs=1e-7)


def test_symmetric_and_antisymmetric_keep_their_sign() -> None:
    jobs, (i, j, y) = _jobs(), _rows()
    new = _jobs(seed=7)
    a, b = np.arange(6), np.arange(6)[::-1]
    even, odd = (
        PairGP("symmetric", max_iter=3).fit(i, j, y, jobs),
        PairGP("antisymmetric", max_iter=3).fit(i, j, y, jobs),
    )
    assert even.predict(new, a, b) == pytest.approx(even.predict(new, b, a))
    assert odd.predict(new, a, b) == pytest.approx(-odd.predict(new, b, a))
    assert odd.predict(new, a, a) == pytest.approx(np.zeros(6), abs=1e-12)


def test_two_sides_of_a_run_are_matched() -> None:
    first, second = _matched(np.array([0, 1, 0, 1, 2, 2, 3]), np.array([1, 0, 1, 0, 2, 2, 0]))
    assert list(zip(first, second, strict=True)) == [(0, 1), (2, 3), (4, 5)]


@pytest.fixture(scope="module")
def frame(shared_syn: Database) -> TrainingFrame:
    return features.build(shared_syn, "syn")


@pytest.fixture(scope="module")
def fitted(frame: TrainingFrame) -> StructuredGP:
    return StructuredGP().fit(frame.X, frame.y)


def test_profiles_are_read_back_from_a_frame(frame: TrainingFrame) -> None:
    pairs = protocols.prepare(frame, "unseen-pair")
    reader = ProfileReader(["sm_util", "kernel_length", "training"]).remember(pairs.X)
    triple = frame.take(np.flatnonzero((frame.rows["k"] == 3) & (frame.rows["pair"].str.count("alpha-b8") == 1)))
    members = reader.read(triple.X)
    for row in range(len(triple)):
        names = [members.workload[job] for job in members.others[row] if job >= 0]
        assert names == list(triple.X["others"].iloc[row])
    busy = {str(name): values[0] for name, values in zip(members.workload, members.values, strict=True)}
    assert busy["alpha-b8"] == pytest.approx(0.55)
    # a co-runner that is nowhere a target of its own is known from the sums of the pairs
    lost = pairs.take(np.flatnonzero(pairs.rows["workload"] != "delta-b16"))
    again = ProfileReader(["sm_util", "kernel_length", "training"]).remember(lost.X).read(lost.X)
    found = {str(name): values for name, values in zip(again.workload, again.values, strict=True)}
    assert found["delta-b16"][:3] == pytest.approx([0.9, np.log1p(250.0), 1.0])


def test_scale_drops_what_is_constant_and_puts_the_unknown_at_the_mean() -> None:
    columns = ProfileReader(["sm_util", "kernel_length", "kernel_threads", "step_length"]).columns
    values = np.full((4, len(columns)), np.nan)
    values[:, 0] = [0.1, 0.2, 0.3, np.nan]
    values[:, 1] = np.log1p([10.0, 100.0, 1000.0, 100.0])
    scale = ProfileScale(columns).fit(values)
    assert scale.kept_names == ["sm_util", "kernel_length", "queue"]
    scaled = scale.apply(values)
    assert scaled[:, 1] == pytest.approx(np.array([-1.0, 0.0, 1.0, 0.0]) * np.sqrt(1.5))
    assert scaled[3, 0] == 0.0
    assert {name for name, _, _ in PRODUCTS} == {"work", "busy_step", "queue"}


def test_it_learns_the_law_and_knows_how_sure_it_is(frame: TrainingFrame) -> None:
    pairs = protocols.prepare(frame, "unseen-pair")
    errors, worse = [], []
    for fold in protocols.folds(pairs, "unseen-pair", seeds=(0,)):
        train = pairs.take(fold.train)
        model = StructuredGP().fit(train.X, train.y)
        predicted, deviation = model.predict(pairs.X.iloc[fold.test]), model.predict_std(pairs.X.iloc[fold.test])
        errors.append(np.abs(np.expm1(predicted - pairs.y[fold.test])))
        worse.append(deviation)
    assert np.concatenate(errors).mean() < 0.03
    assert (np.concatenate(worse) > 0).all()
    median = np.exp(np.median(pairs.y))
    assert np.concatenate(errors).mean() < 0.2 * np.abs(median / np.exp(pairs.y) - 1).mean()


def test_unknown_jobs_are_less_certain(frame: TrainingFrame) -> None:
    pairs = protocols.prepare(frame, "leave-one-family-out")
    fold = protocols.folds(pairs, "leave-one-family-out")[0]
    train = pairs.take(fold.train)
    model = StructuredGP().fit(train.X, train.y)
    assert model.predict_std(pairs.X.iloc[fold.test]).mean() > 1.5 * model.predict_std(train.X).mean()


def test_order_of_rows_and_co_runners_changes_nothing(frame: TrainingFrame, fitted: StructuredGP) -> None:
    predicted = fitted.predict(frame.X)
    order = np.random.default_rng(0).permutation(len(frame))
    assert fitted.predict(frame.X.iloc[order]) == pytest.approx(predicted[order], abs=1e-10)
    swapped = frame.X.copy()
    swapped["others"] = [tuple(reversed(others)) for others in swapped["others"]]
    swapped["models"] = [tuple(reversed(models)) for models in swapped["models"]]
    assert fitted.predict(swapped) == pytest.approx(predicted, abs=1e-10)


def test_pairs_teach_larger_sets_by_hand(frame: TrainingFrame) -> None:
    """Composition of one triple, worked out from the two views of its pairs."""
    pairs = protocols.prepare(frame, "unseen-pair")
    model = StructuredGP(shift=0.0).fit(pairs.X, pairs.y)
    row = np.flatnonzero((frame.rows["k"] == 3) & (frame.rows["pair"].str.count("alpha-b8") == 1))[:1]
    triple = frame.X.iloc[row]
    members = model.reader_.read(triple)
    jobs = model.jobs_of(members)
    own, beside = members.own[[0, 0]], members.others[0]
    direct = model.direct_.predict(jobs, own, beside)
    level = model.symmetric_.predict(jobs, own, beside)
    odds = model.antisymmetric_.predict(jobs, own, beside)
    view_one = 0.5 * (direct.sum() + np.log(1 + np.expm1(direct).sum()))
    view_two = np.log1p(np.exp(odds).sum()) - level.mean()
    expected = (1 - model.weight_) * view_one + model.weight_ * view_two
    assert model.predict(triple)[0] == pytest.approx(max(expected, np.log(0.8)))


def test_a_job_without_slowdowns_of_its_own_leaves_the_view_of_shares_out(frame: TrainingFrame) -> None:
    pairs = protocols.prepare(frame, "unseen-pair")
    mute = pairs.rows["workload"].iloc[0]
    rest = pairs.take(np.flatnonzero(pairs.rows["workload"] != mute))
    model = StructuredGP(shift=0.0).fit(rest.X, rest.y)
    assert model.one_sided_ == [mute]
    assert model.weight_ > 0
    beside = rest.X[rest.X["others"].map(lambda others: others == (mute,))]
    members = model.reader_.read(beside)
    jobs = model.jobs_of(members)
    direct = model.direct_.predict(jobs, members.own, members.others[:, 0])
    assert model.predict(beside) == pytest.approx(np.maximum(direct, np.log(0.8)))
    assert StructuredGP().fit(pairs.X, pairs.y).one_sided_ == []


def test_sets_of_three_alone_teach_something(frame: TrainingFrame) -> None:
    triples = frame.take(np.flatnonzero(frame.rows["k"] == 3))
    model = StructuredGP().fit(triples.X, triples.y)
    error = np.abs(np.expm1(model.predict(triples.X) - triples.y)).mean()
    assert error < 0.8 * np.abs(np.exp(np.median(triples.y) - triples.y) - 1).mean()


def test_left_out_rows_are_those_of_the_training_frame(frame: TrainingFrame, fitted: StructuredGP) -> None:
    held = [
        np.flatnonzero(frame.rows["families"].map(lambda found, name=name: name in found)) for name in ("alpha", "beta")
    ]
    rows, predicted, deviation = fitted.left_out(held)
    pairs = [group[frame.rows["k"].to_numpy()[group] == 2] for group in held]
    assert list(rows) == list(np.concatenate(pairs))
    assert np.isfinite(predicted).all()
    assert (deviation > 0).all()
    inside = fitted.predict(frame.X.iloc[rows])
    truth = frame.y[rows]
    assert np.abs(predicted - truth).mean() > np.abs(inside - truth).mean()


def test_no_features_at_all_still_predict(tmp_path) -> None:
    with Database(tmp_path / "bare.duckdb") as database:
        make(database, features=())
        with database.write() as cursor:
            cursor.execute("DELETE FROM solo")
            cursor.execute("UPDATE workload SET batch_size = NULL, phase = NULL")
        bare = features.build(database, "syn")
    model = StructuredGP().fit(bare.X, bare.y)
    assert np.abs(np.expm1(model.predict(bare.X) - bare.y)).mean() < 0.1


def test_blocks_of_pairs_change_nothing(
    frame: TrainingFrame, fitted: StructuredGP, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, spread = fitted.predict(frame.X), fitted.predict_std(frame.X)
    monkeypatch.setattr(structured, "BLOCK", 7)
    assert fitted.predict(frame.X) == pytest.approx(whole, abs=1e-12)
    assert fitted.predict_std(frame.X) == pytest.approx(spread, abs=1e-12)


def test_clones_and_seeds_agree(frame: TrainingFrame, fitted: StructuredGP) -> None:
    again = clone(fitted).fit(frame.X, frame.y)
    assert again.predict(frame.X) == pytest.approx(fitted.predict(frame.X), abs=1e-12)


def test_contributions_sum_to_the_prediction_for_pairs_and_triples(frame: TrainingFrame, fitted: StructuredGP) -> None:
    rows = frame.X.iloc[[0, 30, len(frame) - 1]]
    found = contributions(fitted, rows, frame.X)
    assert found.total() == pytest.approx(fitted.predict(rows), abs=1e-9)
    assert "standard error" in found.method
    assert not found.values.isna().any().any()


def test_the_order_of_the_background_changes_nothing(frame: TrainingFrame, fitted: StructuredGP) -> None:
    first = contributions(fitted, frame.X.iloc[[5]], frame.X)
    second = contributions(fitted, frame.X.iloc[[5]], frame.X.sample(frac=1.0, random_state=3))
    pd.testing.assert_frame_equal(first.values, second.values)
