"""The white-box predictor: demands come back out of a profile, and slowdowns without one measured co-run."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from analysis.errors import NotEnoughDataError, UsageError
from analysis.ingest.bundle import import_bundle
from analysis.ingest.contract.format import Hints
from analysis.ingest.contract.guesses import suggested_workload
from analysis.settings import asset
from analysis.sharing.corun import states
from analysis.sharing.demands import MATH
from analysis.sharing.mechanisms import TimeSlicing
from analysis.sharing.online import co_run_profiles, predict_online
from analysis.sharing.recover import recover
from analysis.sharing.simulate import Simulator
from analysis.sharing.whitebox import missing, predict_slowdowns, read_profiles
from analysis.sharing.workloads import sample_workloads
from analysis.store.database import Database
from analysis.store.filters import Filter

GPU = "V100-32GB"


@pytest.fixture(scope="module")
def frame(tmp_path_factory: pytest.TempPathFactory) -> pd.DataFrame:
    with Database(tmp_path_factory.mktemp("whitebox") / "x.duckdb") as database:
        for name in ("jobs.csv.gz", f"profiles_{GPU}.zip"):
            import_bundle(
                database,
                asset("data", "samples", name),
                lambda inner: Hints(suggested_workload(inner)[0], GPU, "sample"),
            )
        return read_profiles(database, Filter(datasets=("sample",), gpus=(GPU,)))


@pytest.fixture(scope="module")
def simulator() -> Simulator:
    return Simulator(GPU, sample_workloads())


def test_one_row_a_launch_with_what_is_needed(frame: pd.DataFrame) -> None:
    assert missing(frame) == []
    assert frame["duty"].between(0, 1).all()
    assert (frame[["dram", "issue_active", "l2_hit"]].dropna() <= 1).all().all()
    assert frame["grid"].gt(0).all()


def test_recovered_networks_issue_as_the_profile_says(frame: pd.DataFrame) -> None:
    here = frame.assign(warps=frame["occupancy"] * 16)
    jobs = recover(here, GPU).jobs
    rows = np.arange(len(jobs.kernels), dtype=np.intp)[:, None]
    mixed = states(jobs.kernels, jobs.alone, rows, None, 0.0)
    assert np.median(np.abs(mixed.solution.throughput[:, 0] / jobs.alone.throughput - 1)) < 0.01
    assert mixed.solution.throughput[:, 0] == pytest.approx(jobs.alone.throughput, rel=0.1)


def test_pairs_are_far_closer_than_no_interference(frame: pd.DataFrame, simulator: Simulator) -> None:
    runs = [run for run in simulator.pairs() if run.outcome == "ran"]
    predicted = np.concatenate(predict_slowdowns(frame, [run.workloads for run in runs], GPU))
    truth = np.concatenate([run.slowdown for run in runs])
    error = np.mean(np.abs(predicted / truth - 1))
    print(f"white box on simulated pairs, with which it shares its model: {100 * error:.1f} %")
    assert error < 0.12
    assert error < 0.4 * np.mean(np.abs(1 / truth - 1))
    assert np.corrcoef(np.log(predicted), np.log(truth))[0, 1] > 0.9


def test_without_measurements_and_in_any_order(frame: pd.DataFrame) -> None:
    names = ("resnet50_bs32_amp_train", "dlrm_bs2048_fp32_train", "bert-base_bs8_amp_train")
    first = predict_slowdowns(frame, [names], GPU)[0]
    turned = predict_slowdowns(frame, [names[::-1]], GPU)[0]
    assert turned == pytest.approx(first[::-1], rel=1e-6)
    assert (first >= 1).all()
    sliced = predict_slowdowns(frame, [names], GPU, TimeSlicing())[0]
    assert sliced.sum() > first.sum()


def test_a_job_without_a_profile_leaves_its_sets_open(frame: pd.DataFrame) -> None:
    known = "resnet50_bs32_amp_train"
    found = predict_slowdowns(frame, [(known, "nobody"), (known, known)], GPU)
    assert np.isnan(found[0]).all()
    assert np.isfinite(found[1]).all()
    assert np.isnan(predict_slowdowns(frame, [(known, known)], "A100-40GB")[0]).all()


def test_says_what_profiles_lack(frame: pd.DataFrame) -> None:
    poor = frame.drop(columns=["dram", "long_scoreboard"])
    assert missing(poor) == ["DRAM throughput", "stall reasons in cycles"]
    with pytest.raises(NotEnoughDataError, match="DRAM throughput"):
        predict_slowdowns(poor, [("a", "b")], GPU)


def test_a_pipe_without_a_counter_is_as_busy_as_the_queue_before_it_says(frame: pd.DataFrame) -> None:
    job = frame[frame["workload"] == "resnet50_bs32_amp_train"].assign(warps=8.0, issue_active=0.3)
    blind = job.drop(columns=["math", "tensor"])
    assert (recover(job, GPU).jobs.kernels.private[:, MATH] > 0).any()
    assert (recover(blind.assign(math_pipe_throttle=0.0), GPU).jobs.kernels.private[:, MATH] == 0).all()
    service = recover(blind.assign(math_pipe_throttle=2.0), GPU).jobs.kernels.private[:, MATH]
    # R - D = 2 cycles of queueing, R = D / (1 - U (N - 1) / N), U = D x issue rate.
    assert service / (1 - service * 0.3 * 7 / 8) - service == pytest.approx(2.0, rel=1e-6)
    # A counter that is there counts.
    measured = recover(job.assign(math_pipe_throttle=9.0), GPU).jobs.kernels.private[:, MATH]
    assert measured == pytest.approx(recover(job, GPU).jobs.kernels.private[:, MATH])


def test_online_reads_the_slowdown_out_of_the_stalls(simulator: Simulator) -> None:
    names = ("resnet50_bs32_amp_train", "dlrm_bs2048_fp32_train")
    truth = simulator.co_run([names])[0].slowdown
    profile = co_run_profiles(simulator, names)
    assert predict_online(profile).to_numpy() == pytest.approx(truth, rel=0.02)
    # The stalls are what it reads: with those of a lighter neighbour it says another slowdown.
    lighter = co_run_profiles(simulator, (names[0], "ppo-atari_bs256_fp32_train"))
    assert predict_online(lighter).iloc[0] < truth[0] - 0.05
    with pytest.raises(UsageError, match="servers"):
        co_run_profiles(simulator, ("llama-7b-decode_bs1_fp16_infer", names[0]))
