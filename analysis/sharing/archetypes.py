"""Kinds of kernels that deep-learning jobs are made of, with the instruction mixes that are typical of them."""

from __future__ import annotations

from analysis.sharing.work import Kernel


def gemm(name: str, grid: int, depth: float, *, threads: int = 256, footprint_mib: float = 2.5) -> Kernel:
    """Return a half-precision matrix product on tensor cores, operands staged through shared memory.

    Parameters
    ----------
    name : str
        Name of the kernel.
    grid : int
        Tiles of the result.
    depth : float
        Inner dimension in units of 1024.
    threads : int
        Threads of a block.
    footprint_mib : float
        Operand data that tiles have in common.
    """
    return Kernel(
        name, grid, threads, 128, 36.0, 5200 * depth, math=0.24, tensor=0.11, mio=0.17, lsu=0.022, mio_conflict=1.1,
        bytes=448, l1_hit=0.05, l2_hit=0.95, footprint_mib=footprint_mib, stores=0.08, parallel_loads=8.0,
        dependency=2.2, barrier=0.6, branch=0.05,
    )  # fmt: skip


def conv(name: str, grid: int, depth: float, *, footprint_mib: float = 2.0) -> Kernel:
    """Return an implicit-GEMM convolution: as `gemm`, with more address arithmetic and less reuse."""
    return Kernel(
        name, grid, 256, 112, 30.0, 4200 * depth, math=0.36, tensor=0.085, mio=0.16, lsu=0.030, mio_conflict=1.2,
        bytes=384, l1_hit=0.18, l2_hit=0.90, footprint_mib=footprint_mib, stores=0.10, parallel_loads=5.0,
        dependency=2.4, barrier=0.7, branch=0.12,
    )  # fmt: skip


def elementwise(name: str, grid: int, *, work: float = 1.0, footprint_mib: float = 96.0) -> Kernel:
    """Return a kernel that streams through memory once: activations, additions, casts."""
    return Kernel(
        name, grid, 256, 32, 0.0, 220 * work, math=0.48, lsu=0.075, bytes=224, l1_hit=0.0, l2_hit=0.45,
        footprint_mib=footprint_mib, stores=0.35, parallel_loads=2.0, dependency=2.2, branch=0.2,
    )  # fmt: skip


def norm(name: str, grid: int, *, threads: int = 256, work: float = 1.0) -> Kernel:
    """Return a reduction over rows: layer norm, batch norm, softmax; streams, then synchronises."""
    return Kernel(
        name, grid, threads, 40, 2.0, 420 * work, math=0.46, mio=0.12, lsu=0.050, bytes=192, l1_hit=0.12, l2_hit=0.60,
        footprint_mib=24.0, stores=0.33, parallel_loads=1.6, dependency=2.6, barrier=7.0, branch=0.4,
    )  # fmt: skip


def optimiser(name: str, grid: int, *, work: float = 1.0) -> Kernel:
    """Return a fused optimiser step: four arrays read, three written, nothing reused."""
    return Kernel(
        name, grid, 512, 64, 0.0, 520 * work, math=0.42, mio=0.03, lsu=0.13, bytes=384, l2_hit=0.15,
        footprint_mib=400.0, stores=0.42, parallel_loads=4.0, dependency=2.0,
    )  # fmt: skip


def attention(name: str, grid: int, depth: float) -> Kernel:
    """Return a fused attention: tensor work and exponentials out of registers and shared memory."""
    return Kernel(
        name, grid, 128, 200, 44.0, 6800 * depth, math=0.38, tensor=0.06, mio=0.20, lsu=0.010, mio_conflict=1.1,
        bytes=448, l1_hit=0.05, l2_hit=0.95, footprint_mib=3.0, stores=0.1, parallel_loads=8.0, dependency=2.2,
        barrier=0.5, branch=0.05,
    )  # fmt: skip


def gemv(name: str, grid: int, depth: float, *, reuse: float = 1.0) -> Kernel:
    """Return a product of a weight matrix with few vectors: every weight is read once, so memory is all.

    Parameters
    ----------
    name, grid : str, int
        Name and blocks.
    depth : float
        Inner dimension in units of 1024.
    reuse : float
        Vectors that share one pass over the weights.
    """
    return Kernel(
        name, grid, 128, 64, 4.0, 900 * depth * reuse**0.5, math=min(0.34 + 0.05 * reuse, 0.6), mio=0.05,
        lsu=0.14 / reuse**0.5, bytes=512, l2_hit=0.10, footprint_mib=800.0, stores=0.02, parallel_loads=6.0,
        dependency=1.6, barrier=0.4,
    )  # fmt: skip


def gather(name: str, grid: int, *, work: float = 1.0, footprint_mib: float = 900.0, reuse: float = 0.35) -> Kernel:
    """Return table look-ups at random rows: whole sectors for a few bytes, latency as much as bandwidth."""
    return Kernel(
        name, grid, 128, 36, 0.0, 600 * work, math=0.42, lsu=0.055, bytes=128, l1_hit=0.08, l2_hit=reuse,
        footprint_mib=footprint_mib, stores=0.15, parallel_loads=0.8, dependency=2.2, branch=0.7, fetch=0.3,
    )  # fmt: skip


def scatter(name: str, grid: int, *, work: float = 1.0) -> Kernel:
    """Return a sparse reduction with atomics: irregular rows, queues at the load/store unit, fences."""
    return Kernel(
        name, grid, 256, 40, 0.0, 700 * work, math=0.34, lsu=0.13, bytes=512, l1_hit=0.80, l2_hit=0.95,
        footprint_mib=3.0, stores=0.45, parallel_loads=1.5, dependency=1.8, branch=1.1, fence=1.2,
    )  # fmt: skip


def small(name: str, grid: int, *, threads: int = 128, work: float = 1.0) -> Kernel:
    """Return a launch too small for the GPU: few blocks, latency all over."""
    return Kernel(
        name, grid, threads, 40, 4.0, 700 * work, math=0.45, mio=0.08, lsu=0.05, bytes=144, l1_hit=0.35, l2_hit=0.85,
        footprint_mib=2.0, stores=0.25, parallel_loads=1.5, dependency=3.2, barrier=1.2, branch=0.6, fetch=0.9,
    )  # fmt: skip


def recurrent(name: str, grid: int, depth: float) -> Kernel:
    """Return one step of a recurrent or streaming layer: fp32 arithmetic, limited by the FMA pipe."""
    return Kernel(
        name, grid, 256, 72, 12.0, 3000 * depth, math=0.62, mio=0.15, lsu=0.025, bytes=256, l1_hit=0.30, l2_hit=0.92,
        footprint_mib=3.0, stores=0.2, parallel_loads=3.0, dependency=2.2, barrier=0.7, branch=0.1,
    )  # fmt: skip
