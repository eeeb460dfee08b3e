"""What do I hand on?"""

import re

import streamlit as st

from analysis.report.build import dataset_report
from analysis.report.document import ReportDocument
from analysis.report.render import to_csv, to_html, to_json
from analysis.ui import empty, filters, frame
from analysis.ui.markdown import plain, sentence
from analysis.ui.resources import cached, database

QUESTION = "What do I hand on?"
FORMS = {
    "HTML": ("html", "text/html", to_html, "One page that opens anywhere, without a network."),
    "CSV": ("csv", "text/csv", to_csv, "The tables, for a spreadsheet."),
    "JSON": ("json", "application/json", to_json, "The document itself, for programs."),
}


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
            titles = [block.title for block in section.blocks if getattr(block, "title", "")]
            st.markdown(f"- **{plain(section.title, 120)}**: {plain(', '.join(titles) or 'text', 300)}")
        files = frame.count(len(document.sources), "source")
        st.caption(f"{files} with hashes, the filters in words, and the commands that make it again.")


def page() -> None:
    name = filters.dataset()
    chosen = filters.chosen("dataset", "gpu", "mechanism")
    if name is None:
        frame.header(QUESTION)
        empty.state("There is nothing to report yet.", empty.PROFILE, empty.CORUN)
        return
    with st.spinner("Writing the report"):
        document = cached(dataset_report, database(), name, gpus=chosen.gpus, mechanisms=chosen.mechanisms)
    frame.header(QUESTION, chosen, simulated="simulated" in document.provenance)
    frame.answer(
        "One file that a colleague can check: every figure with its protocol, its sources and how to make it again."
    )
    downloads(document, name)
    contents(document)


page()
