"""What the model knows of a GPU: rates, latencies and limits, for one sub-partition of an SM."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import pandas as pd

from analysis.errors import NotFoundError
from analysis.reference import gpus
from analysis.settings import asset

#: Share of the nominal memory bandwidth that streaming kernels reach at best.
DRAM_EFFICIENCY = 0.92

#: FMA of one tensor instruction of a warp (m16n8k16), in which tensor work is counted on every GPU.
FMA_PER_TENSOR_INSTRUCTION = 2048

#: Bytes a cycle that the port of one SM takes from L2, however much L2 could give.
_SM_PORT_BYTES = 64

#: Consumer and workstation parts of an architecture with fewer tensor units and a narrower L2 than its largest chip.
_OVERRIDES: dict[tuple[str, str], dict[str, float]] = {
    ("Ampere", "8.6"): {"tensor_fma_per_cycle_per_sm": 512, "l2_bytes_per_cycle": 2048},
    ("Blackwell", "12.0"): {"tensor_fma_per_cycle_per_sm": 1024, "l2_bytes_per_cycle": 5120},
}


@dataclass(frozen=True)
class Machine:
    """A GPU as the model sees it. Cycles are SM clock cycles; a *part* is one sub-partition (scheduler) of an SM.

    Attributes
    ----------
    name, cc : str
        Canonical name and compute capability.
    sm_count, parts : int
        SMs, and schedulers in each.
    clock_ghz : float
        SM clock.
    max_warps, max_blocks, registers, shared_kib : float
        Limits of one SM: resident warps, blocks, 32-bit registers, shared memory.
    memory_mib : float
        Device memory.
    l2_mib : float
        L2 capacity.
    math_cycles : float
        Cycles that a warp's instruction holds the FMA/ALU pipe of a part.
    tensor_cycles : float
        Cycles that a tensor instruction of 2048 FMA holds the tensor pipe; 0 where there is none.
    mio_cycles, lsu_cycles : float
        Cycles that 128 byte hold shared memory or L1, for the part's share of it.
    l2_bytes, dram_bytes : float
        Bytes a cycle that L2 and DRAM give each part when all share evenly.
    l1_latency, shared_latency, l2_latency, dram_latency, math_latency : float
        Unloaded latencies in cycles.
    """

    name: str
    cc: str
    sm_count: int
    parts: int
    clock_ghz: float
    max_warps: float
    max_blocks: float
    registers: float
    shared_kib: float
    memory_mib: float
    l2_mib: float
    math_cycles: float
    tensor_cycles: float
    mio_cycles: float
    lsu_cycles: float
    l2_bytes: float
    dram_bytes: float
    l1_latency: float
    shared_latency: float
    l2_latency: float
    dram_latency: float
    math_latency: float


@lru_cache(maxsize=1)
def _architectures() -> pd.DataFrame:
    return pd.read_csv(asset("data", "architectures.csv"), index_col="architecture")


def machines() -> list[str]:
    """Return the names of the GPUs that the model can simulate: those whose figures are all published."""
    frame = gpus.load()
    needed = ["sm_count", "boost_clock_mhz", "memory_gbps", "memory_mib", "l2_mib"]
    complete = frame[needed].notna().all(axis=1) & frame["architecture"].isin(_architectures().index)
    return [str(name) for name in frame.index[complete]]


@lru_cache(maxsize=64)
def machine(gpu: str) -> Machine:
    """Return the model's view of a GPU.

    Parameters
    ----------
    gpu : str
        Any spelling. A family whose variants differ stands for its largest variant: V100 is V100-32GB.

    Raises
    ------
    NotFoundError
        If no published figures are there for it.
    """
    known = machines()
    name = gpus.canonical(gpu)
    if name not in known:
        variants = [candidate for candidate in known if gpus.matches(candidate, gpu)]
        if not variants:
            raise NotFoundError(f"the simulator has no figures for the GPU {gpu!r}", f"It knows {', '.join(known)}.")
        sizes = gpus.load().loc[variants, ["memory_gbps", "memory_mib"]]
        name = str(sizes.sort_values(["memory_gbps", "memory_mib"]).index[-1])
    row: dict[Any, Any] = gpus.load().loc[name].to_dict()
    rates: dict[Any, Any] = _architectures().loc[str(row["architecture"])].to_dict()
    rates.update(_OVERRIDES.get((str(row["architecture"]), str(row["cc"])), {}))
    sm_count, parts = int(row["sm_count"]), int(row["schedulers_per_sm"])
    clock = float(row["boost_clock_mhz"]) / 1e3
    tensor = float(rates["tensor_fma_per_cycle_per_sm"]) / parts
    everywhere = sm_count * parts
    return Machine(
        name=name,
        cc=str(row["cc"]),
        sm_count=sm_count,
        parts=parts,
        clock_ghz=clock,
        max_warps=float(row["max_warps_per_sm"]),
        max_blocks=float(row["max_blocks_per_sm"]),
        registers=float(row["registers_per_sm"]),
        shared_kib=float(row["shared_memory_kib_per_sm"]),
        memory_mib=float(row["memory_mib"]),
        l2_mib=float(row["l2_mib"]),
        math_cycles=32 * parts / float(row["fp32_lanes_per_sm"]),
        tensor_cycles=FMA_PER_TENSOR_INSTRUCTION / tensor if tensor else 0.0,
        mio_cycles=float(parts),
        lsu_cycles=parts * 128 / float(rates["l1_bytes_per_cycle_per_sm"]),
        l2_bytes=min(float(rates["l2_bytes_per_cycle"]) / everywhere, _SM_PORT_BYTES / parts),
        dram_bytes=DRAM_EFFICIENCY * float(row["memory_gbps"]) / clock / everywhere,
        l1_latency=float(rates["l1_latency"]),
        shared_latency=float(rates["shared_latency"]),
        l2_latency=float(rates["l2_latency"]),
        dram_latency=float(rates["dram_latency"]),
        math_latency=float(rates["math_latency"]),
    )
