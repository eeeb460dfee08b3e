"""From a kernel and a GPU to the queueing network: service demands, delays, residency, for one SM sub-partition.

Everything is an array over kernels, so that thousands of networks are set up at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pandas as pd

from analysis.errors import NotFoundError
from analysis.reference import gpus
from analysis.settings import asset
from analysis.sharing.work import Kernel

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
    return _described(gpus.load())


def _described(frame: pd.DataFrame) -> list[str]:
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
    table = gpus.load(simulated=True)
    known = _described(table)
    name = gpus.canonical(gpu)
    if name not in known:
        variants = [candidate for candidate in known if gpus.matches(candidate, gpu)]
        if not variants:
            there = ", ".join(machines())
            raise NotFoundError(f"the simulator has no figures for the GPU {gpu!r}", f"It knows {there}.")
        sizes = table.loc[variants, ["memory_gbps", "memory_mib"]]
        name = str(sizes.sort_values(["memory_gbps", "memory_mib"]).index[-1])
    row: dict[Any, Any] = table.loc[name].to_dict()
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


Floats = npt.NDArray[np.float64]

#: Queueing stations. The first five belong to an SM, the last two to the whole GPU.
STATIONS: Final = ("issue", "math", "tensor", "mio", "lsu", "l2", "dram")
ISSUE, MATH, TENSOR, MIO, LSU, L2, DRAM = range(7)
#: Stations before this one are private to an SM.
FIRST_SHARED: Final = L2

#: Delays: time that a warp spends without holding anything that others could want.
DELAYS: Final = (
    "memory",
    "shared",
    "dependency",
    "barrier",
    "fence",
    "fetch",
    "branch",
    "constant",
    "dispatch",
    "drain",
    "misc",
)
MEMORY: Final = 0

#: Instructions that replace one of 2048 FMA where there is no tensor pipe.
_FMA_INSTRUCTIONS: Final = 64
_SECTOR: Final = 128.0


@dataclass(frozen=True)
class KernelTable:
    """Kernels on one GPU, one row a kernel.

    Attributes
    ----------
    machine : Machine
        The GPU.
    kernels : tuple of Kernel
        What the rows stand for.
    private : ndarray (n, 5)
        Cycles that an instruction holds each station of the SM.
    traffic : ndarray (n,)
        Bytes of an instruction that pass L1, that is reach L2.
    l2_hit, footprint : ndarray (n,)
        Hit rate of an L2 without limit; data that it returns to, MiB.
    memory_rate : ndarray (n,)
        Waits for global memory of an instruction: its share of loads over the loads in flight.
    l1_miss : ndarray (n,)
        Share of the loads that go beyond L1.
    delays : ndarray (n, 11)
        Cycles of each delay of an instruction; that of memory is without L2 and DRAM.
    instructions : ndarray (n,)
        Warp instructions of one launch on the whole GPU.
    warps, blocks : ndarray (n,)
        Resident warps of a part, and resident blocks of an SM, when the grid fills the GPU.
    use : ndarray (n, 4)
        Share of the SM's warps, registers, shared memory and block slots that this residency takes.
    grid : ndarray (n,)
        Blocks of a launch.
    """

    machine: Machine
    kernels: tuple[Kernel, ...]
    private: Floats
    traffic: Floats
    l2_hit: Floats
    footprint: Floats
    memory_rate: Floats
    l1_miss: Floats
    delays: Floats
    instructions: Floats
    warps: Floats
    blocks: Floats
    use: Floats
    grid: Floats

    def __len__(self) -> int:
        return len(self.kernels)


def table(kernels: Sequence[Kernel], machine: Machine) -> KernelTable:
    """Set up kernels for a GPU.

    Parameters
    ----------
    kernels : sequence of Kernel
        The launches.
    machine : Machine
        The GPU.

    Raises
    ------
    ValueError
        If a block of a kernel does not fit into an SM of the GPU.
    """

    def column(name: str) -> Floats:
        return np.array([getattr(kernel, name) for kernel in kernels], dtype=float)

    tensor, math = column("tensor"), column("math")
    mio, lsu, touched = column("mio"), column("lsu"), column("bytes")
    # Without a tensor pipe its work runs on the FMA pipe: more instructions, each with a smaller share of the rest.
    grown = np.ones(len(kernels)) if machine.tensor_cycles else 1 + (_FMA_INSTRUCTIONS - 1) * tensor
    if not machine.tensor_cycles:
        math, tensor = math + _FMA_INSTRUCTIONS * tensor, np.zeros(len(kernels))
    math, tensor, mio, lsu = (share / grown for share in (math, tensor, mio, lsu))
    private = np.zeros((len(kernels), FIRST_SHARED))
    private[:, ISSUE] = 1.0
    private[:, MATH] = math * machine.math_cycles
    private[:, TENSOR] = tensor * machine.tensor_cycles
    private[:, MIO] = mio * column("mio_conflict") * machine.mio_cycles
    private[:, LSU] = lsu * touched / _SECTOR * machine.lsu_cycles
    miss = 1 - column("l1_hit")
    loads = lsu * (1 - column("stores"))
    waits = loads / column("parallel_loads")
    delays = np.zeros((len(kernels), len(DELAYS)))
    slow = machine.math_latency / 4
    for name, values in {
        "memory": waits * machine.l1_latency,
        "shared": mio * machine.shared_latency * 0.5,
        "dependency": column("dependency") * slow / grown,
        "barrier": column("barrier") / grown,
        "fence": column("fence") / grown,
        "fetch": column("fetch") / grown,
        "branch": column("branch") / grown,
        "constant": np.full(len(kernels), 0.04),
        "dispatch": 0.05 * (math + tensor),
        "drain": lsu * column("stores") * 0.4,
        "misc": np.full(len(kernels), 0.03),
    }.items():
        delays[:, DELAYS.index(name)] = values
    blocks, use = residency(kernels, machine)
    warps_of_block = np.ceil(column("threads") / 32)
    return KernelTable(
        machine=machine,
        kernels=tuple(kernels),
        private=private,
        traffic=lsu * touched * miss,
        l2_hit=column("l2_hit"),
        footprint=column("footprint_mib"),
        memory_rate=waits,
        l1_miss=miss,
        delays=delays,
        instructions=column("instructions") * grown * column("grid") * warps_of_block,
        warps=blocks * warps_of_block / machine.parts,
        blocks=blocks,
        use=use,
        grid=column("grid"),
    )


def residency(kernels: Sequence[Kernel], machine: Machine) -> tuple[Floats, Floats]:
    """Return the blocks that an SM holds at once, and the share of each limit that they take."""
    limits = np.array([machine.max_warps, machine.registers, machine.shared_kib, machine.max_blocks])
    needs = np.array(
        [
            # A warp's registers come in units of 256, shared memory loses 1 KiB a block to the system.
            [warps := np.ceil(kernel.threads / 32), warps * np.ceil(kernel.registers * 32 / 256) * 256,
             kernel.shared_kib + 1.0, 1.0]
            for kernel in kernels
        ],
        dtype=float,
    ).reshape(len(kernels), 4)  # fmt: skip
    blocks = np.floor(np.min(limits / needs, axis=1))
    if np.any(blocks < 1):
        kernel = kernels[int(np.argmin(blocks))]
        raise ValueError(f"a block of {kernel.name} does not fit into an SM of {machine.name}")
    return blocks, blocks[:, None] * needs / limits


def memory_path(
    kernel_table: KernelTable, rows: npt.NDArray[np.intp], l2_share: Floats, joint_footprint: Floats
) -> tuple[Floats, Floats, Floats]:
    """Return what L2 and DRAM are asked for when a cache holds a joint footprint.

    The hit rate falls with the data that compete for the cache as C / (C + F): a cache as large as the data keeps half.

    Parameters
    ----------
    kernel_table : KernelTable
        The kernels.
    rows : ndarray of int
        Which kernels, any shape.
    l2_share : ndarray
        Share of the L2 that is theirs, same shape.
    joint_footprint : ndarray
        MiB of all that compete for it, the kernel's own included, same shape.

    Returns
    -------
    tuple of ndarray
        Cycles at L2, cycles at DRAM (both for the part's even share of the whole GPU), and cycles of latency beyond L1.
    """
    machine = kernel_table.machine
    capacity = machine.l2_mib * l2_share
    hit = kernel_table.l2_hit[rows] * capacity / (capacity + joint_footprint)
    traffic = kernel_table.traffic[rows]
    beyond = kernel_table.memory_rate[rows] * kernel_table.l1_miss[rows]
    latency = beyond * (
        machine.l2_latency - machine.l1_latency + (1 - hit) * (machine.dram_latency - machine.l2_latency)
    )
    return traffic / machine.l2_bytes, traffic * (1 - hit) / machine.dram_bytes, latency
