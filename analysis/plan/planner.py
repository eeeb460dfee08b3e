"""From a list of jobs and GPUs to a plan, its figures beside simple rules, and one document of it all."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from analysis.errors import NotFoundError, UsageError
from analysis.interference.decision import LIMIT
from analysis.interference.memory import peaks
from analysis.plan import compare as comparison
from analysis.plan import problem as rules
from analysis.plan import solve as solving
from analysis.plan.compare import Outcome
from analysis.plan.jobs import JobList, known_workloads
from analysis.plan.problem import GpuKind, Job, Objective, Problem, Risk, with_context
from analysis.plan.sets import LibraryFigures, decide, memory_now, without_model
from analysis.plan.solve import TIME_LIMIT, Plan, Progress
from analysis.plan.survey import Survey, survey
from analysis.predict.frame import profiles
from analysis.predict.models import models
from analysis.reference import gpus as reference
from analysis.reference.mechanism_names import MPS
from analysis.store.database import Database
from analysis.store.filters import Filter
from analysis.store.queries import coruns, sources, telemetry


@dataclass(frozen=True)
class Answer:
    """A plan with what stands around it.

    Attributes
    ----------
    plan : Plan
        Who goes where.
    compared : tuple of Outcome
        The plan beside simple rules and the oracle.
    dataset : str
        Where the figures come from.
    model_id : str or None
        The model that predicted what was not measured.
    notes : tuple of str
        What the reader must know.
    survey : Survey
        What is said of all pairs of jobs, and which co-runs to measure next.
    """

    plan: Plan
    compared: tuple[Outcome, ...]
    dataset: str
    model_id: str | None
    notes: tuple[str, ...]
    survey: Survey

    @property
    def plan_id(self) -> str:
        """A short name of this very plan, for files that rest on it."""
        text = json.dumps(placements_json(self.plan), sort_keys=True)
        return hashlib.sha256(f"{self.dataset}|{self.model_id}|{text}".encode()).hexdigest()[:12]

    def to_json(self) -> dict[str, Any]:
        """Return the document of the command line and the programming interface."""
        plan, problem = self.plan, self.plan.problem
        return {
            "plan_id": self.plan_id,
            "placements": placements_json(plan),
            "stp": _known(plan.stp),
            "antt": _known(plan.antt),
            "worst": _known(plan.worst),
            "within_limit": _known(plan.within_limit),
            "gpus_used": plan.gpus_used,
            "gap": plan.gap,
            "compared_with": {one.rule: one.to_json() for one in self.compared},
            "refused": [
                {"job": one.job.name, "workload": one.job.workload or None, "why": one.why} for one in plan.waiting
            ],
            "objective": problem.objective,
            "risk": problem.risk,
            "limit": problem.limit,
            "k": problem.k,
            "mechanism": problem.mechanism,
            "gpus": {kind.name: kind.count for kind in problem.gpus},
            "dataset": self.dataset,
            "model": self.model_id,
            "simulated": any(one.simulated for one in plan.placements),
            "verdicts": verdicts(plan),
            "pairs": self.survey.pairs,
            "measure_next": [one.to_json() for one in self.survey.proposals],
            "peaks_missing": list(self.survey.peaks),
            "considered": plan.considered,
            "stopped": plan.stopped,
            "notes": list(self.notes),
        }


def _known(value: float) -> float | None:
    return value if math.isfinite(value) else None


def verdicts(plan: Plan) -> dict[str, int]:
    """Count the GPUs of a plan by their verdict."""
    words = [one.verdict for one in plan.placements]
    return {word: words.count(word) for word in ("share", "don't", "measure first", "alone") if word in words}


def placements_json(plan: Plan) -> list[dict[str, Any]]:
    """Return the GPUs of a plan as plain values."""
    return [
        {
            "gpu": one.gpu,
            "index": one.index,
            "gpus": one.gpus,
            "jobs": [
                {
                    "job": member.job.name,
                    "workload": member.job.workload or None,
                    "owner": member.job.owner or None,
                    "slowdown": member.slowdown,
                    "low": member.low,
                    "high": member.high,
                    "limit": member.limit,
                    "within_limit": member.within,
                    "memory_mib": _known(member.job.memory_mib),
                    "threads": member.job.threads,
                }
                for member in one.members
            ],
            "stp": one.stp,
            "verdict": one.verdict,
            "probability": one.probability,
            "why": one.why,
            "evidence": one.evidence or None,
            "if_one_faults": faults(one, plan.problem.mechanism),
        }
        for one in plan.placements
    ]


def faults(placement: solving.Placement, mechanism: str) -> str | None:
    """Say who dies with whom if a job of the GPU faults; None for a job by itself."""
    if len(placement.members) < 2:
        return None
    names = ", ".join(one.job.name for one in placement.members)
    if "mps" in mechanism.casefold():
        return f"A fatal fault of one ends all clients of the MPS server: {names}."
    if mechanism.casefold().startswith(("mig", "time")):
        return "A fault of one leaves the others running."
    return f"Whether a fault of one ends the others is not known under {mechanism}: {names}."


def make_plan(
    database: Database,
    found: JobList,
    gpus: Sequence[GpuKind],
    *,
    dataset: str | None = None,
    model_id: str | None = None,
    mechanism: str | None = None,
    k: int = 2,
    limit: float = LIMIT,
    objective: Objective = "stp",
    risk: Risk = "expected",
    reserve: float = rules.RESERVE,
    over_limit: bool = False,
    class_limits: Mapping[str, float] | None = None,
    time_limit: float = TIME_LIMIT,
    draws: int = comparison.DRAWS,
    progress: Progress | None = None,
    cancelled: Callable[[], bool] | None = None,
) -> Answer:
    """Place the jobs of a list on GPUs.

    Parameters
    ----------
    database : Database
        The open database.
    found : JobList
        As `jobs.read_jobs` gives it.
    gpus : sequence of GpuKind
        What there is.
    dataset, model_id : str, optional
        Where the figures come from; the model's data set, or the only one, by default.
    mechanism : str, optional
        How they share; by default what was measured most in the data set.
    k, limit, objective, risk, reserve, over_limit
        As `Problem`.
    class_limits : mapping of str to float, optional
        Limits of the jobs of a class, for those without one of their own.
    time_limit : float
        Seconds for the search.
    draws : int
        Of the random rule that the plan is compared with.
    progress, cancelled
        As `solve.solve`.

    Raises
    ------
    NotFoundError, UsageError, InputRefusedError
        If the list, the wishes or the words contradict each other or what there is.
    """
    if objective not in rules.OBJECTIVES or risk not in rules.RISKS:
        raise UsageError(
            f"there is no objective {objective!r} with the risk {risk!r}",
            f"Objectives: {', '.join(rules.OBJECTIVES)}; risks: {', '.join(rules.RISKS)}.",
        )
    name = dataset_of(database, dataset, model_id)
    how = mechanism or _mechanism(database, name)
    library = sources.workloads(database, Filter(datasets=(name,)))["workload"].astype(str).tolist()
    listed = known_workloads(found, library, f"data set {name}")
    jobs = rules.with_class_limits(with_measured_peaks(database, name, gpus, listed.jobs), class_limits or {})
    problem = Problem(
        jobs, tuple(gpus), how, k, limit, reserve, listed.forbidden, listed.wanted, over_limit, objective, risk
    )
    figures = LibraryFigures(database, name, how, model_id)
    plan = solving.solve(problem, figures, time_limit=time_limit, progress=progress, cancelled=cancelled)
    used = utilisation(database, name)
    compared = comparison.compare(plan, figures, used, draws=draws)
    notes = (
        *listed.notes,
        *listed.unknown_memory(jobs),
        *figures.notes,
        *plan.notes,
        *_of_telemetry(database, name, jobs),
    )
    asked = None if figures.model_id == without_model(name) else figures.model_id
    return Answer(plan, tuple(compared), name, asked, notes, survey(problem, figures, used))


def dataset_of(database: Database, dataset: str | None, model_id: str | None) -> str:
    """Return the data set that is meant: the one named, the model's, or the only one."""
    of_model = models.card(database, model_id).dataset if model_id is not None else None
    if dataset is not None:
        sources.require_dataset(database, dataset)
    return dataset or of_model or _only_dataset(database)


def _only_dataset(database: Database) -> str:
    names = [str(name) for name in sources.datasets(database)["name"]]
    if not names:
        raise NotFoundError("nothing is loaded", "Use `stallscope datasets load NAME` or `stallscope import`.")
    if len(names) > 1:
        raise UsageError(
            "several data sets are loaded, and they are never pooled", f"Name one with --dataset: {', '.join(names)}."
        )
    return names[0]


def _mechanism(database: Database, dataset: str) -> str:
    table = coruns.gpus_and_mechanisms(database, dataset)
    if table.empty:
        return MPS
    return str(table.groupby("mechanism")["runs"].sum().idxmax())


def with_measured_peaks(
    database: Database, dataset: str, gpus: Sequence[GpuKind], jobs: Sequence[Job]
) -> tuple[Job, ...]:
    """Give jobs whose list names no peak memory the largest one that was measured of their workload."""
    stored = {str(name) for name in coruns.gpus_and_mechanisms(database, dataset)["gpu"]}
    stored |= {str(name) for name in coruns.solos(database, Filter(datasets=(dataset,)))["gpu"]}
    stored |= {str(name) for name in telemetry.of_workloads(database, dataset)["gpu"]}
    known: dict[str, float] = {}
    for gpu in sorted(one for one in stored if any(reference.matches(one, kind.name) for kind in gpus)):
        table = peaks(database, dataset, gpu)
        for workload, peak, kind in zip(table.index, table["peak_memory_mib"], table["memory_kind"], strict=True):
            needed = with_context(float(peak), kind if isinstance(kind, str) else None)
            known[str(workload)] = max(known.get(str(workload), 0.0), needed)
    return tuple(
        replace(job, memory_mib=known.get(job.workload, math.nan)) if math.isnan(job.memory_mib) else job
        for job in jobs
    )


def _of_telemetry(database: Database, dataset: str, jobs: Sequence[Job]) -> tuple[str, ...]:
    """Say how many jobs are known by samples of the cluster."""
    table = telemetry.of_workloads(database, dataset)
    named = {job.workload for job in jobs if job.workload}
    sampled = table[table["workload"].isin(named)]
    if sampled.empty:
        return ()
    return (
        f"Of {sampled['workload'].nunique()} of {len(named)} workloads there is telemetry: memory is their largest "
        f"sample (of {int(sampled['samples'].min()):,} or more), and how busy they keep the GPU ranks what to measure. "
        "It says nothing of what they cost each other.",
    )


def utilisation(database: Database, dataset: str) -> dict[str, float]:
    """Return each workload's largest known share of time with a kernel on the GPU, 0 to 1."""
    sampled = telemetry.of_workloads(database, dataset).dropna(subset=["busy"])
    found = sampled.groupby("workload")["busy"].max().to_dict()
    table = profiles.collect(database, dataset)
    if "sm_util" in table and len(table):
        found |= table["sm_util"].groupby(level="workload").max().dropna().to_dict()
    return {str(name): float(value) for name, value in found.items()}


@dataclass(frozen=True)
class Joining:
    """Whether one job may join the jobs of a running GPU.

    Attributes
    ----------
    verdict : str
        share, don't, measure first.
    why : str
        The reason.
    probability : float or None
        That every job stays within its limit, in percent.
    memory : str
        fits, tight, does_not_fit, unknown.
    members : list of dict
        Each job with slowdown and interval.
    """

    verdict: str
    why: str
    probability: float | None
    memory: str
    limit: float
    evidence: str
    members: tuple[dict[str, Any], ...]

    def to_json(self) -> dict[str, Any]:
        """Return the fields as plain values."""
        return {**self.__dict__, "members": list(self.members), "may_join": self.verdict == "share"}


def may_join(
    database: Database,
    gpu: str,
    running: Sequence[str],
    job: str,
    *,
    dataset: str | None = None,
    model_id: str | None = None,
    mechanism: str | None = None,
    limit: float = LIMIT,
    reserve: float = rules.RESERVE,
) -> Joining:
    """Say whether a job may join what runs on a GPU.

    Parameters
    ----------
    database : Database
        The open database.
    gpu : str
        The GPU, any way of writing it.
    running : sequence of str
        Workloads that run there; none means that the GPU is free.
    job : str
        Workload that would join.
    dataset, model_id, mechanism, limit, reserve
        As `make_plan`.
    """
    name = dataset_of(database, dataset, model_id)
    how = mechanism or _mechanism(database, name)
    kind = rules.gpu_kind(gpu, 1)
    named = [*running, job]
    listed = JobList(tuple(Job(f"{one}-{number}", one) for number, one in enumerate(named, start=1)), "table")
    library = sources.workloads(database, Filter(datasets=(name,)))["workload"].astype(str).tolist()
    jobs = with_measured_peaks(database, name, (kind,), known_workloads(listed, library, f"data set {name}").jobs)
    problem = Problem(jobs, (kind,), how, max(2, min(len(jobs), rules.MOST_TOGETHER)), limit, reserve)
    rules.check(problem)
    if len(jobs) > rules.MOST_TOGETHER:
        raise UsageError(f"{len(jobs)} jobs on one GPU can't be judged", f"Ask about {rules.MOST_TOGETHER} at most.")
    if not running:
        member = {"workload": jobs[0].workload, "slowdown": 1.0, "low": 1.0, "high": 1.0}
        return Joining("share", "The GPU is free.", 100.0, "fits", limit, "alone", (member,))
    names = tuple(sorted(one.workload for one in jobs))
    figures = LibraryFigures(database, name, how, model_id).of(kind.name, [names])[names]
    memory = rules.memory_of(jobs, kind)
    answer = decide(figures, limit, memory)
    shown = memory_now(figures, memory)
    verdict, why = answer.verdict, answer.why
    reserved = rules.memory_together(jobs, kind, reserve) == "does_not_fit"
    if reserved and memory in ("fits", "tight") and verdict == "share" and not figures.ran:
        verdict, why = "don't", "Their peaks of memory are more than the GPU has, less the reserve."
    members = tuple(
        {"workload": one, "slowdown": _known(slow), "low": low, "high": high}
        for one, slow, low, high in zip(names, figures.slowdowns, figures.lows, figures.highs, strict=True)
    )
    return Joining(verdict, why, answer.within_limit, shown, limit, answer.evidence, members)


def moved(answer_plan: Plan, figures: Any, where: dict[str, tuple[str, int]]) -> Plan:
    """Return the plan with jobs moved by hand, judged anew.

    Parameters
    ----------
    answer_plan : Plan
        The plan to change.
    figures : Figures
        What sets cost.
    where : dict
        GPU kind and number of every job by its name; a job that is not there waits.

    Raises
    ------
    UsageError
        If a move breaks a rule, with the rule in words.
    """
    problem = answer_plan.problem
    kinds = {kind.name: kind for kind in problem.gpus}
    by_place: dict[tuple[str, int], list[Job]] = {}
    waiting = []
    for job in problem.jobs:
        place = where.get(job.name)
        if place is None:
            waiting.append(solving.Waiting(job, "Taken off by hand."))
            continue
        if place[0] not in kinds or not 0 <= place[1] <= kinds[place[0]].count - job.gpus:
            raise UsageError(f"there is no {place[0]} no. {place[1] + 1} for {job.name}", "Choose a GPU of the board.")
        for number in range(job.gpus):
            by_place.setdefault((place[0], place[1] + number), []).append(job)
    placements = []
    for (gpu, index), jobs in sorted(by_place.items()):
        if jobs[0].gpus > 1 and where[jobs[0].name] != (gpu, index) and len(jobs) == 1:
            continue
        if len(jobs) == 1:
            if not rules.fits_alone(jobs[0], kinds[gpu]):
                raise UsageError(f"{jobs[0].name} does not fit on {gpu}", "Choose a GPU with more memory.")
            placements.append(solving.placement(problem, gpu, index, jobs, None, None))
            continue
        said = " and ".join(job.name for job in jobs)
        if broken := rules.broken_rule(problem, jobs):
            raise UsageError(f"{said} can't share {gpu} no. {index + 1}: {broken}", "Move one of them elsewhere.")
        if rules.memory_together(jobs, kinds[gpu], problem.reserve) != "fits":
            raise UsageError(f"the memory of {said} does not fit on {gpu} with the reserve", "Move one elsewhere.")
        names = tuple(sorted(job.workload for job in jobs))
        found = figures.of(gpu, [names])[names]
        limits = [limit for _, limit in sorted((job.workload, problem.limit_of(job)) for job in jobs)]
        decision = decide(found, limits, rules.memory_of(jobs, kinds[gpu]))
        placements.append(solving.placement(problem, gpu, index, jobs, found, decision))
    return Plan(problem, tuple(placements), tuple(waiting), None, answer_plan.considered, notes=answer_plan.notes)
