"""Slowdowns of sets of jobs: speeds of kernels, overlap of phases, and the worst company within a set."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
from threadpoolctl import threadpool_limits

from analysis.sharing.corun import GAP, Places, Rows, Solo, solo, states
from analysis.sharing.demands import KernelTable, Machine, table
from analysis.sharing.layout import Layout
from analysis.sharing.mechanisms import Mechanism
from analysis.sharing.work import Kernel, Workload

Floats = npt.NDArray[np.float64]

#: No job stands still for good: the slowest speed that the chain is solved with.
SLOWEST = 1e-4


def phase_combinations(shape: tuple[int, ...]) -> npt.NDArray[np.intp]:
    """Return all combinations of the members' phases, (n, k), the last member's changing fastest."""
    return np.indices(shape).reshape(len(shape), -1).T.astype(np.intp)


def occupancy(shape: tuple[int, ...], speed: Floats, length: Floats) -> Floats:
    """Return the share of time in each combination of phases.

    Parameters
    ----------
    shape : tuple of int
        Number of phases of each member.
    speed : ndarray (b, n, k)
        Speed of each member in each combination, against alone.
    length : ndarray (b, k, p)
        Length of each phase alone, any unit; padded with anything beyond a member's last phase. A phase of length 0 is
        passed at once.

    Returns
    -------
    ndarray (b, n)
        Sums to 1.
    """
    at = phase_combinations(shape)
    batch, states, members = speed.shape
    generator = np.zeros((batch, states, states))
    here = np.arange(states)
    for member in range(members):
        if shape[member] == 1:
            continue
        following = at.copy()
        following[:, member] = (following[:, member] + 1) % shape[member]
        there = np.ravel_multi_index(tuple(following.T), shape)
        floor = 1e-9 * length[:, member, : shape[member]].sum(axis=1)
        lasts = np.maximum(length[:, member, at[:, member]], floor[:, None])
        rate = np.maximum(speed[:, :, member], SLOWEST) / lasts
        generator[:, there, here] += rate
        generator[:, here, here] -= rate
    # The balance equations are one too few; the shares adding up to 1 takes the place of the last. Scaling each
    # equation by its own exit rate keeps short phases from swamping long ones.
    scale = np.abs(generator[:, here, here])
    generator /= np.where(scale > 0, scale, 1.0)[:, :, None]
    generator[:, -1, :] = 1.0
    right = np.zeros((batch, states, 1))
    right[:, -1] = 1.0
    share = np.maximum(np.linalg.solve(generator, right)[..., 0], 0.0)
    whole: Floats = share / share.sum(axis=1, keepdims=True)
    return whole


def progress(share: Floats, speed: Floats) -> Floats:
    """Return how fast each member gets on, 1/S, from the shares of time (b, n) and the speeds (b, n, k)."""
    progressed: Floats = np.einsum("bn,bnk->bk", share, speed)
    return progressed


#: A set: the places of its members in the job table, and what each may use.
Group: TypeAlias = tuple[tuple[int, ...], Layout]

#: Rounds in which a server's idle time is fitted to its load, and how far each goes.
_ROUNDS, _STEP = 6, 0.7
#: Numbers in the balance equations that are solved at a time.
_CHUNK = 4_000_000


@dataclass(frozen=True)
class JobTable:
    """Jobs on one GPU, alone.

    Attributes
    ----------
    workloads : tuple of Workload
        The jobs.
    kernels : KernelTable
        The kernels of all of them.
    alone : Solo
        The same alone.
    rows : tuple of ndarray
        The phases of each job: rows of the kernels, `GAP` at the end where it has a gap.
    lengths_us : tuple of ndarray
        Time of each phase in one step alone; a server idles in its gap as its load says.
    busy_us, step_us : ndarray (jobs,)
        Time of a step with a kernel on the GPU, and with the host's part, without idling.
    load : ndarray (jobs,)
        A server's load; NaN for a job that runs as fast as it can.
    """

    workloads: tuple[Workload, ...]
    kernels: KernelTable
    alone: Solo
    rows: tuple[Rows, ...]
    lengths_us: tuple[Floats, ...]
    busy_us: Floats
    step_us: Floats
    load: Floats


def job_table(workloads: Sequence[Workload], machine: Machine) -> JobTable:
    """Solve every job alone on a GPU."""
    kernels: list[Kernel] = []
    rows: list[Rows] = []
    for workload in workloads:
        own = list(range(len(kernels), len(kernels) + len(workload.kernels)))
        kernels.extend(kernel for kernel, _ in workload.kernels)
        gap = [GAP] if workload.host_ms > 0 or workload.service else []
        rows.append(np.array(own + gap, dtype=np.intp))
    kernel_table = table(kernels, machine)
    alone = solo(kernel_table)
    load = np.array([workload.service.load if workload.service else np.nan for workload in workloads])
    lengths: list[Floats] = []
    busy, step = np.zeros(len(workloads)), np.zeros(len(workloads))
    for place, workload in enumerate(workloads):
        own_rows = rows[place][rows[place] != GAP]
        times = alone.length_us[own_rows] * np.array([count for _, count in workload.kernels])
        busy[place] = times.sum()
        step[place] = busy[place] + 1e3 * workload.host_ms
        period = step[place] / load[place] if workload.service else step[place]
        lengths.append(np.append(times, period - busy[place]) if rows[place][-1] == GAP else times)
    return JobTable(tuple(workloads), kernel_table, alone, tuple(rows), tuple(lengths), busy, step, load)


def slowdowns(jobs: JobTable, groups: Sequence[Group], how: Mechanism, head_of_line: float) -> list[Floats]:
    """Return the slowdown of every member of every set.

    Members that never meet are solved apart. Among those that do, a member's slowdown is the largest over the parts of
    the set that contain it: the relief that a third job gives by slowing a second down is not counted on.

    Parameters
    ----------
    jobs : JobTable
        The jobs.
    groups : sequence of Group
        The sets.
    how : Mechanism
        How they share.
    head_of_line : float
        How far kernels that don't fit beside each other take turns.
    """
    parts: dict[bytes, Group] = {}
    wanted: list[list[tuple[bytes, tuple[int, ...]]]] = []
    for members, layout in groups:
        subsets: list[tuple[bytes, tuple[int, ...]]] = []
        for component in components(layout):
            for size in range(1, len(component) + 1):
                for places in combinations(component, size):
                    order = _sorted(places, members, layout)
                    part = (tuple(members[place] for place in order), layout.take(order))
                    key = _key(part)
                    parts.setdefault(key, part)
                    subsets.append((key, order))
        wanted.append(subsets)
    # Many small systems of equations: a second thread only waits for the first.
    with threadpool_limits(1, user_api="blas"):
        solved = dict(zip(parts, raw(jobs, list(parts.values()), how, head_of_line), strict=True))
    results: list[Floats] = []
    for (members, _), subsets in zip(groups, wanted, strict=True):
        worst = np.ones(len(members))
        for key, order in subsets:
            at = np.array(order, dtype=np.intp)
            worst[at] = np.maximum(worst[at], solved[key])
        results.append(worst)
    return results


def components(layout: Layout) -> Iterable[tuple[int, ...]]:
    """Return the members in parts that meet neither on an SM nor in memory."""
    near = (layout.meets > 0) | (layout.domain[:, None] == layout.domain[None, :])
    label = np.arange(layout.k)
    for _ in range(layout.k):
        label = np.where(near, label[None, :], layout.k).min(axis=1)
    return [tuple(np.flatnonzero(label == number).tolist()) for number in np.unique(label)]


def _sorted(places: tuple[int, ...], members: tuple[int, ...], layout: Layout) -> tuple[int, ...]:
    """Put members into one order whatever order they came in, so that the same set gives the same digits."""
    return tuple(
        sorted(places, key=lambda i: (members[i], -layout.priority[i], layout.sm[i], layout.bandwidth[i], i))
    )  # fmt: skip


def _key(part: Group) -> bytes:
    members, layout = part
    arrays = (layout.sm, layout.bandwidth, layout.l2, layout.meets, layout.priority)
    return repr(members).encode() + b"".join(array.tobytes() for array in arrays)


def raw(jobs: JobTable, groups: list[Group], how: Mechanism, head_of_line: float) -> list[Floats]:
    """Return the slowdowns of sets as their networks have them, relief by third jobs included.

    Sets with the same numbers of phases are solved together.
    """
    batches: dict[tuple[tuple[int, ...], bool], list[int]] = defaultdict(list)
    results: list[Floats] = [np.ones(len(members)) for members, _ in groups]
    for number, (members, layout) in enumerate(groups):
        whole = bool(layout.sm[0] == 1 and layout.bandwidth[0] == 1 and layout.l2[0] == 1)
        if len(members) > 1 or not whole:
            shape = tuple(len(jobs.rows[member]) for member in members)
            batches[shape, layout.uniform].append(number)
    for (shape, uniform), numbers in batches.items():
        size = max(1, _CHUNK // int(np.prod(shape)) ** 2)
        for first in range(0, len(numbers), size):
            chunk = numbers[first : first + size]
            values = _batch(jobs, [groups[number] for number in chunk], shape, uniform, how, head_of_line)
            for number, value in zip(chunk, values, strict=True):
                results[number] = value
    return results


def _batch(
    jobs: JobTable, groups: list[Group], shape: tuple[int, ...], uniform: bool, how: Mechanism, head_of_line: float
) -> Floats:
    """Solve sets of the same numbers of phases; slowdowns (b, k)."""
    members = np.array([group for group, _ in groups], dtype=np.intp)
    at = phase_combinations(shape)
    rows = np.stack(
        [np.array([jobs.rows[m] for m in members[:, i]])[:, at[:, i]] for i in range(len(shape))], axis=2
    )  # fmt: skip
    flat = rows.reshape(-1, len(shape))
    places = Places.of([layout for _, layout in groups]).repeat(len(at))

    def mix(wanted: Rows) -> Floats:
        if uniform:
            return _mix_uniform(jobs, wanted, head_of_line)
        return np.minimum(states(jobs.kernels, jobs.alone, wanted, places, head_of_line).speed, 1.0)

    burst = np.repeat(jobs.busy_us[members], len(at), axis=0)
    speed = np.minimum(how.speeds(flat, places.priority, burst, mix), 1.0).reshape(len(groups), len(at), -1)
    return _rounds(jobs, members, shape, speed)


def _mix_uniform(jobs: JobTable, wanted: Rows, head_of_line: float) -> Floats:
    """Solve states in which all share everything: the same kernels in another order are the same state."""
    order = np.argsort(wanted, axis=1, kind="stable")
    ordered = np.take_along_axis(wanted, order, axis=1)
    unique, back = np.unique(ordered, axis=0, return_inverse=True)
    speed = np.minimum(states(jobs.kernels, jobs.alone, unique, None, head_of_line).speed, 1.0)
    result = np.empty(wanted.shape)
    np.put_along_axis(result, order, speed[back.reshape(-1)], axis=1)
    return result


def _rounds(jobs: JobTable, members: Rows, shape: tuple[int, ...], speed: Floats) -> Floats:
    """Let phases overlap. A server's requests keep coming, so it idles less the slower it is."""
    at = phase_combinations(shape)
    length = np.zeros((*members.shape, max(shape)))
    for i, count in enumerate(shape):
        length[:, i, :count] = np.array([jobs.lengths_us[m] for m in members[:, i]])
    load = jobs.load[members]
    server = ~np.isnan(load)
    host = jobs.step_us[members] - jobs.busy_us[members]
    between = np.stack(
        [np.array([jobs.rows[m][at[:, i]] == GAP for m in members[:, i]]) for i in range(len(shape))], axis=2
    )  # fmt: skip
    slowdown = np.ones(members.shape)
    for _ in range(_ROUNDS if server.any() else 1):
        share = occupancy(shape, speed, length)
        pace = progress(share, speed)
        lasts = length.sum(axis=2) / pace
        busy = lasts * np.einsum("bn,bnk->bk", share, (~between).astype(float))
        slowdown = np.where(server, (busy + host) / jobs.step_us[members], 1 / pace)
        period = jobs.step_us[members] / np.where(server, load, 1.0)
        gap = host + np.maximum(period - busy - host, 0.0)
        for i, count in enumerate(shape):
            before = length[:, i, count - 1]
            length[:, i, count - 1] = np.where(server[:, i], before + _STEP * (gap[:, i] - before), before)
    return slowdown
