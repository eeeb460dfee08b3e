"""What do I hand on?"""

import re
from collections import Counter

import streamlit as st

from analysis.report.build import dataset_report
from analysis.report.document import ReportDocument
from analysis.report.render import to_csv, to_html, to_json
from analysis.store.filters import Filter
from analysis.ui import empty, filters, frame, question
from analysis.ui.markdown import plain, sentence
from analysis.ui.resources import cached, database

QUESTION = "What do I hand on?"
FORMS = {
    "HTML": ("html", "text/html", to_html, "One page that opens anywhere, without a network."),
    "CSV": ("csv", "text/csv", to_csv, "The tables, for a spreadsheet."),
    "JSON": ("json", "application/json", to_json, "The document itself, for programs."),
}
KINDS = {"matrix": ("matrix", "matrices"), "figure": ("chart", "charts"), "table": ("table", "tables")}


def downloads(document: ReportDocument, name: str) -> None:
    """Offer the report in every form."""
    stem = re.sub(r"[^A-Za-z0-9._-]+", "-", f"stallscope-{name}").strip("-")
    for column, (label, (ending, mime, render, words)) in zip(st.columns(3), FORMS.items(), strict=True):
        with column, st.container(border=True, height="stretch"):
            st.markdown(f"**{label}**  \n:small[:gray[{words}]]")
            st.download_button(
                f"Download {label}",
                data=lambda render=render: render(document).encode("utf-8"),
                file_name=f"{stem}.{ending}",
                mime=mime,
                icon=":material/download:",
                key=f"report-{ending}",
                on_click="ignore",
                type="primary" if ending == "html" else "secondary",
            )


def contents(document: ReportDocument) -> None:
    """Show what stands in it, before anybody downloads it."""
    frame.subheading("What stands in it")
    with st.container(border=True):
        st.markdown(f"**{plain(document.title, 200)}** · {plain(document.provenance)}")
        for text in document.summary:
            st.markdown(sentence(text))
        for section in document.sections:
            kinds = Counter(block.type for block in section.blocks)
            parts = [frame.count(kinds[kind], *words) for kind, words in KINDS.items() if kinds[kind]]
            st.markdown(f"- **{plain(section.title, 120)}**" + (f": {', '.join(parts)}" if parts else ""))
        files = frame.count(len(document.sources), "source")
        st.caption(f"{files} with hashes, the filters in words, and the commands that make it again.")


def page() -> None:
    name = filters.dataset()
    chosen = filters.chosen("dataset", "gpu", "mechanism")
    heading = st.container()
    if name is None:
        frame.header(QUESTION)
        empty.state("There is nothing to report yet.", empty.PROFILE, empty.CORUN)
        return
    asked = prediction(name)
    gpus, wanted = chosen.gpus, {}
    if asked is not None:
        # The jobs are predicted on the first of the GPUs.
        gpus = (asked.gpu, *(gpu for gpu in chosen.gpus or filters.options(name)["gpu"] if gpu != asked.gpu))
        wanted = {"model_id": asked.model.model_id, "jobs": asked.jobs}
    with st.spinner("Writing the report"):
        document = cached(dataset_report, database(), name, gpus=gpus, mechanisms=chosen.mechanisms, **wanted)
    with heading:
        show(document, name, chosen)
    contents(document)


def prediction(name: str) -> question.Question | None:
    """Ask whether a model and its answer for a set of jobs shall stand in the report, and which."""
    known = question.trained(name)
    if not known or not st.toggle(
        "Add a model and its answer for a set of jobs", key="with-model", persist_state="session"
    ):
        return None
    return question.ask(known)


def show(document: ReportDocument, name: str, chosen: Filter) -> None:
    """Show the question, what the report is, and the files."""
    frame.header(QUESTION, chosen, simulated="simulated" in document.provenance)
    frame.answer(
        "One file that a colleague can check: every figure with its protocol, its sources and how to make it again."
    )
    downloads(document, name)


page()
