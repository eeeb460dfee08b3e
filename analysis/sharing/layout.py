"""Who may use what of a GPU: shares of SMs, L2 and bandwidth, who meets whom where, and who goes first."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations, combinations_with_replacement

import numpy as np
import numpy.typing as npt
import pandas as pd

from analysis.errors import NotFoundError, UsageError
from analysis.settings import asset
from analysis.sharing.hardware import Machine

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


@dataclass(frozen=True)
class Profile:
    """A MIG profile of one GPU.

    Attributes
    ----------
    name : str
        Such as ``3g.40gb``.
    compute, memory : int
        Compute slices of 7 (A30: of 4) and memory slices of 8 (A30: of 4) that it takes.
    sm : float
        Share of the GPU's SMs.
    bandwidth : float
        Share of L2 and DRAM.
    memory_mib : float
        Its memory.
    """

    name: str
    compute: int
    memory: int
    sm: float
    bandwidth: float
    memory_mib: float


@lru_cache(maxsize=1)
def _profiles() -> pd.DataFrame:
    return pd.read_csv(asset("data", "mig_profiles.csv"))


def mig_profiles(machine: Machine) -> dict[str, Profile]:
    """Return the MIG profiles of a GPU by name, the smallest first; empty where it can't be partitioned."""
    rows = _profiles()
    rows = rows[rows["gpu"] == machine.name]
    slices = int(rows["memory_slices"].max()) if len(rows) else 0
    return {
        str(row["profile"]): Profile(
            str(row["profile"]), int(row["compute_slices"]), int(row["memory_slices"]),
            int(row["compute_slices"]) * int(row["sm_per_slice"]) / machine.sm_count,
            int(row["memory_slices"]) / slices, float(row["memory_mib"]),
        )
        for row in rows.to_dict("records")
    }  # fmt: skip


def mig_choices(machine: Machine, count: int) -> list[tuple[Profile, ...]]:
    """Return the ways to cut a GPU into some number of instances, from the slices that they take.

    The placement rules of the driver forbid a few of these on some GPUs; all of the common ones are here.
    """
    profiles = list(mig_profiles(machine).values())
    if not profiles:
        return []
    compute, memory = max(p.compute for p in profiles), max(p.memory for p in profiles)
    return [
        choice
        for choice in combinations_with_replacement(profiles, count)
        if sum(p.compute for p in choice) <= compute and sum(p.memory for p in choice) <= memory
    ]


def instances(
    machine: Machine, profiles: tuple[str, ...], groups: tuple[int, ...] = (), *, split: bool = False
) -> Layout:
    """Return the layout of members in MIG instances.

    Parameters
    ----------
    machine : Machine
        The GPU.
    profiles : tuple of str
        The profile of the GPU instance that each member is in, or of a compute instance in it, such as ``1c.3g.40gb``.
    groups : tuple of int
        Members with one number share one GPU instance; by default each has its own, except that compute instances of
        one profile are put into one GPU instance while it has slices left.
    split : bool
        Whether members of one GPU instance have a compute instance each, of equal size: their own SMs, and L2 and
        bandwidth in common. Otherwise they share its SMs too, as under MPS.

    Raises
    ------
    NotFoundError
        If the GPU has no such profile.
    UsageError
        If the instances don't fit onto the GPU together.
    """
    known = mig_profiles(machine)
    if not known:
        raise UsageError(f"{machine.name} can't be partitioned", "MIG needs an A30, A100, H100 or later.")
    named = [_compute_instance(name) for name in profiles]
    missing = [name for name, (whole, _) in zip(profiles, named, strict=True) if whole not in known]
    if missing:
        raise NotFoundError(
            f"{machine.name} has no MIG profile {missing[0]!r}",
            f"It has {', '.join(known)}, and compute instances in them such as 1c.{list(known)[-1]}.",
        )
    chosen = [known[whole] for whole, _ in named]
    compute = [slices for _, slices in named]
    group = np.array(groups or _packed(chosen, compute), dtype=np.int64)
    if len(group) != len(profiles):
        raise UsageError(f"{len(group)} instance numbers for {len(profiles)} jobs", "Give one for each job.")
    whole = {int(number): chosen[place] for place, number in enumerate(group)}
    _fit_inside(machine, chosen, compute, group, split=split)
    if sum(p.compute for p in whole.values()) > max(p.compute for p in known.values()) or sum(
        p.memory for p in whole.values()
    ) > max(p.memory for p in known.values()):
        raise UsageError(f"{' + '.join(profiles)} do not fit onto one {machine.name}", "Choose smaller profiles.")
    inside = group[:, None] == group[None, :]
    size = inside.sum(axis=1) if split else np.ones(len(profiles))
    part = np.array([s / p.compute if s else 1 / n for p, s, n in zip(chosen, compute, size, strict=True)])
    meets = np.eye(len(profiles)) if split else inside.astype(float)
    return Layout(
        np.array([p.sm for p in chosen]) * part, np.array([p.bandwidth for p in chosen]),
        np.array([p.bandwidth for p in chosen]), meets, group, np.zeros(len(profiles), dtype=np.int64),
        np.array([p.memory_mib for p in chosen]), tuple(profiles),
    )  # fmt: skip


def _compute_instance(name: str) -> tuple[str, int]:
    """Take a name such as ``1c.3g.40gb`` apart: the GPU instance's profile, and compute slices (0: all of them)."""
    front, dot, rest = name.partition(".")
    if dot and front.endswith("c") and front[:-1].isdigit() and int(front[:-1]) > 0:
        return rest, int(front[:-1])
    return name, 0


def _packed(chosen: list[Profile], compute: list[int]) -> list[int]:
    """Number the GPU instances: compute instances go into one of their profile while it has slices left."""
    numbers: list[int] = []
    left: list[tuple[str, int]] = []
    for profile, slices in zip(chosen, compute, strict=True):
        place = next(
            (n for n, (name, free) in enumerate(left) if slices and name == profile.name and free >= slices), None
        )
        if place is None:
            left.append((profile.name, profile.compute - slices if slices else 0))
            numbers.append(len(left) - 1)
        else:
            left[place] = (profile.name, left[place][1] - slices)
            numbers.append(place)
    return numbers


def _fit_inside(
    machine: Machine, chosen: list[Profile], compute: list[int], group: npt.NDArray[np.int64], *, split: bool
) -> None:
    """Refuse members of one GPU instance that name different ones, or more compute slices than it has."""
    for number in np.unique(group):
        inside = np.flatnonzero(group == number)
        names = sorted({chosen[place].name for place in inside})
        if len(names) > 1:
            raise UsageError(f"one GPU instance can't be {' and '.join(names)}", "Give its members one profile.")
        slices = [compute[place] for place in inside]
        if any(slices) and (not all(slices) or not split):
            raise UsageError(
                "a compute instance stands beside a job that has the whole GPU instance",
                "Give each job of the instance a compute instance, such as 1c." + names[0] + ", under MIG.",
            )
        if sum(slices) > chosen[inside[0]].compute:
            raise UsageError(
                f"{sum(slices)} compute slices do not fit into one {names[0]} of {machine.name}",
                "Choose smaller compute instances.",
            )
