"""The best plan: an integer programme over the sets that may share, its bound, and a quick plan to begin with.

Every set of jobs that passes the rules, on every kind of GPU that holds it, is a column; a plan picks columns so that
no job stands in two of them and no GPU is used twice. Jobs that nothing tells apart are counted and not named, so a
thousand jobs of sixteen workloads are a small problem. The linear relaxation over all columns (by column generation
where there are many) gives the bound, a greedy choice along its reduced costs the first plan, HiGHS the last.
"""

from __future__ import annotations

import itertools
import math
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from scipy import sparse
from scipy.optimize import Bounds, LinearConstraint, linprog, milp

from analysis.interference import metrics
from analysis.interference.decision import Decision
from analysis.plan import problem as rules
from analysis.plan.columns import MOST_SETS, Columns, _in_order, _Watch, candidates
from analysis.plan.problem import Job, Problem
from analysis.plan.sets import Figures, SetFigures

Floats: TypeAlias = npt.NDArray[np.float64]
Progress: TypeAlias = Callable[[float, str], None]

#: Seconds and part of the objective at which the search ends.
TIME_LIMIT, GAP = 30.0, 1e-4

#: Columns that HiGHS gets at once; of more, those that the relaxation's prices speak for.
DIRECT = 30_000


#: What a job costs that gets no GPU; more than any slowdown, so that it comes before the objective.
_WAITING = 100.0

#: Columns that a round of column generation adds, and the rounds.
_ADDED, _ROUNDS = 4_000, 30

#: Columns of each job that it begins with.
_FIRST = 10


@dataclass(frozen=True)
class Placed:
    """A job on a GPU: its slowdown with the interval, its limit, and whether it stays within it."""

    job: Job
    slowdown: float
    low: float | None
    high: float | None
    limit: float

    @property
    def within(self) -> bool:
        """Whether the expected slowdown is within the limit."""
        return self.slowdown <= self.limit * (1 + 1e-9)


@dataclass(frozen=True)
class Placement:
    """One GPU, or the GPUs of one job that needs several, and who is on it.

    Attributes
    ----------
    gpu : str
        The kind.
    index : int
        Number of the GPU among those of its kind, from 0; of the first one for a job on several.
    gpus : int
        How many GPUs it is.
    members : tuple of Placed
        Its jobs.
    verdict, why, probability
        The answer for the set; ``alone`` for a job by itself.
    evidence : str
        What its figures rest on.
    simulated : bool
        Whether a simulator made them.
    """

    gpu: str
    index: int
    members: tuple[Placed, ...]
    verdict: str = "alone"
    why: str = ""
    probability: float | None = None
    evidence: str = ""
    simulated: bool = False
    gpus: int = 1

    @property
    def name(self) -> str:
        """The GPU as a reader meets it."""
        last = f" to {self.index + self.gpus}" if self.gpus > 1 else ""
        return f"{self.gpu} no. {self.index + 1}{last}"

    @property
    def stp(self) -> float:
        """Work done, 1 a job alone."""
        return sum(1 / one.slowdown for one in self.members)


@dataclass(frozen=True)
class Waiting:
    """A job that got no GPU, and why."""

    job: Job
    why: str


@dataclass(frozen=True)
class Plan:
    """Who goes where, what that gives, and how far it may be from the best.

    Attributes
    ----------
    problem : Problem
        What was asked.
    placements : tuple of Placement
        GPUs that are used.
    waiting : tuple of Waiting
        Jobs without one.
    gap : float or None
        How far, in percent of the objective, the plan may be off the best; 0 when it is the best; None where no bound
        is known.
    considered : int
        Sets that were looked at, on all kinds of GPU.
    seconds : float
        What the search took.
    stopped : bool
        Whether the search was cancelled, and this is the best plan so far.
    notes : tuple of str
        What the reader must know.
    """

    problem: Problem
    placements: tuple[Placement, ...]
    waiting: tuple[Waiting, ...] = ()
    gap: float | None = None
    considered: int = 0
    seconds: float = 0.0
    stopped: bool = False
    notes: tuple[str, ...] = field(default=())

    @property
    def members(self) -> tuple[Placed, ...]:
        """All placed jobs."""
        return tuple(one for placement in self.placements for one in placement.members)

    @property
    def stp(self) -> float:
        """Work done by all GPUs, 1 a job alone."""
        return sum(placement.stp for placement in self.placements)

    @property
    def antt(self) -> float:
        """Mean slowdown of the placed jobs; NaN with none."""
        return float(np.mean([one.slowdown for one in self.members])) if self.members else math.nan

    @property
    def worst(self) -> float:
        """Largest slowdown; NaN with none."""
        return max((one.slowdown for one in self.members), default=math.nan)

    @property
    def fairness(self) -> float:
        """Smallest over largest 1/S of the jobs of a GPU, mean over jobs; NaN with none."""
        parts = [[one.slowdown for one in placement.members] for placement in self.placements]
        return fairness_of_gpus(parts)

    @property
    def within_limit(self) -> float:
        """Placed jobs that stay within their limit, in percent; NaN with none."""
        return 100 * float(np.mean([one.within for one in self.members])) if self.members else math.nan

    @property
    def gpus_used(self) -> int:
        """GPUs with a job on them."""
        return sum(placement.gpus for placement in self.placements)


def fairness_of_gpus(parts: Sequence[Sequence[float]]) -> float:
    """Return the fairness of each GPU's jobs, mean over jobs; NaN without any.

    Examples
    --------
    >>> fairness_of_gpus([[1.0], [1.0, 2.0]])
    0.6666666666666666
    """
    jobs = sum(map(len, parts))
    return sum(len(part) * metrics.fairness(part) for part in parts) / jobs if jobs else math.nan


def solve(
    problem: Problem,
    figures: Figures,
    *,
    time_limit: float = TIME_LIMIT,
    gap: float = GAP,
    progress: Progress | None = None,
    cancelled: Callable[[], bool] | None = None,
) -> Plan:
    """Find the best plan, or the best within the time.

    Parameters
    ----------
    problem : Problem
        Jobs, GPUs and rules.
    figures : Figures
        What sets cost.
    time_limit : float
        Seconds for the search; reading figures comes before it.
    gap : float
        Part of the objective at which a plan is good enough.
    progress : callable, optional
        Called with the part done and a sentence that holds the gap and the time left.
    cancelled : callable, optional
        Asked now and then; once true, the best plan so far is returned. A progress callback that raises
        `CancelledError` does the same.

    Raises
    ------
    UsageError, InputRefusedError
        As `problem.check`.

    Examples
    --------
    >>> from analysis.plan.problem import gpu_kind
    >>> from analysis.plan.sets import of_matrix
    >>> jobs = tuple(Job(name, name, memory_mib=4096.0) for name in "ab")
    >>> found = solve(Problem(jobs, (gpu_kind("V100", 1),)), of_matrix("ab", [[2.0, 1.1], [1.2, 2.0]]))
    >>> [[one.slowdown for one in place.members] for place in found.placements]
    [[1.1, 1.2]]
    """
    rules.check(problem)
    started = time.monotonic()
    watch = _Watch(progress, cancelled, time_limit)
    columns = candidates(problem, figures, watch)
    watch.begin()
    chosen, value, bound, proven = _search(problem, columns, gap, watch)
    notes = [] if columns.complete else [
        f"More than {MOST_SETS:,} sets would pass the rules: every job kept its gentlest partners, and the gap holds "
        "for those sets alone."
    ]  # fmt: skip
    placements, waiting = _decode(problem, columns, chosen)
    off = None if bound is None else 100 * max(0.0, (value - bound) / max(abs(value), 1e-9))
    if proven:
        off = min(off or 0.0, 100 * gap)
    return Plan(
        problem, placements, waiting, off if off is None or off > 1e-7 else 0.0, len(columns.members),
        time.monotonic() - started, watch.stopped, tuple(notes),
    )  # fmt: skip


@dataclass
class _Programme:
    """The integer programme: costs, who stands in a column, and how many there are."""

    cost: Floats
    matrix: Any
    counts: Floats
    capacity: Floats
    waiting: Floats

    @property
    def jobs(self) -> int:
        return len(self.counts)

    def part(self, which: npt.NDArray[np.int64]) -> _Programme:
        return _Programme(self.cost[which], self.matrix[:, which], self.counts, self.capacity, self.waiting)


def _programme(problem: Problem, columns: Columns) -> _Programme:
    rows, places, values = [], [], []
    for place, members in enumerate(columns.members):
        for at, number in Counter(members).items():
            rows.append(at)
            places.append(place)
            values.append(number)
        rows.append(len(columns.classes) + columns.kinds[place])
        places.append(place)
        values.append(columns.needs[place])
    shape = (len(columns.classes) + len(problem.gpus), len(columns.members))
    matrix = sparse.csc_array((np.array(values, dtype=float), (rows, places)), shape=shape)
    lowest = min(job.priority for job in problem.jobs)
    waiting = [_WAITING * (1 + min(members[0].priority - lowest, 9)) for members in columns.classes]
    return _Programme(
        _costs(problem, columns), matrix, np.array([len(one) for one in columns.classes], dtype=float),
        np.array([kind.count for kind in problem.gpus], dtype=float), np.array(waiting),
    )  # fmt: skip


def _costs(problem: Problem, columns: Columns) -> Floats:
    if problem.objective == "stp":
        return np.array([-sum(1 / value for value in slow) for slow in columns.weighed])
    if problem.objective == "fairness":
        return np.array([-len(slow) * min(slow) / max(slow) for slow in columns.weighed])
    total = np.array([sum(slow) for slow in columns.weighed])
    if problem.objective == "gpus":
        # Among plans with as few GPUs, the one that slows least; all of it weighs less than one GPU.
        return np.array(columns.needs) + 0.5 * total / max(10.0 * len(problem.jobs), 1.0)
    return total


def _search(
    problem: Problem, columns: Columns, gap: float, watch: _Watch
) -> tuple[dict[int, int], float, float | None, bool]:
    """Return how often each column is taken, what that costs, its bound, and whether the plan is proven."""
    programme = _programme(problem, columns)
    if not len(programme.cost):
        return {}, 0.0, None, True
    if problem.objective != "worst":
        chosen, bound, proven = _best(programme, gap, watch)
        return chosen, _total(programme, chosen), bound, proven
    # The smallest largest slowdown: find, by halving, below which threshold just as many jobs still get a GPU.
    worst = np.array([max(slow) for slow in columns.weighed])
    nothing = _Programme(
        np.zeros_like(programme.cost), programme.matrix, programme.counts, programme.capacity, programme.waiting
    )
    chosen, _, proven = _best(nothing, 1e-9, watch)
    least = _total(nothing, chosen)
    steps = np.unique(worst)
    low, high = 0, int(np.searchsorted(steps, max((worst[place] for place in chosen), default=steps[-1])))
    while low < high and watch.left > 0 and not watch.stopped:
        middle = (low + high) // 2
        which = np.flatnonzero(worst <= steps[middle])
        tried, _, sure = _best(nothing.part(which), 1e-9, watch)
        if _total(nothing, {int(which[place]): n for place, n in tried.items()}) <= least + 1e-6:
            high, chosen = middle, {int(which[place]): n for place, n in tried.items()}
        else:
            low, proven = middle + 1, proven and sure
    proven = proven and low >= high
    which = np.flatnonzero(worst <= steps[high])
    tried, _, _ = _best(programme.part(which), gap, watch)
    finished = {int(which[place]): n for place, n in tried.items()}
    if _total(nothing, finished) <= least + 1e-6:
        chosen = finished
    value = max((float(worst[place]) for place in chosen), default=1.0)
    return chosen, value, float(steps[high]) if proven else None, proven


def _best(programme: _Programme, gap: float, watch: _Watch) -> tuple[dict[int, int], float | None, bool]:
    """Relax, round, then search: the best plan found, a bound, and whether it is proven to within the gap."""
    bound, reduced = _relax(programme, watch)
    best = _greedy(programme, reduced)
    value = _total(programme, best)
    if bound is not None and value - bound <= gap * max(abs(value), 1e-9):
        return best, bound, True
    which = np.arange(len(programme.cost))
    exact = True
    if len(which) > DIRECT:
        # A column whose reduced cost is above the difference can stand in no better plan.
        room = value - bound if bound is not None else math.inf
        which = which[reduced <= room + 1e-9]
        if len(which) > DIRECT:
            exact = False
            which = np.sort(which[np.argsort(reduced[which], kind="stable")[:DIRECT]])
    part = programme.part(which)
    spent = 1.0
    while watch.left > 0 and not watch.stopped:
        seconds = min(spent, watch.left)
        last = seconds >= watch.left
        found = _milp(part, gap, seconds, watch, _told(value, bound, watch))
        if found is not None and found.x is not None:
            taken = np.rint(found.x[: len(which)]).astype(int)
            tried = {int(which[place]): int(taken[place]) for place in np.flatnonzero(taken)}
            if _total(programme, tried) < value - 1e-12:
                best, value = tried, _total(programme, tried)
        if found is not None and exact and found.mip_dual_bound is not None and np.isfinite(found.mip_dual_bound):
            bound = max(bound if bound is not None else -math.inf, float(found.mip_dual_bound))
        if found is not None and found.status == 0:
            # Of a part of the columns the bound is still that of the relaxation.
            near = bound is not None and value - bound <= 2 * gap * max(abs(value), 1e-9)
            return best, bound, exact or near
        if last:
            break
        spent *= 4
    return best, bound, False


def _told(value: float, bound: float | None, watch: _Watch) -> str:
    off = "no bound yet"
    if bound is not None:
        off = f"at most {100 * max(0.0, (value - bound) / max(abs(value), 1e-9)):.2f} % off"
    return f"the plan so far is {off}; {watch.left:.0f} s left"


def _relax(programme: _Programme, watch: _Watch) -> tuple[float | None, Floats]:
    """Return the bound of the linear relaxation over all columns, and the reduced cost of each."""
    total = len(programme.cost)
    active = np.arange(total)
    if total > DIRECT:
        active = _first_columns(programme)
    bound: float | None = None
    reduced = programme.cost.copy()
    for number in range(_ROUNDS):
        part = programme.part(active)
        jobs = part.jobs
        waiting = sparse.vstack([sparse.eye_array(jobs), sparse.csc_array((len(part.capacity), jobs))])
        matrix = sparse.hstack([part.matrix, waiting]).tocsr()
        found = linprog(
            np.concatenate([part.cost, part.waiting]), A_eq=matrix[:jobs], b_eq=part.counts, A_ub=matrix[jobs:],
            b_ub=part.capacity, method="highs", options={"time_limit": max(watch.left, 1.0)},
        )  # fmt: skip
        if found.status != 0:
            return bound, reduced
        prices = np.concatenate([found.eqlin.marginals, found.ineqlin.marginals])
        reduced = programme.cost - programme.matrix.T @ prices
        missing = np.flatnonzero(reduced < -1e-7)
        if not len(missing):
            return float(found.fun or 0.0), np.maximum(reduced, 0.0)
        # Prices that are lowered until no column is missing bound the optimum too.
        bound = max(bound if bound is not None else -math.inf, float(found.fun or 0.0) - _excess(programme, reduced))
        if not watch.say(0.1, f"pricing {total:,} sets, round {number + 1}") or watch.left <= 0.4 * watch.limit:
            break
        added = missing[np.argsort(reduced[missing], kind="stable")[:_ADDED]]
        active = np.union1d(active, added)
    return bound, np.maximum(reduced, 0.0)


def _excess(programme: _Programme, reduced: Floats) -> float:
    """Return by how much the prices of all jobs must be lowered until no column has a reduced cost below 0."""
    matrix = programme.matrix[: programme.jobs].tocsr()
    sizes = np.asarray(matrix.sum(axis=0)).ravel()
    short = np.maximum(-reduced, 0.0) / np.maximum(sizes, 1)
    each = np.array(
        [short[matrix.indices[start:stop]].max(initial=0.0) for start, stop in itertools.pairwise(matrix.indptr)]
    )
    return float(programme.counts @ each)


def _first_columns(programme: _Programme) -> npt.NDArray[np.int64]:
    """Return the columns to begin with: of every job those of the least cost for each of its members."""
    sizes = programme.matrix[: programme.jobs].sum(axis=0)
    order = np.argsort(programme.cost / np.maximum(sizes, 1), kind="stable")
    rows = programme.matrix.tocsr()
    rank = np.empty(len(order), dtype=np.int64)
    rank[order] = np.arange(len(order))
    chosen: set[int] = set()
    for at in range(programme.jobs):
        own = rows.indices[rows.indptr[at] : rows.indptr[at + 1]]
        chosen.update(own[np.argsort(rank[own], kind="stable")[:_FIRST]].tolist())
    chosen.update(np.flatnonzero(sizes == 1).tolist())
    return np.array(sorted(chosen), dtype=np.int64)


def _greedy(programme: _Programme, reduced: Floats) -> dict[int, int]:
    """Take columns in the order of their reduced cost while jobs and GPUs are left."""
    matrix = programme.matrix
    left = np.concatenate([programme.counts, programme.capacity])
    sizes = np.asarray(matrix[: programme.jobs].sum(axis=0)).ravel()
    order = np.lexsort((programme.cost / np.maximum(sizes, 1), -sizes, np.round(reduced, 9)))
    chosen: dict[int, int] = {}
    indptr, indices, data = matrix.indptr, matrix.indices, matrix.data
    for place in order.tolist():
        rows, needs = indices[indptr[place] : indptr[place + 1]], data[indptr[place] : indptr[place + 1]]
        times = int((left[rows] // needs).min())
        if times > 0:
            left[rows] -= times * needs
            chosen[place] = times
            if not left[: programme.jobs].any():
                break
    return chosen


def _milp(programme: _Programme, gap: float, seconds: float, watch: _Watch, said: str) -> Any:
    """Run HiGHS for some seconds beside this thread, so that a reader can stop it; None when stopped."""
    jobs, total = programme.jobs, len(programme.cost)
    waiting = sparse.vstack([sparse.eye_array(jobs), sparse.csc_array((len(programme.capacity), jobs))])
    matrix = sparse.hstack([programme.matrix, waiting]).tocsc()
    lower = np.concatenate([programme.counts, np.full(len(programme.capacity), -np.inf)])
    upper = np.concatenate([programme.counts, programme.capacity])
    most = np.concatenate([np.full(total, np.inf), programme.counts])
    result: list[Any] = []

    def run() -> None:
        result.append(
            milp(
                np.concatenate([programme.cost, programme.waiting]),
                integrality=np.concatenate([np.ones(total), np.zeros(jobs)]), bounds=Bounds(0, most),
                constraints=LinearConstraint(matrix, lower, upper),
                options={"time_limit": seconds, "mip_rel_gap": gap},
            )
        )  # fmt: skip

    worker = threading.Thread(target=run, daemon=True)
    worker.start()
    part = 0.2 + 0.7 * (1 - watch.left / (watch.left + 10))
    while worker.is_alive():
        worker.join(0.1)
        if worker.is_alive() and not watch.say(min(part, 0.95), said):
            return None
    return result[0] if result else None


def _total(programme: _Programme, chosen: dict[int, int]) -> float:
    taken = np.zeros(len(programme.cost))
    for place, times in chosen.items():
        taken[place] = times
    placed = (programme.matrix @ taken)[: programme.jobs]
    return float(programme.cost @ taken + programme.waiting @ (programme.counts - placed))


def _decode(
    problem: Problem, columns: Columns, chosen: dict[int, int]
) -> tuple[tuple[Placement, ...], tuple[Waiting, ...]]:
    """Name the jobs of the columns that were taken, and those that wait."""
    left = [list(members) for members in columns.classes]
    used = [0] * len(problem.gpus)
    placements: list[Placement] = []
    for place in sorted(chosen, key=lambda one: (columns.kinds[one], -len(columns.members[one]), columns.members[one])):
        for _ in range(chosen[place]):
            jobs = [left[at].pop(0) for at in columns.members[place]]
            kind, needs = columns.kinds[place], columns.needs[place]
            placements.append(
                placement(
                    problem, problem.gpus[kind].name, used[kind], jobs, columns.figures[place], columns.decisions[place]
                )
            )
            used[kind] += needs
    waiting = tuple(Waiting(job, _why(problem, job)) for members in left for job in members)
    return tuple(placements), waiting


def placement(
    problem: Problem, gpu: str, index: int, jobs: Sequence[Job], figures: SetFigures | None, decision: Decision | None
) -> Placement:
    """Put jobs on a GPU, with the figures of their set; alone without."""
    if figures is None or decision is None:
        alone = tuple(Placed(job, 1.0, 1.0, 1.0, problem.limit_of(job)) for job in jobs)
        return Placement(gpu, index, alone, gpus=jobs[0].gpus)
    names = [job.workload for job in jobs]
    slow, low, high = (_in_order(one, figures.jobs, names) for one in (figures.slowdowns, figures.lows, figures.highs))
    members = tuple(
        Placed(job, slow[at], low[at], high[at], problem.limit_of(job)) for at, job in enumerate(jobs)
    )  # fmt: skip
    return Placement(
        gpu, index, members, decision.verdict, decision.why, decision.within_limit, decision.evidence, figures.simulated
    )


def _why(problem: Problem, job: Job) -> str:
    """Say why a job got no GPU."""
    if job.gpus > 1:
        return f"It needs {job.gpus} GPUs of one kind, and they are taken."
    if not job.workload:
        return "All GPUs are taken, and what it runs is not known: it can't share. Bring a profile of it."
    if any(job.name in wish for wish in problem.wanted):
        return "With whom it must share, nothing says what that costs, or no GPU is left. Measure the set."
    if math.isnan(job.memory_mib):
        return "All GPUs are taken, and its peak memory is unknown: it never shares. Measure its peak."
    if problem.k < 2:
        return "All GPUs are taken, and at most one job a GPU is allowed."
    return (
        f"All GPUs are taken, and beside no job that is left the answer is share within {problem.limit_of(job):g} x. "
        "Raise the limit, add a GPU, or measure more pairs."
    )
