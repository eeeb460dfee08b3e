"""Builds reports: asks the engine, hands its answers to the sections, and adds what they rest on."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from datetime import datetime
from typing import Any

import pandas as pd

from analysis.errors import NotEnoughDataError, NotFoundError, UsageError
from analysis.interference.checks import run_checks
from analysis.interference.decision import LIMIT
from analysis.interference.finding import counted, named
from analysis.interference.matrix import SlowdownMatrix, slowdown_matrix
from analysis.predict.advise import unmeasured as never_run
from analysis.predict.explain import explain
from analysis.predict.explain.importance import global_importance
from analysis.predict.models import models
from analysis.reference.mechanism_names import MPS
from analysis.report.basis import choice, command, loading, moment, provenance, software, source_entries, training
from analysis.report.document import ReportDocument
from analysis.report.sections import doubts, evaluation, interference, model, nearest, rows, stalls, verdict
from analysis.report.sections.model import ModelAnswer
from analysis.stalls.shares import stall_shares, unavailable
from analysis.stalls.verdict import verdicts
from analysis.store.database import Database
from analysis.store.filters import Filter
from analysis.store.queries import coruns, exclusions, sources
from analysis.store.queries import models as predictions

#: What a report on a data set can hold, in this order; the runs themselves only where they are asked for.
CONTENTS = {
    "verdicts": "who may share with whom at the limit",
    "model": "what a model says",
    "interference": "who slows whom",
    "to-measure": "what to measure, where nothing ran together",
    "stalls": "why the jobs wait",
    "checks": "which numbers to doubt",
    "evaluation": "how well it can be predicted",
    "rows": "every run, row by row",
}

_SHARING = "Which of these jobs can share a GPU, and what each of them pays for it"
_WAITING = "What these jobs wait for when they have the GPU for themselves"


def dataset_report(
    database: Database,
    dataset: str,
    *,
    gpus: Sequence[str] = (),
    mechanisms: Sequence[str] = (),
    model_id: str | None = None,
    jobs: Sequence[str] = (),
    limit: float = LIMIT,
    contents: Sequence[str] = (),
    now: datetime | None = None,
) -> ReportDocument:
    """Report on one data set: who slows whom, why the jobs wait, which numbers to doubt, how well it is predicted.

    Parameters
    ----------
    database : Database
        The open database.
    dataset : str
        Name of the data set; data sets are never pooled.
    gpus, mechanisms : sequence of str
        Only these, GPUs by any name; all when empty.
    model_id : str, optional
        A trained model, whose card and reasons are added.
    jobs : sequence of str, optional
        A set of jobs for the model to predict, on the first of the GPUs.
    limit : float
        Largest slowdown that each job may have; the verdicts are at it.
    contents : sequence of str, optional
        Keys of `CONTENTS`; by default all but the rows.
    now : datetime, optional
        When the report is made; by default now.

    Returns
    -------
    ReportDocument
        Aggregates; raw rows only where the contents name them.

    Raises
    ------
    NotFoundError
        If the data set, the model, a job, or all of what was chosen is not there.
    UsageError
        If jobs are given without a model, or the contents are not known.
    """
    if jobs and model_id is None:
        raise UsageError("jobs are predicted by a model, and none is named", "Name one with --model.")
    kept = chosen_contents(contents, CONTENTS)
    chosen = choice(database, dataset, gpus, mechanisms)
    matrices = matrices_of(database, dataset, chosen)
    findings = run_checks(database, dataset)
    left_out, decided = exclusions.said(database, chosen), exclusions.decisions(database, dataset)
    shares, bounds = stall_shares(database, chosen), verdicts(database, chosen)
    judged = verdict.judge(database, matrices, limit)
    results = evaluations_of(database, dataset, chosen)
    asked = _ask(database, model_id, chosen, jobs, limit) if model_id else None
    alone = [] if any(matrix.n for matrix in matrices) else _alone(database, dataset, chosen)
    parts = [
        model.section(asked) if asked and "model" in kept else None,
        verdict.section(judged, limit) if judged and "verdicts" in kept else None,
        interference.section(matrices) if "interference" in kept else None,
        nearest.section(alone) if "to-measure" in kept else None,
        stalls.section(shares, bounds, unavailable(database, chosen)) if "stalls" in kept else None,
        doubts.section(findings, left_out, decided) if "checks" in kept else None,
        evaluation.section(results, lambda made, predictor: predictions.predictions(database, made, predictor))
        if any(matrix.n for matrix in matrices) and "evaluation" in kept
        else None,
        rows.section(coruns.members(database, chosen)) if "rows" in kept else None,
    ]
    files = sources.sources(database, Filter(datasets=(dataset,)))
    said = model.sentence(asked) if asked else None
    summary = [*([said] if said else []), *verdict.summary(judged, limit), *interference.summary(matrices)]
    summary += nearest.summary([(gpu, pairs) for gpu, pairs, _ in alone if len(pairs)])
    if len(bounds):
        summary.append(stalls.sentence(bounds))
    summary.append(_holds(database, dataset, chosen))
    summary += [said for said in (evaluation.sentence_of(result) for result in results[:1]) if said]
    summary += [said for said in (left_out, doubts.sentence(findings)) if said]
    title = str(sources.datasets(database).set_index("name")["title"].get(dataset) or dataset)
    return ReportDocument(
        kind="data set",
        title=title,
        subtitle=_SHARING if any(matrix.n for matrix in matrices) else _WAITING,
        created_at=moment(now),
        provenance=provenance(files["simulated"]),
        summary=tuple(summary),
        filters=(chosen.sentence(),),
        sections=tuple(part for part in parts if part is not None),
        sources=source_entries(files),
        software=software(),
        reproduce=(
            loading(dataset, files),
            *([trained] if asked and (trained := training(asked.card)) else []),
            *doubts.commands(dataset, decided),
            *_commands(dataset, matrices, [str(result["protocol"]) for result in results]),
            command(
                "dataset",
                dataset,
                gpu=gpus,
                mechanism=mechanisms,
                model=[model_id] if model_id else [],
                job=jobs,
                limit=[f"{limit:g}"],
                contents=contents,
            ),
        ),
    )


def chosen_contents(contents: Sequence[str], known: dict[str, str]) -> set[str]:
    """Return which parts a report shall have: those named, or all but the raw rows.

    Raises
    ------
    UsageError
        If one is not known.
    """
    unknown = [name for name in contents if name not in known]
    if unknown:
        raise UsageError(f"a report of this kind has no part {unknown[0]!r}", f"Its parts: {', '.join(known)}.")
    return set(contents) if contents else set(known) - {"rows"}


def _ask(database: Database, model_id: str, chosen: Filter, jobs: Sequence[str], limit: float) -> ModelAnswer:
    """Ask a model for its card, its view of the whole, and the set of jobs if there is one."""
    card = models.card(database, model_id)
    gpu = chosen.gpus[0] if chosen.gpus else card.gpus[0]
    mechanism = chosen.mechanisms[0] if chosen.mechanisms else None
    try:
        importance = global_importance(database, model_id)
    except (NotEnoughDataError, NotFoundError):  # the data it learned from was removed
        importance = None
    if not jobs:
        return ModelAnswer(card, gpu, importance=importance)
    predicted = models.predict(database, model_id, gpu, jobs, mechanism, limit=limit)
    return ModelAnswer(card, gpu, predicted, explain.explain(database, model_id, gpu, jobs, mechanism), importance)


def matrices_of(database: Database, dataset: str, chosen: Filter) -> list[SlowdownMatrix]:
    """Return the matrix of each chosen GPU and mechanism that was measured."""
    measured = coruns.gpus_and_mechanisms(database, dataset)
    return [
        slowdown_matrix(database, dataset, str(row.gpu), str(row.mechanism))
        for row in measured.itertuples()
        if (not chosen.gpus or row.gpu in chosen.gpus) and (not chosen.mechanisms or row.mechanism in chosen.mechanisms)
    ]


def evaluations_of(database: Database, dataset: str, chosen: Filter) -> list[dict[str, Any]]:
    """Return the newest stored evaluation of each protocol, GPU and mechanism, the ones for unseen pairs first."""
    newest: dict[tuple[object, ...], dict[str, Any]] = {}
    for result in predictions.evaluations(database, dataset)["result"]:
        inside = not chosen.gpus or set(result["gpus"]) <= set(chosen.gpus)
        inside &= not chosen.mechanisms or set(result["mechanisms"]) <= set(chosen.mechanisms)
        if inside:
            newest.setdefault((result["protocol"], tuple(result["gpus"]), tuple(result["mechanisms"])), result)
    order = {"unseen-pair": 0, "leave-one-workload-out": 1, "leave-one-family-out": 2, "random-rows": 9}
    return sorted(newest.values(), key=lambda result: (order.get(result["protocol"], 5), result["gpus"]))


def _alone(
    database: Database, dataset: str, chosen: Filter
) -> list[tuple[str, pd.DataFrame, dict[str, list[str]]]]:  # fmt: skip
    """Return the verdicts on all pairs and what to measure, for each GPU with a profiled job."""
    how = chosen.mechanisms[0] if chosen.mechanisms else MPS
    return [
        (gpu, never_run.pairs(database, dataset, gpu, how), never_run.wanted(database, dataset, gpu))
        for gpu in never_run.profiled(database, dataset, chosen.gpus)
    ]


def _holds(database: Database, dataset: str, chosen: Filter) -> str:
    """Say what the data set holds, in one sentence."""
    known = sources.workloads(database, chosen.with_(gpus=()))
    members = coruns.members(database, chosen)
    runs = members.drop_duplicates("run_id")
    profiled = int((known["profiles"] > 0).sum())
    parts = [counted(len(known), "workload")]
    if len(runs):
        finished = int((runs["run_outcome"] == "ran").sum())
        sizes = runs["k"].value_counts().sort_index()
        together = named([f"{number:,} of {size} jobs" for size, number in sizes.items()])
        failed = f"; {len(runs) - finished:,} did not run or not wholly" if finished < len(runs) else ""
        parts.append(f"{counted(len(runs), 'co-run')} ({together}{failed})")
    if profiled:
        parts.append(f"{'all' if profiled == len(known) else f'{profiled:,}'} of them profiled")
    there = {str(gpu) for gpus in known["gpus"] for gpu in (gpus if gpus is not None else ())}
    alone = "" if len(runs) else " None of them was co-run: what they cost each other is yet to be measured."
    on = named(sorted(there.intersection(chosen.gpus) if chosen.gpus else there))
    return f"{dataset} holds {parts[0]}{f' on {on}' if on else ''}: {', '.join(parts[1:]) or 'nothing else'}.{alone}"


def _commands(dataset: str, matrices: Sequence[SlowdownMatrix], protocols: Sequence[str]) -> tuple[str, ...]:
    """Return the commands that give the same figures from the same files."""
    name = shlex.quote(dataset)
    commands = [f"stallscope check --dataset {name}"]
    for matrix in matrices:
        gpu, mechanism = shlex.quote(matrix.gpu), shlex.quote(matrix.mechanism)
        commands.append(f"stallscope matrix --dataset {name} --gpu {gpu} --mechanism {mechanism}")
    commands += [f"stallscope evaluate --dataset {name} --protocol {protocol}" for protocol in protocols]
    return tuple(dict.fromkeys(commands))
