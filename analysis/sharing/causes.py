"""What each co-runner's use of each resource costs a job, in a network that was recovered from profiles.

A resource is taken out of a co-runner by letting it be served elsewhere: it takes as long as alone there and meets
nobody. With every subset of the resources taken out, the network is solved again; the Shapley values of ln S share out
what the resources cost together. What is left without any is waiting for a turn or for room on the SMs, and before
that what the job's own share of the GPU costs it. The parts add up to the predicted ln S by construction.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from itertools import combinations
from math import factorial
from typing import Final

import numpy as np
import numpy.typing as npt

from analysis.sharing.corun import GAP, HEAD_OF_LINE, Mixed, states
from analysis.sharing.demands import DELAYS, DRAM, ISSUE, L2, LSU, MATH, MIO, TENSOR, KernelTable
from analysis.sharing.engine import Group, JobTable, slowdowns
from analysis.sharing.layout import Layout
from analysis.sharing.mechanisms import Mechanism
from analysis.sharing.profile import utilisation
from analysis.sharing.recover import Recovered

Floats = npt.NDArray[np.float64]

#: Resources and the stations that they are; the room in L2 is none.
RESOURCES: Final[dict[str, tuple[int, ...]]] = {
    "issue slots": (ISSUE,),
    "arithmetic pipes": (MATH, TENSOR),
    "shared memory and load/store units": (MIO, LSU),
    "L2 and DRAM bandwidth": (L2, DRAM),
    "room in L2": (),
}
_BANDWIDTH, _ROOM = 3, 4
_COUNT = len(RESOURCES)
_ALL = (1 << _COUNT) - 1

#: What is no resource: waiting for a turn or for room on the SMs, and the job's own share of the GPU.
TURNS, SHARE = "turns and room on the SMs", "its own share of the GPU"


@dataclass(frozen=True)
class Cause:
    """A part of a job's ln S.

    Attributes
    ----------
    resource : str
        One of `RESOURCES`, `TURNS` or `SHARE`.
    by : int or None
        Place in the set of the co-runner that presses; None for the job's own share.
    part : float
        Its part of ln S.
    own, theirs : float
        Share of the resource that the job and the co-runner use alone, 0 to 1; for `TURNS` the share of their time with
        a kernel on the GPU. NaN where it is no question of use.
    """

    resource: str
    by: int | None
    part: float
    own: float
    theirs: float


def causes(
    recovered: Recovered, names: Sequence[str], how: Mechanism, *, head_of_line: float = HEAD_OF_LINE
) -> list[list[Cause]]:
    """Break the slowdown of every member of a set down by resource and co-runner.

    Parameters
    ----------
    recovered : Recovered
        The jobs, as `whitebox.recover_jobs` gives them.
    names : sequence of str
        The members; each was recovered.
    how : Mechanism
        How they share.
    head_of_line : float
        How far kernels that don't fit beside each other take turns.

    Returns
    -------
    list of list of Cause
        One list a member; its parts sum to ln S as `whitebox.solve_sets` has it.
    """
    distinct = list(dict.fromkeys(names))
    jobs = _only(recovered.jobs, [recovered.names.index(name) for name in distinct])
    many = _variants(jobs)
    places = [distinct.index(name) for name in names]
    layout = how.layout(jobs.kernels.machine, len(names))
    groups: list[Group] = []
    for member in range(len(names)):
        groups.append(_group(places, layout, (member,), member, _ALL, len(distinct)))
        for company in _companies(member, len(names)):
            groups += [_group(places, layout, company, member, kept, len(distinct)) for kept in range(1 << _COUNT)]
    solved = iter(slowdowns(many, groups, how, head_of_line))
    used = _used(jobs)
    found = []
    for member in range(len(names)):
        alone = float(np.log(next(solved)[0]))
        parts = []
        for company in _companies(member, len(names)):
            values = np.log([next(solved)[company.index(member)] for _ in range(1 << _COUNT)])
            parts.append(np.array([*_shapley(values), values[0] - alone]))
        found.append(_listed(member, places, parts, alone, used))
    return found


def _companies(member: int, count: int) -> list[tuple[int, ...]]:
    """Return the whole set, and beyond pairs the member beside each other one."""
    whole = tuple(range(count))
    if count <= 2:
        return [whole]
    return [whole, *(tuple(sorted((member, other))) for other in range(count) if other != member)]


def _group(places: Sequence[int], layout: Layout, who: tuple[int, ...], member: int, kept: int, jobs: int) -> Group:
    """Return a part of the set in which all but one member keep only some of their resources."""
    variant = {place: places[place] + (0 if place == member else (_ALL ^ kept) * jobs) for place in who}
    return tuple(variant[place] for place in who), layout.take(who)


def _shapley(values: Floats) -> Floats:
    """Return the Shapley values of a game, whose value of each subset stands at the subset's bits."""
    out = np.zeros(_COUNT)
    for player in range(_COUNT):
        rest = [other for other in range(_COUNT) if other != player]
        for size in range(_COUNT):
            weight = factorial(size) * factorial(_COUNT - size - 1) / factorial(_COUNT)
            for chosen in combinations(rest, size):
                present = sum(1 << other for other in chosen)
                out[player] += weight * (values[present | 1 << player] - values[present])
    return out


def _listed(member: int, places: Sequence[int], parts: Sequence[Floats], alone: float, used: Floats) -> list[Cause]:
    """Share each resource's part among the co-runners as it is with each of them alone."""
    others = [place for place in range(len(places)) if place != member]
    whole = parts[0]
    if len(others) == 1:
        shares = np.ones((1, len(whole)))
    else:
        shares = np.maximum(np.stack(parts[1:]), 0.0)
        total = shares.sum(axis=0)
        shares = np.where(total > 1e-12, shares / np.where(total > 1e-12, total, 1.0), 1.0 / len(others))
    found = [Cause(SHARE, None, alone, float("nan"), float("nan"))] if abs(alone) > 1e-12 else []
    for number, resource in enumerate((*RESOURCES, TURNS)):
        for other, share in zip(others, shares[:, number], strict=True):
            own, theirs = used[places[member], number], used[places[other], number]
            found.append(Cause(resource, other, float(whole[number] * share), float(own), float(theirs)))
    return found


def _only(jobs: JobTable, chosen: Sequence[int]) -> JobTable:
    """Return a table of some jobs, with nothing but their kernels."""
    rows = [jobs.rows[job] for job in chosen]
    kept = np.concatenate([of[of != GAP] for of in rows])
    at = {int(old): new for new, old in enumerate(kept)}
    return JobTable(
        (),
        _kernels([jobs.kernels], kept),
        replace(jobs.alone, **{name: values[kept] for name, values in vars(jobs.alone).items()}),
        tuple(np.array([at.get(int(row), GAP) for row in of], dtype=np.intp) for of in rows),
        tuple(jobs.lengths_us[job] for job in chosen),
        jobs.busy_us[list(chosen)],
        jobs.step_us[list(chosen)],
        jobs.load[list(chosen)],
    )


def _kernels(tables: Sequence[KernelTable], kept: npt.NDArray[np.intp] | None = None) -> KernelTable:
    """Put tables of one machine below each other, or keep some rows."""
    values = {}
    for one in fields(KernelTable):
        if one.name in ("machine", "kernels"):
            continue
        whole = np.concatenate([getattr(table, one.name) for table in tables])
        values[one.name] = whole if kept is None else whole[kept]
    kernels = [kernel for table in tables for kernel in table.kernels]
    chosen = kernels if kept is None else [kernels[row] for row in kept]
    return KernelTable(machine=tables[0].machine, kernels=tuple(chosen), **values)


def _alone(jobs: JobTable) -> Mixed:
    rows = np.arange(len(jobs.kernels), dtype=np.intp)[:, None]
    return states(jobs.kernels, jobs.alone, rows, None, 0.0)


def _variants(jobs: JobTable) -> JobTable:
    """Return the jobs with every subset of the resources taken out; the bits of the subset count the copies."""
    stay = _alone(jobs).solution.residence[:, 0]
    kernels = jobs.kernels
    tables = []
    for out in range(1 << _COUNT):
        private, delays = kernels.private.copy(), kernels.delays.copy()
        traffic, l2_hit, footprint = kernels.traffic, kernels.l2_hit, kernels.footprint
        for number, stations in enumerate(RESOURCES.values()):
            if not out >> number & 1:
                continue
            delays[:, DELAYS.index("misc")] += stay[:, list(stations)].sum(axis=1)
            if number == _BANDWIDTH:
                traffic = np.zeros(len(kernels))
            elif number == _ROOM:
                room = kernels.machine.l2_mib
                l2_hit, footprint = l2_hit * room / (room + footprint), np.zeros(len(kernels))
            else:
                private[:, list(stations)] = 0.0
        tables.append(
            replace(kernels, private=private, delays=delays, traffic=traffic, l2_hit=l2_hit, footprint=footprint)
        )
    copies = len(tables)
    count = len(kernels)
    return JobTable(
        (),
        _kernels(tables),
        replace(jobs.alone, **{name: np.tile(values, copies) for name, values in vars(jobs.alone).items()}),
        tuple(
            np.where(of == GAP, GAP, of + copy * count).astype(np.intp) for copy in range(copies) for of in jobs.rows
        ),
        jobs.lengths_us * copies,
        np.tile(jobs.busy_us, copies),
        np.tile(jobs.step_us, copies),
        np.tile(jobs.load, copies),
    )


def _used(jobs: JobTable) -> Floats:
    """Return the share of each resource that each job uses alone over a step, and last of its time on the GPU."""
    by_kernel = utilisation(_alone(jobs))[:, 0]
    out = np.full((len(jobs.rows), _COUNT + 1), np.nan)
    for job, (rows, lengths) in enumerate(zip(jobs.rows, jobs.lengths_us, strict=True)):
        on = rows != GAP
        weight = lengths[: len(rows)][on] / lengths[: len(rows)].sum()
        for number, stations in enumerate(RESOURCES.values()):
            if stations:
                out[job, number] = float(weight @ by_kernel[rows[on]][:, list(stations)].max(axis=1))
        out[job, -1] = float(weight.sum())
    return out
