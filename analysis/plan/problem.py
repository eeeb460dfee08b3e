"""A placement problem: jobs, GPUs and rules, checked before anything is solved."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from analysis.errors import InputRefusedError, UsageError, Where
from analysis.interference.decision import LIMIT
from analysis.interference.memory import CONTEXT_MIB, Memory, memory_fit
from analysis.numbers import significant
from analysis.reference import gpus as reference
from analysis.reference.mechanism_names import MPS

Objective: TypeAlias = Literal["stp", "antt", "worst", "fairness", "gpus"]
Risk: TypeAlias = Literal["expected", "upper", "probability"]

OBJECTIVES: dict[Objective, str] = {
    "stp": "most work done (STP)",
    "antt": "least mean slowdown (ANTT)",
    "worst": "smallest worst slowdown",
    "fairness": "jobs of a GPU slowed alike",
    "gpus": "fewest GPUs",
}
RISKS: dict[Risk, str] = {
    "expected": "the predicted slowdown",
    "upper": "the upper end of the interval",
    "probability": "the predicted slowdown, weighed by the probability of the limit",
}

#: Part of a GPU's memory that shared jobs leave free.
RESERVE = 0.05

#: Most jobs on one GPU that a plan is made for.
MOST_TOGETHER = 6


@dataclass(frozen=True)
class Job:
    """One job that wants a place.

    Attributes
    ----------
    name : str
        Its own name; no two jobs of a problem have the same.
    workload : str
        What it runs, as the library names it; empty where the library does not know it: such a job never shares.
    owner : str
        User, account or namespace; jobs of different owners never share under CUDA MPS.
    gpus : int
        Whole GPUs that it needs; with more than one it never shares.
    memory_mib : float
        Peak memory with the process's context, in MiB; NaN where unknown: such a job never shares.
    limit : float, optional
        The largest slowdown that it may pay; the problem's limit where None.
    priority : int
        Where GPUs are short, a higher one is placed first.
    mechanisms : tuple of str
        Mechanisms that it may share by; any when empty.
    threads : float, optional
        MPS thread percentage of its client; no cap where None.
    label : str
        Its class, by which jobs can get a limit together; empty without one.
    """

    name: str
    workload: str = ""
    owner: str = ""
    gpus: int = 1
    memory_mib: float = math.nan
    limit: float | None = None
    priority: int = 0
    mechanisms: tuple[str, ...] = ()
    threads: float | None = None
    label: str = ""


@dataclass(frozen=True)
class GpuKind:
    """GPUs of one kind.

    Attributes
    ----------
    name : str
        As the library names it.
    count : int
        How many there are.
    memory_mib : float
        Memory of one; NaN where unknown.
    """

    name: str
    count: int
    memory_mib: float = math.nan


@dataclass(frozen=True)
class Problem:
    """Jobs, GPUs, and the rules that every plan keeps.

    Attributes
    ----------
    jobs, gpus : tuple
        What is placed, and where.
    mechanism : str
        How jobs share a GPU.
    k : int
        Most jobs on one GPU.
    limit : float
        Largest slowdown of a job that has no limit of its own.
    reserve : float
        Part of a GPU's memory that stays free where jobs share it.
    forbidden, wanted : frozenset of pairs of names
        Jobs that must not, and jobs that must share a GPU.
    over_limit : bool
        Whether sets may be taken that the answer does not call `share`, as long as their memory is known to fit.
    objective, risk : str
        See `OBJECTIVES` and `RISKS`.
    """

    jobs: tuple[Job, ...]
    gpus: tuple[GpuKind, ...]
    mechanism: str = MPS
    k: int = 2
    limit: float = LIMIT
    reserve: float = RESERVE
    forbidden: frozenset[frozenset[str]] = frozenset()
    wanted: frozenset[frozenset[str]] = frozenset()
    over_limit: bool = False
    objective: Objective = "stp"
    risk: Risk = "expected"

    def limit_of(self, job: Job) -> float:
        """Return the limit that a job is held to."""
        return self.limit if job.limit is None else job.limit

    @property
    def owners_apart(self) -> bool:
        """Whether jobs of different owners are kept apart: one MPS server serves one user."""
        return "mps" in self.mechanism.casefold()


def pair(first: str, second: str) -> frozenset[str]:
    """Return two job names as an unordered pair."""
    return frozenset((first, second))


def gpu_kind(name: str, count: int, memory_mib: float | None = None) -> GpuKind:
    """Describe GPUs by any way of writing their name.

    A name with two sizes (V100: 16 and 32 GB) gets the smaller one's memory: what fits that fits both.

    Examples
    --------
    >>> gpu_kind("A100", 4)
    GpuKind(name='A100', count=4, memory_mib=40960.0)
    """
    known = reference.canonical(name)
    if memory_mib is not None:
        return GpuKind(known, count, memory_mib)
    table = reference.load()
    sizes = table.loc[[one for one in table.index if reference.matches(str(one), known)], "memory_mib"].dropna()
    return GpuKind(known, count, float(sizes.min()) if len(sizes) else math.nan)


def parse_gpus(words: Iterable[str]) -> tuple[GpuKind, ...]:
    """Read GPUs as the command line gives them: ``A100-40GB=4``, or ``A100-40GB`` for one.

    Raises
    ------
    UsageError
        If a count is no whole number, or none is given.
    """
    found: dict[str, int] = {}
    for word in words:
        name, equals, number = word.rpartition("=")
        if not equals:
            name, number = word, "1"
        if not name.strip() or not number.strip().isdigit():
            raise UsageError(f"{word!r} does not say how many GPUs of which kind there are", "Write it as A100-40GB=4.")
        known = reference.canonical(name)
        found[known] = found.get(known, 0) + int(number)
    return tuple(gpu_kind(name, count) for name, count in found.items())


def with_class_limits(jobs: Sequence[Job], limits: Mapping[str, float]) -> tuple[Job, ...]:
    """Give the jobs of a class its limit, where they have none of their own.

    Raises
    ------
    UsageError
        If no job is of a class that has a limit.
    """
    known = {job.label for job in jobs if job.label}
    for name in limits:
        if name not in known:
            there = f"There are {', '.join(sorted(known))}." if known else "Name them in the column `class`."
            raise UsageError(f"no job is of the class {name!r}, which has a limit", there)
    return tuple(
        replace(job, limit=limits[job.label]) if job.limit is None and job.label in limits else job for job in jobs
    )


def check(problem: Problem) -> None:
    """Refuse a problem that has no sensible answer, in one sentence with the cure.

    Raises
    ------
    UsageError
        If there are no GPUs, numbers are out of range, or wishes contradict each other or a rule.
    InputRefusedError
        If a job stands there twice, or no GPU fits it.
    """
    if not problem.jobs:
        raise InputRefusedError("there is no job to place", "Give at least one, with the columns job and workload.")
    if sum(kind.count for kind in problem.gpus) <= 0:
        raise UsageError("there are 0 GPUs to place jobs on", "Say how many of which kind: --gpu A100-40GB=4.")
    if not 1 <= problem.k <= MOST_TOGETHER:
        raise UsageError(f"{problem.k} jobs on one GPU can't be planned", f"Choose 1 to {MOST_TOGETHER} with --k.")
    if not (math.isfinite(problem.limit) and problem.limit >= 1):
        raise UsageError(f"a limit of {problem.limit:g} can't be kept", "Give the largest slowdown, 1 or more.")
    if not 0 <= problem.reserve < 1:
        raise UsageError(f"a memory reserve of {problem.reserve:g} is no part of the memory", "Give 0 to 0.9.")
    _check_jobs(problem)
    _check_wishes(problem)


def _check_jobs(problem: Problem) -> None:
    twice = [name for name, count in Counter(job.name for job in problem.jobs).items() if count > 1]
    if twice:
        raise InputRefusedError(
            f"job {twice[0]!r} stands in the list {_times(problem, twice[0])} times",
            "Give every job a name of its own; two of the same workload are two jobs.",
        )
    for job in problem.jobs:
        if job.gpus < 1:
            raise InputRefusedError(f"job {job.name!r} asks for {job.gpus} GPUs", "Leave out jobs that need none.")
        if job.limit is not None and not (math.isfinite(job.limit) and job.limit >= 1):
            raise InputRefusedError(
                f"the limit of job {job.name!r} is {job.limit:g}", "Give the largest slowdown, 1 or more."
            )
        if job.threads is not None and not 0 < job.threads <= 100:
            raise InputRefusedError(
                f"the thread percentage of job {job.name!r} is {job.threads:g}", "Give more than 0, and at most 100."
            )
        if not any(fits_alone(job, kind) for kind in problem.gpus):
            sizes = [kind.memory_mib for kind in problem.gpus if math.isfinite(kind.memory_mib)]
            largest = max(sizes, default=math.nan)
            most = max(kind.count for kind in problem.gpus)
            if job.gpus > most:
                what = f"job {job.name!r} needs {job.gpus} GPUs of one kind, and there are at most {most}"
            else:
                what = (
                    f"no GPU fits job {job.name!r}: it needs {significant(job.memory_mib / 1024)} GiB, the largest has "
                    f"{significant(largest / 1024)}"
                )
            raise InputRefusedError(what, "Leave the job out, or add GPUs that fit it with --gpu.", Where())


def _times(problem: Problem, name: str) -> int:
    return sum(job.name == name for job in problem.jobs)


def fits_alone(job: Job, kind: GpuKind) -> bool:
    """Say whether a job can have GPUs of this kind to itself; what is unknown is taken to fit, as it runs today."""
    return kind.count >= job.gpus and not job.memory_mib > kind.memory_mib


def memory_of(jobs: Sequence[Job], kind: GpuKind) -> Memory:
    """Say whether jobs fit into a GPU's memory together, as everywhere; the plan's reserve comes on top."""
    return memory_fit([job.memory_mib for job in jobs], ["nvidia-smi"] * len(jobs), kind.memory_mib)


def memory_together(jobs: Sequence[Job], kind: GpuKind, reserve: float) -> Literal["fits", "does_not_fit", "unknown"]:
    """Say whether jobs fit into a GPU's memory together and leave the reserve free."""
    needed = [job.memory_mib for job in jobs]
    free = kind.memory_mib * (1 - reserve)
    if sum(value for value in needed if math.isfinite(value)) > free:
        return "does_not_fit"
    if not all(map(math.isfinite, (*needed, kind.memory_mib))):
        return "unknown"
    return "fits"


@dataclass(frozen=True)
class Rule:
    """A rule that keeps a set of jobs from one GPU, or one wish.

    Attributes
    ----------
    words : str
        The rule as it stands in a sentence.
    broken : callable
        Given jobs that are to share one GPU: whether they break it.
    """

    words: str
    broken: Callable[[Sequence[Job]], bool]


def rules(problem: Problem) -> list[Rule]:
    """Return the rules that hold for every set of two jobs and more, whatever it would cost."""

    def memory(jobs: Sequence[Job]) -> bool:
        return not any(memory_together(jobs, kind, problem.reserve) == "fits" for kind in problem.gpus)

    def owners(jobs: Sequence[Job]) -> bool:
        return problem.owners_apart and len({job.owner for job in jobs}) > 1

    def mechanisms(jobs: Sequence[Job]) -> bool:
        return any(job.mechanisms and not _allowed(problem.mechanism, job.mechanisms) for job in jobs)

    def caps(jobs: Sequence[Job]) -> bool:
        given = [job.threads for job in jobs if job.threads is not None]
        return len(given) == len(jobs) and sum(given) > 100

    return [
        Rule(f"at most {problem.k} jobs share a GPU", lambda jobs: len(jobs) > problem.k),
        Rule("jobs of different owners never share under CUDA MPS", owners),
        Rule("jobs on several GPUs are not packed", lambda jobs: any(job.gpus > 1 for job in jobs)),
        Rule("a workload that the library does not know never shares", lambda jobs: any(not j.workload for j in jobs)),
        Rule("their memory must be known and fit with the reserve", memory),
        Rule(f"a job does not allow {problem.mechanism}", mechanisms),
        Rule("thread percentages add up to at most 100", caps),
    ]


def _allowed(mechanism: str, allowed: Collection[str]) -> bool:
    return mechanism.casefold() in {name.casefold() for name in allowed}


def may_share(problem: Problem, job: Job, *, memory: bool = True) -> bool:
    """Say whether a job may share a GPU with anybody; with ``memory`` its peak must be known."""
    known = bool(job.workload) and (math.isfinite(job.memory_mib) or not memory)
    return job.gpus == 1 and known and (not job.mechanisms or _allowed(problem.mechanism, job.mechanisms))


def broken_rule(problem: Problem, jobs: Sequence[Job]) -> str | None:
    """Return the first rule or ban that a set breaks, in words; None for a set that may be asked about."""
    for rule in rules(problem):
        if rule.broken(jobs):
            return rule.words
    for first, second in itertools.combinations(jobs, 2):
        if pair(first.name, second.name) in problem.forbidden:
            return f"{first.name} and {second.name} must not share"
    return None


def groups(problem: Problem) -> list[tuple[Job, ...]]:
    """Return the jobs that wishes tie together, in groups of two and more."""
    at = {job.name: job for job in problem.jobs}
    root = {name: name for name in at}

    def find(name: str) -> str:
        while root[name] != name:
            name = root[name]
        return name

    for wish in problem.wanted:
        first, second = sorted(wish)
        root[find(first)] = find(second)
    members: dict[str, list[Job]] = {}
    for name, job in at.items():
        members.setdefault(find(name), []).append(job)
    return [tuple(jobs) for jobs in members.values() if len(jobs) > 1]


def _check_wishes(problem: Problem) -> None:
    names = {job.name for job in problem.jobs}
    for wish in sorted(problem.wanted | problem.forbidden, key=sorted):
        if len(wish) != 2:
            raise UsageError(f"a wish names only {', '.join(sorted(wish))}", "Name two different jobs.")
        if not wish <= names:
            missing = sorted(wish - names)[0]
            raise UsageError(f"a wish names {missing!r}, which is no job of the list", "Write the job's name as there.")
    for group in groups(problem):
        conflict = smallest_conflict(problem, group)
        if conflict:
            raise UsageError(f"these can't all hold: {'; '.join(conflict)}", "Take one of them back.")


#: Most constraints of which every subset is tried; beyond, one after the other is dropped while the conflict stays.
_TRY_ALL = 12


def smallest_conflict(problem: Problem, group: Sequence[Job]) -> list[str]:
    """Return a smallest set of wishes and rules that contradict each other, in words; empty where none do.

    Parameters
    ----------
    problem : Problem
        The rules.
    group : sequence of Job
        Jobs that wishes tie together.
    """
    names = {job.name for job in group}
    wishes: list[tuple[str, frozenset[str] | Rule]] = [
        (f"{' and '.join(sorted(wish))} must share", wish)
        for wish in sorted(problem.wanted, key=sorted)
        if wish <= names
    ]
    bans: list[tuple[str, frozenset[str] | Rule]] = []
    for ban in sorted(problem.forbidden, key=sorted):
        if ban <= names:
            bans.append((f"{' and '.join(sorted(ban))} must not share", _ban(ban)))
    constraints = [*wishes, *bans, *((rule.words, rule) for rule in rules(problem))]

    def contradicts(chosen: Sequence[tuple[str, frozenset[str] | Rule]]) -> bool:
        tied = frozenset(one for _, one in chosen if isinstance(one, frozenset))
        broken = [one for _, one in chosen if isinstance(one, Rule)]
        jobs = tuple(job for job in problem.jobs if job.name in names)
        part = Problem(jobs, problem.gpus, wanted=tied)
        return any(rule.broken(together) for together in groups(part) for rule in broken)

    if not contradicts(constraints):
        return []
    if len(constraints) <= _TRY_ALL:
        for size in range(1, len(constraints) + 1):
            for chosen in itertools.combinations(constraints, size):
                if contradicts(chosen):
                    return [words for words, _ in chosen]
    kept = list(constraints)
    for one in constraints:
        without = [other for other in kept if other is not one]
        if contradicts(without):
            kept = without
    return [words for words, _ in kept]


def _ban(ban: frozenset[str]) -> Rule:
    return Rule("", lambda jobs: ban <= {job.name for job in jobs})


def with_context(peak_mib: float, kind: str | None) -> float:
    """Return what a process takes: nvidia-smi's figure holds the context, a framework's does not."""
    return peak_mib + (0.0 if kind == "nvidia-smi" else CONTEXT_MIB)
