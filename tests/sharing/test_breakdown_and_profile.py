"""Stall breakdown: cycles add up by Little's law, and the reasons follow the architecture."""

from __future__ import annotations

import csv
import io

import numpy as np
import pytest

from analysis.reference import stall_reasons
from analysis.sharing.corun import solo, states
from analysis.sharing.demands import DRAM, machine, table
from analysis.sharing.profile import TOTAL, Noise, launches, stall_cycles, utilisation, warps_per_issue
from analysis.sharing.sample import profile_csv
from analysis.sharing.simulate import Simulator
from analysis.sharing.workloads import sample_workloads

KERNELS = [kernel for workload in sample_workloads()[::2] for kernel, _ in workload.kernels]


@pytest.mark.parametrize("gpu", ["P100", "V100", "T4", "A100-80GB", "RTX 4090", "H100", "B200"])
def test_cycles_add_up_to_warps_per_issue_alone_and_together(gpu: str) -> None:
    kernels = table(KERNELS, machine(gpu))
    alone = solo(kernels)
    pairs = np.array([[i, (i + 5) % len(KERNELS)] for i in range(len(KERNELS))], dtype=np.intp)
    for rows in (np.arange(len(KERNELS), dtype=np.intp)[:, None], pairs):
        mixed = states(kernels, alone, rows, None, 0.5)
        cycles = stall_cycles(mixed, machine(gpu).cc)
        assert sum(cycles.values()) == pytest.approx(warps_per_issue(mixed), rel=1e-6)
        assert cycles["selected"] == pytest.approx(np.ones(rows.shape))
        assert all((values >= 0).all() for values in cycles.values())


@pytest.mark.parametrize(
    ("gpu", "there", "absent"),
    [
        ("V100", set(), {"branch_resolving", "gmma"}),
        ("A100-80GB", {"branch_resolving"}, {"gmma"}),
        ("H100", {"branch_resolving", "gmma"}, set()),
        ("B200", {"branch_resolving"}, {"gmma", "imc_miss"}),
    ],
)
def test_reasons_follow_the_architecture(gpu: str, there: set[str], absent: set[str]) -> None:
    kernels = table(KERNELS[:3], machine(gpu))
    rows = np.arange(3, dtype=np.intp)[:, None]
    reasons = set(stall_cycles(states(kernels, solo(kernels), rows, None, 0.0), machine(gpu).cc))
    assert there <= reasons
    assert not absent & reasons
    assert reasons == set(stall_reasons.available(machine(gpu).cc))


def test_a_neighbour_at_dram_shows_as_more_waiting_for_memory() -> None:
    kernels = table(KERNELS, machine("V100"))
    alone = solo(kernels)
    rows = np.array([[2, 2]], dtype=np.intp)  # two streaming kernels
    single = states(kernels, alone, rows[:, :1], None, 0.0)
    both = states(kernels, alone, rows, None, 0.0)
    assert utilisation(single)[0, 0, DRAM] > 0.9
    before, after = (stall_cycles(state, "7.0")["long_scoreboard"][0, 0] for state in (single, both))
    assert after > before * 0.95  # half of the warps, each waiting twice as long
    assert utilisation(both)[0, :, DRAM].sum() == pytest.approx(1.0, abs=0.02)


@pytest.fixture(scope="module")
def simulator() -> Simulator:
    return Simulator("A100-80GB", sample_workloads()[:4])


def test_percentages_and_totals_of_a_launch(simulator: Simulator) -> None:
    for launch in launches(simulator, "bert-base_bs8_amp_train", Noise(7)):
        values = {name: value for name, _, value in launch.metrics}
        assert all(0 <= value <= 100 for name, value in values.items() if "pct_of_peak" in name)
        reasons = sum(value for name, value in values.items() if "issue_stalled" in name)
        assert reasons == pytest.approx(values[TOTAL], rel=0.05)


def test_scatter_belongs_to_the_value_not_to_the_order(simulator: Simulator) -> None:
    first = launches(simulator, "resnet50_bs32_amp_train", Noise(7))
    again = launches(Simulator("A100-80GB", sample_workloads()[:2]), "resnet50_bs32_amp_train", Noise(7))
    assert [launch.metrics for launch in first] == [launch.metrics for launch in again]
    assert first[0].metrics != launches(simulator, "resnet50_bs32_amp_train", Noise(8))[0].metrics


def test_the_csv_is_of_the_profilers_long_form(simulator: Simulator) -> None:
    text = profile_csv(simulator, "resnet50_bs32_amp_train", launches(simulator, "resnet50_bs32_amp_train"))
    first, rest = text.split("\n", 1)
    assert first.startswith("==STALLSCOPE== simulated by StallScope")
    rows = list(csv.DictReader(io.StringIO(rest)))
    assert len(rows[0]) == 15
    assert {row["CC"] for row in rows} == {"8.0"}
    assert {row["Metric Name"] for row in rows} >= {"gpu__time_duration.sum", TOTAL}
