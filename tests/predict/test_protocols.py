"""Folds are made of groups: nothing that is tested was trained on, under any protocol but the leaky one."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analysis.errors import NotEnoughDataError, UsageError
from analysis.predict.evaluate import folding, protocols
from analysis.predict.frame import features
from analysis.predict.frame.frame import TrainingFrame
from analysis.store.database import Database
from tests.predict.conftest import make


@pytest.fixture(scope="module")
def frame(shared_syn: Database) -> TrainingFrame:
    return features.build(shared_syn, "syn")


def _jobs(frame: TrainingFrame, rows: np.ndarray) -> list[set[str]]:
    chosen = frame.rows.iloc[rows]
    return [{own, *others} for own, others in zip(chosen["workload"], chosen["others"], strict=True)]


def test_unseen_pair_holds_out_both_directions_and_all_repeats(frame: TrainingFrame) -> None:
    pairs = protocols.prepare(frame, "unseen-pair")
    assert set(pairs.rows["k"]) == {2}
    folds = protocols.folds(pairs, "unseen-pair")
    assert len(folds) == 15
    for fold in folds:
        assert not set(pairs.rows["pair"].iloc[fold.train]) & set(pairs.rows["pair"].iloc[fold.test])
        assert len(fold.train) + len(fold.test) == len(pairs)
    for seed in protocols.SEEDS:
        tested = np.concatenate([fold.test for fold in folds if fold.seed == seed])
        assert sorted(tested) == list(range(len(pairs)))
    assert any(
        not np.array_equal(one.test, two.test) for one, two in zip(folds[:5], folds[5:10], strict=True)
    )  # seeds differ


def test_repeats_of_a_pair_stay_together(database: Database) -> None:
    make(database)
    make(database, reverse=True)
    pairs = features.build(database, "syn")
    for fold in protocols.folds(pairs, "unseen-pair"):
        assert not set(pairs.rows["pair"].iloc[fold.train]) & set(pairs.rows["pair"].iloc[fold.test])
        assert len(fold.test) % 4 == 0  # two directions of two repeats


def test_random_rows_leak_and_are_marked(frame: TrainingFrame) -> None:
    pairs = protocols.prepare(frame, "random-rows")
    leaks = [
        set(pairs.rows["pair"].iloc[fold.train]) & set(pairs.rows["pair"].iloc[fold.test])
        for fold in protocols.folds(pairs, "random-rows")
    ]
    assert any(leaks)
    assert "random-rows" in protocols.LEAKY
    assert "leaky" in protocols.PROTOCOLS["random-rows"]


def test_a_workload_left_out_occurs_in_no_training_run(frame: TrainingFrame) -> None:
    pairs = protocols.prepare(frame, "leave-one-workload-out")
    folds = protocols.folds(pairs, "leave-one-workload-out")
    assert [fold.label for fold in folds] == pairs.workloads
    for fold in folds:
        assert all(fold.label not in jobs for jobs in _jobs(pairs, fold.train))
        assert all(fold.label in jobs for jobs in _jobs(pairs, fold.test))
        assert len(fold.test) == 18  # 8 pairs with another and one with itself, two members each
        assert len(fold.train) + len(fold.test) == len(pairs)


def test_a_family_left_out_occurs_in_no_training_run(frame: TrainingFrame) -> None:
    pairs = protocols.prepare(frame, "leave-one-family-out")
    folds = protocols.folds(pairs, "leave-one-family-out")
    assert [fold.label for fold in folds] == ["alpha", "beta", "delta", "gamma"]
    for fold in folds:
        assert all(fold.label not in found for found in pairs.rows["families"].iloc[fold.train])
        assert all(fold.label in found for found in pairs.rows["families"].iloc[fold.test])


def test_pairs_to_k_trains_on_pairs_and_tests_sets_whose_pairs_are_measured(database: Database) -> None:
    make(database, triples=30)
    with database.write() as cursor:
        lost = "SELECT run_id FROM member GROUP BY run_id HAVING count(*) = 2 AND min(workload_id) = max(workload_id)"
        cursor.execute(f"UPDATE run SET outcome = 'did_not_run' WHERE run_id IN ({lost})")
    both = protocols.prepare(features.build(database, "syn"), "pairs-to-k")
    (fold,) = protocols.folds(both, "pairs-to-k")
    assert set(both.rows["k"].iloc[fold.train]) == {2}
    tested = both.rows.iloc[fold.test]
    assert set(tested["k"]) == {3}
    assert all(own not in others for own, others in zip(tested["workload"], tested["others"], strict=True))
    assert 0 < len(tested) < int((both.rows["k"] == 3).sum())


def test_unseen_gpu_never_trains_on_the_gpu_it_tests(database: Database) -> None:
    for gpu in ("K80", "P100", "V100"):
        make(database, gpu=gpu, names=["alpha-b2", "beta-b2", "gamma-b2"])
    frame = features.build(database, "syn")
    assert [fold.label for fold in protocols.folds(frame, "unseen-gpu")] == [
        "P100, V100 to K80", "K80, V100 to P100", "K80, P100 to V100",
    ]  # fmt: skip
    (fold,) = protocols.folds(frame, "unseen-gpu", gpu="V100", train_gpus=["P100"])
    assert set(frame.rows["gpu"].iloc[fold.train]) == {"P100"}
    assert set(frame.rows["gpu"].iloc[fold.test]) == {"V100"}


def test_few_shot_needs_families_with_enough_runs(frame: TrainingFrame) -> None:
    # alpha occurs in 24 of the 45 pairs, the others in fewer
    with pytest.raises(NotEnoughDataError, match="no family has 30 runs"):
        protocols.folds(protocols.prepare(frame, "few-shot"), "few-shot", runs=2)


def test_few_shot_by_hand(database: Database) -> None:
    for reverse in (False, True):
        make(database, reverse=reverse)
    pairs = protocols.prepare(features.build(database, "syn"), "few-shot")
    folds = protocols.folds(pairs, "few-shot", runs=5)
    assert {fold.label.split(",")[0] for fold in folds} == {"alpha", "beta", "delta", "gamma"}
    assert len(folds) == 4 * 3
    for fold in folds:
        family = fold.label.split(",")[0]
        inside = [family in found for found in pairs.rows["families"].iloc[fold.train]]
        assert pairs.rows["run_id"].iloc[fold.train][inside].nunique() == 5
        assert all(family in found for found in pairs.rows["families"].iloc[fold.test])
        assert not set(pairs.rows["run_id"].iloc[fold.train]) & set(pairs.rows["run_id"].iloc[fold.test])


@pytest.mark.parametrize(
    ("protocol", "match"),
    [("unseen-gpu", "GPU V100-32GB only"), ("nonsense", "no protocol 'nonsense'")],
)
def test_what_can_not_be_divided_is_said(frame: TrainingFrame, protocol: str, match: str) -> None:
    with pytest.raises((NotEnoughDataError, UsageError), match=match):
        protocols.folds(frame, protocol)


@pytest.mark.parametrize("protocol", [name for name in protocols.PROTOCOLS if name not in ("unseen-gpu", "few-shot")])
def test_calibration_divides_training_rows_only(frame: TrainingFrame, protocol: str) -> None:
    chosen = protocols.prepare(frame, protocol)
    outer = protocols.folds(chosen, protocol)[0]
    train = chosen.take(outer.train)
    inner, groups, unit = folding.inner_folds(train, protocol)
    assert len(inner) >= 2
    assert groups >= 2
    assert unit in ("pairs", "workloads", "families", "rows")
    for fold in inner:
        assert not set(fold.train) & set(fold.test)
        assert max(fold.train.max(), fold.test.max()) < len(train)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(0, 12), min_size=4, max_size=60), st.integers(0, 5), st.integers(2, 6))
def test_any_grouping_is_a_partition(groups: list[int], seed: int, count: int) -> None:
    folds = list(protocols.grouped(pd.Series(groups), [seed], count))
    if len(set(groups)) < 2:
        assert folds == []
        return
    values = np.array(groups)
    assert sorted(np.concatenate([fold.test for fold in folds])) == list(range(len(groups)))
    for fold in folds:
        assert not set(values[fold.train]) & set(values[fold.test])
    sizes = [len(set(values[fold.test])) for fold in folds]
    assert max(sizes) - min(sizes) <= 1
