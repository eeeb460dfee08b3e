"""Why does this job wait?"""

import pandas as pd
import streamlit as st

from analysis.stalls.verdict import verdicts
from analysis.store.filters import Filter
from analysis.ui.parts import stall_compare, stalls
from analysis.ui.shell import empty, filters, frame
from analysis.ui.shell.navigation import PROFILES, link
from analysis.ui.shell.resources import cached, database

QUESTION = "Why does this job wait?"
VIEWS = {"why": "Why each waits", "compare": "Compare", "together": "Side by side"}


def view() -> str:
    """Ask what to look at; it stands in the address."""
    picked = st.segmented_control(
        "View", list(VIEWS), default="why", required=True, format_func=VIEWS.__getitem__, key="see",
        label_visibility="collapsed", bind="query-params", persist_state="session",
    )  # fmt: skip
    return str(picked or "why")


def why(chosen: Filter, table: pd.DataFrame) -> None:
    """Show what every job waits for, and one of them opened up."""
    rules = stalls.rule_texts(chosen)
    only_rules = rules[~rules["workload"].isin(table["workload"])]
    if table.empty:
        frame.answer("Nothing here holds stall reasons.")
        if len(only_rules):
            stalls.show_rules(only_rules)
        empty.state("No profile of this choice has stall metrics.", empty.PROFILE)
        return
    frame.answer(stalls.sentence(table))
    stalls.overview(chosen)
    stalls.job(chosen)
    if len(only_rules):
        stalls.show_rules(only_rules)
    if len(table) > 1:
        frame.subheading("All verdicts")
        stalls.verdict_table(table)
    link("kernels", "Which kernels matter")
    rests(table)
    frame.caveats(stalls.caveats(table, chosen))


def compare(chosen: Filter, table: pd.DataFrame) -> None:
    """Show what differs between a baseline and others."""
    choice = stall_compare.pick(chosen)
    if choice is None:
        empty.state("A comparison needs two profiles: choose a second one, or bring it.", empty.PROFILE)
        return
    found = stall_compare.compared(choice)
    frame.answer(stall_compare.answer(found))
    stall_compare.show(choice, found)
    rests(table)
    frame.caveats(stall_compare.caveats(found))


def together(chosen: Filter, table: pd.DataFrame) -> None:
    """Show what jobs side by side lean on, and what it costs them."""
    lean = stalls.pick(chosen)
    if lean is None:
        empty.state("No GPU here has two profiles, so no two jobs can be laid side by side.", empty.PROFILE)
        return
    if lean["workload"].nunique() < 2:
        st.markdown("Choose two or more jobs to see what they lean on together.")
        return
    pairs = stalls.costs(lean)
    frame.answer(stalls.answer(lean, pairs))
    stalls.show(lean, pairs)
    rests(table)
    frame.caveats(stalls.side_by_side_caveats(lean))


def rests(table: pd.DataFrame) -> None:
    """Say what the page rests on."""
    if table.empty:
        return
    frame.basis(
        frame.count(len(table), "profile"),
        frame.count(int(table["launches"].sum()), "launch", "launches"),
        simulated=bool(table["simulated"].any()),
    )


def page() -> None:
    chosen = filters.chosen(*PROFILES)
    if filters.dataset() is None:
        frame.header(QUESTION)
        empty.state("There are no profiles yet.", empty.PROFILE)
        return
    table = cached(verdicts, database(), chosen, "workload")
    frame.header(QUESTION, chosen, simulated=bool(table["simulated"].any()) if len(table) else False, about="profiles")
    {"why": why, "compare": compare, "together": together}[view()](chosen, table)


page()
