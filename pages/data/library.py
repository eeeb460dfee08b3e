"""What is in the database?"""

import streamlit as st

from analysis.store.queries import sources
from analysis.ui.parts import library
from analysis.ui.shell import empty, filters, frame
from analysis.ui.shell.markdown import plain
from analysis.ui.shell.resources import cached, database

TABLES = {"Sources": library.show_sources, "Workloads": library.show_workloads, "Co-runs": library.show_runs}


def page() -> None:
    name = filters.dataset()
    if name is None:
        frame.header("What is in the database?")
        empty.state("The database is empty.", empty.PROFILE, empty.CORUN)
        return
    counts = cached(sources.counts, database(), name)
    based = cached(sources.basis, database(), name)
    frame.header("What is in the database?", filters.chosen("dataset"), simulated=based["simulated"] > 0)
    launches = frame.count(counts["launches"], "kernel launch", "kernel launches")
    frame.answer(
        f"{plain(name)} came from **{frame.count(counts['sources'], 'source')}** and holds "
        f"**{frame.count(counts['workloads'], 'workload')}**, "
        f"{launches} and **{frame.count(counts['runs'], 'co-run')}**."
    )
    shown = st.segmented_control(
        "Table", list(TABLES), default="Sources", required=True, key="table", label_visibility="collapsed",
        bind="query-params", persist_state="session",
    )  # fmt: skip
    TABLES[shown or "Sources"](name)


page()
