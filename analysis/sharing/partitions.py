"""MIG: the profiles of a GPU, the ways to cut it, and the layout of members in instances."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations_with_replacement

import numpy as np
import numpy.typing as npt
import pandas as pd

from analysis.errors import NotFoundError, UsageError
from analysis.settings import asset
from analysis.sharing.demands import Machine
from analysis.sharing.layout import Layout


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
            int(row["sm_count"]) / machine.sm_count,
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
