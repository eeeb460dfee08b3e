"""The placement report: where the jobs go, what that gains, what to measure next, and what the plan keeps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from analysis.errors import NotEnoughDataError, StallScopeError
from analysis.numbers import significant
from analysis.plan import exports, planner, wording
from analysis.plan.jobs import JobList
from analysis.plan.problem import OBJECTIVES, RISKS, parse_gpus
from analysis.predict.models import missing
from analysis.report.basis import command, loading, moment, provenance, software, source_entries
from analysis.report.build import chosen_contents
from analysis.report.document import Notice, ReportDocument, Section, Text
from analysis.report.table import columns_of, table
from analysis.store.database import Database
from analysis.store.filters import Filter
from analysis.store.queries import sources

CONTENTS = {
    "board": "who sits where",
    "gains": "what that gains",
    "to-measure": "what to measure next",
    "rules": "what the plan keeps",
    "targets": "what schedulers can take",
}


def placement_report(
    database: Database,
    dataset: str,
    listed: JobList,
    gpus: Sequence[str],
    *,
    model_id: str | None = None,
    limit: float = 1.2,
    options: Mapping[str, Any] | None = None,
    contents: Sequence[str] = (),
    now: datetime | None = None,
) -> ReportDocument:
    """Report on a plan.

    Parameters
    ----------
    database : Database
        The open database.
    dataset : str
        Where the figures come from.
    listed : JobList
        The jobs.
    gpus : sequence of str
        Such as ``A100-40GB=4``.
    model_id, limit
        As `planner.make_plan`.
    options : mapping, optional
        What else `planner.make_plan` is told.
    contents : sequence of str, optional
        Keys of `CONTENTS`; by default all.
    now : datetime, optional
        When the report is made; by default now.

    Raises
    ------
    NotEnoughDataError
        If no job found a place.
    NotFoundError, UsageError, InputRefusedError
        As `planner.make_plan`.
    """
    kept = chosen_contents(contents, CONTENTS)
    told = dict(options or {})
    found = planner.make_plan(
        database, listed, parse_gpus(gpus), dataset=dataset, model_id=model_id, limit=limit, **told
    )  # fmt: skip
    plan = found.plan
    if not plan.placements:
        raise NotEnoughDataError("no job found a place, so there is no plan to report on", "Add GPUs that fit a job.")
    parts = {
        "board": _board, "gains": _gains, "to-measure": _to_measure, "rules": _rules, "targets": _targets,
    }  # fmt: skip
    sections = [make(found) for key, make in parts.items() if key in kept]
    files = sources.sources(database, Filter(datasets=(dataset,)))
    given = {"limit": [f"{limit:g}"], "model": [model_id] if model_id else []}
    return ReportDocument(
        kind="placement",
        title=f"Placement of {len(listed.jobs):,} jobs on {', '.join(gpus)}",
        subtitle=f"Which jobs share a GPU, what each pays and what that gains; plan {found.plan_id}",
        created_at=moment(now),
        provenance=provenance([one.simulated for one in plan.placements if len(one.members) > 1] or [False]),
        summary=(wording.answer(found), wording.gain(found)),
        filters=(f"Data set {dataset}; shared by {plan.problem.mechanism}",),
        sections=tuple(section for section in sections if section is not None),
        sources=source_entries(files),
        software=software(),
        reproduce=(
            loading(dataset, files),
            command("placement", dataset, gpu=gpus, jobs=["JOBS.csv"], **given, contents=contents),
        ),
    )  # fmt: skip


def _board(found: planner.Answer) -> Section:
    columns = columns_of(
        "gpu", "job", "workload", "owner", "slowdown", "limit", "verdict/set", "within_limit", "evidence", "memory_mib",
        slowdown={"low": "low", "high": "high"},
    )  # fmt: skip
    blocks: list[Any] = [table("Who sits where", wording.board(found.plan), columns)]
    if found.plan.waiting:
        rows = [{"job": one.job.name, "workload": one.job.workload, "why": one.why} for one in found.plan.waiting]
        blocks.append(table("Who waits", rows, columns_of("job", "workload", "why")))
    fate = [text for one in found.plan.placements if (text := planner.faults(one, found.plan.problem.mechanism))]
    if fate:
        blocks.append(Text(sentences=tuple(dict.fromkeys(fate))))
    return Section(key="board", title="Who sits where", blocks=tuple(blocks))


def _gains(found: planner.Answer) -> Section:
    columns = columns_of(
        "way", "stp", "antt", "worst", "fairness/gpu", "violations", "regret_stp", "regret_antt", "waiting",
        "unknown/sets", "gpus_used", "draws", stp={"low": "stp_low", "high": "stp_high"},
        antt={"low": "antt_low", "high": "antt_high"},
    )  # fmt: skip
    shown = table(
        "This plan beside other ways", wording.compared(found), columns,
        caption="All ways keep the rules on memory, owners and bans. Random partners are drawn many times; the "
        "intervals hold 90 % of the draws.",
    )  # fmt: skip
    return Section(key="gains", title="What this gains", blocks=(Text(sentences=(wording.gain(found),)), shown))


def _to_measure(found: planner.Answer) -> Section | None:
    said = found.survey
    sentences = [text for text in (said.in_words(),) if text]
    for one in said.proposals:
        sentences.append(f"{' beside '.join(one.workloads)} on {one.gpu}. {one.why} {one.command}")
    if said.peaks:
        sentences.append(f"Peak memory of {', '.join(said.peaks)}: {missing.PEAK}.")
    if not sentences:
        return None
    return Section(key="to-measure", title="What to measure next", blocks=(Text(sentences=tuple(sentences)),))


def _rules(found: planner.Answer) -> Section:
    problem = found.plan.problem
    gap = "how far it is from the best is not known" if found.plan.gap is None else (
        f"it is at most {significant(found.plan.gap)} % from the best plan" if found.plan.gap else "it is the best plan"
    )  # fmt: skip
    sentences = (
        f"It is best in: {OBJECTIVES[problem.objective]}, by {RISKS[problem.risk]}; {gap}.",
        f"At most {problem.k} jobs share a GPU by {problem.mechanism}, each within {problem.limit:g} x unless it has a "
        f"limit of its own, and {100 * problem.reserve:g} % of the memory stays free.",
        "Jobs of different owners never share under CUDA MPS, jobs on several GPUs are not packed, and a job whose "
        "memory or workload is unknown has a GPU of its own.",
    )
    notices = tuple(Notice(level="info", sentence=note) for note in found.notes)
    return Section(key="rules", title="What the plan keeps", blocks=(Text(sentences=sentences), *notices))


def _targets(found: planner.Answer) -> Section:
    rows = []
    for one in exports.TARGETS:
        try:
            exports.export(one.name, found.plan, exports.Settings(found.plan_id))
            said = ""
        except StallScopeError as error:
            said = error.sentence
        rows.append({"target": one.name, "title": one.title, "memory": one.memory, "why": said,
                     "binding": "binding" if one.binding else "capacity only"})  # fmt: skip
    columns = columns_of("target/export", "title/target", "binding", "memory/enforced", "why/refused")
    return Section(key="targets", title="What schedulers can take", blocks=(table("Targets", rows, columns),))
