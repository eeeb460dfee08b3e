"""What each mechanism must do to jobs of the sample, and what it must refuse."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from analysis.errors import NotFoundError, UsageError
from analysis.interference.mechanisms import answer, summary
from analysis.sharing.compare import as_frame, co_runs, members, shares_note
from analysis.sharing.demands import machine, machines
from analysis.sharing.mechanisms import (
    BlockPriority,
    CudaMps,
    CudaMpsPriority,
    Exclusive,
    Mig,
    MpsInsideMig,
    StaticPartition,
    TimeSlicing,
)
from analysis.sharing.partitions import instances, mig_choices, mig_profiles
from analysis.sharing.simulate import Simulator, latency
from analysis.sharing.work import Service
from analysis.sharing.workloads import sample_workloads

SERVER, TRAIN, OTHER = "llama-7b-prefill_bs1_fp16_infer", "resnet50_bs32_amp_train", "bert-base_bs8_amp_train"


@pytest.fixture(scope="module")
def simulator() -> Simulator:
    return Simulator("A100-80GB", sample_workloads())


@pytest.mark.parametrize(
    "gpu", ["K80", "P100", "V100", "T4", "A100-40GB", "A100-80GB", "RTX 3090", "RTX 4090", "L4", "H100", "H200", "B200"]
)
def test_runs_on_every_gpu_that_the_table_must_hold(gpu: str) -> None:
    assert machine(gpu).name in machines()
    small = Simulator(gpu, [job for job in sample_workloads() if job.memory_mib < 4000])
    run = small.co_run([(small.workloads[0], small.workloads[-1])])[0]
    assert run.outcome == "ran"
    assert np.isfinite(run.slowdown).all()


def test_newer_gpus_are_faster() -> None:
    steps = [
        Simulator(gpu, sample_workloads()).step_ms("bert-base_bs32_amp_train")
        for gpu in ("P100", "V100", "A100-80GB", "H100")
    ]
    assert steps == sorted(steps, reverse=True)


def test_an_unknown_gpu_names_those_it_knows() -> None:
    with pytest.raises(NotFoundError, match="A100-80GB"):
        machine("Voodoo 2")


def test_exclusive_slows_nobody(simulator: Simulator) -> None:
    assert simulator.co_run([(TRAIN, OTHER)], Exclusive())[0].slowdown == pytest.approx([1, 1])


def test_a_shorter_quantum_costs_more_switches(simulator: Simulator) -> None:
    long, short = (simulator.co_run([(TRAIN, OTHER)], TimeSlicing(quantum_ms=q))[0].slowdown for q in (4.0, 0.5))
    assert np.all(short > long)


def test_priority_moves_the_cost_to_the_other(simulator: Simulator) -> None:
    plain = simulator.co_run([(TRAIN, OTHER)])[0].slowdown
    first = simulator.co_run([(TRAIN, OTHER)], CudaMpsPriority((0,)))[0].slowdown
    second = simulator.co_run([(TRAIN, OTHER)], CudaMpsPriority((1,)))[0].slowdown
    assert first[0] < plain[0] < second[0]
    assert second[1] < plain[1] < first[1]


def test_block_level_priority_bounds_the_turnaround(simulator: Simulator) -> None:
    tight = simulator.co_run([(SERVER, TRAIN)], BlockPriority(turnaround_us=10))[0]
    loose = simulator.co_run([(SERVER, TRAIN)], BlockPriority(turnaround_us=5000))[0]
    mps = simulator.co_run([(SERVER, TRAIN)])[0]
    assert tight.slowdown[0] < 1.01 < loose.slowdown[0]
    assert tight.p99_ms[0] / tight.p99_solo_ms[0] < 1.05
    assert mps.p99_ms[0] / mps.p99_solo_ms[0] > 2
    # Best effort runs in the gaps only: half of the time or less for a server at 40 % load.
    assert tight.slowdown[1] > 1.3


def test_thread_percentages_limit_even_a_job_whose_neighbour_rests(simulator: Simulator) -> None:
    half = simulator.co_run([(TRAIN, "notebook-eda_bs8_fp32_train")], CudaMps(percentages=(30, 70)))[0].slowdown
    free = simulator.co_run([(TRAIN, "notebook-eda_bs8_fp32_train")])[0].slowdown
    assert half[0] > 1.4 * free[0]


def test_a_memory_cap_keeps_a_larger_job_out(simulator: Simulator) -> None:
    run = simulator.co_run([(TRAIN, OTHER)], CudaMps(caps_mib=(4000.0, None)))[0]
    assert run.outcome == "did_not_run"
    assert "4,000 MiB" in run.note
    assert np.isnan(run.slowdown).all()


def test_what_does_not_fit_does_not_run() -> None:
    small = Simulator("RTX 4090", sample_workloads())
    run = small.co_run([("llama-7b-lora_bs4_fp16_train", TRAIN)])[0]
    assert run.outcome == "did_not_run"
    assert "together" in run.note


def test_mig_takes_the_cut_with_the_largest_stp(simulator: Simulator) -> None:
    best = simulator.co_run([(TRAIN, OTHER, "ppo-atari_bs256_fp32_train")], Mig())[0]
    assert best.outcome == "ran"
    for profiles in (("3g.40gb", "2g.20gb", "2g.20gb"), ("2g.20gb", "3g.40gb", "2g.20gb")):
        other = simulator.co_run([best.workloads], Mig(profiles))[0]
        assert (1 / best.slowdown).sum() >= (1 / other.slowdown).sum() - 1e-9


def test_mig_memory_must_fit_the_instance(simulator: Simulator) -> None:
    run = simulator.co_run([("sd-unet_bs4_amp_train", TRAIN)], Mig(("1g.10gb", "4g.40gb")))[0]
    assert run.outcome == "did_not_run"
    assert "1g.10gb" in run.note


def test_mig_is_refused_where_it_can_not_be(simulator: Simulator) -> None:
    with pytest.raises(UsageError, match="can't be partitioned"):
        Simulator("V100", sample_workloads()).co_run([(TRAIN, OTHER)], Mig())
    with pytest.raises(NotFoundError, match="no MIG profile"):
        simulator.co_run([(TRAIN, OTHER)], Mig(("9g.90gb", "1g.10gb")))
    with pytest.raises(UsageError, match="do not fit"):
        simulator.co_run([(TRAIN, OTHER)], Mig(("4g.40gb", "4g.40gb")))


def test_seven_instances_and_no_more() -> None:
    assert mig_choices(machine("A100-80GB"), 7)
    assert not mig_choices(machine("A100-80GB"), 8)
    shares = [profile.sm for profile in mig_profiles(machine("A100-80GB")).values()]
    assert shares == pytest.approx([14 / 108, 28 / 108, 42 / 108, 56 / 108, 98 / 108])


def test_mps_inside_an_instance_hurts_only_those_inside(simulator: Simulator) -> None:
    how = MpsInsideMig(("3g.40gb", "3g.40gb", "4g.40gb"), (0, 0, 1))
    together = simulator.co_run([(TRAIN, OTHER, "dlrm_bs2048_fp32_train")], how)[0].slowdown
    alone = simulator.co_run([(TRAIN,)], Mig(("3g.40gb",)))[0].slowdown[0]
    outside = simulator.co_run([("dlrm_bs2048_fp32_train",)], Mig(("4g.40gb",)))[0].slowdown[0]
    assert together[0] > 1.2 * alone
    assert together[2] == pytest.approx(outside)


def test_compute_instances_by_their_own_profiles(simulator: Simulator) -> None:
    two = instances(machine("A100-80GB"), ("1c.3g.40gb", "2c.3g.40gb"), split=True)
    assert two.sm == pytest.approx([14 / 108, 28 / 108])
    assert two.domain.tolist() == [0, 0]
    assert two.bandwidth.tolist() == [0.5, 0.5]
    assert two.meets.tolist() == np.eye(2).tolist()
    # What does not fit into the first GPU instance goes into another.
    assert instances(machine("A100-80GB"), ("2c.3g.40gb", "2c.3g.40gb"), split=True).domain.tolist() == [0, 1]
    with pytest.raises(UsageError, match="4 compute slices"):
        instances(machine("A100-80GB"), ("2c.3g.40gb", "2c.3g.40gb"), (0, 0), split=True)
    with pytest.raises(UsageError, match="can't be"):
        instances(machine("A100-80GB"), ("3g.40gb", "4g.40gb"), (0, 0), split=True)
    with pytest.raises(UsageError, match="beside a job"):
        instances(machine("A100-80GB"), ("1c.3g.40gb", "3g.40gb"), (0, 0), split=True)
    with pytest.raises(NotFoundError, match=r"1c\."):
        simulator.co_run([(TRAIN,)], Mig(("1c.5g.40gb",)))


def test_a_partition_can_not_hand_out_more_than_there_is(simulator: Simulator) -> None:
    with pytest.raises(UsageError, match="120 %"):
        simulator.co_run([(TRAIN, OTHER)], StaticPartition((60, 60)))
    with pytest.raises(UsageError, match="for 2 jobs"):
        simulator.co_run([(TRAIN, OTHER)], CudaMps(percentages=(50,)))


def test_more_than_four_that_meet_are_refused(simulator: Simulator) -> None:
    with pytest.raises(UsageError, match="up to 4"):
        simulator.co_run([("ppo-atari_bs256_fp32_train",) * 5])


def test_a_slower_server_is_never_seen_to_answer_sooner() -> None:
    slowdowns = np.linspace(1, 1.99, 30)
    found = latency(np.full(30, 20.0), slowdowns, Service(load=0.5))
    assert np.all(np.diff(found.p50_ms) > 0)
    assert np.all(np.diff(found.p99_ms) > 0)
    assert found.utilisation == pytest.approx(0.5 * slowdowns)


def test_a_server_that_can_not_keep_up_has_no_latency(simulator: Simulator) -> None:
    found = latency(np.full(3, 20.0), np.array([1.99, 2.0, 4.0]), Service(load=0.5))
    assert np.isfinite(found.p99_ms).tolist() == [True, False, False]
    assert np.isinf(found.p50_ms[1:]).all()
    assert np.isfinite(found.step_p99_ms).all()
    # Waiting for turns counts too: 0.5 of 20 ms, and 12 ms before each request.
    assert np.isinf(latency(np.array([20.0]), np.array([1.5]), Service(load=0.5), 12.0).p99_ms).all()
    run = simulator.co_run([(SERVER, TRAIN)], StaticPartition((5, 95)))[0]
    rows, sets = members([run]), as_frame([run])
    assert rows["outcome"].tolist() == ["can't keep up", "ran"]
    assert "utilisation" in rows.loc[0, "note"]
    assert np.isnan(rows.loc[0, "p99_ms"])
    assert sets.loc[0, "overloaded"]
    assert np.isnan(sets.loc[0, "p99_inflation"])
    table = summary(pd.concat([sets, as_frame(simulator.co_run([(SERVER, OTHER)], StaticPartition((50, 50))))]))
    assert table["overloaded"].sum() == 1
    assert table.loc[table["overloaded"] > 0, "p99_inflation"].isna().all()
    assert "can't keep up" in answer(table)


def test_tokens_and_first_tokens(simulator: Simulator) -> None:
    decode = simulator.co_run([("llama-7b-decode_bs1_fp16_infer", TRAIN)])[0]
    step = simulator.step_ms("llama-7b-decode_bs1_fp16_infer")
    assert step < decode.step_p50_ms[0] < decode.step_p99_ms[0]
    # A request is 48 tokens.
    assert decode.p50_ms[0] > 40 * step
    assert np.isnan(decode.p99_ms[1])


def test_comparison_of_all_mechanisms(simulator: Simulator) -> None:
    runs = co_runs(simulator, [TRAIN, SERVER])
    frame, rows = as_frame(runs), members(runs)
    assert frame["mechanism"].nunique() == 6
    assert frame["simulated"].all()
    assert (frame["together"] <= 101).all()
    # The first one named goes first, whether it serves or trains; and the shares' change is said.
    assert set(rows.loc[rows["first"], "workload"]) == {TRAIN}
    assert set(members(co_runs(simulator, [SERVER, TRAIN])).query("first")["workload"]) == {SERVER}
    assert "50 % of the SMs" in shares_note(runs, 2)
    assert not shares_note(simulator.co_run([(TRAIN, SERVER)]), 2)
    refused = co_runs(simulator, ["llama-7b-lora_bs4_fp16_train"] * 4)
    assert all(run.outcome == "did_not_run" and run.note for run in refused if run.mechanism == "MIG")
