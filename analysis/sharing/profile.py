"""Profiles of simulated workloads: what Nsight Compute would print about each launch."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from analysis.reference import stall_reasons
from analysis.sharing.corun import GAP, Mixed, states
from analysis.sharing.demands import (
    DELAYS,
    DRAM,
    DRAM_EFFICIENCY,
    ISSUE,
    L2,
    LSU,
    MATH,
    MIO,
    STATIONS,
    TENSOR,
    memory_path,
)
from analysis.sharing.simulate import Simulator
from analysis.sharing.work import Kernel

Floats = npt.NDArray[np.float64]

#: A queue in front of a station, and being served there, as the profiler names them. Beyond the LSU a warp waits for
#: its data whether that is served or queues.
_QUEUE = {
    ISSUE: "not_selected", MATH: "math_pipe_throttle", TENSOR: "math_pipe_throttle", MIO: "mio_throttle",
    LSU: "lg_throttle", L2: "long_scoreboard", DRAM: "long_scoreboard",
}  # fmt: skip
_SERVICE = {
    ISSUE: "selected", MATH: "wait", TENSOR: "gmma", MIO: "short_scoreboard", LSU: "long_scoreboard",
    L2: "long_scoreboard", DRAM: "long_scoreboard",
}  # fmt: skip
_DELAY = {
    "memory": "long_scoreboard", "shared": "short_scoreboard", "dependency": "wait", "barrier": "barrier",
    "fence": "membar", "fetch": "no_instruction", "branch": "branch_resolving", "constant": "imc_miss",
    "dispatch": "dispatch_stall", "drain": "drain", "misc": "misc",
}  # fmt: skip
#: Where a reason's cycles show on a GPU that does not report it.
_ELSEWHERE = {
    "gmma": "wait", "branch_resolving": "no_instruction", "imc_miss": "no_instruction", "lg_throttle": "drain",
}  # fmt: skip


def stall_cycles(mixed: Mixed, cc: str) -> dict[str, Floats]:
    """Return the warp cycles for each issued instruction in each stall reason that the GPU reports.

    Parameters
    ----------
    mixed : Mixed
        Solved states.
    cc : str
        Compute capability, such as ``8.0``; it decides which reasons exist.

    Returns
    -------
    dict of str to ndarray (m, k)
        ``selected`` is 1 where a kernel runs; all reasons together are resident warps / issue rate.
    """
    residence = mixed.solution.residence
    cycles: dict[str, Floats] = {}

    def add(reason: str, values: Floats) -> None:
        there = reason if reason in reasons else _ELSEWHERE[reason]
        cycles[there] = cycles.get(there, np.zeros(values.shape)) + values

    reasons = set(stall_reasons.available(cc)) if float(cc) >= 6 else set(_DELAY.values()) | set(_QUEUE.values())
    reasons |= {"selected"}
    for station in range(len(STATIONS)):
        add(_QUEUE[station], np.maximum(residence[..., station] - mixed.demand[..., station], 0.0))
        add(_SERVICE[station], mixed.demand[..., station])
    for place, name in enumerate(DELAYS):
        add(_DELAY[name], mixed.delays[..., place])
    # Reasons that the GPU reports and the model has no cause for are there, and zero.
    for reason in reasons & set(stall_reasons.load().index):
        cycles.setdefault(reason, np.zeros(mixed.population.shape))
    order = [reason for reason in stall_reasons.load().index if reason in cycles]
    return {reason: cycles[reason] for reason in order}


def warps_per_issue(mixed: Mixed) -> Floats:
    """Return resident warps / issue rate (m, k), the total that the reasons add up to; NaN where nothing runs."""
    rate = mixed.solution.throughput
    return np.divide(mixed.population, rate, out=np.full_like(rate, np.nan), where=rate > 0)


def utilisation(mixed: Mixed) -> Floats:
    """Return the share of time that each member keeps each station busy (m, k, 7)."""
    used: Floats = mixed.solution.throughput[..., None] * mixed.demand
    return used


Metric = tuple[str, str, float]

#: Launch settings, counts of instructions, and the clock, which the profiler locks, don't scatter.
_EXACT = ("launch__", "smsp__inst_executed.sum", "smsp__cycles_elapsed.avg.per_second")


@dataclass(frozen=True)
class Noise:
    """Scatter of a simulated campaign.

    Attributes
    ----------
    seed : int
        Of everything.
    run : float
        Relative spread of a measured co-run value.
    solo : float
        Relative spread of a solo baseline. A baseline is measured once for each campaign, so its error is in every
        slowdown of the workload there.
    profile : float
        Relative spread of a counter from one replay pass to the next.
    length : float
        Relative spread of a kernel's duration from launch to launch.
    """

    seed: int
    run: float = 0.015
    solo: float = 0.01
    counters: float = 0.01
    length: float = 0.02

    def factor(self, spread: float, *what: object) -> float:
        """Return a factor near 1 that belongs to what is named, and to nothing else.

        Parameters
        ----------
        spread : float
            Relative standard deviation.
        *what : object
            Names the value: campaign, workload, run ...
        """
        if spread <= 0:
            return 1.0
        digest = hashlib.sha256("\x1f".join(map(str, (self.seed, *what))).encode()).digest()
        # Beyond three deviations a measurement would be repeated.
        normal = float(np.clip(np.random.default_rng(int.from_bytes(digest[:8], "little")).standard_normal(), -3, 3))
        return float(np.exp(spread * normal))

    def baseline(self, campaign: str, workload: str) -> float:
        """Return the factor of a workload's solo time in a campaign."""
        return self.factor(self.solo, "solo", campaign, workload)

    def member(self, campaign: str, run: str, slot: int) -> float:
        """Return the factor of a member's time in a run."""
        return self.factor(self.run, "run", campaign, run, slot)

    def profile(
        self, campaign: str, workload: str, kernel: int, launch: int, metrics: Sequence[Metric]
    ) -> tuple[Metric, ...]:
        """Return the metrics of one launch with scatter; percentages stay within 100."""
        found: list[Metric] = []
        for name, unit, value in metrics:
            spread = self.length if name.startswith("gpu__time_duration") else self.counters
            if name.startswith(_EXACT) or ("_selected_per_issue" in name and "not_selected" not in name):
                found.append((name, unit, value))
                continue
            scattered = value * self.factor(spread, "profile", campaign, workload, kernel, launch, name)
            bounded = name.endswith(".pct") or ".pct_of_peak" in name
            found.append((name, unit, min(scattered, 100.0) if bounded else scattered))
        return tuple(found)


_STALL = "smsp__average_warps_issue_stalled_{}_per_issue_active.ratio"
TOTAL = "smsp__average_warps_active_per_issue_active.ratio"


@dataclass(frozen=True)
class Launch:
    """One launch and its metrics.

    Attributes
    ----------
    kernel : Kernel
        What was launched.
    metrics : tuple of (str, str, float)
        Name, unit and value of each metric, as ``ncu --print-units base`` prints them.
    """

    kernel: Kernel
    metrics: tuple[tuple[str, str, float], ...]


def launches(simulator: Simulator, workload: str, noise: Noise | None = None) -> list[Launch]:
    """Return the launches that a profile of a workload alone holds.

    Parameters
    ----------
    simulator : Simulator
        Knows the workload and the GPU.
    workload : str
        Its name.
    noise : Noise, optional
        Scatter from launch to launch and from one replay pass to the next; none by default.

    Returns
    -------
    list of Launch
        The kinds in the numbers that a step launches them in, by their greatest common divisor: shares of GPU time are
        right.
    """
    place = simulator.workloads.index(workload)
    jobs = simulator.jobs
    rows = jobs.rows[place][jobs.rows[place] != GAP]
    mixed = states(jobs.kernels, jobs.alone, rows[:, None], None, 0.0)
    counts = [count for _, count in jobs.workloads[place].kernels]
    every = math.gcd(*counts)
    found: list[Launch] = []
    for number, (row, count) in enumerate(zip(rows, counts, strict=True)):
        exact = _metrics(simulator, int(row), number, mixed)
        for repeat in range(count // every):
            spread = noise.profile(simulator.machine.name, workload, number, repeat, exact) if noise else exact
            found.append(Launch(jobs.kernels.kernels[row], spread))
    return found


def _metrics(simulator: Simulator, row: int, number: int, mixed: Mixed) -> tuple[tuple[str, str, float], ...]:
    kernels, machine = simulator.jobs.kernels, simulator.machine
    kernel = kernels.kernels[row]
    used = utilisation(mixed)[number, 0]
    rate = float(mixed.solution.throughput[number, 0])
    warps = float(mixed.population[number, 0])
    one = np.array([row], dtype=np.intp)
    _, at_dram, _ = memory_path(kernels, one, np.ones(1), kernels.footprint[one])
    traffic = float(kernels.traffic[row])
    hit = 1 - float(at_dram[0]) * machine.dram_bytes / traffic if traffic else 0.0
    issued = float(kernels.instructions[row])
    cycles = {reason: float(values[number, 0]) for reason, values in stall_cycles(mixed, machine.cc).items()}
    queue = rate * (cycles["selected"] + cycles["not_selected"])
    dram = 100 * DRAM_EFFICIENCY * float(used[DRAM])
    l1 = 100 * float(max(used[LSU], used[MIO]))
    pct = "%"
    head = [
        ("gpu__time_duration.sum", "ns", 1e3 * float(simulator.jobs.alone.length_us[row])),
        ("smsp__cycles_elapsed.avg.per_second", "hz", 1e9 * machine.clock_ghz),
        ("smsp__inst_executed.sum", "inst", round(issued)),
        ("launch__grid_size", "", kernel.grid),
        ("launch__block_size", "", kernel.threads),
        ("launch__thread_count", "thread", kernel.grid * kernel.threads),
        ("launch__registers_per_thread", "register/thread", kernel.registers),
        ("launch__shared_mem_per_block_static", "byte/block", 1024 * kernel.shared_kib),
        ("launch__waves_per_multiprocessor", "", float(simulator.jobs.alone.waves[row])),
        ("sm__throughput.avg.pct_of_peak_sustained_elapsed", pct, 100 * float(used[: LSU + 1].max())),
        ("gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed", pct, max(dram, l1, 100 * float(used[L2]))),
        ("gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed", pct, dram),
        ("dram__bytes.sum", "byte", round(traffic * (1 - hit) * issued)),
        ("lts__throughput.avg.pct_of_peak_sustained_elapsed", pct, 100 * float(used[L2])),
        ("lts__t_bytes.sum", "byte", round(traffic * issued)),
        ("lts__t_sector_hit_rate.pct", pct, 100 * hit),
        ("l1tex__throughput.avg.pct_of_peak_sustained_active", pct, l1),
        ("l1tex__t_sector_hit_rate.pct", pct, 100 * (1 - float(kernels.l1_miss[row]))),
        ("l1tex__data_pipe_lsu_wavefronts.avg.pct_of_peak_sustained_elapsed", pct, 100 * float(used[LSU])),
        ("l1tex__data_pipe_lsu_wavefronts_mem_shared.avg.pct_of_peak_sustained_elapsed", pct, 100 * float(used[MIO])),
        ("sm__pipe_fma_cycles_active.avg.pct_of_peak_sustained_active", pct, 100 * float(used[MATH])),
        ("sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active", pct, 100 * float(used[TENSOR])),
        ("sm__warps_active.avg.pct_of_peak_sustained_active", pct, 100 * warps * machine.parts / machine.max_warps),
        ("smsp__warps_eligible.avg.per_cycle_active", "warp", queue),
        ("smsp__issue_active.avg.pct_of_peak_sustained_active", pct, 100 * rate),
        (TOTAL, "inst", float(warps_per_issue(mixed)[number, 0])),
    ]
    stalls = [(_STALL.format(reason), "inst", value) for reason, value in cycles.items()]
    return tuple((name, unit, float(value)) for name, unit, value in [*head, *stalls] if math.isfinite(value))
