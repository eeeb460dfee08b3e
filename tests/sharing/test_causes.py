"""A white-box slowdown is broken down by resource and co-runner: parts add up, and the known cause is the largest."""

from __future__ import annotations

import numpy as np
import pytest

from analysis.sharing.causes import RESOURCES, SHARE, TURNS, causes
from analysis.sharing.demands import machine
from analysis.sharing.engine import job_table
from analysis.sharing.mechanisms import CudaMps, Mechanism, TimeSlicing
from analysis.sharing.recover import Recovered
from analysis.sharing.whitebox import solve_sets
from analysis.sharing.work import Kernel, Workload
from analysis.sharing.workloads import sample_workloads

GPU = "A100-80GB"


def streamer(name: str) -> Workload:
    kernel = Kernel(
        name, 216, 256, 32, 0.0, 8000.0, math=0.1, lsu=0.25, bytes=128.0, l1_hit=0.0, l2_hit=0.05, footprint_mib=0.1,
        parallel_loads=8.0, dependency=20.0,
    )  # fmt: skip
    return Workload(name, ((kernel, 10),), host_ms=0.0, memory_mib=1000.0)


@pytest.fixture(scope="module")
def recovered() -> Recovered:
    jobs = [*sample_workloads()[:4], streamer("stream_a"), streamer("stream_b")]
    return Recovered(job_table(jobs, machine(GPU)), tuple(job.name for job in jobs))


@pytest.mark.parametrize("how", [CudaMps(), CudaMps(percentages=(30.0, 60.0)), TimeSlicing()], ids=lambda how: how.name)
@pytest.mark.parametrize("pair", [(0, 1), (2, 2), (4, 5)])
def test_parts_add_up_to_the_prediction(recovered: Recovered, how: Mechanism, pair: tuple[int, int]) -> None:
    names = [recovered.names[place] for place in pair]
    said = np.log(solve_sets(recovered, [names], how)[0])
    found = causes(recovered, names, how)
    assert [sum(one.part for one in member) for member in found] == pytest.approx(said, abs=1e-5)
    assert {one.resource for member in found for one in member} <= {*RESOURCES, TURNS, SHARE}


def test_sets_of_three_add_up_and_name_each_other(recovered: Recovered) -> None:
    names = [recovered.names[place] for place in (0, 3, 5)]
    said = np.log(solve_sets(recovered, [names], CudaMps())[0])
    found = causes(recovered, names, CudaMps())
    assert [sum(one.part for one in member) for member in found] == pytest.approx(said, abs=1e-5)
    assert [{one.by for one in member} for member in found] == [{1, 2}, {0, 2}, {0, 1}]


def test_streams_pay_for_dram_and_slices_for_turns(recovered: Recovered) -> None:
    names = ["stream_a", "stream_b"]
    together = causes(recovered, names, CudaMps())[0]
    largest = max(together, key=lambda one: one.part)
    assert largest.resource == "L2 and DRAM bandwidth"
    assert largest.own + largest.theirs > 1
    assert largest.part > 0.6 * sum(one.part for one in together)
    slices = {one.resource: one.part for one in causes(recovered, names, TimeSlicing())[0]}
    assert slices.pop(TURNS) > 0.5
    assert max(map(abs, slices.values())) < 1e-9


def test_a_job_pays_for_its_own_cap(recovered: Recovered) -> None:
    capped = causes(recovered, ["stream_a", recovered.names[0]], CudaMps(percentages=(10.0, 90.0)))[0]
    own = next(one for one in capped if one.resource == SHARE)
    assert own.by is None
    assert own.part > 0.5
