"""The parts of the page that places jobs: what is asked, the board that can be edited, the gains, the export."""

from __future__ import annotations

import io
import math
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd
import streamlit as st

from analysis.charts.split_lines import split_lines
from analysis.charts.theme import alt_text
from analysis.errors import InputRefusedError, StallScopeError
from analysis.jobs.runner import Progress
from analysis.numbers import significant
from analysis.plan import exports, headroom, planner, wording
from analysis.plan.jobs import JobList, parse_jobs
from analysis.plan.problem import OBJECTIVES, RISKS, GpuKind, Job, gpu_kind
from analysis.plan.sets import LibraryFigures, without_model
from analysis.plan.solve import Plan
from analysis.plan.split import CUTS, sweep
from analysis.predict.frame.whitebox_sets import LARGEST_SET
from analysis.predict.models import missing
from analysis.reference import mig
from analysis.reference.columns import term
from analysis.store.database import Database
from analysis.store.filters import Filter
from analysis.store.queries import coruns, sources
from analysis.ui.parts import question
from analysis.ui.shell import access, filters, frame, job
from analysis.ui.shell.columns import configured
from analysis.ui.shell.markdown import plain, sentence
from analysis.ui.shell.resources import cached, call_key, database, jobs, theme

#: Up to so many jobs the plan is made while the page is drawn, in as many seconds at most.
AT_ONCE, SECONDS = 60, 8.0

#: Jobs that the table begins with, and GPUs of the board that are drawn.
FIRST_JOBS, MOST_DRAWN = 6, 48

#: Where a job stands that has no GPU.
NOWHERE = "waits"
KIND = "plan"
MEASURED_ONLY = "measured sets only"
_KEEP: dict[str, Any] = {"bind": "query-params", "persist_state": "session"}

_ANSWERS: dict[str, planner.Answer] = {}

_FIXED: dict[str, Any] = {"disabled": True}
_COLUMNS: dict[str, Any] = configured(
    "job", "workload", "owner", "slowdown", "low/interval", "high/interval", "limit", "verdict/set", "within_limit",
    "evidence", job=_FIXED, workload=_FIXED, owner=_FIXED, slowdown=_FIXED, low=_FIXED, high=_FIXED, limit=_FIXED,
    verdict=_FIXED, within_limit=_FIXED, evidence=_FIXED,
)  # fmt: skip
_WORTH: dict[str, Any] = configured(
    "title/pairing", "protocol", "sets/eight", "antt_taken", "stp_taken", "best_partner", "precision/share", "recall",
    "antt_without", "stp_without", title={"pinned": True},
)  # fmt: skip
_SPLITS: dict[str, Any] = configured("setting", "slowdowns", "worst", "stp", "fairness", "memory", "evidence")
_COMPARED: dict[str, Any] = configured(
    "way", "stp", "stp_low", "stp_high", "antt", "antt_low", "antt_high", "worst", "fairness/gpu", "violations",
    "regret_stp", "regret_antt", "waiting", "unknown/sets", "gpus_used", "draws", way={"pinned": True},
)  # fmt: skip


@dataclass(frozen=True)
class SetQuery:
    """What is to be placed, and how."""

    dataset: str
    jobs: JobList
    gpus: tuple[GpuKind, ...]
    model_id: str | None
    options: tuple[tuple[str, Any], ...]

    def plan(self, opened: Database, progress: Progress | None = None, seconds: float = SECONDS) -> planner.Answer:
        """Make the plan."""
        return planner.make_plan(
            opened, self.jobs, self.gpus, dataset=self.dataset, model_id=self.model_id, progress=progress,
            time_limit=seconds, **dict(self.options),
        )  # fmt: skip


def gpus_of(dataset: str) -> list[str]:
    """Return the GPUs on which a data set has co-runs, those with the most runs first."""
    table = cached(coruns.gpus_and_mechanisms, database(), dataset)
    runs = table.groupby("gpu")["runs"].sum().sort_values(ascending=False, kind="stable")
    return [str(name) for name in runs.index]


def ask(dataset: str, places: Sequence[str]) -> SetQuery | None:
    """Ask for jobs, GPUs and rules; None while there is no job."""
    with st.container(border=True, key="problem"):
        left, right = st.columns([3, 2], gap="large")
        with left:
            listed = _jobs(dataset)
        with right:
            gpus = _gpus(places)
            models = [*(card.model_id for card in question.trained(dataset)), MEASURED_ONLY]
            model = st.selectbox("What was not measured is told by", models, key="plan-model", **_KEEP)
        with st.container(horizontal=True, vertical_alignment="bottom"):
            k = st.selectbox("Jobs a GPU", ["2", "3", "4"], key="plan-k", width=130, **_KEEP)
            objective = st.selectbox(
                "Best in", list(OBJECTIVES), key="plan-objective", format_func=lambda key: OBJECTIVES.get(key, key),
                **_KEEP,
            )  # fmt: skip
            risk = st.selectbox(
                "By", list(RISKS), key="plan-risk", format_func=lambda key: RISKS.get(key, key), **_KEEP
            )
        over = st.toggle(
            "Share beyond the limit too, rather than let jobs wait", key="plan-over",
            help="Memory must be known to fit all the same; the jobs that pay more are named.", **_KEEP,
        )  # fmt: skip
    if listed is None:
        return None
    options = (
        ("k", int(k or 2)),
        ("limit", filters.limit()),
        ("objective", objective),
        ("over_limit", over),
        ("risk", risk),
    )
    asked = without_model(dataset) if model in (None, MEASURED_ONLY) else str(model)
    return SetQuery(dataset, listed, gpus, asked, options)


def _jobs(dataset: str) -> JobList | None:
    """Ask for the jobs: a list of theirs, or a table that begins with the first workloads."""
    given = st.file_uploader(
        "A list of jobs: CSV, `sacct -P`, `kubectl get pods -o json`", type=["csv", "txt", "json", "tsv"],
        key="plan-list", max_upload_size=20,
    )  # fmt: skip
    if given is not None:
        try:
            return parse_jobs(given.getvalue().decode("utf-8-sig"), given.name)
        except UnicodeDecodeError as error:
            raise InputRefusedError("the list is no text", "Give a CSV, `sacct -P` output or JSON.") from error
    table = cached(sources.workloads, database(), Filter(datasets=(dataset,)))
    names = sorted(table["workload"].astype(str))
    first = _first(dataset, names)
    edited = st.data_editor(
        pd.DataFrame(
            {
                "job": [f"job {number}" for number in range(1, len(first) + 1)], "workload": first, "owner": "me",
                "peak_memory_mib": [math.nan] * len(first), "limit": [math.nan] * len(first),
            }
        ),
        column_config={
            **configured("job", "owner", "peak_memory_mib", "limit", job={"required": True},
                         peak_memory_mib={"min_value": 0, "help": "As nvidia-smi shows it; empty: as measured."},
                         limit={"min_value": 1.0, "max_value": 100.0}),
            "workload": _choice("workload", names),
        },
        num_rows="dynamic", hide_index=True, key=f"plan-jobs-{dataset}", placeholder="–",
    )  # fmt: skip
    found = tuple(
        Job(
            str(row["job"]), str(row["workload"]), str(row["owner"] or ""),
            memory_mib=float(row["peak_memory_mib"]) if pd.notna(row["peak_memory_mib"]) else math.nan,
            limit=float(row["limit"]) if pd.notna(row["limit"]) else None,
        )
        for row in edited.to_dict("records") if row["job"] and row["workload"]
    )  # fmt: skip
    return JobList(found, "table") if found else None


def _choice(name: str, options: Sequence[str]) -> Any:
    """Return the settings of a column whose cells are chosen from a list."""
    return st.column_config.SelectboxColumn(
        term(name).header, help=term(name).help, options=list(options), required=True, width="medium"
    )


def _first(dataset: str, names: Sequence[str]) -> list[str]:
    """Return the workloads that the table begins with: those that ran together, so that there is something to say."""
    table = cached(coruns.gpus_and_mechanisms, database(), dataset)
    gpu = gpus_of(dataset)[0]
    mechanism = str(table[table["gpu"] == gpu].sort_values("runs", ascending=False)["mechanism"].iloc[0])
    members = cached(coruns.members, database(), Filter((dataset,), (gpu,), (mechanism,)))
    ran = members.loc[members["slowdown"].notna(), "workload"].astype(str)
    chosen = [str(name) for name in ran.value_counts(sort=False).sort_values(ascending=False, kind="stable").index]
    return (chosen or list(names))[:FIRST_JOBS]


def _gpus(places: Sequence[str]) -> tuple[GpuKind, ...]:
    edited = st.data_editor(
        pd.DataFrame({"gpu": [places[0]], "count": [4]}),
        column_config={
            "gpu": _choice("gpu", places),
            **configured("count/gpus", count={"min_value": 0, "max_value": 10_000, "step": 1, "required": True}),
        },
        num_rows="dynamic", hide_index=True, key=f"plan-gpus-{places[0]}", placeholder="–",
    )  # fmt: skip
    counts: dict[str, int] = {}
    for row in edited.to_dict("records"):
        if row["gpu"] and pd.notna(row["count"]):
            counts[str(row["gpu"])] = counts.get(str(row["gpu"]), 0) + int(row["count"])
    return tuple(gpu_kind(name, count) for name, count in counts.items())


@access.editing
def _submit(asked: SetQuery, work: Callable[[Progress], dict[str, Any]]) -> str:
    return jobs().submit(KIND, {"dataset": asked.dataset, "jobs": len(asked.jobs.jobs)}, work)


def answer(asked: SetQuery) -> planner.Answer | None:
    """Return the plan; None while it is being made beside the page."""
    if len(asked.jobs.jobs) <= AT_ONCE:
        return cached(_made, database(), asked)
    key = repr(call_key(_made, database(), asked))
    if key in _ANSWERS:
        return _ANSWERS[key]
    opened = database()

    def work(progress: Progress) -> dict[str, Any]:
        while len(_ANSWERS) > 8:
            _ANSWERS.pop(next(iter(_ANSWERS)))
        _ANSWERS[key] = asked.plan(opened, progress, 60.0)
        return {"jobs": len(asked.jobs.jobs)}

    running = st.session_state.get("plan-job")
    if running is None or running[0] != key:
        running = (key, _submit(asked, work))
        st.session_state["plan-job"] = running
    status = job.watch(running[1])
    if status.finished:
        job.outcome(status)
    return _ANSWERS.get(key)


def _made(opened: Database, asked: SetQuery) -> planner.Answer:
    return asked.plan(opened)


def board(asked: SetQuery, found: planner.Answer) -> Plan:
    """Show who is where, let a reader move jobs, and return the plan as it stands then."""
    frame.subheading("Who sits where")
    places = [
        f"{kind.name} no. {number + 1}" for kind in found.plan.problem.gpus for number in range(kind.count)
    ]  # fmt: skip
    table = wording.board(found.plan)
    waiting = pd.DataFrame(
        [{"job": one.job.name, "workload": one.job.workload, "owner": one.job.owner, "gpu": NOWHERE}
         for one in found.plan.waiting]
    )  # fmt: skip
    rows = pd.concat([table, waiting], ignore_index=True) if len(waiting) else table
    rows["gpu"] = rows["gpu"].str.replace(r" to \d+$", "", regex=True)
    shown = rows[["gpu", *_COLUMNS]]
    st.caption("Choose another GPU in the first column to move a job; the cost follows.")
    edited = st.data_editor(
        shown,
        column_config={
            "gpu": _choice("gpu", [*places, NOWHERE]),
            **_COLUMNS,
        },
        hide_index=True, key=f"board-{found.plan_id}", placeholder="–",
    )  # fmt: skip
    frame.download(shown, name="placement")
    plan = found.plan
    if not edited["gpu"].equals(shown["gpu"]):
        plan = _moved(asked, found, dict(zip(edited["job"], edited["gpu"], strict=True)))
    _cards(plan)
    for one in plan.waiting:
        st.markdown(f":orange[:material/hourglass_empty:] **{plain(one.job.name)}** waits. {sentence(one.why)}")
    return plan


def _moved(asked: SetQuery, found: planner.Answer, where: dict[str, str]) -> Plan:
    """Judge a board that was changed by hand, and say what the change costs."""
    kinds = [(f"{kind.name} no. {number + 1}", (kind.name, number)) for kind in found.plan.problem.gpus
             for number in range(kind.count)]  # fmt: skip
    by_name = dict(kinds)
    figures = LibraryFigures(database(), asked.dataset, found.plan.problem.mechanism, asked.model_id)
    try:
        plan = planner.moved(
            found.plan, figures, {name: by_name[gpu] for name, gpu in where.items() if gpu in by_name}
        )  # fmt: skip
    except StallScopeError as error:
        st.error(sentence(error.sentence), icon=":material/block:")
        return found.plan
    before, after = found.plan, plan
    st.info(
        f"Moved by hand: work done {significant(before.stp)} → **{significant(after.stp)}**, mean slowdown "
        f"{significant(before.antt)} x → **{significant(after.antt)} x**, worst {significant(before.worst)} x → "
        f"**{significant(after.worst)} x**, within the limit {significant(before.within_limit)} % → "
        f"**{significant(after.within_limit)} %**, GPUs {before.gpus_used} → **{after.gpus_used}**.",
        icon=":material/swap_horiz:",
    )
    return plan


def _cards(plan: Plan) -> None:
    """Draw each GPU as a box with its jobs."""
    drawn = plan.placements[:MOST_DRAWN]
    look = {"share": "green", "don't": "red", "measure first": "orange", "alone": "gray"}
    for start in range(0, len(drawn), 4):
        for column, one in zip(st.columns(4), drawn[start : start + 4], strict=False):
            with column.container(border=True, height="stretch"):
                chance = "" if one.probability is None else f", within the limit: {one.probability:.0f} %"
                st.markdown(f"**{plain(one.name)}**  \n:{look.get(one.verdict, 'gray')}[{one.verdict}]{chance}")
                for member in one.members:
                    mark = "" if member.within else " :red[:material/arrow_upward:]"
                    figure = "alone" if len(one.members) == 1 else f"{significant(member.slowdown)} x"
                    st.markdown(f"{plain(member.job.name, 60)}: {figure}{mark}")
                if said := planner.faults(one, plan.problem.mechanism):
                    st.caption(plain(said, 300))
    if len(plan.placements) > len(drawn):
        st.caption(f"{len(plan.placements) - len(drawn)} more GPUs stand in the table.")


def gains(found: planner.Answer) -> None:
    """Show the plan beside simple rules and the measured best."""
    frame.subheading("What this gains")
    st.markdown(plain(wording.gain(found), 600))
    table = wording.compared(found)
    columns = [name for name in _COMPARED if name in table and table[name].notna().any()]
    frame.data(table[columns], name="placement-compared", columns=_COMPARED)


def record(dataset: str) -> None:
    """Say what placing by out-of-fold predictions took on this data set's own pairs, where that was evaluated."""
    try:
        found = cached(headroom.worth, database(), dataset)
    except StallScopeError:  # nothing was evaluated here: there is no record to show
        return
    frame.subheading("How well predictions place these jobs")
    st.markdown(plain(headroom.in_words(found), 1200))
    rows = pd.DataFrame([one.row() for one in found])
    frame.data(rows[[name for name in _WORTH if name in rows]], name="placement-headroom", columns=_WORTH)


def measure_next(found: planner.Answer) -> None:
    """Say how many pairs may share, and which co-runs to measure first, each with its command."""
    said = found.survey
    if not (said.pairs or said.peaks):
        return
    frame.subheading("What to measure next")
    if told := said.in_words():
        st.markdown(plain(told, 400))
    for number, one in enumerate(said.proposals, start=1):
        names = " beside ".join(f"**{plain(name, 80)}**" for name in one.workloads)
        st.markdown(f"{number}. {names} on {plain(one.gpu)}. {sentence(one.why, 400)}")
        st.code(one.command, language="sh", wrap_lines=True)
    if said.peaks:
        more = f" and {len(said.peaks) - 3} more" if len(said.peaks) > 3 else ""
        st.markdown(f"Peak memory of {plain(', '.join(said.peaks[:3]), 300)}{more}, each while it runs alone:")
        st.code(missing.PEAK.partition(", while")[0], language="sh", wrap_lines=True)


def splits(asked: SetQuery, plan: Plan) -> None:
    """Show what the jobs of a shared GPU pay over the ways to cut it."""
    together = {one.name: one for one in plan.placements if 2 <= len(one.members) <= LARGEST_SET}
    if not together:
        return
    frame.subheading("Which thread percentage, which MIG profile?")
    with st.container(horizontal=True, vertical_alignment="bottom"):
        name = st.selectbox(
            "Shared GPU", list(together), index=None, placeholder="Choose one", key="plan-split", width=300,
            format_func=lambda key: f"{key}: {' and '.join(one.job.name for one in together[key].members)}"
            if key in together else key,
        )  # fmt: skip
        cuts = [cut for cut in CUTS if cut != "MIG" or mig.profiles(together[name].gpu if name in together else "")]
        how = st.segmented_control("Cut by", cuts, default=cuts[0], required=True, key="plan-cut")
    if name not in together:
        return
    one = together[name]
    try:
        found = cached(sweep, database(), asked.dataset, one.gpu, tuple(member.job for member in one.members), str(how),
                       limit=plan.problem.limit, reserve=plan.problem.reserve)  # fmt: skip
    except StallScopeError as error:
        st.info(sentence(error.sentence), icon=":material/info:")
        return
    st.markdown(f"{plain(found.sentence(), 600)}  \n**{plain(found.verdict)}**: {sentence(found.why, 400)}")
    drawn = split_lines(found.lines(), best=found.best.setting, limit=found.limit, theme=theme())
    frame.chart(drawn, name="placement-split", alt=alt_text(drawn), table=found.table(), columns=_SPLITS)


def export(found: planner.Answer, plan: Plan) -> None:
    """Offer the plan for a scheduler, as one file or an archive."""
    frame.subheading("For your scheduler")
    titles = {
        one.name: f"{one.title} ({'binding' if one.binding else 'capacity only'})" for one in exports.TARGETS
    }  # fmt: skip
    with st.container(horizontal=True, vertical_alignment="bottom"):
        chosen = st.selectbox(
            "Target", list(titles), key="plan-target", format_func=lambda key: titles.get(key, key), **_KEEP
        )
        devices = st.file_uploader(
            "Output of `nvidia-smi -L`, where GPUs are named", key="plan-devices", type=["txt"], max_upload_size=1
        )
    try:
        known = exports.parse_gpu_list(devices.getvalue().decode("utf-8", "replace")) if devices is not None else ()
        made = exports.export(str(chosen), plan, exports.Settings(found.plan_id, known))
    except StallScopeError as error:
        st.warning(sentence(error.sentence), icon=":material/block:")
        return
    for note in made.notes:
        st.caption(plain(note, 300))
    name, text = next(iter(made.files.items()))
    if len(made.files) > 1:
        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
            for file, content in made.files.items():
                archive.writestr(file, content)
        st.download_button(
            f"Download {len(made.files)} files", packed.getvalue(), f"stallscope-{chosen}.zip", "application/zip",
            icon=":material/download:", key="plan-download", on_click="ignore",
        )  # fmt: skip
    else:
        st.download_button(
            "Download", text, name, "text/plain", icon=":material/download:", key="plan-download", on_click="ignore"
        )
    with st.expander(f"The first file, {name}", icon=":material/description:"):
        st.code(text[:20_000], language="yaml" if name.endswith(".yaml") else "bash")
