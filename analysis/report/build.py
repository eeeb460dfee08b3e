"""Builds reports: asks the engine, hands its answers to the sections, and adds what they rest on."""

from __future__ import annotations

import platform
import shlex
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any

import pandas as pd

from analysis.errors import NotEnoughDataError, NotFoundError, UsageError
from analysis.interference.checks import run_checks
from analysis.interference.finding import counted, named
from analysis.interference.matrix import SlowdownMatrix, slowdown_matrix
from analysis.predict import explain, models
from analysis.reference.gpus import resolve
from analysis.report.document import Provenance, ReportDocument, Source
from analysis.report.plain import plain
from analysis.report.sections import doubts, evaluation, interference, model, stalls
from analysis.report.sections.model import ModelAnswer
from analysis.stalls.availability import unavailable
from analysis.stalls.shares import stall_shares
from analysis.stalls.verdict import verdicts
from analysis.store.database import Database
from analysis.store.filters import Filter
from analysis.store.queries import coruns, exclusions, predictions, sources

_PACKAGES = ("stallscope", "duckdb", "numpy", "pandas", "scikit-learn", "scipy", "plotly")


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
    now : datetime, optional
        When the report is made; by default now.

    Returns
    -------
    ReportDocument
        Aggregates only, no raw rows.

    Raises
    ------
    NotFoundError
        If the data set, the model, a job, or all of what was chosen is not there.
    UsageError
        If jobs are given without a model.
    """
    if jobs and model_id is None:
        raise UsageError("jobs are predicted by a model, and none is named", "Name one with --model.")
    sources.require_dataset(database, dataset)
    chosen = _choice(database, dataset, gpus, mechanisms)
    matrices = _matrices(database, dataset, chosen)
    findings = run_checks(database, dataset)
    left_out, decided = exclusions.said(database, chosen), exclusions.decisions(database, dataset)
    shares, bounds = stall_shares(database, chosen), verdicts(database, chosen)
    results = _evaluations(database, dataset, chosen)
    asked = _ask(database, model_id, chosen, jobs) if model_id else None
    parts = [
        model.section(asked) if asked else None,
        interference.section(matrices),
        stalls.section(shares, bounds, unavailable(database, chosen)),
        doubts.section(findings, left_out, decided),
        evaluation.section(results, lambda made, predictor: predictions.predictions(database, made, predictor))
        if any(matrix.n for matrix in matrices)
        else None,
    ]
    files = sources.sources(database, Filter(datasets=(dataset,)))
    said = model.sentence(asked) if asked else None
    summary = [*([said] if said else []), *interference.summary(matrices)]
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
        created_at=(now or datetime.now(UTC)).replace(microsecond=0),
        provenance=provenance(files["simulated"]),
        summary=tuple(summary),
        filters=(chosen.sentence(),),
        sections=tuple(part for part in parts if part is not None),
        sources=source_entries(files),
        software=software(),
        reproduce=(
            *doubts.commands(dataset, decided),
            *_commands(dataset, matrices, [str(result["protocol"]) for result in results]),
            _report_command(dataset, gpus, mechanisms, model_id, jobs),
        ),
    )


def _ask(database: Database, model_id: str, chosen: Filter, jobs: Sequence[str]) -> ModelAnswer:
    """Ask a model for its card, its view of the whole, and the set of jobs if there is one."""
    card = models.card(database, model_id)
    gpu = chosen.gpus[0] if chosen.gpus else card.gpus[0]
    mechanism = chosen.mechanisms[0] if chosen.mechanisms else None
    try:
        importance = explain.global_importance(database, model_id)
    except (NotEnoughDataError, NotFoundError):  # the data it learned from was removed
        importance = None
    if not jobs:
        return ModelAnswer(card, gpu, importance=importance)
    predicted = models.predict(database, model_id, gpu, jobs, mechanism)
    return ModelAnswer(card, gpu, predicted, explain.explain(database, model_id, gpu, jobs, mechanism), importance)


def _choice(database: Database, dataset: str, gpus: Sequence[str], mechanisms: Sequence[str]) -> Filter:
    chosen = Filter(datasets=(dataset,))
    if gpus:
        known = sources.workloads(database, chosen)["gpus"]
        available = sorted({str(name) for names in known for name in (names if names is not None else ())})
        found = [name for word in gpus for name in resolve(word, available)]
        if not found:
            there = ", ".join(available) or "no GPU"
            raise NotFoundError(f"data set {dataset!r} has nothing on {', '.join(gpus)}", f"It has {there}.")
        chosen = chosen.with_(gpus=tuple(dict.fromkeys(found)))
    if mechanisms:
        known_mechanisms = list(dict.fromkeys(coruns.gpus_and_mechanisms(database, dataset)["mechanism"].astype(str)))
        wanted = {name.casefold() for name in mechanisms}
        matching = [name for name in known_mechanisms if name.casefold() in wanted]
        if not matching:
            there = ", ".join(known_mechanisms) or "none"
            raise NotFoundError(
                f"data set {dataset!r} has no runs under {', '.join(mechanisms)}", f"Its mechanisms: {there}."
            )
        chosen = chosen.with_(mechanisms=tuple(matching))
    return chosen


def _matrices(database: Database, dataset: str, chosen: Filter) -> list[SlowdownMatrix]:
    measured = coruns.gpus_and_mechanisms(database, dataset)
    return [
        slowdown_matrix(database, dataset, str(row.gpu), str(row.mechanism))
        for row in measured.itertuples()
        if (not chosen.gpus or row.gpu in chosen.gpus) and (not chosen.mechanisms or row.mechanism in chosen.mechanisms)
    ]


def _evaluations(database: Database, dataset: str, chosen: Filter) -> list[dict[str, Any]]:
    """Return the newest stored evaluation of each protocol, GPU and mechanism, the ones for unseen pairs first."""
    newest: dict[tuple[object, ...], dict[str, Any]] = {}
    for result in predictions.evaluations(database, dataset)["result"]:
        inside = not chosen.gpus or set(result["gpus"]) <= set(chosen.gpus)
        inside &= not chosen.mechanisms or set(result["mechanisms"]) <= set(chosen.mechanisms)
        if inside:
            newest.setdefault((result["protocol"], tuple(result["gpus"]), tuple(result["mechanisms"])), result)
    order = {"unseen-pair": 0, "leave-one-workload-out": 1, "leave-one-family-out": 2, "random-rows": 9}
    return sorted(newest.values(), key=lambda result: (order.get(result["protocol"], 5), result["gpus"]))


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


def provenance(simulated: Iterable[bool]) -> Provenance:
    """Say whether figures are measured, simulated, or both."""
    flags = {bool(flag) for flag in simulated}
    if flags == {True}:
        return "simulated"
    return "measured and simulated" if flags == {True, False} else "measured"


def source_entries(files: pd.DataFrame) -> tuple[Source, ...]:
    """Turn rows of the source table into entries, in the order they were loaded."""
    entries = []
    for row in files.sort_values("source_id").to_dict("records"):
        values = {name: plain(value) for name, value in row.items()}
        names = ("dataset", "format", "sha256", "rows_read", "rows_loaded", "rows_rejected", "simulated")
        entries.append(
            Source.model_validate(
                {
                    "file": values["file_name"],
                    **{name: values[name] for name in names},
                    "licence": values["licence"],
                    "citation": values["citation"],
                }
            )
        )
    return tuple(entries)


def software() -> dict[str, str]:
    """Return name and version of what computes figures."""
    return {"Python": platform.python_version(), **{name: version(name) for name in _PACKAGES}}


def _commands(dataset: str, matrices: Sequence[SlowdownMatrix], protocols: Sequence[str]) -> tuple[str, ...]:
    """Return the commands that give the same figures from the same files."""
    name = shlex.quote(dataset)
    commands = [f"stallscope check --dataset {name}"]
    for matrix in matrices:
        gpu, mechanism = shlex.quote(matrix.gpu), shlex.quote(matrix.mechanism)
        commands.append(f"stallscope matrix --dataset {name} --gpu {gpu} --mechanism {mechanism}")
    commands += [f"stallscope evaluate --dataset {name} --protocol {protocol}" for protocol in protocols]
    return tuple(dict.fromkeys(commands))


def _report_command(
    dataset: str, gpus: Sequence[str], mechanisms: Sequence[str], model_id: str | None, jobs: Sequence[str]
) -> str:
    given = [("--gpu", gpus), ("--mechanism", mechanisms), ("--model", [model_id] if model_id else []), ("--job", jobs)]
    options = "".join(f" {option} {shlex.quote(value)}" for option, values in given for value in values)
    return f"stallscope report --dataset {shlex.quote(dataset)}{options} --out report.html"
