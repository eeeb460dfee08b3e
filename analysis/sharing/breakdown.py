"""Where the warps' cycles go: the stall reasons that a solved network stands for.

By Little's law the cycles that an instruction spends in each state add up to warps per issue, which is what Nsight
Compute reports as warp cycles per issued instruction.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from analysis.reference import stall_reasons
from analysis.sharing.corun import Mixed
from analysis.sharing.demands import DELAYS, DRAM, ISSUE, L2, LSU, MATH, MIO, STATIONS, TENSOR

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
