"""What a job asks of a GPU, written without any GPU: kernels, their launches in a step, and the host's share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Kernel:
    """One kind of launch; all rates are averages over the instructions that a warp executes.

    Attributes
    ----------
    name : str
        Name as a profiler prints it.
    grid, threads : int
        Blocks of a launch and threads of a block.
    registers : int
        Registers of a thread.
    shared_kib : float
        Shared memory of a block.
    instructions : float
        Instructions that each warp executes, a tensor instruction counting as one of 2048 FMA.
    math, tensor, mio, lsu : float
        Share of the instructions that go to the FMA/ALU pipes, to the tensor pipe, to shared memory and special
        functions, and to global memory.
    mio_conflict : float
        Passes that a shared-memory instruction needs (1 without bank conflicts).
    bytes : float
        Bytes that a global-memory instruction of a warp touches, in whole sectors.
    l1_hit, l2_hit : float
        Hit rates with the cache to itself; the L2 hit rate is that of a cache without limit.
    footprint_mib : float
        Data that the kernel comes back to; the larger it is beside L2, the fewer hits.
    stores : float
        Share of the global-memory instructions that store.
    parallel_loads : float
        Loads that a warp has in flight before it waits.
    dependency : float
        Cycles of fixed latency for each instruction that its own parallelism doesn't hide, on a pipe of 4 cycles.
    barrier, fence, fetch, branch : float
        Cycles for each instruction at barriers, at memory fences, for instruction fetch, and for resolving branches.
    """

    name: str
    grid: int
    threads: int
    registers: int
    shared_kib: float
    instructions: float
    math: float
    tensor: float = 0.0
    mio: float = 0.0
    lsu: float = 0.1
    mio_conflict: float = 1.0
    bytes: float = 128.0
    l1_hit: float = 0.0
    l2_hit: float = 0.3
    footprint_mib: float = 16.0
    stores: float = 0.3
    parallel_loads: float = 2.0
    dependency: float = 2.0
    barrier: float = 0.0
    fence: float = 0.0
    fetch: float = 0.15
    branch: float = 0.1

    def __post_init__(self) -> None:
        shares = (self.math, self.tensor, self.mio, self.lsu)
        if min(shares) < 0 or sum(shares) > 1 + 1e-9:
            raise ValueError(f"{self.name}: the shares of the instruction mix add up to {sum(shares):.3f}")
        if min(self.grid, self.threads, self.registers, self.instructions) <= 0:
            raise ValueError(f"{self.name}: grid, threads, registers and instructions are positive")


Phase = Literal["training", "inference"]


@dataclass(frozen=True)
class Service:
    """An inference server's load: requests come whether or not the last one is done.

    Attributes
    ----------
    load : float
        Arrivals times the solo time of a request: 0.5 keeps the server half busy when it is alone.
    steps : int
        Steps of the job in one request; for LLM decoding the tokens of an answer.
    spread : float
        Coefficient of variation of a request's size.
    """

    load: float = 0.5
    steps: int = 1
    spread: float = 0.3


@dataclass(frozen=True)
class Workload:
    """A job: a step is a mix of kernels and a time in which only the host works.

    Attributes
    ----------
    name : str
        Name, as in every table.
    kernels : tuple of (Kernel, int)
        Kinds of launches and how many of each a step makes.
    host_ms : float
        Time of a step, or gap between two requests of a closed client, without a kernel on the GPU.
    memory_mib : float
        Peak device memory.
    phase : {"training", "inference"}
        Whether it trains or serves.
    service : Service or None
        Load of a server; None for a job that runs as fast as it can.
    """

    name: str
    kernels: tuple[tuple[Kernel, int], ...]
    host_ms: float
    memory_mib: float
    phase: Phase = "training"
    service: Service | None = None

    def __post_init__(self) -> None:
        if not self.kernels:
            raise ValueError(f"{self.name}: a workload has at least one kernel")
        if self.host_ms < 0 or min(count for _, count in self.kernels) < 1:
            raise ValueError(f"{self.name}: launches are positive and the host's time is not negative")
