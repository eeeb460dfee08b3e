"""Which kernels matter?"""

import pandas as pd
import streamlit as st

from analysis.stalls.kernels import kernel_table, pooled
from analysis.stalls.shares import KEYS
from analysis.ui.parts import kernels
from analysis.ui.shell import empty, filters, frame
from analysis.ui.shell.navigation import PROFILES, link
from analysis.ui.shell.resources import cached, database

QUESTION = "Which kernels matter?"
LEVELS = {"kernel": "Kernel and size", "name": "Short name"}


def page() -> None:
    chosen = filters.chosen(*PROFILES)
    if filters.dataset() is None:
        frame.header(QUESTION)
        empty.state("There are no profiles yet.", empty.PROFILE)
        return
    by = str(st.session_state.get("group") or "kernel")
    table = cached(kernel_table, database(), chosen, by if by in LEVELS else "kernel")
    frame.header(QUESTION, chosen, simulated=bool(table["simulated"].any()) if len(table) else False, about="profiles")
    if table.empty:
        frame.answer("No kernel of this choice is loaded.")
        empty.state("Profiles and time traces bring kernels.", empty.PROFILE)
        return
    answer = st.container()
    st.segmented_control(
        "Group by", list(LEVELS), default="kernel", required=True, format_func=LEVELS.__getitem__, key="group",
        bind="query-params", persist_state="session",
    )  # fmt: skip
    shown = kernels.listing(table)
    with answer:  # speaks of what the search leaves, which is asked for below
        frame.answer(kernels.sentence(shown, searched=len(shown) < len(table)))
    frame.subheading("One kernel")
    every = table if by == "kernel" else cached(kernel_table, database(), chosen, "kernel")
    names = [*KEYS["name"]] if by == "name" else ["key"]
    row = kernels.pick(every.merge(shown[names].drop_duplicates(), on=names))
    if row is not None:
        kernels.kernel(chosen, row)
    kernels.roof(chosen)
    link("stalls", "Why each job waits")
    frame.basis(
        frame.count(len(every), "kernel"),
        frame.count(int(every["launches"].sum()), "launch", "launches"),
        frame.count(int(every[["dataset", "workload", "gpu"]].drop_duplicates().shape[0]), "profile"),
        simulated=bool(table["simulated"].any()),
    )
    frame.caveats(caveats(every))


def caveats(table: pd.DataFrame) -> list[str]:
    """Say where times are missing, and where several files hold one kernel."""
    said = [told] if (told := pooled(table)) else []
    untimed = int(table["time_ns"].isna().sum())
    if untimed:
        said.append(f"{frame.count(untimed, 'kernel')} of {len(table):,} have no duration and stand last.")
    several = int((table["files"] > 1).sum())
    if several:
        said.append(
            f"{frame.count(several, 'kernel')} stand in several files of one job; of each the file with the most time "
            "counts, a time trace before a profile."
        )
    return said


page()
