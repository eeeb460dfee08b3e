"""The kinds of reports: a data set, jobs, a comparison of predictors, a model, one workload's stalls, the witness."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, TypeAlias

from analysis.errors import UsageError
from analysis.interference.decision import LIMIT
from analysis.plan.jobs import JobList
from analysis.report import build, jobsreport, modelreports, planreport, stallreport, witness
from analysis.report.document import ReportDocument
from analysis.store.database import Database

KindName: TypeAlias = Literal["dataset", "prediction", "comparison", "model", "stalls", "placement", "witness"]


@dataclass(frozen=True)
class ReportKind:
    """A kind of report.

    Attributes
    ----------
    name, title : str
        Its name in commands, and for people.
    words : str
        What it answers.
    contents : dict of str to str
        Parts that can be chosen: key, and what it holds.
    needs : tuple of str
        What has to be named: model, jobs, workload, list (of jobs, with GPUs and how many there are).
    """

    name: KindName
    title: str
    words: str
    contents: dict[str, str]
    needs: tuple[str, ...] = ()


KINDS: dict[str, ReportKind] = {
    kind.name: kind
    for kind in (
        ReportKind(
            "dataset", "Data set", "Who slows whom, why the jobs wait, which numbers to doubt.", build.CONTENTS
        ),
        ReportKind(
            "prediction", "Prediction for a set of jobs", "May these jobs share this GPU, and what would it cost each?",
            jobsreport.CONTENTS, ("jobs",),
        ),
        ReportKind(
            "comparison", "Comparison of predictors", "Which predictor to believe, beside the baselines.",
            modelreports.COMPARISON_CONTENTS,
        ),
        ReportKind(
            "model", "Model card", "What a model is for, what it has seen, and how far off it is.",
            modelreports.CARD_CONTENTS, ("model",),
        ),
        ReportKind(
            "stalls", "Stalls of one workload", "What one job waits for, kernel by kernel.", stallreport.CONTENTS,
            ("workload",),
        ),
        ReportKind(
            "placement", "Placement", "Which jobs go on which GPU, what that gains, and what to measure next.",
            planreport.CONTENTS, ("list",),
        ),
        ReportKind(
            "witness", "The witness: do stalls matter?",
            "What a cycle-level simulator of others says about stalls and slowdowns; of no data set of yours.",
            witness.CONTENTS,
        ),
    )
}  # fmt: skip


@dataclass(frozen=True)
class Wanted:
    """What a report shall be about.

    Attributes
    ----------
    kind, dataset : str
        The kind and the data set.
    gpus, mechanisms : tuple of str
        Only these, GPUs by any name; a set of jobs is asked about on the first of each.
    model_id : str or None
        A trained model, or ``white-box:DATASET``; for a set of jobs by default the one that answers.
    jobs : tuple of str
        Jobs that share; for a report of stalls the one workload.
    caps : tuple of float
        MPS thread percentage of each job; empty without caps.
    limit : float
        Largest slowdown that the user would accept.
    contents : tuple of str
        Parts; empty for all but raw rows.
    listed : JobList or None
        The jobs that are placed; their GPUs stand in ``gpus``, such as ``A100-40GB=4``.
    options : tuple of pairs
        What else `plan.planner.make_plan` is told.
    """

    kind: KindName
    dataset: str
    gpus: tuple[str, ...] = ()
    mechanisms: tuple[str, ...] = ()
    model_id: str | None = None
    jobs: tuple[str, ...] = ()
    caps: tuple[float, ...] = ()
    limit: float = LIMIT
    contents: tuple[str, ...] = field(default=())
    listed: JobList | None = None
    options: tuple[tuple[str, Any], ...] = ()


def make(database: Database, wanted: Wanted, *, now: datetime | None = None) -> ReportDocument:
    """Make a report of any kind.

    Parameters
    ----------
    database : Database
        The open database.
    wanted : Wanted
        What it is about.
    now : datetime, optional
        When it is made; by default now.

    Raises
    ------
    NotFoundError
        If something named is not there.
    UsageError
        If something that the kind needs is not named.
    """
    kind = KINDS[wanted.kind]
    _complete(kind, wanted)
    model_id = wanted.model_id or ""
    if kind.name == "prediction":
        return jobsreport.prediction_report(
            database, wanted.dataset, wanted.model_id, wanted.jobs, gpu=next(iter(wanted.gpus), None),
            mechanism=next(iter(wanted.mechanisms), None), caps=wanted.caps, limit=wanted.limit,
            contents=wanted.contents, now=now,
        )  # fmt: skip
    if kind.name == "witness":
        build.chosen_contents(wanted.contents, witness.CONTENTS)
        return witness.witness_report(contents=wanted.contents, now=now)
    if kind.name == "comparison":
        return modelreports.comparison_report(
            database, wanted.dataset, gpus=wanted.gpus, mechanisms=wanted.mechanisms, contents=wanted.contents, now=now
        )
    if kind.name == "model":
        return modelreports.card_report(database, model_id, contents=wanted.contents, now=now)
    if kind.name == "stalls":
        return stallreport.stall_report(
            database, wanted.dataset, wanted.jobs[0], gpus=wanted.gpus, contents=wanted.contents, now=now
        )
    if kind.name == "placement" and wanted.listed is not None:
        return planreport.placement_report(
            database, wanted.dataset, wanted.listed, wanted.gpus, model_id=wanted.model_id, limit=wanted.limit,
            options=dict(wanted.options), contents=wanted.contents, now=now,
        )  # fmt: skip
    return build.dataset_report(
        database, wanted.dataset, gpus=wanted.gpus, mechanisms=wanted.mechanisms, model_id=wanted.model_id,
        jobs=wanted.jobs, limit=wanted.limit, contents=wanted.contents, now=now,
    )  # fmt: skip


def _complete(kind: ReportKind, wanted: Wanted) -> None:
    """Refuse a report that lacks what its kind needs."""
    if "model" in kind.needs and not wanted.model_id:
        raise UsageError(
            f"a report of kind {kind.name} is about a model, and none is named",
            "Name one with --model; `stallscope models` lists them, and white-box:DATASET needs no training.",
        )
    if "jobs" in kind.needs and len(wanted.jobs) < 2:
        raise UsageError(f"a report of kind {kind.name} is about a set of jobs", "Name two or more with --job.")
    if "list" in kind.needs and (wanted.listed is None or not wanted.gpus):
        raise UsageError(
            f"a report of kind {kind.name} is about a list of jobs and the GPUs there are",
            "Give --jobs FILE and --gpu A100-40GB=4.",
        )
    if "workload" in kind.needs and len(wanted.jobs) != 1:
        raise UsageError(f"a report of kind {kind.name} is about one workload", "Name it with --job.")
