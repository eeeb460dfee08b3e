"""The sets of jobs that may share a GPU, each with its figures and the decision on it: the columns of the programme."""

from __future__ import annotations

import itertools
import math
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from analysis.errors import CancelledError
from analysis.interference.decision import Decision
from analysis.plan import problem as rules
from analysis.plan.problem import Job, Problem
from analysis.plan.sets import Figures, Names, SetFigures, decide

Floats: TypeAlias = npt.NDArray[np.float64]
Progress: TypeAlias = Callable[[float, str], None]

#: Sets that are looked at; of more, every job keeps its gentlest partners and the bound holds for those alone.
MOST_SETS = 600_000


@dataclass
class Columns:
    """The sets that may stand in a plan, on each kind of GPU."""

    classes: list[list[Job]]
    members: list[tuple[int, ...]]
    kinds: list[int]
    needs: list[int]
    figures: list[SetFigures | None]
    decisions: list[Decision | None]
    slowdowns: list[tuple[float, ...]]
    weighed: list[tuple[float, ...]]
    complete: bool = True

    def add(
        self, members: tuple[int, ...], kind: int, found: tuple[SetFigures, Decision] | None, risk: str,
        limits: tuple[float, ...] = (),
    ) -> None:  # fmt: skip
        """Take in a set, with its members' slowdowns in their own order and as the risk weighs them."""
        size = len(members)
        slow = (1.0,) * size
        weighed = slow
        if found is not None:
            figures = found[0]
            slow = _in_order(figures.slowdowns, figures.jobs, [self.classes[at][0].workload for at in members])
            weighed = slow
            if risk == "upper":
                weighed = _in_order(figures.upper, figures.jobs, [self.classes[at][0].workload for at in members])
            elif risk == "probability":
                chance = figures.certainty(limits)
                # What misses its limit is counted as taking turns.
                weighed = tuple(chance * value + (1 - chance) * max(value, size) for value in slow)
            if not all(map(math.isfinite, weighed)):
                return
        self.members.append(members)
        self.kinds.append(kind)
        self.needs.append(self.classes[members[0]][0].gpus)
        self.figures.append(found[0] if found else None)
        self.decisions.append(found[1] if found else None)
        self.slowdowns.append(slow)
        self.weighed.append(weighed)


def _in_order(values: Sequence[Any], jobs: Names, wanted: Sequence[str]) -> tuple[Any, ...]:
    """Return values of a set in the order that its jobs are wanted in."""
    if tuple(wanted) == jobs:
        return tuple(values)
    left: dict[str, list[Any]] = defaultdict(list)
    for job, value in zip(jobs, values, strict=True):
        left[job].append(value)
    return tuple(left[job].pop(0) for job in wanted)


class _Watch:
    """Says how far the search is, and when it must end."""

    def __init__(self, progress: Progress | None, cancelled: Callable[[], bool] | None, time_limit: float) -> None:
        self._progress, self._cancelled, self.limit = progress, cancelled, time_limit
        self._from = time.monotonic()
        self.stopped = False

    def begin(self) -> None:
        """Start the clock of the search."""
        self._from = time.monotonic()

    @property
    def left(self) -> float:
        """Seconds left."""
        return max(0.0, self.limit - (time.monotonic() - self._from))

    def say(self, part: float, text: str) -> bool:
        """Report, and say whether the search may go on."""
        if not self.stopped:
            try:
                if self._progress is not None:
                    self._progress(part, text)
                self.stopped = self._cancelled is not None and self._cancelled()
            except CancelledError:
                self.stopped = True
        return not self.stopped


def candidates(problem: Problem, figures: Figures, watch: _Watch | None = None) -> Columns:
    """Return every set that passes the rules and the answer, on every kind of GPU that holds it."""
    columns = Columns(_classes(problem), [], [], [], [], [], [], [])
    tied = {job.name for group in rules.groups(problem) for job in group}
    for at, members in enumerate(columns.classes):
        if members[0].name not in tied:
            for number, kind in enumerate(problem.gpus):
                if rules.fits_alone(members[0], kind):
                    columns.add((at,), number, None, problem.risk)
    sets = _sets(problem, columns, tied)
    for number, kind in enumerate(problem.gpus):
        if kind.count == 0:
            continue
        free = kind.memory_mib * (1 - problem.reserve)
        peaks = [members[0].memory_mib for members in columns.classes]
        here = [one for one in sets if sum(peaks[at] for at in one) <= free]
        _price(problem, figures, columns, number, here, watch)
    return columns


def pairs_of(problem: Problem) -> tuple[list[list[Job]], list[tuple[int, ...]]]:
    """Return jobs in classes that nothing tells apart, and the pairs of classes that pass the rules, without wishes."""
    alone = replace(problem, k=2, wanted=frozenset())
    columns = Columns(_classes(problem), [], [], [], [], [], [], [])
    return columns.classes, _sets(alone, columns, set()) if problem.k > 1 else []


def _price(
    problem: Problem, figures: Figures, columns: Columns, number: int, sets: list[tuple[int, ...]], watch: _Watch | None
) -> None:
    """Ask what sets cost on one kind of GPU and take in those that may share."""
    first = [members[0] for members in columns.classes]
    names = [tuple(sorted(first[at].workload for at in one)) for one in sets]
    gpu = problem.gpus[number].name
    if watch is not None:
        watch.say(0.05, f"reading what {len(set(names)):,} sets cost on {gpu}")
    known = figures.of(gpu, list(dict.fromkeys(names)))
    decided: dict[tuple[Names, tuple[float, ...], str], Decision] = {}
    tied = {frozenset(job.name for job in group) for group in rules.groups(problem)}
    for one, jobs in zip(sets, names, strict=True):
        found = known[jobs]
        ordered = sorted((first[at].workload, problem.limit_of(first[at])) for at in one)
        limits = tuple(limit for _, limit in ordered)
        memory = rules.memory_of([first[at] for at in one], problem.gpus[number])
        if (answer := decided.get((jobs, limits, memory))) is None:
            answer = decided[jobs, limits, memory] = decide(found, limits, memory)
        wished = bool(tied) and any(group <= {first[at].name for at in one} for group in tied)
        allowed = answer.verdict == "share" or ((problem.over_limit or wished) and found.ran is not False)
        if allowed and found.known:
            columns.add(one, number, (found, answer), problem.risk, limits)


def _classes(problem: Problem) -> list[list[Job]]:
    """Put jobs together that nothing tells apart: they are counted in the programme, and named afterwards."""
    named = {name for wish in problem.wanted | problem.forbidden for name in wish}
    found: dict[Any, list[Job]] = {}
    for job in problem.jobs:
        memory = None if math.isnan(job.memory_mib) else job.memory_mib
        key = (
            job.workload, job.owner, memory, problem.limit_of(job), job.mechanisms, job.gpus, job.priority, job.threads,
            job.name if job.name in named else "",
        )  # fmt: skip
        found.setdefault(key, []).append(job)
    return list(found.values())


def _sets(problem: Problem, columns: Columns, tied: set[str]) -> list[tuple[int, ...]]:
    """Return the sets of two jobs and more that pass the rules, as classes; larger ones grow from smaller ones."""
    if problem.k < 2:
        return []
    first = [members[0] for members in columns.classes]
    size = [len(members) for members in columns.classes]
    may = [at for at, job in enumerate(first) if rules.may_share(problem, job)]
    owner = [job.owner if problem.owners_apart else "" for job in first]
    largest = max((kind.memory_mib for kind in problem.gpus if math.isfinite(kind.memory_mib)), default=0.0)
    free = largest * (1 - problem.reserve)
    memory = [job.memory_mib for job in first]
    partners: dict[int, list[int]] = {
        a: [
            b
            for b in may
            if b >= a and (b > a or size[a] > 1) and owner[a] == owner[b] and memory[a] + memory[b] <= free
        ]
        for a in may
    }
    banned = {
        tuple(sorted((a, b)))
        for a, b in itertools.combinations(range(len(first)), 2)
        if rules.pair(first[a].name, first[b].name) in problem.forbidden
    } if problem.forbidden else set()  # fmt: skip
    found: list[tuple[int, ...]] = []
    level: list[tuple[int, ...]] = [(a, b) for a, others in partners.items() for b in others if (a, b) not in banned]
    for together in range(2, problem.k + 1):
        if together > 2:
            allowed = {one for one in found if len(one) == 2}
            grown: list[tuple[int, ...]] = []
            for one in level:
                held = sum(memory[at] for at in one)
                for b in partners[one[-1]]:
                    if held + memory[b] > free or not all((a, b) in allowed for a in set(one)):
                        continue
                    if one.count(b) >= size[b]:
                        continue
                    grown.append((*one, b))
                if len(found) + len(grown) > MOST_SETS:
                    columns.complete = False
                    break
            level = grown
        if len(found) + len(level) > MOST_SETS:
            columns.complete = False
            level = level[: MOST_SETS - len(found)]
        found += level
    return [one for one in found if _whole(problem, [first[at] for at in one], tied)]


def _whole(problem: Problem, jobs: Sequence[Job], tied: set[str]) -> bool:
    """Say whether a set heeds the thread percentages, and holds either all jobs that a wish ties together or none."""
    given = [job.threads for job in jobs if job.threads is not None]
    if len(given) == len(jobs) and sum(given) > 100:
        return False
    if not tied or not any(job.name in tied for job in jobs):
        return True
    names = {job.name for job in jobs}
    return all(names.isdisjoint(group) or group <= names
               for group in ({job.name for job in one} for one in rules.groups(problem)))  # fmt: skip
