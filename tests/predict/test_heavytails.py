"""Odd measurements count less, and do not bend what is said of the others."""

from __future__ import annotations

import numpy as np
import pytest

from analysis.predict.predictors import pairgp
from analysis.predict.predictors.pairgp import Jobs, PairGP


def _grid(count: int = 9) -> tuple[Jobs, np.ndarray, np.ndarray, np.ndarray]:
    generator = np.random.default_rng(0)
    jobs = Jobs(
        generator.normal(size=(count, 2)),
        np.array([f"m{number}" for number in range(count)], dtype=object),
        np.array([f"w{number}" for number in range(count)], dtype=object),
    )
    i, j = (grid.ravel() for grid in np.meshgrid(np.arange(count), np.arange(count)))
    truth = 0.4 * np.tanh(jobs.x[i, 0]) + 0.3 * np.tanh(jobs.x[j, 1])
    return jobs, i, j, truth + generator.normal(scale=0.01, size=len(truth))


def test_multiples_by_hand() -> None:
    # f = 4, v = 0.04 + 0.01 in both rows: exact row 4/5, three deviations off (4 + 9)/5
    spread = np.array([0.05, 0.05])
    found = pairgp.noise_multiples(np.array([0.0, 3 * np.sqrt(0.05)]), spread, 0.01, np.ones(2))
    assert found == pytest.approx([0.8, 2.6])


def test_a_doubt_of_before_is_taken_out_of_the_spread() -> None:
    first = pairgp.noise_multiples(np.array([0.3]), np.array([0.05]), 0.01, np.ones(1))
    second = pairgp.noise_multiples(np.array([0.3]), np.array([0.05 + 0.01 * 6]), 0.01, np.array([7.0]))
    assert second == pytest.approx(first)


def test_rows_that_are_left_out_alone() -> None:
    generator = np.random.default_rng(1)
    half = generator.normal(size=(7, 7))
    covariance, y = half @ half.T + np.eye(7), generator.normal(size=7)
    residual, variance = pairgp.left_out_singly(np.linalg.inv(covariance), y)
    for row in range(7):
        rest = np.delete(np.arange(7), row)
        weights = np.linalg.solve(covariance[np.ix_(rest, rest)], covariance[rest, row])
        assert residual[row] == pytest.approx(y[row] - weights @ y[rest])
        assert variance[row] == pytest.approx(covariance[row, row] - weights @ covariance[rest, row])


def test_odd_runs_are_found_and_do_not_bend_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    jobs, i, j, y = _grid()
    odd = np.array([5, 23, 40, 61, 77])
    spoiled = y.copy()
    spoiled[odd] += 0.8
    whole = np.setdiff1d(np.arange(len(y)), odd)

    def off() -> tuple[np.ndarray, PairGP]:
        gp = PairGP("direct").fit(i, j, spoiled, jobs)
        left_out = gp.left_out([np.array([row]) for row in range(len(y))])
        return np.array([mean[0] for mean, _ in left_out])[whole] - y[whole], gp

    robust, gp = off()
    assert set(np.argsort(gp.multiple_)[-len(odd) :]) == set(odd)
    assert gp.multiple_[odd].min() > 4 * np.median(gp.multiple_)
    monkeypatch.setattr(pairgp, "DOUBTS", 0)
    plain, believing = off()
    assert (believing.multiple_ == 1.0).all()
    assert np.abs(robust).mean() < 0.6 * np.abs(plain).mean()


def test_a_left_out_row_is_promised_the_common_noise_whatever_is_thought_of_it() -> None:
    jobs, i, j, y = _grid()
    spoiled = y.copy()
    spoiled[5] += 0.8
    gp = PairGP("direct").fit(i, j, spoiled, jobs)
    (_, of_odd), (_, of_other) = gp.left_out([np.array([5]), np.array([6])])
    assert gp.multiple_[5] > 4
    assert of_odd[0] < 3 * of_other[0]
    assert of_odd[0] >= gp.noise_
