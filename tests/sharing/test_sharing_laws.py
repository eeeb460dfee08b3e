"""Laws that sharing obeys whatever the kernels are: drawn by hypothesis, checked to 1e-3."""

from __future__ import annotations

import dataclasses
import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analysis.sharing import engine
from analysis.sharing.corun import GAP, Places, solo, states
from analysis.sharing.demands import FIRST_SHARED, machine, table
from analysis.sharing.layout import limited, shared
from analysis.sharing.mechanisms import (
    BlockPriority,
    CudaMps,
    CudaMpsPriority,
    Mechanism,
    Mig,
    MpsInsideMig,
    StaticPartition,
    TimeSlicing,
)
from analysis.sharing.partitions import instances
from analysis.sharing.simulate import Simulator
from analysis.sharing.work import Kernel, Service, Workload

TOLERANCE = 1e-3
GPUS = ("K80", "V100", "T4", "A100-80GB", "RTX 4090", "H100", "B200")


@st.composite
def kernels(draw: st.DrawFn, number: int = 0) -> Kernel:
    mix = draw(st.lists(st.floats(0, 1), min_size=5, max_size=5))
    share = 1 / max(sum(mix), 1.0)
    unit = st.floats(0, 1)
    return Kernel(
        f"k{number}",
        grid=draw(st.integers(1, 20000)),
        threads=draw(st.sampled_from([32, 64, 128, 256, 512])),
        registers=draw(st.sampled_from([16, 32, 64, 96, 128])),
        shared_kib=draw(st.sampled_from([0.0, 4.0, 16.0, 40.0])),
        instructions=draw(st.floats(50, 20000)),
        math=mix[0] * share,
        tensor=mix[1] * share,
        mio=mix[2] * share,
        lsu=mix[3] * share,
        mio_conflict=draw(st.floats(1, 4)),
        bytes=draw(st.sampled_from([32.0, 128.0, 512.0, 1024.0])),
        l1_hit=draw(unit),
        l2_hit=draw(unit),
        footprint_mib=draw(st.floats(0.1, 500)),
        stores=draw(st.floats(0, 0.9)),
        parallel_loads=draw(st.floats(0.5, 8)),
        dependency=draw(st.floats(0, 10)),
        barrier=draw(st.floats(0, 10)),
    )


@st.composite
def jobs(draw: st.DrawFn, name: str, server: bool = False) -> Workload:
    count = draw(st.integers(1, 2))
    return Workload(
        name,
        tuple((draw(kernels(number)), draw(st.integers(1, 50))) for number in range(count)),
        host_ms=draw(st.one_of(st.just(0.0), st.floats(0.01, 50))),
        memory_mib=1000.0,
        phase="inference" if server else "training",
        service=Service(load=draw(st.floats(0.1, 0.9))) if server else None,
    )


def full(name: str = "full", *, kind: str = "dram", seconds: float = 1.0) -> Workload:
    """A job that keeps one station busy all the time, with enough warps."""
    mixes = {
        "dram": {"math": 0.1, "lsu": 0.4, "bytes": 512.0, "l2_hit": 0.0, "dependency": 0.0},
        "math": {"math": 0.98, "lsu": 0.0, "dependency": 0.0, "fetch": 0.0, "branch": 0.0},
        "tensor": {"math": 0.0, "tensor": 0.9, "lsu": 0.0, "dependency": 0.0, "fetch": 0.0, "branch": 0.0},
        "mio": {"math": 0.1, "mio": 0.8, "lsu": 0.0, "mio_conflict": 4.0, "dependency": 0.0},
    }
    kernel = Kernel(kind, grid=80 * 8 * 64, threads=256, registers=32, shared_kib=0.0, instructions=2000, **mixes[kind])  # type: ignore[arg-type]
    return Workload(name, ((kernel, int(10 * seconds)),), host_ms=0.0, memory_mib=1000.0)


ALL: tuple[Mechanism, ...] = (
    CudaMps(), CudaMpsPriority(), TimeSlicing(), StaticPartition(), BlockPriority(), CudaMps(percentages=(70, 60)),
    Mig(), MpsInsideMig(("4g.40gb", "4g.40gb"), (0, 0)), Mig(("4g.40gb", "4g.40gb"), (0, 0)),
)  # fmt: skip


@given(st.data(), st.sampled_from(ALL))
@settings(max_examples=30, deadline=None)
def test_slowdown_is_at_least_one(data: st.DataObject, how: Mechanism) -> None:
    pair = [data.draw(jobs("a", server=data.draw(st.booleans()))), data.draw(jobs("b"))]
    run = Simulator("A100-80GB", pair).co_run([("a", "b")], how)[0]
    assert run.outcome == "ran"
    assert np.all(run.slowdown >= 1)
    assert np.all(np.isfinite(run.slowdown))
    assert np.all(run.p99_ms[~np.isnan(run.p99_ms)] >= run.p99_solo_ms[~np.isnan(run.p99_ms)] * (1 - TOLERANCE))


@given(
    st.data(), st.sampled_from(GPUS), st.sampled_from([CudaMps(), CudaMpsPriority(), TimeSlicing(), BlockPriority()])
)
@settings(max_examples=30, deadline=None)
def test_another_job_never_speeds_anyone_up(data: st.DataObject, gpu: str, how: Mechanism) -> None:
    three = [data.draw(jobs(name)) for name in "abc"]
    simulator = Simulator(gpu, three)
    pair, triple = (simulator.co_run([names], how)[0].slowdown for names in (("a", "b"), ("a", "b", "c")))
    assert np.all(triple[:2] >= pair * (1 - TOLERANCE))


#: Ways to share in which each job has a part of the SMs, and parts of three jobs; with two, the first two of them.
PARTS = {
    "static": lambda parts: StaticPartition(parts),
    "percentages": lambda parts: CudaMps(percentages=parts),
}
SHARES = ((100 / 3,) * 3, (50.0, 30.0, 20.0), (70.0, 60.0, 5.0), (90.0, 90.0, 90.0), (40.0, 80.0, 10.0))


@given(st.data(), st.sampled_from(sorted(PARTS)), st.sampled_from(SHARES), st.sampled_from(["V100", "A100-80GB"]))
@settings(max_examples=15, deadline=None)
def test_another_job_never_speeds_anyone_up_at_the_same_shares(
    data: st.DataObject, kind: str, shares: tuple[float, ...], gpu: str
) -> None:
    if kind == "static":
        shares = tuple(100 * share / max(sum(shares), 100) for share in shares)
    three = [data.draw(jobs(name, server=data.draw(st.booleans()))) for name in "abc"]
    simulator = Simulator(gpu, three)
    pair, triple = (
        simulator.co_run([names], PARTS[kind](shares[: len(names)]))[0] for names in (("a", "b"), ("a", "b", "c"))
    )
    assert np.all(triple.slowdown[:2] >= pair.slowdown * (1 - TOLERANCE))
    served = ~np.isnan(pair.p99_ms)
    assert np.all(triple.p99_ms[:2][served] >= pair.p99_ms[served] * (1 - TOLERANCE))


@given(st.data(), st.sampled_from([CudaMps(), CudaMpsPriority(), TimeSlicing(), BlockPriority()]))
@settings(max_examples=12, deadline=None)
def test_another_job_never_speeds_up_servers_and_those_beside_them(data: st.DataObject, how: Mechanism) -> None:
    three = [data.draw(jobs(name, server=name != "b")) for name in "abc"]
    simulator = Simulator("A100-80GB", three)
    pair, triple = (simulator.co_run([names], how)[0] for names in (("a", "b"), ("a", "b", "c")))
    assert np.all(triple.slowdown[:2] >= pair.slowdown * (1 - TOLERANCE))
    assert triple.p99_ms[0] >= pair.p99_ms[0] * (1 - TOLERANCE)


@given(st.data(), st.sampled_from(GPUS))
@settings(max_examples=20, deadline=None)
def test_a_smaller_share_never_speeds_its_job_up(data: st.DataObject, gpu: str) -> None:
    kernel_table = table([dataclasses.replace(data.draw(kernels()), grid=20000)], machine(gpu))
    alone, row = solo(kernel_table), np.array([[0]], dtype=np.intp)
    parts = (1.0, 0.9, 0.75, 0.5, 0.34, 0.2)
    speeds = [
        states(kernel_table, alone, row, Places.of([limited(machine(gpu), (part,))]), 0.5).speed[0, 0] for part in parts
    ]
    # Kernels of less than a warp for each scheduler are averages over the GPU, and may gain a few percent.
    assert np.all(speeds <= np.minimum.accumulate(speeds) + 0.01), speeds


def test_a_small_part_that_joins_pulls_nobody_apart() -> None:
    two, three = (limited(machine("V100"), parts).meets for parts in ((0.7, 0.6), (0.7, 0.6, 0.05)))
    assert np.all(three[:2, :2] >= two - 1e-12)
    assert two[0, 1] == pytest.approx(0.3 / 0.7)
    assert limited(machine("V100"), (0.5, 0.5)).meets.tolist() == np.eye(2).tolist()


def test_relief_by_a_third_job_is_what_the_law_leaves_out() -> None:
    # b loads the pipe that a needs; c slows b down at memory. In the network alone a gains from c.
    a, b, c = full("a", kind="math"), full("b", kind="dram"), full("c", kind="dram")
    busy = dataclasses.replace(b.kernels[0][0], math=0.55, lsu=0.05)
    simulator = Simulator("V100", [a, dataclasses.replace(b, kernels=((busy, 10),)), c], head_of_line=0.0)
    pair, triple = (
        engine.raw(simulator.jobs, [(members, shared(simulator.machine, len(members)))], CudaMps(), 0.0)[0]
        for members in ((0, 1), (0, 1, 2))
    )
    assert triple[0] < pair[0] - 0.02
    with_b = simulator.co_run([("a", "b")])[0].slowdown[0]
    assert with_b == pytest.approx(pair[0])
    assert simulator.co_run([("a", "b", "c")])[0].slowdown[0] >= with_b * (1 - TOLERANCE)


@given(st.data(), st.sampled_from(ALL[:5]))
@settings(max_examples=10, deadline=None)
def test_order_does_not_matter(data: st.DataObject, how: Mechanism) -> None:
    three = [data.draw(jobs(name)) for name in "abc"]
    simulator = Simulator("A100-80GB", three)
    first = simulator.co_run([("a", "b", "c")], how)[0].slowdown
    # The member that goes first keeps its rank, whatever its position.
    for order in itertools.permutations(range(3)):
        turned = dataclasses.replace(how, high=(order.index(0),)) if hasattr(how, "high") else how  # type: ignore[type-var]
        again = simulator.co_run([tuple("abc"[i] for i in order)], turned)[0].slowdown
        assert again == pytest.approx(first[list(order)], rel=1e-9)
        assert Simulator("A100-80GB", [three[i] for i in order]).co_run([("a", "b", "c")], how)[0].slowdown == (
            pytest.approx(first, rel=TOLERANCE)
        )


@given(st.data(), st.sampled_from(GPUS))
@settings(max_examples=30, deadline=None)
def test_no_station_is_used_beyond_its_time(data: st.DataObject, gpu: str) -> None:
    several = [data.draw(kernels(number)) for number in range(data.draw(st.integers(2, 4)))]
    kernel_table = table(several, machine(gpu))
    rows = np.arange(len(several), dtype=np.intp)[None]
    mixed = states(kernel_table, solo(kernel_table), rows, None, 0.5)
    used = (mixed.solution.throughput[..., None] * mixed.demand).sum(axis=1)
    assert used.max() <= 1 + TOLERANCE


@given(st.data(), st.sampled_from([("1g.10gb", "3g.40gb"), ("4g.40gb", "3g.40gb"), ("2g.20gb", "2g.20gb")]))
@settings(max_examples=25, deadline=None)
def test_gpu_instances_do_not_interact(data: st.DataObject, profiles: tuple[str, str]) -> None:
    two = [data.draw(jobs(name)) for name in "ab"]
    simulator = Simulator("A100-80GB", two)
    together = simulator.co_run([("a", "b")], Mig(profiles))[0].slowdown
    apart = [
        simulator.co_run([(name,)], Mig((profile,)))[0].slowdown[0]
        for name, profile in zip("ab", profiles, strict=True)
    ]
    assert together == pytest.approx(apart, rel=TOLERANCE)


def test_compute_instances_share_the_bandwidth_of_their_gpu_instance() -> None:
    simulator = Simulator("A100-80GB", [full("a"), full("b"), full("c", kind="tensor")])
    inside = Mig(("4g.40gb", "4g.40gb"), groups=(0, 0))
    alone = simulator.co_run([("a",)], Mig(("4g.40gb",)))[0].slowdown[0]
    assert simulator.co_run([("a", "b")], inside)[0].slowdown[0] > 1.8 * alone
    # A neighbour that stays out of memory leaves that bandwidth.
    assert simulator.co_run([("a", "c")], inside)[0].slowdown[0] < 1.1 * alone


@given(
    st.integers(2, 4),
    st.sampled_from(["dram", "math", "tensor", "mio"]),
    st.sampled_from(["V100", "A100-80GB", "H100"]),
)
@settings(max_examples=24, deadline=None)
def test_k_equal_jobs_at_a_full_station_approach_k(k: int, kind: str, gpu: str) -> None:
    simulator = Simulator(gpu, [full(kind=kind)])
    slowdown = simulator.co_run([("full",) * k])[0].slowdown
    assert slowdown == pytest.approx(np.full(k, float(k)), rel=0.03)


def test_two_jobs_that_fill_dram_approach_two() -> None:
    other = dataclasses.replace(full().kernels[0][0], name="other", math=0.3, bytes=1024.0, lsu=0.2)
    jobs_ = [full("a"), dataclasses.replace(full("b"), kernels=((other, 10),))]
    for gpu in ("V100", "A100-80GB", "H100", "RTX 4090"):
        assert Simulator(gpu, jobs_).co_run([("a", "b")])[0].slowdown == pytest.approx([2.0, 2.0], rel=0.1)


@given(st.data(), st.sampled_from(GPUS))
@settings(max_examples=40, deadline=None)
def test_no_common_station_no_slowdown_beyond_residency(data: st.DataObject, gpu: str) -> None:
    """Two kernels that fit beside each other and are kept from each other's stations run as if alone."""
    small = {"registers": 32, "shared_kib": 0.0, "threads": 64, "footprint_mib": 1e-6}
    two = [
        dataclasses.replace(data.draw(kernels(number)), grid=data.draw(st.integers(1, 64)), **small)
        for number in range(2)
    ]
    kernel_table = table(two, machine(gpu))
    alone = solo(kernel_table)
    rows = np.array([[0, 1]], dtype=np.intp)
    layout = shared(machine(gpu), 2)
    apart = dataclasses.replace(layout, meets=np.eye(2), domain=np.arange(2))
    mixed = states(kernel_table, alone, rows, Places.of([apart]), 0.5)
    assert mixed.turns == pytest.approx(np.zeros((1, 2)))
    assert mixed.speed == pytest.approx(np.ones((1, 2)), rel=TOLERANCE)


def test_a_common_station_is_what_slows_them_down() -> None:
    kernel_table = table([full(kind="math").kernels[0][0], full(kind="dram").kernels[0][0]], machine("V100"))
    alone = solo(kernel_table)
    one = states(kernel_table, alone, np.array([[0, 0]], dtype=np.intp), None, 0.0).speed[0]
    other = states(kernel_table, alone, np.array([[0, 1]], dtype=np.intp), None, 0.0).speed[0]
    assert one == pytest.approx([0.5, 0.5], rel=0.03)
    assert other[0] > 0.7


def test_short_kernels_wait_behind_long_ones() -> None:
    short = dataclasses.replace(full().kernels[0][0], grid=80 * 8, name="short")
    pair = [dataclasses.replace(full("short"), kernels=((short, 640),)), full("long")]
    mixing, queueing = (
        Simulator("V100", pair, head_of_line=share).co_run([("short", "long")])[0].slowdown for share in (0.0, 0.8)
    )
    assert queueing[0] > 1.5 * mixing[0]
    assert queueing[1] < mixing[1]


def test_a_partly_filled_gpu_leaves_no_turns() -> None:
    small = dataclasses.replace(full().kernels[0][0], grid=40, name="small")
    kernel_table = table([small], machine("V100"))
    mixed = states(kernel_table, solo(kernel_table), np.array([[0, 0], [0, GAP]], dtype=np.intp), None, 1.0)
    assert mixed.turns == pytest.approx(np.zeros((2, 2)))
    assert mixed.speed[1] == pytest.approx([1.0, 1.0])


def test_fewer_slices_leave_each_sm_more_bandwidth() -> None:
    places = Places.of([instances(machine("A100-80GB"), ("3g.40gb",))])
    kernel_table = table([full().kernels[0][0]], machine("A100-80GB"))
    mixed = states(kernel_table, solo(kernel_table), np.array([[0]], dtype=np.intp), places, 0.5)
    # 3 of 7 SM slices but 4 of 8 memory slices: a job that fills DRAM keeps half of its speed.
    assert mixed.speed[0, 0] == pytest.approx(0.5, rel=0.02)
    assert mixed.demand[0, 0, FIRST_SHARED + 1] < kernel_table.traffic[0] / machine("A100-80GB").dram_bytes
