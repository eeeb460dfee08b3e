"""The prediction report: may these jobs share this GPU, what would each pay, why, and what would make it surer."""

from __future__ import annotations

import itertools
import shlex
from collections.abc import Sequence
from datetime import datetime

from analysis.errors import NotEnoughDataError
from analysis.interference.checks import run_checks
from analysis.interference.decision import LIMIT
from analysis.predict.advise import changes
from analysis.predict.advise.measure_next import command as measuring
from analysis.predict.advise.neighbours import nearest_runs
from analysis.predict.explain.disagreement import disagreements
from analysis.predict.explain.explain import explain
from analysis.predict.models import models, unanswered
from analysis.predict.models.activemodel import answering
from analysis.predict.models.jobs import JobPrediction
from analysis.reference import gpus as reference
from analysis.report.basis import command, loading, moment, provenance, software, source_entries, training
from analysis.report.build import chosen_contents
from analysis.report.document import ReportDocument, Section
from analysis.report.sections import doubts, model, nearest, stalls
from analysis.report.sections.model import ModelAnswer
from analysis.stalls.shares import stall_shares, unavailable
from analysis.stalls.verdict import verdicts
from analysis.store.database import Database
from analysis.store.filters import Filter
from analysis.store.queries import sources

CONTENTS = {
    "answer": "verdict, slowdowns, memory",
    "why": "what each prediction is made of",
    "measured": "measured runs beside it",
    "changes": "what would keep every job within a limit",
    "to-measure": "what to measure",
    "stalls": "what the jobs wait for alone",
    "model": "the model and its errors",
    "checks": "which numbers to doubt",
}


def prediction_report(
    database: Database,
    dataset: str,
    model_id: str | None,
    jobs: Sequence[str],
    *,
    gpu: str | None = None,
    mechanism: str | None = None,
    caps: Sequence[float] = (),
    limit: float = LIMIT,
    contents: Sequence[str] = (),
    now: datetime | None = None,
) -> ReportDocument:
    """Report on a set of jobs on one GPU.

    Parameters
    ----------
    database : Database
        The open database.
    dataset : str
        Where the jobs are.
    model_id : str, optional
        The model that is asked; by default the one that answers about the data set. Without any, the report says what
        to measure.
    jobs : sequence of str
        The set; one may stand twice.
    gpu, mechanism : str, optional
        Where and how; by default the model's first.
    caps : sequence of float, optional
        MPS thread percentage of each job.
    limit : float
        Largest slowdown that the user would accept.
    contents : sequence of str, optional
        Keys of `CONTENTS`; by default all.
    now : datetime, optional
        When the report is made; by default now.

    Raises
    ------
    NotFoundError
        If the data set, the model or a job is not there.
    """
    kept = chosen_contents(contents, CONTENTS)
    sources.require_dataset(database, dataset)
    model_id = model_id or answering(database, dataset)
    card = models.card(database, model_id)
    where = (reference.resolve(gpu, card.gpus) or [reference.canonical(gpu)])[0] if gpu else card.gpus[0]
    how = mechanism or card.mechanisms[0]
    predicted = models.predict(database, model_id, where, jobs, how, caps=caps or None, limit=limit)
    try:
        explained = explain(database, model_id, where, jobs, how, caps=caps or None)
    except NotEnoughDataError:  # its training rows are gone; the prediction still stands
        explained = []
    answer = ModelAnswer(card, where, predicted, explained)
    chosen = Filter(datasets=(dataset,), gpus=(where,), workloads=tuple(dict.fromkeys(jobs)))
    place = f"{where} under {how}"
    parts: list[Section | None] = []
    if "answer" in kept:
        parts.append(model.answer_section(answer))
    if "why" in kept and explained:
        parts.append(model.why_section(answer))
    if "to-measure" in kept:
        parts.append(nearest.to_measure(_wanted(predicted), _commands(predicted, jobs, how)))
    if "measured" in kept:
        compared = disagreements(database, dataset, where, how, predicted, explained) if explained else []
        parts.append(nearest.measured(nearest_runs(database, dataset, where, jobs, how), compared, f"on {place}"))
    if "changes" in kept and not caps and card.predictor != unanswered.NAME:
        found = changes.smallest_changes(database, model_id, where, jobs, how, limit)
        parts.append(nearest.changes(found, limit))
    bounds = verdicts(database, chosen)
    if "stalls" in kept and len(bounds):
        parts.append(stalls.section(stall_shares(database, chosen), bounds, unavailable(database, chosen)))
    if "model" in kept and card.predictor != unanswered.NAME:
        parts.append(model.about_section(answer))
    if "checks" in kept:
        parts.append(doubts.section(run_checks(database, dataset)))
    files = sources.sources(database, Filter(datasets=(dataset,)))
    named = [model_id] if card.predictor != unanswered.NAME else []
    said = [text for text in (model.sentence(answer), *(one.sentence for one in explained)) if text]
    return ReportDocument(
        kind="prediction",
        title=f"{' + '.join(jobs)} on {where}",
        subtitle=f"May these jobs share {place}, and what would it cost each of them?",
        created_at=moment(now),
        provenance=provenance(files["simulated"]),
        summary=tuple(said),
        filters=(f"{chosen.sentence()}; mechanism {how}{_capped(jobs, caps)}",),
        sections=tuple(part for part in parts if part is not None),
        sources=source_entries(files),
        software=software(),
        reproduce=(
            loading(dataset, files),
            *([trained] if (trained := training(card)) else []),
            *(_predict_command(name, where, how, jobs, caps) for name in named),
            command(
                "prediction", dataset, model=named, gpu=[where], mechanism=[how], job=jobs,
                threads=[f"{cap:g}" for cap in caps], limit=[f"{limit:g}"], contents=contents,
            ),
        ),
    )  # fmt: skip


def _capped(jobs: Sequence[str], caps: Sequence[float]) -> str:
    parts = [f"{job} {cap:g} %" for job, cap in zip(jobs, caps, strict=False) if cap < 100]
    return f"; thread percentages {', '.join(parts)}" if parts else ""


def _wanted(predicted: Sequence[JobPrediction]) -> list[str]:
    """Return what is missing, each thing once with the jobs that lack it."""
    lacking: dict[str, list[str]] = {}
    for one in predicted:
        for text in one.missing:
            lacking.setdefault(text, []).append(one.workload)
    return [f"{text} (for {', '.join(dict.fromkeys(jobs))})" for text, jobs in lacking.items()]


def _commands(predicted: Sequence[JobPrediction], jobs: Sequence[str], mechanism: str) -> list[str]:
    """Return the commands that measure the pairs of a set that was not measured."""
    if all(one.measured is not None for one in predicted):
        return []
    return [measuring(one, other, mechanism) for one, other in itertools.combinations(jobs, 2)]


def _predict_command(
    model_id: str, gpu: str, mechanism: str, jobs: Sequence[str], caps: Sequence[float]
) -> str:  # fmt: skip
    named = "".join(f" --job {shlex.quote(job)}" for job in jobs)
    capped = "".join(f" --threads {cap:g}" for cap in caps)
    return (
        f"stallscope predict --model {shlex.quote(model_id)} --gpu {shlex.quote(gpu)} --mechanism "
        f"{shlex.quote(mechanism)}{named}{capped}"
    )
