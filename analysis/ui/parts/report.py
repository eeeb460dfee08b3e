"""The parts of the Report page: what it shall be about, which parts it has, its preview, and the files."""

from __future__ import annotations

import re
from collections import Counter
from functools import partial

import streamlit as st

from analysis.errors import StallScopeError
from analysis.predict.models import unanswered
from analysis.predict.models.manifest import Manifest
from analysis.report import render
from analysis.report.document import Matrix, ReportDocument, Table, Text
from analysis.report.kinds import KINDS, ReportKind, Wanted
from analysis.report.render import as_bytes
from analysis.store.filters import Filter
from analysis.store.queries import sources
from analysis.ui.parts import placement, question
from analysis.ui.shell import filters, frame
from analysis.ui.shell.markdown import plain, sentence
from analysis.ui.shell.resources import cached, database

FORMS = {
    "HTML": (".html", "text/html", "One page that opens anywhere, without a network."),
    "PDF": (".pdf", "application/pdf", "The same on paper."),
    "CSV": (".csv", "text/csv", "The tables, for a spreadsheet."),
    "Parquet": (".parquet", "application/vnd.apache.parquet", "The tables, for programs."),
    "JSON": (".json", "application/json", "The document itself; HTML can be made of it again."),
}
BLOCKS = {"matrix": ("matrix", "matrices"), "figure": ("chart", "charts"), "table": ("table", "tables")}


def ask(dataset: str, chosen: Filter) -> Wanted | None:
    """Ask for the kind, what it is about and its parts; None, with the reason said, where that can't be made yet."""
    titles = {kind.title: kind for kind in KINDS.values()}
    if (linked := st.query_params.get("kind")) in KINDS:  # a link says it by name, the list and the address by title
        st.query_params["kind"] = st.session_state["kind"] = KINDS[str(linked)].title
    left, right = st.columns([3, 4], vertical_alignment="bottom")
    picked = left.selectbox("Report", list(titles), key="kind", bind="query-params", persist_state="session")
    kind = titles.get(str(picked), KINDS["dataset"])
    right.caption(kind.words)
    wanted = _about(kind, dataset, chosen)
    if wanted is None:
        return None
    parts = _parts(kind)
    return Wanted(**{**vars(wanted), "contents": parts})


def _about(kind: ReportKind, dataset: str, chosen: Filter) -> Wanted | None:
    gpus, mechanisms = chosen.gpus, chosen.mechanisms
    if kind.name == "stalls":
        table = cached(sources.workloads, database(), Filter(datasets=(dataset,)))
        profiled = [str(name) for name in table.loc[table["profiles"] > 0, "workload"]]
        if not profiled:
            st.info("No job of this data set was profiled.", icon=":material/info:")
            return None
        job = st.selectbox("Job", profiled, key="stalls-of", bind="query-params", persist_state="session")
        return Wanted(kind.name, dataset, gpus, jobs=(job if job in profiled else profiled[0],))
    if kind.name == "placement":
        return _placement(dataset)
    known = question.trained(dataset) if "model" in kind.needs else []
    if "model" in kind.needs and not known:
        question.say(dataset)
        return None
    if kind.name == "model":
        return Wanted(kind.name, dataset, model_id=question.model_of(known).model_id)
    if kind.name == "prediction":
        return _set_of_jobs(kind, dataset, question.trained(dataset) or [cached(unanswered.card, database(), dataset)])
    return Wanted(kind.name, dataset, gpus, mechanisms, limit=filters.limit())


def _placement(dataset: str) -> Wanted | None:
    places = placement.gpus_of(dataset)
    if not places:
        st.info("No co-run of this data set says where jobs may go.", icon=":material/info:")
        return None
    try:
        asked = placement.ask(dataset, places)
    except StallScopeError as error:
        st.error(sentence(error.sentence), icon=":material/error:")
        return None
    if asked is None or not asked.gpus:
        st.info("Name the jobs and the GPUs.", icon=":material/info:")
        return None
    options = {**dict(asked.options), "time_limit": placement.SECONDS}
    limit = float(options.pop("limit"))
    gpus = tuple(f"{kind.name}={kind.count}" for kind in asked.gpus)
    return Wanted(
        "placement", dataset, gpus, model_id=asked.model_id, limit=limit, listed=asked.jobs,
        options=tuple(options.items()),
    )  # fmt: skip


def _set_of_jobs(kind: ReportKind, dataset: str, known: list[Manifest]) -> Wanted:
    asked = question.ask(known)
    limit = filters.limit()
    return Wanted(
        kind.name, dataset, (asked.gpu,), (asked.mechanism,), asked.model.model_id, asked.jobs, asked.caps, limit
    )


def _parts(kind: ReportKind) -> tuple[str, ...]:
    """Ask for the parts; those that are the usual ones are no choice that has to be said again."""
    usual = [name for name in kind.contents if name != "rows"]
    picked = st.pills(
        "Parts", list(kind.contents), selection_mode="multi", default=usual, key=f"parts-{kind.name}",
        format_func=lambda name: kind.contents[name][:1].upper() + kind.contents[name][1:],
        help="Raw rows stand in a report only when you ask for them.", persist_state="session",
    )  # fmt: skip
    chosen = tuple(name for name in kind.contents if name in picked)
    return () if not chosen or list(chosen) == usual else chosen


def downloads(document: ReportDocument, name: str) -> None:
    """Offer the report in every form."""
    stem = re.sub(r"[^A-Za-z0-9._-]+", "-", f"stallscope-{name}").strip("-")[:80]
    printable = render.available()
    for column, (label, (ending, mime, words)) in zip(st.columns(len(FORMS)), FORMS.items(), strict=True):
        with column, st.container(border=True, height="stretch"):
            st.markdown(f"**{label}**  \n:small[:gray[{words}]]")
            if label == "PDF" and not printable:
                st.caption(f"Needs an extra: `{render.INSTALL}`")
                continue
            st.download_button(
                f"Download {label}", data=partial(as_bytes, document, ending), mime=mime,
                file_name=f"{stem}{ending}", icon=":material/download:", key=f"report-{ending[1:]}", on_click="ignore",
                type="primary" if label == "HTML" else "secondary",
            )  # fmt: skip


def preview(document: ReportDocument) -> None:
    """Show what stands in the report, before anybody downloads it."""
    frame.subheading("What stands in it")
    with st.container(border=True, key="report-preview"):
        st.markdown(f"**{plain(document.title, 200)}** · {plain(document.provenance)}")
        st.caption(f"{sentence(document.subtitle, 200)} · {sentence('; '.join(document.filters), 400)}")
        for text in document.summary:
            st.markdown(sentence(text, 600))
        for section in document.sections:
            kinds = Counter(str(block.type) for block in section.blocks)
            parts = [frame.count(kinds[kind], *words) for kind, words in BLOCKS.items() if kinds[kind]]
            title = f"**{plain(section.title, 120)}**" + (f" · {', '.join(parts)}" if parts else "")
            with st.expander(title):
                _section(section.blocks)
        files = frame.count(len(document.sources), "source")
        st.caption(f"{files} with hashes, the filters in words, and the commands that make it again:")
        st.code("\n".join(document.reproduce), language="shell", wrap_lines=True)


def _section(blocks: tuple[object, ...]) -> None:
    for block in blocks:
        if isinstance(block, Text):
            for text in block.sentences[:6]:
                st.markdown(sentence(text, 600))
        elif isinstance(block, Table):
            shown = block.shown()
            st.caption(f"{sentence(block.title, 200)}: {frame.count(len(block.rows), 'row')}")
            rows = [{column.header: row[index] for index, column in shown} for row in block.rows[:20]]
            st.dataframe(rows, hide_index=True, height="auto", placeholder="–", alt=block.title[:120])
        elif isinstance(block, Matrix):
            st.caption(f"{sentence(block.title, 200)}: {len(block.workloads)} x {len(block.workloads)} cells")
