"""Many replays side by side: policies, loads and seeds, with progress, cancel, and what was done kept."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from analysis.errors import UsageError
from analysis.interference.decision import LIMIT
from analysis.plan.replay import beliefs, pairtable, policies
from analysis.plan.replay.arrivals import Job, drawn_jobs, read_trace
from analysis.plan.replay.cluster import SEGMENT_COLUMNS, Cluster
from analysis.plan.replay.figures import FIGURES, figures, summary
from analysis.plan.replay.pairtable import PairTable
from analysis.plan.replay.policies import LEAST_STP, POLICIES, PREDICTING, SHARE_AT, Policy
from analysis.predict.evaluate import execution
from analysis.predict.evaluate.execution import Progress
from analysis.predict.predictors.registry import DEFAULT
from analysis.reference.columns import term
from analysis.store.database import Database

#: GPUs of each kind where nobody says how many.
GPUS = 4

#: Jobs that a drawn replay has, and their mean length alone.
JOBS, MEAN_LENGTH_S = 200, 3600.0

#: Load, relative to what exclusive use can carry, where nobody names one.
LOAD = 1.25

#: Share of the work that predicting takes, in reports of progress.
_PREDICTING = 0.3

#: Columns of `Study.runs` before the figures.
RUN_COLUMNS = ("policy", "title", "load", "per_hour", "seed")


@dataclass(frozen=True)
class Request:
    """What is replayed.

    Attributes
    ----------
    dataset : str
        Whose measured pairs are the truth.
    counts : mapping of str to int
        GPUs of each kind, any way of writing them; `GPUS` of every kind of the data set when empty.
    policies : tuple of str
        Names of `policies.POLICIES`; all that the data allow when empty.
    arrivals : str
        Of `arrivals.ARRIVALS`; means nothing with a trace.
    trace : Path or None
        A trace file instead of drawn jobs.
    loads : tuple of float
        Arrivals relative to what exclusive use can carry.
    per_hour : tuple of float
        Arrivals an hour, instead of `loads`.
    jobs : int
        Jobs of a drawn replay.
    mean_length_s : float
        Their mean length alone on the reference GPU.
    seeds : int
        Replays of each policy and load.
    slots : int
        Jobs at once on a GPU.
    limit, least_stp, share_at : float
        When jobs may share, see `policies.make`.
    round_s : float or None
        Length of a round; continuous scheduling by default.
    predictor, mechanism, reference : str or None
        Predictor of the policies that predict, how jobs share, and the GPU that lengths are meant for.
    """

    dataset: str
    counts: Mapping[str, int] = field(default_factory=dict)
    policies: tuple[str, ...] = ()
    arrivals: str = "poisson"
    trace: Path | None = None
    loads: tuple[float, ...] = (LOAD,)
    per_hour: tuple[float, ...] = ()
    jobs: int = JOBS
    mean_length_s: float = MEAN_LENGTH_S
    seeds: int = 3
    slots: int = 2
    limit: float = LIMIT
    least_stp: float = LEAST_STP
    share_at: float = SHARE_AT
    round_s: float | None = None
    predictor: str = DEFAULT
    mechanism: str | None = None
    reference: str | None = None


@dataclass(frozen=True, eq=False)
class Study:
    """What came of many replays.

    Attributes
    ----------
    runs : pd.DataFrame
        One row a replay: `RUN_COLUMNS` and the names of `figures.FIGURES`.
    segments : pd.DataFrame
        Who was where when, for the first seed at the highest load: policy and `cluster.SEGMENT_COLUMNS`.
    truth : PairTable
        What was replayed on.
    counts : dict of str to int
        GPUs of each kind.
    capacity_per_hour : float
        Jobs an hour that exclusive use can carry.
    notes : tuple of str
        What a reader of the figures must know.
    planned : int
        Replays that were asked for; fewer rows say that it was cancelled.
    limit : float
        Largest slowdown that violations are counted by.
    """

    runs: pd.DataFrame
    segments: pd.DataFrame
    truth: PairTable
    counts: dict[str, int]
    capacity_per_hour: float
    notes: tuple[str, ...]
    planned: int
    limit: float

    @property
    def cancelled(self) -> bool:
        """Whether some of the replays are missing."""
        return len(self.runs) < self.planned

    def summary(self) -> pd.DataFrame:
        """Return one row a policy and load: figures with intervals over seeds, see `figures.summary`."""
        by = ("policy", "title", "load", "per_hour")
        return summary(self.runs, by) if len(self.runs) else pd.DataFrame(columns=[*by, "seeds", *FIGURES])

    def to_json(self) -> dict[str, Any]:
        """Return everything but the segments as plain values."""

        def plain(table: pd.DataFrame) -> list[dict[str, Any]]:
            objects = table.astype(object)
            return [
                {str(name): value for name, value in row.items()}
                for row in objects.where(objects.notna(), None).to_dict("records")
            ]

        return {
            "dataset": self.truth.dataset,
            "mechanism": self.truth.mechanism,
            "reference": self.truth.reference,
            "simulated": self.truth.simulated,
            "gpus": self.counts,
            "limit": self.limit,
            "capacity_per_hour": self.capacity_per_hour,
            "policies": plain(self.summary()),
            "runs": plain(self.runs),
            "planned": self.planned,
            "cancelled": self.cancelled,
            "notes": list(self.notes),
        }


@dataclass(frozen=True)
class _Task:
    """One replay; carries what it needs, so that it can run on another machine."""

    cluster: Cluster
    policy: Policy
    jobs: tuple[Job, ...]
    load: float
    per_hour: float
    seed: int
    limit: float
    segments: bool

    def __str__(self) -> str:
        return f"{self.policy.title}, {self.per_hour:.3g} jobs an hour, seed {self.seed}"


def run(
    database: Database,
    request: Request,
    progress: Progress | None = None,
    *,
    n_jobs: int = 1,
    backend: Callable[[], AbstractContextManager[Any]] | None = None,
    stop: tuple[type[BaseException], ...] = (),
) -> Study:
    """Replay every policy at every load with every seed.

    Parameters
    ----------
    database : Database
        The open database.
    request : Request
        What is replayed.
    progress : callable, optional
        Called at least twice a second with the fraction done and a message; may raise to cancel.
    n_jobs : int
        Replays at a time.
    backend : callable, optional
        A joblib backend context, to run the replays on a Dask cluster.
    stop : tuple of exception types
        What ends the replays early and leaves those that are done: what `progress` raises to cancel, or
        ``KeyboardInterrupt``. Without any, a cancel gives nothing.

    Raises
    ------
    UsageError, NotFoundError, NotEnoughDataError, InputRefusedError
        If what is asked for contradicts itself or the data can't carry it.
    """
    names = request.policies or tuple(POLICIES)
    truth, counts = _truth(database, request)
    report = progress or execution.nothing
    wants = any(name in PREDICTING for name in names)
    start = _PREDICTING if wants else 0.0
    predicted = None
    if wants:
        predicted = beliefs.out_of_fold(
            database, truth, request.predictor, limit=request.limit,
            progress=lambda fraction, message: report(start * fraction, message),
        )  # fmt: skip
    chosen, left_out = _policies(request, names, truth, predicted, beliefs.utilisation(database, truth))
    capacity = truth.exclusive_capacity(counts, request.mean_length_s)
    cluster = Cluster(counts, truth, slots=request.slots, round_s=request.round_s)
    tasks = _tasks(request, truth, counts, chosen, cluster, capacity)
    rows: dict[int, dict[str, Any]] = {}
    pieces: dict[int, pd.DataFrame] = {}
    try:
        for number, (row, segments) in execution.run(
            _replay, tasks, lambda fraction, message: report(start + (1.0 - start) * fraction, message),
            n_jobs=n_jobs, backend=backend,
        ):  # fmt: skip
            rows[number] = row
            if len(segments):
                pieces[number] = segments
    except stop:
        if not rows:
            raise
    runs = pd.DataFrame([rows[number] for number in sorted(rows)], columns=[*RUN_COLUMNS, *FIGURES])
    gantt = [pieces[number] for number in sorted(pieces)]
    notes = [*truth.notes, *left_out]
    if wants:
        notes.append(
            f"Predictions are out of fold: no model had seen the pair it decides about ({request.predictor}, "
            "5 folds of unordered pairs on each GPU)."
        )
    if request.slots > 2:
        notes.append("Sets of more than two are the product of their measured pairs; none of them was measured.")
    return Study(
        runs, pd.concat(gantt, ignore_index=True) if gantt else pd.DataFrame(columns=["policy", *SEGMENT_COLUMNS]),
        truth, counts, capacity, tuple(notes), len(tasks), request.limit,
    )  # fmt: skip


def _truth(database: Database, request: Request) -> tuple[PairTable, dict[str, int]]:
    """Return the truth, and the GPUs of each kind under their names there."""
    truth = pairtable.measured(
        database, request.dataset, tuple(request.counts), request.mechanism, request.reference
    )  # fmt: skip
    if not request.counts:
        return truth, dict.fromkeys(truth.gpus, GPUS)
    counts: dict[str, int] = {}
    for word, count in request.counts.items():
        found = pairtable.measured(database, request.dataset, (word,), request.mechanism).gpus
        if len(found) > 1:
            raise UsageError(f"{word} could be {' or '.join(found)}", "Name one of them in full.")
        counts[found[0]] = counts.get(found[0], 0) + count
    return truth, counts


def _policies(
    request: Request, names: Sequence[str], truth: PairTable, predicted: PairTable | None,
    utilisation: pairtable.Array | None,
) -> tuple[list[Policy], list[str]]:  # fmt: skip
    """Make the policies; one that nobody named and whose inputs are missing is left out with a sentence."""
    made, left_out = [], []
    for name in dict.fromkeys(names):
        try:
            made.append(
                policies.make(
                    name, truth, predicted=predicted, utilisation=utilisation, least_stp=request.least_stp,
                    limit=request.limit, share_at=request.share_at,
                )
            )  # fmt: skip
        except UsageError as error:
            if request.policies:
                raise
            left_out.append(f"{POLICIES[name]} is left out: {error.what}.")
    return made, left_out


def _tasks(
    request: Request, truth: PairTable, counts: Mapping[str, int], chosen: Sequence[Policy], cluster: Cluster,
    capacity: float,
) -> list[_Task]:  # fmt: skip
    if request.seeds < 1:
        raise UsageError(f"{request.seeds} seeds give no replay", "Ask for at least 1.")
    usable = truth.usable(counts)
    if request.trace is not None:
        loads: list[tuple[float, float]] = [(np.nan, np.nan)]
    elif request.per_hour:
        loads = [(rate / capacity, rate) for rate in request.per_hour]
    else:
        loads = [(load, load * capacity) for load in request.loads]
    tasks = []
    highest = len(loads) - 1
    for position, (load, per_hour) in enumerate(loads):
        for seed in range(request.seeds):
            if request.trace is not None:
                jobs = read_trace(request.trace, usable, steps_per_s=truth.steps_per_s, seed=seed)
                span = max(job.arrival_s for job in jobs)
                per_hour = 3600.0 * (len(jobs) - 1) / span if span > 0 else np.nan
                load = per_hour * float(np.mean([job.length_s for job in jobs])) / (capacity * request.mean_length_s)
            else:
                jobs = drawn_jobs(
                    request.arrivals, request.jobs, per_hour, seed, usable, mean_length_s=request.mean_length_s
                )
            tasks += [
                _Task(
                    cluster, policy, tuple(jobs), load, per_hour, seed, request.limit,
                    segments=seed == 0 and position == highest and len(jobs) <= 10 * JOBS,
                )
                for policy in chosen
            ]  # fmt: skip
    return tasks


def _replay(task: _Task) -> tuple[dict[str, Any], pd.DataFrame]:
    found = task.cluster.run(task.jobs, task.policy, seed=task.seed, segments=task.segments)
    row = {
        "policy": task.policy.name, "title": task.policy.title, "load": task.load, "per_hour": task.per_hour,
        "seed": task.seed, **figures(found, task.limit),
    }  # fmt: skip
    return row, found.segments.assign(policy=task.policy.name)


def sentence(study: Study, figure: str = "mean_jct_h") -> str:
    """Say what predicting gains over exclusive use at the highest load, and how far it is from the oracle."""
    table = study.summary()
    if table.empty:
        return "No replay was finished."
    highest = table[table["load"].fillna(0.0) == table["load"].fillna(0.0).max()].set_index("policy")
    title = term(figure)
    ours = next((name for name in (*PREDICTING, "oracle") if name in highest.index), str(highest.index[0]))
    named = title.label.removesuffix(f", {title.unit}")
    said = f"{highest['title'][ours]}: {named} {highest[figure][ours]:.3g} {title.unit}"
    load = float(highest["load"].iloc[0])
    where = f" at {load:.2f} times the load that exclusive use can carry" if np.isfinite(load) else ""
    against = [name for name in ("fifo-best", "oracle") if name in highest.index and name != ours]
    words = {"fifo-best": "one job a GPU", "oracle": "the oracle"}
    rest = " and ".join(f"{highest[figure][name]:.3g} {title.unit} with {words[name]}" for name in against)
    return f"{said}{where}" + (f", against {rest}." if rest else ".")
