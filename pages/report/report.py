"""What do I hand on?"""

import streamlit as st

from analysis.errors import StallScopeError
from analysis.report.kinds import Wanted, make
from analysis.ui.parts import report
from analysis.ui.shell import empty, filters, frame
from analysis.ui.shell.markdown import sentence
from analysis.ui.shell.resources import cached, database

QUESTION = "What do I hand on?"


def page() -> None:
    name = filters.dataset()
    chosen = filters.chosen("dataset", "gpu", "mechanism")
    if name is None:
        frame.header(QUESTION)
        empty.state("There is nothing to report yet.", empty.PROFILE, empty.CORUN)
        return
    frame.header(QUESTION, chosen)
    frame.answer(
        "One file that a colleague can check: every figure with its protocol, its sources and how to make it again."
    )
    wanted = report.ask(name, chosen)
    document = write(wanted) if wanted is not None else None
    if wanted is None or document is None:
        return
    report.downloads(document, f"{wanted.dataset}-{wanted.kind}")
    report.preview(document)


def write(wanted: Wanted):
    try:
        with st.spinner("Writing the report"):
            return cached(make, database(), wanted)
    except StallScopeError as error:
        st.error(sentence(error.sentence), icon=":material/error:")
        return None


page()
