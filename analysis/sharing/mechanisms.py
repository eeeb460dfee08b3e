"""The ways in which jobs share a GPU, each as the layout it gives them and the speed it leaves them in a state."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from analysis.errors import UsageError
from analysis.reference.mechanism_names import MPS, MPS_PRIORITY
from analysis.sharing.corun import GAP, Rows
from analysis.sharing.demands import Machine
from analysis.sharing.layout import Layout, limited, shared
from analysis.sharing.partitions import instances

Floats = npt.NDArray[np.float64]

#: Speeds of members whose blocks mix on the SMs: rows (m, k) to speeds (m, k).
Mix = Callable[[Rows], Floats]


class Mechanism(Protocol):
    """A way to share a GPU.

    Attributes
    ----------
    name : str
        As every table spells it.
    """

    @property
    def name(self) -> str:
        """Name, as every table spells it."""
        ...

    def layout(self, machine: Machine, k: int) -> Layout:
        """Return the places of k members."""
        ...

    def speeds(self, rows: Rows, priority: npt.NDArray[np.int64], burst_us: Floats, mix: Mix) -> Floats:
        """Return the members' speeds in a batch of states.

        Parameters
        ----------
        rows : ndarray (m, k) of int
            The kernel of each member, or `GAP`.
        priority : ndarray (m, k) of int
            Ranks of the members.
        burst_us : ndarray (m, k)
            Time of each member's kernels between two gaps, alone.
        mix : callable
            The speeds when kernels run beside each other.
        """
        ...


@dataclass(frozen=True)
class CudaMps:
    """CUDA MPS: kernels of all clients run beside each other.

    Attributes
    ----------
    percentages : tuple of float
        Active thread percentage of each client, 0 to 100; all 100 by default.
    caps_mib : tuple of float or None
        Memory cap of each client.
    """

    percentages: tuple[float, ...] = ()
    caps_mib: tuple[float | None, ...] = ()
    name: str = MPS

    def layout(self, machine: Machine, k: int) -> Layout:
        """Return the places: everything for all, or a part of the SMs each."""
        if not self.percentages and not self.caps_mib:
            return shared(machine, k)
        percentages = self.percentages or (100.0,) * k
        _count(len(percentages), k, "thread percentages")
        _count(len(self.caps_mib) or k, k, "memory caps")
        return limited(machine, tuple(part / 100 for part in percentages), self.caps_mib)

    def speeds(self, rows: Rows, priority: npt.NDArray[np.int64], burst_us: Floats, mix: Mix) -> Floats:
        """Return the speeds of kernels beside each other."""
        return mix(rows)


@dataclass(frozen=True)
class CudaMpsPriority:
    """CUDA MPS with client priorities: free block slots go to the high-priority client, running blocks stay.

    Attributes
    ----------
    high : tuple of int
        Positions of the high-priority members.
    """

    high: tuple[int, ...] = (0,)
    name: str = MPS_PRIORITY

    def layout(self, machine: Machine, k: int) -> Layout:
        """Return the places: everything for all, some first."""
        return shared(machine, k, _ranks(self.high, k))

    def speeds(self, rows: Rows, priority: npt.NDArray[np.int64], burst_us: Floats, mix: Mix) -> Floats:
        """Return the speeds of kernels beside each other."""
        return mix(rows)


@dataclass(frozen=True)
class TimeSlicing:
    """Time-slicing, what happens without MPS: one job has the whole GPU for a quantum, then the next.

    Attributes
    ----------
    quantum_ms, switch_ms : float
        Length of a slice, and what the change costs.
    """

    quantum_ms: float = 2.0
    switch_ms: float = 0.15
    name: str = "time-slicing"

    def layout(self, machine: Machine, k: int) -> Layout:
        """Return the places: everything for all."""
        return shared(machine, k)

    def speeds(self, rows: Rows, priority: npt.NDArray[np.int64], burst_us: Floats, mix: Mix) -> Floats:
        """Return an equal share of the slices for each job that has a kernel to run."""
        busy = rows != GAP
        waiting = busy.sum(axis=1, keepdims=True)
        useful = np.where(waiting > 1, self.quantum_ms / (self.quantum_ms + self.switch_ms), 1.0)
        return np.where(busy, useful / np.maximum(waiting, 1), 1.0)


@dataclass(frozen=True)
class Exclusive:
    """One job after the other: nobody is slowed down, everybody but the first waits."""

    name: str = "exclusive"

    def layout(self, machine: Machine, k: int) -> Layout:
        """Return the places: everything for all."""
        return shared(machine, k)

    def speeds(self, rows: Rows, priority: npt.NDArray[np.int64], burst_us: Floats, mix: Mix) -> Floats:
        """Return full speed for all."""
        return np.ones(rows.shape)


@dataclass(frozen=True)
class Mig:
    """MIG: each job in a GPU instance of its own, with its own SMs, L2 and bandwidth.

    Attributes
    ----------
    profiles : tuple of str
        Profile of each member's GPU instance, such as ``3g.40gb``; chosen for the largest STP when empty.
    groups : tuple of int
        Members with one number have a compute instance each inside one GPU instance, and share its bandwidth.
    """

    profiles: tuple[str, ...] = ()
    groups: tuple[int, ...] = ()
    name: str = "MIG"

    def layout(self, machine: Machine, k: int) -> Layout:
        """Return the places: instances."""
        _count(len(self.profiles), k, "MIG profiles")
        return instances(machine, self.profiles, self.groups, split=True)

    def speeds(self, rows: Rows, priority: npt.NDArray[np.int64], burst_us: Floats, mix: Mix) -> Floats:
        """Return the speeds of kernels in their instances."""
        return mix(rows)


@dataclass(frozen=True)
class MpsInsideMig:
    """CUDA MPS inside MIG: members with one group number share one GPU instance as MPS clients.

    Attributes
    ----------
    profiles : tuple of str
        Profile of the instance that each member is in.
    groups : tuple of int
        Which members are in one instance.
    """

    profiles: tuple[str, ...]
    groups: tuple[int, ...]
    name: str = "MPS inside MIG"

    def layout(self, machine: Machine, k: int) -> Layout:
        """Return the places: instances, shared inside a group."""
        _count(len(self.profiles), k, "MIG profiles")
        return instances(machine, self.profiles, self.groups)

    def speeds(self, rows: Rows, priority: npt.NDArray[np.int64], burst_us: Floats, mix: Mix) -> Floats:
        """Return the speeds of kernels beside each other in their instances."""
        return mix(rows)


@dataclass(frozen=True)
class StaticPartition:
    """A static partition of the SMs; L2 and DRAM stay in common.

    Attributes
    ----------
    percentages : tuple of float
        Share of the SMs of each member, at most 100 together; equal shares when empty.
    """

    percentages: tuple[float, ...] = ()
    name: str = "static SM partition"

    def layout(self, machine: Machine, k: int) -> Layout:
        """Return the places: SMs of one's own."""
        percentages = self.percentages or (100.0 / k,) * k
        _count(len(percentages), k, "shares")
        return limited(machine, tuple(part / 100 for part in percentages), disjoint=True)

    def speeds(self, rows: Rows, priority: npt.NDArray[np.int64], burst_us: Floats, mix: Mix) -> Floats:
        """Return the speeds of kernels on their own SMs."""
        return mix(rows)


@dataclass(frozen=True)
class BlockPriority:
    """Block-level priority as in Tally (ASPLOS '25): best-effort blocks run only in the gaps of high-priority jobs.

    Attributes
    ----------
    high : tuple of int
        Positions of the high-priority members.
    turnaround_us : float
        Bound on the time until best-effort blocks have left the SMs.
    overhead : float
        Extra time of best-effort kernels that are cut into pieces.
    """

    high: tuple[int, ...] = (0,)
    turnaround_us: float = 31.6
    overhead: float = 0.06
    name: str = "block-level priority (Tally)"

    def layout(self, machine: Machine, k: int) -> Layout:
        """Return the places: everything for all, some first."""
        return shared(machine, k, _ranks(self.high, k))

    def speeds(self, rows: Rows, priority: npt.NDArray[np.int64], burst_us: Floats, mix: Mix) -> Floats:
        """Return the speeds: the first see one another and a turnaround, the others run when none of them does."""
        first = priority == priority.max(axis=1, keepdims=True)
        if first.all():
            return mix(rows)
        taken = (first & (rows != GAP)).any(axis=1, keepdims=True)
        beside = np.where(first, rows, GAP)
        after = np.where(first | taken, GAP, rows)
        drain = self.turnaround_us / (self.turnaround_us + burst_us)
        high = np.where(rows != GAP, mix(beside) * (1 - drain), 1.0)
        # While the first ones' burst begins, running blocks still finish: that much is left to the others.
        finishing = np.where(first & (rows != GAP), drain, 0.0).max(axis=1, keepdims=True)
        low = np.where(rows == GAP, 1.0, np.where(taken, finishing, mix(after)) / (1 + self.overhead))
        return np.where(first, high, low)


def _ranks(high: tuple[int, ...], k: int) -> tuple[int, ...]:
    if high and max(high) >= k:
        raise UsageError(f"member {max(high) + 1} of {k} can't go first", "Give the position of a member.")
    return tuple(int(place in high) for place in range(k))


def _count(given: int, k: int, what: str) -> None:
    if given != k:
        raise UsageError(f"{given} {what} for {k} jobs", "Give one for each job.")
