"""Which sets of jobs the sample holds: all pairs under CUDA MPS, and a choice of larger sets and other mechanisms."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from analysis.sharing.mechanisms import (
    BlockPriority,
    CudaMps,
    CudaMpsPriority,
    Mechanism,
    Mig,
    StaticPartition,
    TimeSlicing,
)
from analysis.sharing.partitions import mig_profiles
from analysis.sharing.simulate import CoRun, Simulator

TRIPLES, QUADRUPLES, OTHERS = 48, 24, 14
#: Draws for each set that is wanted.
_TRIES = 40


@dataclass(frozen=True)
class Planned:
    """A co-run of the sample and the part of the campaign that it belongs to."""

    stage: str
    run: CoRun


Campaign: TypeAlias = list[Planned]


def campaign(simulator: Simulator, seed: int) -> Campaign:
    """Run the sample's sets on one GPU.

    Parameters
    ----------
    simulator : Simulator
        Knows the GPU and the workloads; those that don't fit onto the GPU alone are left out.
    seed : int
        Of the choice.

    Returns
    -------
    list of Planned
        Pairs under CUDA MPS first.
    """
    random = np.random.default_rng([seed, *simulator.machine.name.encode()])
    names = [name for name in simulator.workloads if simulator.fits(name)]
    found: Campaign = []

    def run(stage: str, sets: Sequence[tuple[str, ...]], how: Mechanism) -> None:
        found.extend(Planned(stage, result) for result in simulator.co_run(sets, how))

    run("pair", [(a, b) for i, a in enumerate(names) for b in names[i:]], CudaMps())
    run("triple", choose(simulator, names, 3, TRIPLES, random), CudaMps())
    run("quadruple", choose(simulator, names, 4, QUADRUPLES, random), CudaMps())
    compared = compared_pairs(simulator, names, random)
    run("half", compared, CudaMps(percentages=(50, 50)))
    run("priority", compared, CudaMpsPriority())
    run("slices", compared, TimeSlicing())
    run("partition", compared, StaticPartition())
    run("blocks", compared, BlockPriority())
    if mig_profiles(simulator.machine):
        run("mig", compared, Mig())
    return found


def choose(
    simulator: Simulator, names: Sequence[str], size: int, count: int, random: np.random.Generator
) -> list[tuple[str, ...]]:
    """Choose sets of different workloads, most of them small enough for the memory."""
    memory = {job.name: job.memory_mib for job in simulator.jobs.workloads}
    chosen: list[tuple[str, ...]] = []
    for _ in range(_TRIES * count):
        picked = tuple(names[place] for place in sorted(random.choice(len(names), size, replace=False)))
        too_large = sum(memory[name] for name in picked) > simulator.machine.memory_mib
        # One in eight stays although it won't fit: that is a result too.
        if picked not in chosen and (not too_large or random.random() < 1 / 8):
            chosen.append(picked)
        if len(chosen) == count:
            break
    return chosen


def compared_pairs(simulator: Simulator, names: Sequence[str], random: np.random.Generator) -> list[tuple[str, str]]:
    """Choose pairs for every mechanism: each server beside training jobs, and training jobs beside each other."""
    memory = {job.name: job.memory_mib for job in simulator.jobs.workloads}
    serving = {job.name for job in simulator.jobs.workloads if job.service}
    servers = [name for name in names if name in serving]
    training = [name for name in names if name not in serving]
    pairs: list[tuple[str, str]] = []
    for server in servers:
        fitting = [t for t in training if memory[t] + memory[server] < simulator.machine.memory_mib * 0.95]
        for place in sorted(random.choice(len(fitting), min(2, len(fitting)), replace=False)):
            pairs.append((server, fitting[place]))
    while len(pairs) < OTHERS:
        a, b = (training[place] for place in sorted(random.choice(len(training), 2, replace=False)))
        if (a, b) not in pairs and memory[a] + memory[b] < simulator.machine.memory_mib * 0.95:
            pairs.append((a, b))
    return pairs
