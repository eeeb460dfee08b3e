"""The simulator against figures from the literature: the table in the guide, computed."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from analysis.interference.metrics import stp
from analysis.sharing.demands import machines
from analysis.sharing.mechanisms import BlockPriority, CudaMps, CudaMpsPriority, TimeSlicing
from analysis.sharing.simulate import CoRun, Simulator
from analysis.sharing.workloads import sample_workloads


@dataclass(frozen=True)
class Row:
    """One comparison.

    Attributes
    ----------
    claim : str
        What is compared.
    literature : str
        The figure, and whose it is.
    simulated : str
        The simulator's figure, printed.
    holds : bool
        Whether the simulator is where the claim wants it.
    """

    claim: str
    literature: str
    simulated: str
    holds: bool


def table() -> list[Row]:
    """Simulate the comparisons of the guide, without scatter.

    Returns
    -------
    list of Row
        In the guide's order.
    """
    v100 = Simulator("V100-32GB", sample_workloads())
    a100 = Simulator("A100-80GB", sample_workloads())
    servers = {workload.name for workload in sample_workloads() if workload.service}
    mps = [run for run in v100.pairs() if run.outcome == "ran"]
    median = float(np.median(np.concatenate([run.slowdown for run in mps])))
    training = [run.workloads for run in mps if not servers & set(run.workloads)]
    beats = _share_beaten(v100, training)
    pairs = [
        (server, job)
        for server in sorted(servers)
        for job in a100.workloads
        if job not in servers and not job.startswith("notebook")
    ]
    under = {how.name: a100.co_run(pairs, how) for how in (CudaMps(), CudaMpsPriority(), BlockPriority())}
    # A pair counts where its server keeps up under all three.
    steady = [all(not runs[place].overloaded.any() for runs in under.values()) for place in range(len(pairs))]
    inflation = {name: _inflation(runs, steady) for name, runs in under.items()}
    blocks, shared = inflation[BlockPriority().name], inflation[CudaMps().name]
    first = inflation[CudaMpsPriority().name]
    twin, where, gpus = costliest_twin()
    return [
        Row(
            "Median slowdown of a pair under CUDA MPS, V100",
            "1.47 x (measured pairs of KACE, V100)",
            f"{median:.2f} x over {2 * len(mps)} members",
            1.2 <= median <= 1.8,
        ),
        Row(
            "CUDA MPS does more than time-slicing for most pairs of training jobs, by STP",
            "MPS the best of naive sharing, MPS and MIG (EuroMLSys '24, A100)",
            f"{beats:.0%} of {len(training)} pairs, V100",
            beats > 0.5,
        ),
        Row(
            "p99 inflation of a server under CUDA MPS against block-level priority",
            "3.90 x against 1.05 x (Tally's table, A100, strictest setting)",
            f"{shared:.2f} x against {blocks:.2f} x over the {sum(steady)} of {len(pairs)} pairs that keep up, A100",
            shared > 2 * blocks,
        ),
        Row(
            "A client priority in CUDA MPS helps, but not as much",
            "2.96 x (Tally's table)",
            f"{first:.2f} x",
            blocks < first < shared,
        ),
        Row(
            "A twin costs hardly more than taking turns, on any GPU",
            "S of 2 for two equal jobs; beyond it only what two working sets lose in one L2",
            f"{twin:.2f} x at most over {gpus} GPUs ({where})",
            twin <= 2.1,
        ),
    ]


def costliest_twin() -> tuple[float, str, int]:
    """Return the largest slowdown of a sample job beside itself over all GPUs, where that is, and how many GPUs."""
    found = [
        (float(run.slowdown.max()), gpu)
        for gpu in machines()
        for simulator in [Simulator(gpu, sample_workloads())]
        for run in simulator.co_run([(name,) * 2 for name in simulator.workloads])
        if run.outcome == "ran"
    ]
    most, where = max(found)
    return most, where, len(machines())


def _share_beaten(simulator: Simulator, sets: list[tuple[str, ...]]) -> float:
    better = [
        stp(mps.slowdown) > stp(sliced.slowdown)
        for mps, sliced in zip(simulator.co_run(sets), simulator.co_run(sets, TimeSlicing()), strict=True)
    ]
    return float(np.mean(better))


def _inflation(runs: list[CoRun], counted: list[bool]) -> float:
    """Return the mean p99 inflation over the servers of those sets that count and ran."""
    kept = [run for run, counts in zip(runs, counted, strict=True) if counts and run.outcome == "ran"]
    return float(np.nanmean(np.concatenate([run.p99_ms / run.p99_solo_ms for run in kept])))


def markdown(rows: list[Row]) -> str:
    """Return the comparisons as the guide's table."""
    lines = ["| what | literature | simulated |", "|---|---|---|"]
    lines += [f"| {row.claim} | {row.literature} | {row.simulated} |" for row in rows]
    return "\n".join(lines)
