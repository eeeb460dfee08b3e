"""From a profile of jobs alone back to service demands: the queueing network that would have looked like that."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pandas as pd

from analysis.sharing.corun import GAP, Solo
from analysis.sharing.demands import (
    DELAYS,
    DRAM,
    DRAM_EFFICIENCY,
    FIRST_SHARED,
    ISSUE,
    L2,
    LSU,
    MATH,
    MIO,
    STATIONS,
    TENSOR,
    KernelTable,
    Machine,
    machine,
    residency,
)
from analysis.sharing.engine import JobTable
from analysis.sharing.network import solve
from analysis.sharing.work import Kernel

Floats = npt.NDArray[np.float64]

#: Columns that the recovery can't do without.
NEEDED: Final = ("duration_us", "issue_active", "warps", "dram", "long_scoreboard", "wait")

#: Utilisations by station, as fractions; a missing one counts as idle.
_UTILISATION: Final = {MATH: "math", TENSOR: "tensor", MIO: "mio", LSU: "lsu", L2: "l2", DRAM: "dram"}

#: Stall reasons that are nothing but queueing for a station, by the station.
_THROTTLES: Final = {MATH: "math_pipe_throttle", MIO: "mio_throttle", LSU: "lg_throttle"}

#: Stall reasons that are delays as they stand.
_AS_THEY_STAND: Final[Mapping[str, str]] = {
    "barrier": "barrier", "membar": "fence", "no_instruction": "fetch", "branch_resolving": "branch",
    "imc_miss": "constant", "dispatch_stall": "dispatch", "drain": "drain", "misc": "misc", "sleeping": "misc",
    "tex_throttle": "memory",
}  # fmt: skip

#: Kinds of kernels that are kept apart; what is left is put together as one more.
_KINDS: Final = 3


@dataclass(frozen=True)
class Recovered:
    """Jobs as the network that was recovered from their profiles.

    Attributes
    ----------
    jobs : JobTable
        For the engine; without workloads.
    names : tuple of str
        Names of the jobs, in the order of the table.
    """

    jobs: JobTable
    names: tuple[str, ...]


def recover(profiles: pd.DataFrame, gpu: str) -> Recovered:
    """Recover service demands, delays and residency from profiles of jobs alone.

    A station's demand is its utilisation over the issue rate (the utilisation law). What a stall reason shows beyond
    the service and queueing of its stations is delay; the rest of the delay is fitted so that the network issues as
    fast as the profile says.

    Parameters
    ----------
    profiles : pd.DataFrame
        Kernels of jobs alone on this GPU, the columns of `analysis.sharing.whitebox.read_profiles`.
    gpu : str
        The GPU.

    Returns
    -------
    Recovered
        The jobs, in the order of their names.

    Notes
    -----
    The footprint in L2 can't be seen in one profile: an unlimited L2 is taken to hit half of what misses now.
    """
    where = machine(gpu)
    kinds = pd.concat([_kinds(part) for _, part in profiles.groupby("workload", sort=True)], ignore_index=True)
    kernels, alone = _network(kinds, where)
    rows: list[npt.NDArray[np.intp]] = []
    lengths: list[Floats] = []
    busy: list[float] = []
    names: list[str] = []
    for name, part in kinds.groupby("workload", sort=True):
        times = part["time_us"].to_numpy(dtype=float)
        duty = float(part["duty"].iloc[0])
        gap = times.sum() * (1 / duty - 1) if 0 < duty < 1 else 0.0
        own = np.append(part.index.to_numpy(), GAP) if gap else part.index.to_numpy()
        rows.append(own.astype(np.intp))
        lengths.append(np.append(times, gap) if gap else times)
        busy.append(float(times.sum()))
        names.append(str(name))
    steps = np.array([length.sum() for length in lengths])
    table = JobTable(
        (), kernels, alone, tuple(rows), tuple(lengths), np.array(busy), steps, np.full(len(names), np.nan)
    )  # fmt: skip
    return Recovered(table, tuple(names))


def _kinds(part: pd.DataFrame) -> pd.DataFrame:
    """Put the launches of one job together to its few largest kinds of kernels and the rest, by GPU time."""
    times = part["duration_us"] * part["invocations"].fillna(1)
    part = part.assign(time_us=times, duty=part["duty"].fillna(1.0))
    kind = part.groupby(["kernel", "threads", "grid"], dropna=False, sort=True).ngroup()
    largest = times.groupby(kind).sum().sort_values(ascending=False, kind="stable").index[:_KINDS]
    part = part.assign(kind=kind.where(kind.isin(largest), -1))
    numbers = [name for name in part.columns if pd.api.types.is_numeric_dtype(part[name]) and name not in ("kind",)]
    rows = []
    for _, group in part.groupby("kind", sort=True):
        weight = group["time_us"].to_numpy(dtype=float)
        means = {
            name: float(np.average(values[known], weights=weight[known]))
            if (known := ~np.isnan(values)).any()
            else np.nan
            for name in numbers
            for values in [group[name].to_numpy(dtype=float)]
        }
        launches = float(group["invocations"].fillna(1).sum())
        rows.append({**means, "workload": group["workload"].iloc[0], "time_us": weight.sum(),
                     "duration_us": weight.sum() / launches, "kernel": group["kernel"].iloc[0]})  # fmt: skip
    return pd.DataFrame(rows)


def _network(kinds: pd.DataFrame, where: Machine) -> tuple[KernelTable, Solo]:
    def column(name: str, default: float = 0.0) -> Floats:
        values: Floats = np.full(len(kinds), default)
        if name in kinds.columns:
            values[:] = kinds[name].astype(float).fillna(default).to_numpy()
        return values

    rate = np.clip(column("issue_active"), 1e-4, 1.0)
    warps = np.maximum(column("warps"), 1e-2)
    used = np.zeros((len(kinds), len(STATIONS)))
    used[:, ISSUE] = rate
    for station, name in _UTILISATION.items():
        used[:, station] = np.clip(column(name), 0.0, 0.999)
    used[:, DRAM] = np.clip(used[:, DRAM] / DRAM_EFFICIENCY, 0.0, 0.999)
    for station, reason in _THROTTLES.items():
        counters = ("math", "tensor") if station == MATH else (_UTILISATION[station],)
        unknown = np.all([np.isnan(column(name, np.nan)) for name in counters], axis=0)
        used[unknown, station] = _queued_for(column(reason), rate, warps)[unknown]
    demand = used / rate[:, None]
    delays = _delays(column, demand, used, warps)
    delays = _fit(delays, demand, warps, rate)
    kernels = [
        Kernel(str(name), max(int(grid), 1), max(int(threads), 32), max(int(registers), 16), shared, 1.0, math=0.0)
        for name, grid, threads, registers, shared in zip(
            kinds["kernel"], column("grid", 1e4), column("threads", 256), column("registers", 32),
            column("shared_kib"), strict=True,
        )
    ]  # fmt: skip
    blocks, use = residency(kernels, where)
    grid = np.array([kernel.grid for kernel in kernels], dtype=float)
    waves = grid / (blocks * where.sm_count)
    filled = waves / np.maximum(np.ceil(waves - 1e-9), 1.0)
    hit = np.clip(column("l2_hit"), 0.0, 0.999)
    beyond = (1 + hit) / 2
    footprint = where.l2_mib * np.where(hit > 0, beyond / np.maximum(hit, 0.02) - 1, 20.0)
    traffic = demand[:, L2] * where.l2_bytes
    # Where no L2 counter is there, DRAM traffic says what passed it.
    traffic = np.where(used[:, L2] > 0, traffic, demand[:, DRAM] * where.dram_bytes / np.maximum(1 - hit, 0.02))
    misses = np.divide(demand[:, DRAM] * where.dram_bytes, traffic, out=np.zeros_like(traffic), where=traffic > 0)
    hit = np.clip(1 - misses, 0.0, 1.0)
    beyond = np.maximum(beyond, hit)
    table = KernelTable(
        machine=where,
        kernels=tuple(kernels),
        private=demand[:, :FIRST_SHARED],
        traffic=traffic,
        # The model's rate alone is l2_hit C / (C + F), so this keeps what was measured.
        l2_hit=hit * (where.l2_mib + footprint) / where.l2_mib,
        footprint=footprint,
        memory_rate=np.zeros(len(kinds)),
        l1_miss=np.ones(len(kinds)),
        delays=delays,
        instructions=np.ones(len(kinds)),
        warps=warps / filled,
        blocks=blocks,
        use=use,
        grid=grid,
    )
    return table, Solo(rate, column("duration_us"), waves)


def _delays(cycles: Callable[[str], Floats], demand: Floats, used: Floats, warps: Floats) -> Floats:
    """Split the reasons into service, queueing and delay."""
    delays = np.zeros((len(warps), len(DELAYS)))
    for reason, delay in _AS_THEY_STAND.items():
        delays[:, DELAYS.index(delay)] += cycles(reason)
    fixed = cycles("wait") + cycles("gmma") - demand[:, MATH] - demand[:, TENSOR]
    delays[:, DELAYS.index("dependency")] = np.maximum(fixed, 0.0)
    delays[:, DELAYS.index("shared")] = np.maximum(cycles("short_scoreboard") - demand[:, MIO], 0.0)
    # A closed queue alone: R = D / (1 - U (N - 1) / N).
    others = np.maximum(1 - 1 / np.maximum(warps, 1.0), 0.0)[:, None]
    queued = (demand / (1 - used * others))[:, FIRST_SHARED:].sum(axis=1)
    delays[:, DELAYS.index("memory")] += np.maximum(cycles("long_scoreboard") - demand[:, LSU] - queued, 0.0)
    return delays


def _queued_for(throttle: Floats, rate: Floats, warps: Floats) -> Floats:
    """Return the utilisation of a station without a counter, from the cycles that an instruction queues for it.

    A closed queue alone holds an instruction R = D / (1 - U (N - 1) / N) with U = D x rate, of which D is service and
    the throttle's cycles are the rest: a quadratic equation in D. Arrivals that are more regular than the law's queue
    less, so this is too little rather than too much.
    """
    others = rate * np.maximum(1 - 1 / np.maximum(warps, 1.0), 0.0)
    known = (throttle > 0) & (others > 0)
    ratio = np.divide(throttle, others, out=np.zeros_like(throttle), where=known)
    service = (np.sqrt(throttle**2 + 4 * ratio) - throttle) / 2
    return np.clip(np.where(known, service * rate, 0.0), 0.0, 0.999)


def _fit(delays: Floats, demand: Floats, warps: Floats, rate: Floats) -> Floats:
    """Scale the delays so that the network alone issues at the measured rate."""
    total = np.maximum(delays.sum(axis=1), 1e-3)
    wanted = total.copy()
    for _ in range(12):
        found = solve(warps[:, None], demand[:, None, :], wanted[:, None]).throughput[:, 0]
        wanted = np.maximum(wanted + 0.9 * (warps / rate - warps / found), 0.0)
    missing = delays.sum(axis=1) <= 1e-3
    scaled: Floats = delays * (wanted / total)[:, None]
    scaled[missing, DELAYS.index("memory")] = wanted[missing]
    return scaled
