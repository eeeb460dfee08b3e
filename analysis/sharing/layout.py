"""Who may use what of a GPU: shares of SMs, L2 and bandwidth, who meets whom where, and who goes first."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

import numpy as np
import numpy.typing as npt

from analysis.errors import UsageError
from analysis.sharing.demands import Machine

Floats = npt.NDArray[np.float64]

#: Share of the device memory that jobs can have; the driver and the contexts keep the rest.
USABLE_MEMORY = 0.97


@dataclass(frozen=True)
class Layout:
    """The places of the members of one set.

    Attributes
    ----------
    sm, bandwidth, l2 : ndarray (k,)
        Share of the GPU's SMs that a member may run on; shares of DRAM bandwidth and L2 of its memory domain.
    meets : ndarray (k, k)
        Share of member i's SMs that member j may run on too; 1 on the diagonal.
    domain : ndarray (k,) of int
        Members of one memory domain share L2 and DRAM, others never meet there.
    priority : ndarray (k,) of int
        A higher one goes first.
    capacity_mib : ndarray (k,)
        Memory of the member's domain, or the member's own cap where that is smaller.
    labels : tuple of str
        What a member was given, such as ``3g.40gb`` or ``50 %``; empty where nothing.
    """

    sm: Floats
    bandwidth: Floats
    l2: Floats
    meets: Floats
    domain: npt.NDArray[np.int64]
    priority: npt.NDArray[np.int64]
    capacity_mib: Floats
    labels: tuple[str, ...]

    @property
    def k(self) -> int:
        """Number of members."""
        return len(self.sm)

    @property
    def uniform(self) -> bool:
        """Whether all members may use everything and none goes first."""
        return bool(
            np.all(self.sm == 1) and np.all(self.bandwidth == 1) and np.all(self.l2 == 1) and np.all(self.meets == 1)
            and len(set(self.domain.tolist())) == 1 and len(set(self.priority.tolist())) == 1
        )  # fmt: skip

    def take(self, members: tuple[int, ...]) -> Layout:
        """Return the layout of some of the members, each in the place that it has."""
        at = np.array(members, dtype=np.intp)
        return Layout(
            self.sm[at], self.bandwidth[at], self.l2[at], self.meets[np.ix_(at, at)], self.domain[at],
            self.priority[at], self.capacity_mib[at], tuple(self.labels[i] for i in members),
        )  # fmt: skip

    def misfit(self, memory_mib: Floats) -> str | None:
        """Say why the members' memory does not fit, or None when it does.

        Parameters
        ----------
        memory_mib : ndarray (k,)
            Peak memory of each member.
        """
        for place, (need, cap) in enumerate(zip(memory_mib, self.capacity_mib, strict=True)):
            if need > cap:
                name = f" ({self.labels[place]})" if self.labels[place] else ""
                return f"out of memory: {need:,.0f} MiB of {cap:,.0f} MiB{name}"
        for domain in set(self.domain.tolist()):
            inside = self.domain == domain
            need, cap = float(memory_mib[inside].sum()), float(self.capacity_mib[inside].max())
            if need > cap:
                return f"out of memory: together {need:,.0f} MiB of {cap:,.0f} MiB"
        return None


def shared(machine: Machine, k: int, priority: tuple[int, ...] = ()) -> Layout:
    """Return the layout in which everybody may use everything."""
    ones = np.ones(k)
    ranks = np.array(priority or (0,) * k, dtype=np.int64)
    if len(ranks) != k:
        raise UsageError(f"{len(ranks)} priorities for {k} jobs", "Give one for each job.")
    return Layout(
        ones, ones, ones, np.ones((k, k)), np.zeros(k, dtype=np.int64), ranks,
        np.full(k, machine.memory_mib * USABLE_MEMORY), ("",) * k,
    )  # fmt: skip


def limited(
    machine: Machine, sm: tuple[float, ...], caps_mib: tuple[float | None, ...] = (), *, disjoint: bool = False
) -> Layout:
    """Return the layout of members that may run on a part of the SMs each, with L2 and DRAM in common.

    Parts that add up to no more than the whole are put beside each other. Beyond that they overlap: what is too much is
    spread over the pairs, and one more member never makes two others meet less.

    Parameters
    ----------
    machine : Machine
        The GPU.
    sm : tuple of float
        Shares of the SMs, 0 to 1.
    caps_mib : tuple of float or None
        A memory cap for each; none by default.
    disjoint : bool
        Refuse parts that overlap.

    Raises
    ------
    UsageError
        If a share is out of range, or the parts overlap and must not.
    """
    share = np.array(sm, dtype=float)
    if np.any(share <= 0) or np.any(share > 1):
        raise UsageError("a share of the SMs lies outside 0 to 100 %", "Give each job between 1 and 100 %.")
    k = len(share)
    if disjoint and share.sum() > 1 + 1e-9:
        raise UsageError(f"the parts add up to {100 * share.sum():.0f} %", "Let them add up to at most 100 %.")
    meets = np.clip(_common(share) / share[:, None], 0.0, 1.0)
    np.fill_diagonal(meets, 1.0)
    whole = machine.memory_mib * USABLE_MEMORY
    caps = [whole if cap is None else min(cap, whole) for cap in (caps_mib or (None,) * k)]
    return Layout(
        share, np.ones(k), np.ones(k), meets, np.zeros(k, dtype=np.int64), np.zeros(k, dtype=np.int64),
        np.array(caps), tuple(
            f"{100 * part:.0f} %" + ("" if cap is None else f", {cap:,.0f} MiB")
            for part, cap in zip(share, caps_mib or (None,) * k, strict=True)
        ),
    )  # fmt: skip


def _common(share: Floats) -> Floats:
    """Return the part of the SMs that each two members have in common (k, k), from their shares.

    What the shares of a set exceed the whole by is spread over its pairs. The set is the one of all that hold the two
    in which most is left to them: a small part that joins must not pull two others apart.
    """
    k = len(share)
    common = np.zeros((k, k))
    for i, j in combinations(range(k), 2):
        others = np.sort(np.delete(share, (i, j)))[::-1]
        over = share[i] + share[j] - 1 + np.append(0.0, np.cumsum(others))
        common[i, j] = common[j, i] = max(float((over / np.arange(1, k)).max()), 0.0)
    return np.minimum(common, np.minimum(share[:, None], share[None, :]))
