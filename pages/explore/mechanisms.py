"""MPS, MIG, time-slicing or priority?"""

import streamlit as st

from analysis.interference.mechanisms import compare
from analysis.ui.parts import mechanisms
from analysis.ui.shell import empty, filters, frame
from analysis.ui.shell.resources import cached, database

QUESTION = "MPS, MIG, time-slicing or priority?"
MEASURED, SIMULATED = "Sets in the data", "Simulate any jobs"


def page() -> None:
    name = filters.dataset()
    chosen = filters.chosen("dataset", "gpu")
    runs = cached(compare, database(), name) if name else None
    if runs is not None and chosen.gpus:
        runs = runs[runs["gpu"].isin(chosen.gpus)]
    there = runs is not None and len(runs) > 0
    heading = st.container()
    view = SIMULATED
    if there:
        view = st.segmented_control(
            "Show",
            [MEASURED, SIMULATED],
            default=MEASURED,
            required=True,
            key="source",
            label_visibility="collapsed",
            bind="query-params",
            persist_state="session",
        )
    with heading:
        simulated = view == SIMULATED or (runs is not None and bool(runs["simulated"].any()))
        frame.header(QUESTION, chosen if name and view == MEASURED else None, simulated=simulated)
    if view == MEASURED and name is not None and runs is not None:
        shown = mechanisms.measured(runs)
        mechanisms.show_members(shown, name)
        mechanisms.questions(shown, name)
        mechanisms.isolation(list(dict.fromkeys(shown["mechanism"])))
        return
    if not there:
        empty.state("No set of jobs here was co-run under two mechanisms; below, by simulation.", empty.CORUN)
    mechanisms.simulated()
    mechanisms.isolation()


page()
