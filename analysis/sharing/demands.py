"""From a kernel and a GPU to the queueing network: service demands, delays, residency, for one SM sub-partition.

Everything is an array over kernels, so that thousands of networks are set up at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from analysis.sharing.hardware import Machine
from analysis.sharing.work import Kernel

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
