"""Jobs pair by pair: how many may share, how many must be measured, and which co-runs to measure first."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from analysis.interference.decision import Decision
from analysis.interference.metrics import stp
from analysis.plan.columns import pairs_of
from analysis.plan.problem import Job, Problem, may_share
from analysis.plan.sets import Figures, Names, SetFigures, decide
from analysis.predict.advise.measure_next import command

#: More pairs than this are not looked at one by one.
MOST_PAIRS = 50_000

#: Co-runs that are proposed.
PROPOSED = 3

#: Share of time with a kernel on the GPU that is assumed of a job of which nothing tells it.
_BUSY = 0.5

#: In words what each count is.
COUNTS = {
    "share": "may share",
    "don't": "must not share",
    "measure first": "must be measured first",
    "memory unknown": "wait for a peak memory",
    "kept apart": "kept apart by a rule or by memory",
}


@dataclass(frozen=True)
class Proposal:
    """A co-run to measure.

    Attributes
    ----------
    gpu : str
        Where.
    workloads : tuple of str
        The two.
    jobs : int
        Jobs of the list that run one of them.
    why : str
        Why these.
    command : str
        What measures them; the programs are the user's to fill in.
    """

    gpu: str
    workloads: Names
    jobs: int
    why: str
    command: str

    def to_json(self) -> dict[str, Any]:
        """Return the fields as plain values."""
        return {**asdict(self), "workloads": list(self.workloads)}


@dataclass(frozen=True)
class Survey:
    """What is said of all pairs of jobs.

    Attributes
    ----------
    pairs : dict of str to int
        Pairs of jobs by the keys of `COUNTS`; empty where there are too many.
    proposals : tuple of Proposal
        Co-runs to measure, the most promising first.
    peaks : tuple of str
        Workloads whose peak memory keeps their jobs from sharing.
    """

    pairs: dict[str, int]
    proposals: tuple[Proposal, ...]
    peaks: tuple[str, ...]

    def in_words(self) -> str:
        """Say how many pairs may share, must not, and must be measured."""
        total = sum(self.pairs.values())
        if not total:
            return ""
        parts = [f"{self.pairs[key]:,} {words}" for key, words in COUNTS.items() if self.pairs.get(key)]
        return f"Of {total:,} pairs of jobs, {', '.join(parts)}."


def survey(problem: Problem, figures: Figures, utilisation: Mapping[str, float] | None = None) -> Survey:
    """Look at every pair of jobs of a problem.

    A pair is counted once, by its best answer on any kind of GPU. Proposed are pairs that must be measured: those with
    the most work done together times the probability of the limit; where nothing tells it, those that leave the GPU
    idle most.

    Parameters
    ----------
    problem : Problem
        Jobs, GPUs and rules.
    figures : Figures
        What sets cost.
    utilisation : mapping of str to float, optional
        Share of time with a kernel on the GPU by workload, 0 to 1.
    """
    sharing = [job for job in problem.jobs if may_share(problem, job, memory=False)]
    unknown = [job for job in sharing if math.isnan(job.memory_mib)]
    peaks = tuple(dict.fromkeys(job.workload for job in unknown))
    classes, sets = pairs_of(problem)
    if len(sets) > MOST_PAIRS:
        return Survey({}, (), peaks)
    free = {kind.name: kind.memory_mib * (1 - problem.reserve) for kind in problem.gpus if kind.count}
    best: dict[tuple[int, ...], tuple[str, str, SetFigures, Decision]] = {}
    for gpu, room in free.items():
        here = [one for one in sets if sum(classes[at][0].memory_mib for at in one) <= room]
        names = [tuple(sorted(classes[at][0].workload for at in one)) for one in here]
        known = figures.of(gpu, list(dict.fromkeys(names)))
        for one, jobs in zip(here, names, strict=True):
            first = sorted((classes[at][0].workload, problem.limit_of(classes[at][0])) for at in one)
            decision = decide(known[jobs], tuple(limit for _, limit in first))
            if one not in best or _RANK[decision.verdict] < _RANK[best[one][0]]:
                best[one] = (decision.verdict, gpu, known[jobs], decision)
    pairs: Counter[str] = Counter()
    for one, (verdict, *_) in best.items():
        pairs[verdict] += _count(classes, one)
    pairs["memory unknown"] = _within(problem, sharing) - _within(
        problem, [job for job in sharing if job not in unknown]
    )
    pairs["kept apart"] = len(problem.jobs) * (len(problem.jobs) - 1) // 2 - sum(pairs.values())
    return Survey(
        {key: pairs[key] for key in COUNTS if pairs[key] > 0}, _proposals(problem, best, utilisation or {}), peaks
    )


_RANK = {"share": 0, "measure first": 1, "don't": 2}


def _count(classes: Sequence[Sequence[Job]], one: tuple[int, ...]) -> int:
    first, second = (len(classes[at]) for at in one)
    return first * (first - 1) // 2 if one[0] == one[1] else first * second


def _within(problem: Problem, jobs: Sequence[Job]) -> int:
    """Return how many pairs of jobs belong to one owner, where owners are kept apart."""
    sizes = Counter(job.owner if problem.owners_apart else "" for job in jobs)
    return sum(size * (size - 1) // 2 for size in sizes.values())


def _proposals(
    problem: Problem, best: Mapping[tuple[int, ...], tuple[str, str, SetFigures, Decision]], used: Mapping[str, float]
) -> tuple[Proposal, ...]:
    runs = Counter(job.workload for job in problem.jobs)
    found: dict[Names, tuple[float, Proposal]] = {}
    for verdict, gpu, figures, decision in best.values():
        if verdict != "measure first" or figures.jobs in found:
            continue
        idle = sum(1 - used.get(job, _BUSY) for job in figures.jobs) / 2
        if figures.known:
            chance = 0.5 if decision.within_limit is None else decision.within_limit / 100
            worth, why = chance * (stp(figures.slowdowns) - 1), decision.why
        else:
            worth = 0.5 * idle
            why = decision.why
            if all(job in used for job in figures.jobs):
                why += f" Alone they leave the GPU idle {100 * idle:.0f} % of the time, on average."
        first, second = figures.jobs
        jobs = sum(runs[job] for job in {first, second})
        made = Proposal(gpu, figures.jobs, jobs, why, command(first, second, problem.mechanism))
        found[figures.jobs] = (worth * jobs, made)
    order = sorted(found.values(), key=lambda one: (-one[0], one[1].workloads))
    return tuple(made for _, made in order[:PROPOSED])
