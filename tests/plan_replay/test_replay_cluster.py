"""The replay conserves work, obeys Little's law, and changes speeds when company changes."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analysis.errors import NotEnoughDataError, NotFoundError, UsageError
from analysis.plan.replay import policies
from analysis.plan.replay.arrivals import Job, drawn_jobs
from analysis.plan.replay.cluster import Cluster, Replay
from analysis.plan.replay.pairtable import PairTable


def replayed(truth: PairTable, jobs: list[Job], policy: str = "oracle", count: int = 2, **options: object) -> Replay:
    names = {key: options.pop(key) for key in ("slots", "round_s") if key in options}
    made = policies.make(policy, truth, limit=math.inf, least_stp=1.0)
    return Cluster(dict.fromkeys(truth.gpus, count), truth, **names).run(jobs, made, **options)  # type: ignore[arg-type]


def by_number(found: Replay, column: str) -> list[float]:
    return found.jobs.sort_values("number")[column].tolist()


def test_a_lone_job_takes_its_length_over_the_speed_of_the_gpu(table) -> None:
    truth = table(speeds=(1.0, 0.5))
    found = Cluster({"G1": 1}, truth).run([Job(0, "a", 10.0, 100.0)], policies.make("fifo-best", truth))
    assert by_number(found, "finish_s") == [pytest.approx(210.0)]
    assert found.gpu_s == pytest.approx(200.0)


def test_speed_changes_when_company_comes_and_goes(table) -> None:
    """Alone to 10, beside the other at half speed until one is done, then alone again."""
    truth = table(slowdown=np.full((3, 3), 1.6))
    jobs = [Job(0, "a", 0.0, 100.0), Job(1, "b", 10.0, 50.0)]
    found = replayed(truth, jobs, count=1)
    # Both run at 1/1.6 from 10 on; b needs 80 s and a has 90 - 50 = 40 left when b is gone at 90.
    assert by_number(found, "finish_s") == pytest.approx([130.0, 90.0])
    assert by_number(found, "shared_s") == pytest.approx([80.0, 80.0])
    assert by_number(found, "busy_s") == pytest.approx([130.0, 80.0])
    assert by_number(found, "alone_s") == pytest.approx([100.0, 50.0])


def test_the_best_gpu_is_taken_first(table) -> None:
    truth = table(speeds=(1.0, 2.0))
    jobs = [Job(number, "a", 0.0, 100.0) for number in range(3)]
    found = replayed(truth, jobs, "fifo-best", count=1)
    assert found.jobs.sort_values("number")["gpu"].tolist() == ["G1", "G0", "G1"]
    assert by_number(found, "finish_s") == pytest.approx([50.0, 100.0, 100.0])


def test_shortest_job_first(table) -> None:
    jobs = [Job(0, "a", 0.0, 50.0), Job(1, "a", 1.0, 100.0), Job(2, "b", 2.0, 10.0)]
    assert by_number(replayed(table(), jobs, "sjf", count=1), "finish_s") == pytest.approx([50.0, 160.0, 60.0])
    assert by_number(replayed(table(), jobs, "fifo-best", count=1), "finish_s") == pytest.approx([50.0, 150.0, 160.0])


def test_a_job_on_several_gpus_is_never_shared_and_blocks_nobody_for_ever(table) -> None:
    jobs = [Job(0, "a", 0.0, 10.0), Job(1, "b", 1.0, 20.0, gpus=2), Job(2, "c", 2.0, 10.0)]
    found = replayed(table(slowdown=1.0), jobs, count=2)
    # The third may join the first, which the second does not wait for; then it has both GPUs for itself.
    assert by_number(found, "start_s") == pytest.approx([0.0, 12.0, 2.0])
    assert by_number(found, "shared_s")[1] == 0.0


def test_pairs_without_a_slowdown_are_never_chosen(table) -> None:
    pairs = np.full((2, 2), 1.1)
    pairs[0, 1] = pairs[1, 0] = np.nan
    jobs = [Job(0, "a", 0.0, 100.0), Job(1, "b", 0.0, 100.0)]
    for policy in ("random", "oracle"):
        found = replayed(table(2, pairs), jobs, policy, count=1)
        assert by_number(found, "start_s") == pytest.approx([0.0, 100.0])


@pytest.mark.parametrize("round_s", [None, 60.0])
@pytest.mark.parametrize("policy", ["fifo", "fifo-best", "sjf", "random", "oracle"])
@given(seed=st.integers(0, 50), load=st.floats(0.3, 2.0))
@settings(max_examples=8, deadline=None)
def test_conservation_of_work_and_littles_law(policy: str, round_s: float | None, seed: int, load: float) -> None:
    rng = np.random.default_rng(seed)
    pairs = 1.0 + rng.random((2, 4, 4))
    truth = PairTable(tuple("abcd"), ("G0", "G1"), np.array([[1.0] * 4, [0.6] * 4]), pairs, dataset="made-up")
    jobs = drawn_jobs("poisson", 60, 3.2 * load, seed, truth.workloads)
    found = replayed(truth, jobs, policy, round_s=round_s)
    assert len(found.jobs) == len(jobs)
    assert found.jobs["work_s"].to_numpy() == pytest.approx(found.jobs["length_s"].to_numpy(), rel=1e-6)
    # Little: the mean number in the system is the rate of arrivals times the mean time in it.
    inside = (found.jobs["finish_s"] - found.jobs["arrival_s"]).sum()
    assert found.job_s == pytest.approx(inside, rel=1e-6)
    assert (found.jobs["start_s"] >= found.jobs["arrival_s"] - 1e-9).all()
    assert (found.jobs["finish_s"] >= found.jobs["start_s"]).all()
    assert found.jobs["alone_s"].sum() <= found.jobs["busy_s"].sum() + 1e-6
    assert (found.jobs["busy_s"] <= found.jobs["finish_s"] - found.jobs["start_s"] + 1e-6).all()


@pytest.mark.parametrize("slots", [2, 3])
@pytest.mark.parametrize("seed", range(4))
def test_without_interference_sharing_equals_a_cluster_with_k_times_the_slots(table, slots: int, seed: int) -> None:
    truth = table(slowdown=1.0)
    jobs = drawn_jobs("poisson", 80, 8.0, seed, truth.workloads)
    shared = replayed(truth, jobs, "oracle", count=2, slots=slots)
    larger = replayed(truth, jobs, "fifo-best", count=2 * slots)
    assert by_number(shared, "finish_s") == pytest.approx(by_number(larger, "finish_s"))


def test_no_gpu_holds_more_than_its_slots_at_any_time(table) -> None:
    truth = table(slowdown=1.2)
    jobs = drawn_jobs("bursts", 60, 10.0, 1, truth.workloads)
    found = replayed(truth, jobs, "random", count=2, segments=True)
    for _, rows in found.segments.groupby("place"):
        for moment in rows["start_s"]:
            assert ((rows["start_s"] <= moment) & (rows["end_s"] > moment)).sum() <= 2
    lasted = (found.segments["end_s"] - found.segments["start_s"]).groupby(found.segments["number"]).sum()
    assert lasted.to_numpy() == pytest.approx(found.jobs.sort_values("number")["busy_s"].to_numpy())


def test_rounds_place_everything_anew_and_free_places_at_the_next_one(table) -> None:
    truth = table(speeds=(1.0, 0.5))
    jobs = [Job(0, "a", 0.0, 100.0), Job(1, "a", 0.0, 100.0)]
    found = replayed(truth, jobs, "fifo-best", count=1, round_s=60.0)
    # The first ends at 100 s; the second has done 60 of 100 by the round at 120 s and moves to the fast GPU.
    assert by_number(found, "finish_s") == pytest.approx([100.0, 160.0])


def test_replays_of_one_seed_are_equal(table) -> None:
    truth = table()
    jobs = drawn_jobs("poisson", 50, 6.0, 3, truth.workloads)
    one, other = (replayed(truth, jobs, "random", seed=5) for _ in range(2))
    assert one.jobs.equals(other.jobs)


def test_progress_may_cancel(table) -> None:
    def stop(_: float) -> None:
        raise KeyboardInterrupt

    truth = table()
    with pytest.raises(KeyboardInterrupt):
        replayed(truth, drawn_jobs("poisson", 300, 6.0, 3, truth.workloads), "fifo", report=stop)


def test_what_can_not_be_replayed_is_refused_with_the_cure(table) -> None:
    truth = table()
    fifo = policies.make("fifo", truth)
    with pytest.raises(UsageError, match="has no GPU"):
        Cluster({"G0": 0}, truth)
    with pytest.raises(UsageError, match="says nothing about B200"):
        Cluster({"B200": 1}, truth)
    with pytest.raises(NotFoundError, match="knows no workload 'x'"):
        Cluster({"G0": 1}, truth).run([Job(0, "x", 0.0, 1.0)], fifo)
    with pytest.raises(NotEnoughDataError, match="can run on none"):
        Cluster({"G0": 1}, truth).run([Job(0, "a", 0.0, 1.0, gpus=2)], fifo)
    with pytest.raises(UsageError, match="there is no policy"):
        policies.make("best", truth)
    with pytest.raises(UsageError, match="needs out-of-fold predictions"):
        policies.make("prediction", truth)
    with pytest.raises(UsageError, match="SM utilisation"):
        policies.make("utilisation", truth)
