"""How fast each job moves while a given kernel of every job is on the GPU: the micro-architecture of a co-run.

A *state* names the kernel that each member of a set runs at the moment, or that it is between kernels.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from analysis.sharing.demands import DRAM, FIRST_SHARED, L2, MEMORY, STATIONS, KernelTable, memory_path
from analysis.sharing.layout import Layout
from analysis.sharing.network import Solution, solve

Floats = npt.NDArray[np.float64]
Rows = npt.NDArray[np.intp]

#: How far kernels that don't fit beside each other take turns instead of mixing their blocks. Under the leftover policy
#: the blocks of a later kernel wait until all of an earlier one are placed; clients' launches still interleave.
HEAD_OF_LINE = 0.5

#: Share of its usual residency that a job keeps when others go first.
_CRUMBS = 0.05

#: No kernel on the GPU.
GAP = -1


@dataclass(frozen=True)
class Solo:
    """Kernels alone on the whole GPU, one value a kernel.

    Attributes
    ----------
    throughput : ndarray (n,)
        Instructions a cycle of one SM sub-partition, averaged over the GPU.
    length_us : ndarray (n,)
        Time of one launch.
    waves : ndarray (n,)
        Rounds of blocks that a launch needs.
    """

    throughput: Floats
    length_us: Floats
    waves: Floats


@dataclass(frozen=True)
class Places:
    """Layouts of a batch of states, stacked: the arrays of `Layout` with the batch as first axis."""

    sm: Floats
    bandwidth: Floats
    l2: Floats
    meets: Floats
    domain: npt.NDArray[np.int64]
    priority: npt.NDArray[np.int64]

    @classmethod
    def of(cls, layouts: list[Layout]) -> Places:
        """Stack layouts of equal size."""
        names = ("sm", "bandwidth", "l2", "meets", "domain", "priority")
        return cls(*(np.stack([getattr(layout, name) for layout in layouts]) for name in names))

    def repeat(self, times: int) -> Places:
        """Repeat every layout, for each of a number of states."""
        return replace(self, **{name: np.repeat(values, times, axis=0) for name, values in vars(self).items()})


@dataclass(frozen=True)
class Mixed:
    """States solved.

    Attributes
    ----------
    rate : ndarray (m, k)
        Speed of each member against alone on the whole GPU, kernels mixing their blocks; 1 between kernels.
    turns : ndarray (m, k)
        Share of the time in which the kernels take turns instead.
    turn_rate : ndarray (m, k)
        Speed while they take turns.
    population : ndarray (m, k)
        Warps of each member on a sub-partition that hosts it.
    demand : ndarray (m, k, 7)
        Cycles that its instructions hold the stations.
    solution : Solution
        Throughputs and residence times of the network.
    delays : ndarray (m, k, 11)
        Cycles of each delay.
    """

    rate: Floats
    turns: Floats
    turn_rate: Floats
    population: Floats
    demand: Floats
    solution: Solution
    delays: Floats

    @property
    def speed(self) -> Floats:
        """Speed of each member, both ways of sharing weighted (m, k)."""
        speed: Floats = (1 - self.turns) * self.rate + self.turns * self.turn_rate
        return speed


def solo(kernels: KernelTable) -> Solo:
    """Solve every kernel alone on the whole GPU."""
    rows = np.arange(len(kernels), dtype=np.intp)[:, None]
    mixed = _mix(kernels, rows, None)
    throughput = mixed.solution.throughput[:, 0]
    machine = kernels.machine
    cycles = kernels.instructions / (throughput * machine.sm_count * machine.parts)
    return Solo(throughput, cycles / machine.clock_ghz / 1e3, kernels.grid / (kernels.blocks * machine.sm_count))


def states(kernels: KernelTable, alone: Solo, rows: Rows, places: Places | None, head_of_line: float) -> Mixed:
    """Solve a batch of states.

    Parameters
    ----------
    kernels : KernelTable
        The kernels.
    alone : Solo
        The same kernels alone.
    rows : ndarray (m, k) of int
        The kernel of each member, or `GAP`.
    places : Places, optional
        Layouts of the states; None where all share everything.
    head_of_line : float
        How far kernels that don't fit together take turns, 0 to 1.

    Returns
    -------
    Mixed
        Speeds and what they come from.
    """
    mixed = _mix(kernels, rows, places)
    busy = rows != GAP
    at = np.where(busy, rows, 0)
    sm = np.ones(rows.shape) if places is None else places.sm
    rate = np.where(busy, sm * mixed.solution.throughput / alone.throughput[at], 1.0)
    turns, share = _turns(kernels, alone, rows, places)
    if places is None:
        own_rate = np.ones(rows.shape)
    else:
        # What a member reaches in its share while it has that to itself.
        single = replace(places, meets=np.eye(rows.shape[1])[None].repeat(len(rows), axis=0),
                         domain=np.tile(np.arange(rows.shape[1]), (len(rows), 1)))  # fmt: skip
        lone = _mix(kernels, rows, single).solution.throughput
        own_rate = np.where(busy, sm * lone / alone.throughput[at], 1.0)
    turn_rate = np.where(busy, share * own_rate, 1.0)
    return replace(mixed, rate=rate, turns=head_of_line * turns, turn_rate=turn_rate)


def _mix(kernels: KernelTable, rows: Rows, places: Places | None) -> Mixed:
    """Solve the network of the members' warps on a sub-partition."""
    busy = rows != GAP
    at = np.where(busy, rows, 0)
    ones = np.ones(rows.shape)
    sm, bandwidth, l2 = (ones, ones, ones) if places is None else (places.sm, places.bandwidth, places.l2)
    full, use = _residency(kernels, rows, sm)
    population = full * _room(use, places)
    own = np.where(busy, kernels.footprint[at], 0.0)
    same = None if places is None else (places.domain[:, :, None] == places.domain[:, None, :]).astype(float)
    joint = own.sum(axis=1, keepdims=True) + 0 * own if same is None else np.einsum("mij,mj->mi", same, own)
    at_l2, at_dram, latency = memory_path(kernels, at, l2, joint)
    demand = np.empty((*rows.shape, len(STATIONS)))
    demand[..., :FIRST_SHARED] = kernels.private[at]
    # Fewer SMs leave each a larger part of the bandwidth that its domain has.
    demand[..., L2], demand[..., DRAM] = at_l2 * sm / bandwidth, at_dram * sm / bandwidth
    demand *= busy[..., None]
    apart = None
    if places is not None and np.any(sm < bandwidth):
        apart = np.zeros(demand.shape)
        part = busy * np.maximum(1 - sm / bandwidth, 0.0)
        apart[..., L2], apart[..., DRAM] = at_l2 * part, at_dram * part
    delays = kernels.delays[at].copy()
    delays[..., MEMORY] += latency
    delays *= busy[..., None]
    coupling, weight = (None, None) if places is None or same is None else _meetings(places, same)
    solution = solve(population, demand, delays.sum(axis=2), coupling, weight, apart)
    nothing = np.zeros(rows.shape)
    return Mixed(nothing, nothing, nothing, population, demand, solution, delays)


def _residency(kernels: KernelTable, rows: Rows, sm: Floats) -> tuple[Floats, Floats]:
    """Return warps and shares of the SM's limits that each member has when it fills its SMs, averaged over waves."""
    busy = rows != GAP
    at = np.where(busy, rows, 0)
    waves = kernels.grid[at] / (kernels.blocks[at] * kernels.machine.sm_count * sm)
    filled = np.where(busy, waves / np.maximum(np.ceil(waves - 1e-9), 1.0), 0.0)
    return kernels.warps[at] * filled, kernels.use[at] * filled[..., None]


def _room(use: Floats, places: Places | None) -> Floats:
    """Return the part of its residency that each member keeps beside the others.

    Members of equal rank give way in proportion; a lower rank gets what the higher ones leave.
    """
    if places is None:
        room: Floats = 1 / np.maximum(use.sum(axis=1).max(axis=1), 1.0)[:, None] * np.ones(use.shape[:2])
        return room
    rank = places.priority
    equal = places.meets * (rank[:, :, None] == rank[:, None, :])
    together = np.einsum("mij,mjr->mir", equal, use)
    room = 1 / np.maximum(together.max(axis=2), 1.0)
    for level in np.unique(rank)[-2::-1]:
        higher = places.meets * (rank[:, :, None] == level) * (rank[:, None, :] > level)
        left = 1 - np.einsum("mij,mjr->mir", higher, use * room[..., None])
        fits = np.divide(left, together, out=np.full_like(left, np.inf), where=together > 0).min(axis=2)
        room = np.where(rank == level, np.clip(np.minimum(room, fits), _CRUMBS, 1.0), room)
    return room


def _meetings(places: Places, same: Floats) -> tuple[Floats, Floats]:
    """Return at which stations the members meet, and how many SMs feed each station, for the network."""
    m, k, _ = places.meets.shape
    coupling, weight = np.empty((m, k, k, len(STATIONS))), np.ones((m, k, len(STATIONS)))
    coupling[..., :FIRST_SHARED] = places.meets[..., None]
    coupling[..., FIRST_SHARED:] = same[..., None]
    weight[..., FIRST_SHARED:] = places.sm[..., None]
    return coupling, weight


def _turns(kernels: KernelTable, alone: Solo, rows: Rows, places: Places | None) -> tuple[Floats, Floats]:
    """Return how much of the time kernels that don't fit together take turns, and each member's share of the turns.

    Turns change with every launch, so a share is the kernel's length among the lengths of all: a short kernel waits
    behind a long one. A job that goes first waits for a block of the other only.
    """
    m, k = rows.shape
    busy = rows != GAP
    at = np.where(busy, rows, 0)
    sm = np.ones((m, k)) if places is None else places.sm
    meets = np.ones((m, k, k)) if places is None else places.meets
    _, use = _residency(kernels, rows, sm)
    turns = np.where(busy, np.clip(np.einsum("mij,mjr->mir", meets, use).max(axis=2) - 1, 0.0, 1.0), 0.0)
    length = np.where(busy, alone.length_us[at], 0.0)
    block = length / np.maximum(np.ceil(alone.waves[at]), 1.0)
    waits = np.broadcast_to(length[:, None, :], (m, k, k))
    own = length
    if places is not None:
        rank = places.priority
        waits = np.where(rank[:, None, :] < rank[:, :, None], block[:, None, :], waits)
        behind = ((rank[:, None, :] > rank[:, :, None]) & busy[:, None, :]).any(axis=2)
        own = np.where(behind, block, length)
    others = (meets * waits).sum(axis=2) - length
    share = np.divide(own, own + others, out=np.ones((m, k)), where=busy & (own > 0))
    return turns, share
