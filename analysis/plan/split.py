"""Which thread percentage, which MIG profile? What jobs pay over the ways to cut one GPU, and what sets the best.

A figure is the measurement where the jobs ran under exactly these caps, else the white box's, which alone knows what a
part of a GPU is worth to a job. The white box has no interval, so that a split that nobody measured is never more than
"measure first".
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from analysis.errors import NotEnoughDataError, UsageError
from analysis.ingest.formats.ncu.advice import COMMAND
from analysis.interference import metrics
from analysis.interference.decision import LIMIT, Case, Forecast, check_limit, decide
from analysis.interference.memory import Memory
from analysis.interference.ran import RanSets, ran_sets
from analysis.numbers import significant
from analysis.plan import planner
from analysis.plan.jobs import JobList, known_workloads
from analysis.plan.problem import RESERVE, GpuKind, Job, gpu_kind, memory_together
from analysis.predict.explain.explanation import TAKEN
from analysis.predict.frame import profiles, whitebox_sets
from analysis.predict.frame.whitebox_sets import LARGEST_SET, LAUNCHES, SetQuery
from analysis.reference import gpus as reference
from analysis.reference import origin
from analysis.reference.mechanism_names import MPS
from analysis.sharing.demands import machine
from analysis.sharing.partitions import mig_choices, mig_profiles
from analysis.store.database import Database
from analysis.store.filters import Filter
from analysis.store.queries import sources

#: Ways to cut a GPU that are tried: thread percentages of MPS clients, SMs of one's own, MIG instances.
CUTS = (MPS, "static SM partition", "MIG")

#: Percent between two splits of two jobs, and of more.
STEP, COARSE = 5, 10


@dataclass(frozen=True)
class Split:
    """One way to cut the GPU.

    Attributes
    ----------
    setting : str
        Percentages or MIG profiles, in the order of the jobs.
    parts : tuple of float
        Percent of the SMs of each job; 100 without a cap.
    slowdowns : tuple of float
        S of each job; NaN where nothing says.
    memory : str
        fits, does_not_fit, unknown.
    measured, simulated : bool
        Whether the figures are of a run, and whether a simulator made it.
    """

    setting: str
    parts: tuple[float, ...]
    slowdowns: tuple[float, ...]
    memory: Memory
    measured: bool
    simulated: bool = False

    @property
    def known(self) -> bool:
        """Whether every job has a figure and no memory speaks against it."""
        return self.memory != "does_not_fit" and all(map(math.isfinite, self.slowdowns))


@dataclass(frozen=True)
class Sweep:
    """What jobs pay over the ways to cut a GPU.

    Attributes
    ----------
    gpu, mechanism : str
        Where and how.
    jobs : tuple of str
        The workloads.
    limit : float
        Largest slowdown that each may pay.
    splits : tuple of Split
        All ways that were tried, the first job's part growing.
    best : Split
        The one with the smallest worst slowdown.
    setter : str
        The job whose line sets it.
    because : str
        What it loses most by there, in words; empty where the network does not say.
    verdict, why : str
        The one answer, for the best split.
    simulated : bool
        Whether the best split's figures were simulated.
    """

    gpu: str
    mechanism: str
    jobs: tuple[str, ...]
    limit: float
    splits: tuple[Split, ...]
    best: Split
    setter: str
    because: str
    verdict: str
    why: str
    simulated: bool = False

    def sentence(self) -> str:
        """Say which split is best, and what sets it."""
        worst = max(self.best.slowdowns)
        text = (
            f"{self.best.setting} is the best split: worst S {significant(worst)} x, STP "
            f"{significant(metrics.stp(self.best.slowdowns))}. The line of {self.setter} sets it"
        )
        text += f", mostly by {self.because}." if self.because else "."
        most = max((one for one in self.splits if one.known), key=lambda one: metrics.stp(one.slowdowns))
        if metrics.stp(most.slowdowns) > metrics.stp(self.best.slowdowns) + 0.005:
            text += (
                f" The most work is done with {most.setting}: STP {significant(metrics.stp(most.slowdowns))}, worst S "
                f"{significant(max(most.slowdowns))} x."
            )
        return text

    def table(self) -> pd.DataFrame:
        """Return one row a split: setting, slowdowns, worst, stp, fairness, memory, evidence."""
        rows = [
            {
                "setting": one.setting, "slowdowns": [round(value, 4) for value in one.slowdowns],
                "worst": max(one.slowdowns), "stp": metrics.stp(one.slowdowns),
                "fairness": metrics.fairness(one.slowdowns), "memory": one.memory.replace("_", " "),
                "evidence": origin.evidence("measured" if one.measured else "stalls", simulated=one.simulated),
            }
            for one in self.splits
        ]  # fmt: skip
        return pd.DataFrame(rows)

    def lines(self) -> pd.DataFrame:
        """Return one row a split and job: setting, workload, part (percent of the SMs), slowdown."""
        rows = [
            (number, one.setting, f"{number}. {job}" if self.jobs.count(job) > 1 else job, one.parts[number], value)
            for one in self.splits
            for number, (job, value) in enumerate(zip(self.jobs, one.slowdowns, strict=True))
        ]
        return pd.DataFrame(rows, columns=["number", "setting", "workload", "part", "slowdown"])

    def to_json(self) -> dict[str, Any]:
        """Return the fields as plain values."""

        def plain(one: Split) -> dict[str, Any]:
            slow = [value if math.isfinite(value) else None for value in one.slowdowns]
            return {
                "setting": one.setting, "parts": list(one.parts), "slowdowns": slow,
                "worst": max(one.slowdowns) if one.known else None,
                "stp": metrics.stp(one.slowdowns) if one.known else None,
                "memory": one.memory, "measured": one.measured and not one.simulated,
            }  # fmt: skip

        return {
            "gpu": self.gpu, "mechanism": self.mechanism, "jobs": list(self.jobs), "limit": self.limit,
            "best": plain(self.best), "setter": self.setter, "because": self.because, "verdict": self.verdict,
            "why": self.why, "sentence": self.sentence(), "simulated": self.simulated,
            "splits": [plain(one) for one in self.splits],
        }  # fmt: skip


def split_gpu(
    database: Database,
    gpu: str,
    workloads: Sequence[str],
    *,
    dataset: str | None = None,
    mechanism: str = MPS,
    limit: float = LIMIT,
    reserve: float = RESERVE,
) -> Sweep:
    """Ask what workloads of the library pay over the ways to cut a GPU, their memory as it was measured.

    Parameters
    ----------
    database : Database
        The open database.
    gpu : str
        The GPU, any way of writing it.
    workloads : sequence of str
        Two to four.
    dataset : str, optional
        Where their profiles are; the only one by default.
    mechanism, limit, reserve
        As `sweep`.
    """
    name = planner.dataset_of(database, dataset, None)
    library = sources.workloads(database, Filter(datasets=(name,)))["workload"].astype(str).tolist()
    listed = JobList(tuple(Job(f"{one}-{number}", one) for number, one in enumerate(workloads, start=1)), "table")
    jobs = known_workloads(listed, library, f"data set {name}").jobs
    kind = gpu_kind(gpu, 1)
    return sweep(
        database, name, gpu, planner.with_measured_peaks(database, name, (kind,), jobs), mechanism, limit=limit,
        reserve=reserve,
    )  # fmt: skip


def sweep(
    database: Database,
    dataset: str,
    gpu: str,
    jobs: Sequence[Job],
    mechanism: str = MPS,
    *,
    limit: float = LIMIT,
    reserve: float = RESERVE,
    step: int | None = None,
) -> Sweep:
    """Ask what jobs pay over the ways to cut a GPU.

    Parameters
    ----------
    database : Database
        The open database.
    dataset : str
        Where the jobs' profiles are.
    gpu : str
        The GPU, any way of writing it.
    jobs : sequence of Job
        Two to four, with workload, peak memory and, where they have one, a limit of their own.
    mechanism : str
        One of `CUTS`.
    limit, reserve
        As `problem.Problem`.
    step : int, optional
        Percent between two splits.

    Raises
    ------
    UsageError
        If there are too few or too many jobs, the mechanism cuts nothing, or the GPU has no MIG.
    NotEnoughDataError
        If nothing says what a part of the GPU is worth to the jobs.
    """
    check_limit(limit)
    if not 2 <= len(jobs) <= LARGEST_SET:
        raise UsageError(f"a GPU can't be split for {len(jobs)} jobs", f"Name two to {LARGEST_SET}.")
    how = next((one for one in CUTS if one.casefold() == mechanism.casefold()), None)
    if how is None:
        raise UsageError(f"{mechanism} cuts no GPU", f"Choose of {', '.join(CUTS)}.")
    table = whitebox_sets.attach(profiles.collect(database, dataset), database, dataset)
    where = _where(table, gpu)
    kind = gpu_kind(gpu, 1)
    names = tuple(job.workload for job in jobs)
    table = table[table.index.get_level_values("workload").isin(names)]
    asked = _asked(where, how, jobs, kind, reserve, step or (STEP if len(jobs) == 2 else COARSE))
    runs = ran_sets(database, (dataset,), where, how)
    solved = whitebox_sets.solve(table, [one for one, _ in asked]) if LAUNCHES in table else None
    splits = []
    for place, (one, memory) in enumerate(asked):
        found = _measured(runs, one)
        slow = found or (tuple(math.exp(v) for v in solved[place]) if solved is not None else (math.nan,) * len(names))
        parts = one.percentages or tuple(100.0 * part for part in _parts_of_mig(where, one.profiles))
        ran = runs.get(names, one.percentages) if found else None
        splits.append(Split(_setting(one), parts, slow, memory, bool(found), bool(ran and ran.simulated)))
    known = [(number, one) for number, one in enumerate(splits) if one.known]
    if not known:
        raise NotEnoughDataError(
            f"nothing says what a part of {where} is worth to {' and '.join(names)} under {how}, or their memory "
            "does not fit",
            f"Profile each alone on {where} with `{COMMAND}`, or measure it with `stallscope capture corun`.",
        )
    limits = [job.limit or limit for job in jobs]

    def strain(one: Split) -> list[float]:
        return [slow / most for slow, most in zip(one.slowdowns, limits, strict=True)]

    number, best = min(known, key=lambda pair: (round(max(strain(pair[1])), 6), -metrics.stp(pair[1].slowdowns)))
    at = max(range(len(names)), key=strain(best).__getitem__)
    ran = runs.get(names, asked[number][0].percentages) if best.measured else None
    decision = decide(
        Case(
            limits[at], best.memory, best.slowdowns if best.measured else (),
            max(best.slowdowns) if best.measured else None, ran=ran.ran if ran else 0, failed=ran.failed if ran else 0,
            doubtful=runs.doubtful(names, ran),
            forecast=None if best.measured else Forecast(best.slowdowns, evidence="stalls"), simulated=best.simulated,
        )
    )  # fmt: skip
    return Sweep(
        where, how, names, limit, tuple(splits), best, names[at], _because(table, asked[number][0], at),
        decision.verdict, decision.why, best.simulated,
    )  # fmt: skip


def _where(table: pd.DataFrame, gpu: str) -> str:
    """Return the GPU as the profiles name it; where several fit, the one with the most."""
    stored = table.index.get_level_values("gpu").astype(str)
    found = pd.Series([name for name in stored if reference.matches(name, gpu)]).value_counts()
    return str(found.index[0]) if len(found) else reference.canonical(gpu)


def _asked(
    gpu: str, how: str, jobs: Sequence[Job], kind: GpuKind, reserve: float, step: int
) -> list[tuple[SetQuery, Memory]]:
    names = tuple(job.workload for job in jobs)
    if how != "MIG":
        memory = memory_together(jobs, kind, reserve)
        cuts = [tuple(map(float, one)) for one in _shares(len(jobs), step)]
        if how == MPS:
            cuts.append((100.0,) * len(jobs))
        return [(SetQuery(gpu, how, names, one), memory) for one in cuts]
    found: dict[tuple[str, ...], Memory] = {}
    for choice in mig_choices(machine(gpu), len(jobs)):
        for order in itertools.permutations(choice):
            need = [(job.memory_mib, part.memory_mib) for job, part in zip(jobs, order, strict=True)]
            fits: Memory = "unknown" if any(math.isnan(peak) for peak, _ in need) else "fits"
            if any(peak > room for peak, room in need):
                fits = "does_not_fit"
            found.setdefault(tuple(part.name for part in order), fits)
    if not found:
        raise UsageError(
            f"{gpu} can't be cut into {len(jobs)} MIG instances", "Choose a GPU with MIG, or percentages of CUDA MPS."
        )
    return [(SetQuery(gpu, how, names, profiles=one), memory) for one, memory in found.items()]


def _shares(count: int, step: int) -> Iterator[tuple[int, ...]]:
    """Return the shares of some jobs that add up to 100, in steps."""
    for cuts in itertools.combinations(range(step, 100, step), count - 1):
        edges = (0, *cuts, 100)
        yield tuple(high - low for low, high in itertools.pairwise(edges))


def _parts_of_mig(gpu: str, names: Sequence[str]) -> Iterator[float]:
    known = mig_profiles(machine(gpu))
    return (known[name].sm for name in names)


def _setting(one: SetQuery) -> str:
    if one.profiles:
        return " + ".join(one.profiles)
    if all(part == 100 for part in one.percentages):
        return "no caps"
    return " / ".join(f"{part:g}" for part in one.percentages) + " %"


def _measured(runs: RanSets, one: SetQuery) -> tuple[float, ...]:
    """Return what was measured under exactly these caps; empty where nothing was, or the profiles are MIG's."""
    if one.profiles:
        return ()
    found = runs.get(one.jobs, one.percentages)
    return found.of(list(zip(one.jobs, one.percentages, strict=True))) if found else ()


def _because(table: pd.DataFrame, one: SetQuery, member: int) -> str:
    """Say what a job loses most by in a split."""
    if LAUNCHES not in table:
        return ""
    parts = whitebox_sets.causes_of(table, one)
    if not parts or not parts[member]:
        return ""
    most = max(parts[member], key=lambda cause: cause.part)
    if most.part <= 0:
        return ""
    return most.resource if most.by is None else f"{most.resource}{TAKEN}{one.jobs[most.by]}"
