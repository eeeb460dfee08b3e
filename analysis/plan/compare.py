"""A plan beside what simple rules would have done, and beside the best that was measured."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, TypeAlias

import numpy as np

from analysis.plan.problem import Job, Problem, broken_rule, fits_alone, memory_together
from analysis.plan.sets import Figures, Names, SetFigures
from analysis.plan.solve import Plan, fairness_of_gpus, solve

#: Draws of the random rule, and the ends of the interval over them in percent.
DRAWS, ENDS = 100, (5.0, 95.0)

RULES: dict[str, str] = {
    "plan": "this plan",
    "exclusive": "every job alone",
    "random": "random partners",
    "first_fit": "first fit by utilisation",
    "best_partner": "best partner, one job after the other",
    "oracle": "best plan by what was measured, limits aside",
}


@dataclass(frozen=True)
class Outcome:
    """What a way of placing gives; of several draws the mean, with the 5th and 95th percentile over them.

    Attributes
    ----------
    rule : str
        A name of `RULES`.
    draws : int
        Plans behind it.
    placed, waiting : float
        Jobs with and without a GPU.
    stp, antt, worst, fairness : float
        NaN where a figure is missing; fairness is that of a GPU's jobs, mean over jobs.
    violations : float
        Placed jobs beyond their limit, in percent.
    stp_low, stp_high, antt_low, antt_high : float or None
        Over the draws; None for a single plan.
    gpus_used : float
    regret_stp, regret_antt : float or None
        What is lost against the oracle, in percent; None where not everything was measured.
    unknown : float
        Sets without any figure, which are left out of the means.
    """

    rule: str
    draws: int
    placed: float
    waiting: float
    stp: float
    antt: float
    worst: float
    fairness: float
    violations: float
    gpus_used: float
    stp_low: float | None = None
    stp_high: float | None = None
    antt_low: float | None = None
    antt_high: float | None = None
    regret_stp: float | None = None
    regret_antt: float | None = None
    unknown: float = 0.0

    def to_json(self) -> dict[str, Any]:
        """Return the fields as plain values; what is not known is None."""
        return {
            name: None if isinstance(value, float) and not math.isfinite(value) else value
            for name, value in asdict(self).items()
        }


@dataclass
class Slot:
    """A GPU while a rule fills it."""

    kind: int
    jobs: list[Job]


#: Chooses among the GPUs that hold a job already, given which of them the job may join; None for none.
Choose: TypeAlias = Callable[[Job, list[Slot], Callable[[Slot], bool]], Slot | None]

#: From this many jobs on, fewer draws are taken: the spread over them is small.
_MANY, _FEW_DRAWS = 400, 20


def compare(
    plan: Plan,
    figures: Figures,
    utilisation: Mapping[str, float] | None = None,
    *,
    draws: int = DRAWS,
    seed: int = 0,
    oracle: bool = True,
    time_limit: float = 10.0,
) -> list[Outcome]:
    """Hold a plan against exclusive use, random partners, first fit, best partners, and the measured best.

    Parameters
    ----------
    plan : Plan
        The plan; its problem says what the rules place. They keep its hard rules (owners, memory, bans, k), not its
        limit, which they do not know.
    figures : Figures
        What sets cost: measured where they ran, else predicted. Every way is judged by the same ones.
    utilisation : mapping of str to float, optional
        Share of time with a kernel on the GPU by workload, 0 to 1, for first fit; 1 where unknown.
    draws, seed : int
        Of the random rule.
    oracle : bool
        Whether to look for the measured best.
    time_limit : float
        Seconds for the oracle.
    """
    problem = plan.problem
    used = utilisation or {}
    random = np.random.default_rng(seed)
    listed = list(problem.jobs)
    found = {
        "plan": [_slots_of(plan)],
        "exclusive": [_fill(problem, listed, lambda job, slots, may: None)],
        "random": [
            _fill(
                problem,
                [listed[at] for at in random.permutation(len(listed))],
                lambda job, slots, may: next(filter(may, (slots[at] for at in random.permutation(len(slots)))), None),
            )
            for _ in range(draws if len(listed) < _MANY else min(draws, _FEW_DRAWS))
        ],
        "first_fit": [_fill(problem, listed, lambda job, slots, may: _first_fit(job, slots, may, used))],
        "best_partner": [_best_partner(problem, figures)],
    }  # fmt: skip
    rows = [_outcome(rule, problem, figures, plans) for rule, plans in found.items()]
    best = _oracle(problem, figures, time_limit) if oracle else None
    if best is None:
        return rows
    best_stp, best_antt = best
    shown = best_antt if problem.objective == "antt" else best_stp
    return [
        replace(
            row,
            regret_stp=100 * (1 - row.stp / best_stp.stp),
            regret_antt=100 * (row.antt / best_antt.antt - 1),
        )
        for row in (*rows, shown)
    ]


def _slots_of(plan: Plan) -> list[Slot]:
    kinds = [kind.name for kind in plan.problem.gpus]
    return [Slot(kinds.index(one.gpu), [member.job for member in one.members]) for one in plan.placements]


def _fill(problem: Problem, order: Sequence[Job], choose: Choose) -> list[Slot]:
    """Give every job a GPU of its own while there are some, then let the rule choose whom the others join."""
    free = [kind.count for kind in problem.gpus]
    slots: list[Slot] = []
    for job in order:
        own = next(
            (n for n, kind in enumerate(problem.gpus) if free[n] >= job.gpus and fits_alone(job, kind)), None
        )  # fmt: skip
        if own is not None:
            free[own] -= job.gpus
            slots.append(Slot(own, [job]))
            continue
        chosen = choose(job, slots, lambda slot, job=job: _may_join(problem, slot, job))  # type: ignore[misc]
        if chosen is not None:
            chosen.jobs.append(job)
    return slots


def _may_join(problem: Problem, slot: Slot, job: Job) -> bool:
    together = [*slot.jobs, job]
    return (
        len(together) <= problem.k
        and broken_rule(problem, together) is None
        and memory_together(together, problem.gpus[slot.kind], problem.reserve) == "fits"
    )


def _first_fit(job: Job, slots: list[Slot], may: Callable[[Slot], bool], used: Mapping[str, float]) -> Slot | None:
    """Return the first GPU whose utilisation stays within 100 % with the job, else the least used one."""

    def load(slot: Slot) -> float:
        return sum(used.get(one.workload, 1.0) for one in (*slot.jobs, job))

    fits = next((slot for slot in slots if load(slot) <= 1.0 and may(slot)), None)
    return fits or next((slot for slot in sorted(slots, key=load) if may(slot)), None)


def _best_partner(problem: Problem, figures: Figures) -> list[Slot]:
    """Take jobs in their order and give each the partner with the largest STP, as many as must share."""
    gpus = sum(kind.count for kind in problem.gpus)
    queue = [job for job in problem.jobs if job.gpus == 1]
    large = [job for job in problem.jobs if job.gpus > 1]
    must = len(queue) - (gpus - sum(job.gpus for job in large))
    partner_of: dict[str, Job] = {}
    taken: set[str] = set()
    if problem.k >= 2 and must > 0:
        for job in queue:
            if must <= 0:
                break
            if job.name in taken:
                continue
            others = [one for one in queue if one.name not in taken and one is not job]
            others = [one for one in others if broken_rule(problem, [job, one]) is None]
            if not others:
                continue
            names = {one.name: _sorted([job, one]) for one in others}
            known = figures.of(problem.gpus[0].name, list(dict.fromkeys(names.values())))
            best = max(others, key=lambda one, names=names, known=known: _stp(known[names[one.name]]))  # type: ignore[misc]
            if math.isfinite(known[names[best.name]].stp):
                partner_of[job.name] = best
                taken |= {job.name, best.name}
                must -= 1
    firsts = [job for job in queue if job.name not in taken or job.name in partner_of]
    slots = _fill(problem, [*large, *firsts], lambda job, slots, may: None)
    at = {slot.jobs[0].name: slot for slot in slots}
    for name, joined in partner_of.items():
        if name in at and _may_join(problem, at[name], joined):
            at[name].jobs.append(joined)
    return slots


def _stp(figures: SetFigures) -> float:
    return figures.stp if figures.known else -math.inf


def _sorted(jobs: Sequence[Job]) -> Names:
    return tuple(sorted(job.workload for job in jobs))


def _outcome(rule: str, problem: Problem, figures: Figures, plans: Sequence[list[Slot]]) -> Outcome:
    judged = [_judge(problem, figures, slots) for slots in plans]
    mean = {name: _mean([one[name] for one in judged]) for name in judged[0]}
    if len(plans) == 1:
        return Outcome(rule, 1, **mean)
    ends = {
        f"{name}_{side}": float(np.nanpercentile([one[name] for one in judged], end))
        for name in ("stp", "antt")
        for side, end in zip(("low", "high"), ENDS, strict=True)
    } if all(math.isfinite(mean[name]) for name in ("stp", "antt")) else {}  # fmt: skip
    return Outcome(rule, len(plans), **mean, **ends)


def _mean(values: Sequence[float]) -> float:
    known = [value for value in values if math.isfinite(value)]
    return float(np.mean(known)) if known else math.nan


def _judge(problem: Problem, figures: Figures, slots: Sequence[Slot]) -> dict[str, float]:
    """Return the figures of one plan; a set without figures counts in no mean, and is counted."""
    wanted: dict[str, list[Names]] = {}
    for slot in slots:
        if len(slot.jobs) > 1:
            wanted.setdefault(problem.gpus[slot.kind].name, []).append(_sorted(slot.jobs))
    known = {gpu: figures.of(gpu, list(dict.fromkeys(sets))) for gpu, sets in wanted.items()}
    slow: list[float] = []
    parts: list[tuple[float, ...]] = []
    beyond = unknown = used = placed = 0
    for slot in slots:
        used += max(job.gpus for job in slot.jobs)
        placed += len(slot.jobs)
        values: tuple[float, ...] = (1.0,) * len(slot.jobs)
        ordered = sorted(slot.jobs, key=lambda job: job.workload)
        if len(slot.jobs) > 1:
            found = known[problem.gpus[slot.kind].name][_sorted(slot.jobs)]
            if not found.known:
                unknown += 1
                continue
            values = found.slowdowns
        slow += values
        parts.append(values)
        beyond += sum(value > problem.limit_of(job) for value, job in zip(values, ordered, strict=True))
    return {
        "placed": float(placed), "waiting": float(len(problem.jobs) - placed),
        "stp": sum(1 / value for value in slow) if slow else math.nan,
        "antt": float(np.mean(slow)) if slow else math.nan, "worst": max(slow, default=math.nan),
        "fairness": fairness_of_gpus(parts),
        "violations": 100 * beyond / len(slow) if slow else math.nan, "gpus_used": float(used),
        "unknown": float(unknown),
    }  # fmt: skip


class _NotMeasuredError(Exception):
    """A set that the oracle would need was not measured."""


class _MeasuredOnly:
    """Figures of measured sets; with a set that was not measured there is no oracle."""

    def __init__(self, figures: Figures) -> None:
        self._figures = figures

    def of(self, gpu: str, sets: Sequence[Names]) -> dict[Names, SetFigures]:
        found = self._figures.of(gpu, sets)
        if any(one.evidence != "measured" for one in found.values()):
            raise _NotMeasuredError
        return found


def _oracle(problem: Problem, figures: Figures, time_limit: float) -> tuple[Outcome, Outcome] | None:
    """Return the measured best by STP and by ANTT; None unless every set that passes the rules was measured."""
    found = []
    for objective in ("stp", "antt"):
        changed = replace(problem, objective=objective, risk="expected", over_limit=True)
        try:
            plan = solve(changed, _MeasuredOnly(figures), time_limit=time_limit)
        except _NotMeasuredError:
            return None
        found.append(_outcome("oracle", problem, figures, [_slots_of(plan)]))
    return found[0], found[1]
