"""From stalls to interference on a page: what jobs lean on together, and what that costs them."""

from __future__ import annotations

import pandas as pd
import streamlit as st

from analysis.charts.overlap import overlap_bars
from analysis.charts.theme import alt_text
from analysis.predict.advise import alongside
from analysis.stalls import resources
from analysis.store.filters import Filter
from analysis.ui.parts.stallcolumns import COLUMNS
from analysis.ui.shell import filters, frame, markdown
from analysis.ui.shell.navigation import link
from analysis.ui.shell.resources import cached, database, theme

#: Keys, and parameters in the address.
WHERE, JOBS = "where", "together"

#: Jobs in one picture.
MOST_JOBS = 4

_STATES = {
    "over": "more than it has",
    "shared": "leaned on by several",
    "one": "leaned on by one",
    "free": "leaned on by none",
    "unknown": "not stated by every profile",
}


def pick(chosen: Filter) -> pd.DataFrame | None:
    """Ask for a GPU and the jobs on it; None while no GPU has two profiles."""
    lean = cached(resources.leaning, database(), chosen)
    if lean.empty:
        return None
    counts = lean.groupby("gpu")["workload"].nunique().sort_values(ascending=False, kind="stable")
    gpus = [str(gpu) for gpu in counts.index if counts[gpu] >= 2]
    if not gpus:
        return None
    gpu = filters.pick("GPU", gpus, key=WHERE)
    there = lean[lean["gpu"] == (gpu if gpu in gpus else gpus[0])]
    names = list(dict.fromkeys(there["workload"].astype(str)))
    picked = st.multiselect(
        "Jobs side by side", names, default=names[:2], key=JOBS, max_selections=MOST_JOBS, bind="query-params",
        persist_state="session", placeholder="Choose two or more",
    )  # fmt: skip
    return there[there["workload"].isin(picked)].reset_index(drop=True)


def costs(lean: pd.DataFrame) -> pd.DataFrame:
    """Return what the jobs pay beside each other, measured or predicted."""
    dataset, gpu = str(lean["dataset"].iloc[0]), str(lean["gpu"].iloc[0])
    jobs = tuple(dict.fromkeys(lean["workload"].astype(str)))
    return cached(alongside.pairwise, database(), dataset, gpu, jobs)


def answer(lean: pd.DataFrame, pairs: pd.DataFrame) -> str:
    """Say what they lean on together and what it costs."""
    return markdown.sentence(f"{resources.sentence(lean)} {alongside.sentence(pairs)}".strip(), 2000)


def show(lean: pd.DataFrame, pairs: pd.DataFrame) -> None:
    """Show the overlap, what it costs, and where to go on."""
    figure = overlap_bars(lean, limits=(resources.LEANS, resources.WAITS), theme=theme())
    frame.chart(figure, name="overlap", alt=alt_text(figure), table=lean, columns=COLUMNS)
    together = resources.overlap(lean).assign(state=lambda table: table["state"].map(_STATES))
    frame.subheading("Together")
    frame.data(
        together.drop(columns=["resource", "shared"]),
        name="together",
        columns={
            **COLUMNS,
            "jobs": st.column_config.NumberColumn("Jobs that lean on it", format="%d"),
            "asked": st.column_config.NumberColumn("Asked together, % of its peak", format="%.1f"),
            "smallest_wait": st.column_config.NumberColumn("Least wait, % of warp cycles", format="%.1f"),
            "state": "State",
        },
    )
    st.caption(
        f"A job leans on a resource from {resources.LEANS:g} % of its peak on; where no counter states its use, from "
        f"{resources.WAITS:g} % of warp cycles waiting for it on. A wait for the long scoreboard is for global or "
        "local memory: whether that is DRAM only the throughput of DRAM can say."
    )
    frame.subheading("What it costs them")
    frame.data(pairs, name="costs", columns=COLUMNS)
    known = pairs[pairs["origin"].isin([alongside.MEASURED, alongside.FAILED])]
    with st.container(horizontal=True):
        if len(known):
            row = known.iloc[0]
            query = {
                "slowed": str(row["workload"]),
                "beside": str(row["beside"]),
                "dataset": str(lean["dataset"].iloc[0]),
            }
            link("interference", "The runs behind it", **query)
        link("what-if", "Ask a model")


def caveats(lean: pd.DataFrame) -> list[str]:
    """Say whose waits cost nothing alone, and what the profiles don't state."""
    said = [
        f"The schedulers of {name} issue in most of their cycles: alone its waits are hidden behind other warps."
        for name in resources.hidden(lean)
    ]
    otherwise = resources.differently_counted(lean)
    said += [otherwise] if otherwise else []
    silent = lean[(lean["resource"] == "dram") & lean["use"].isna()]["workload"]
    if len(silent):
        said.append(
            f"{', '.join(map(str, silent))}: no DRAM throughput was counted; profile with `--section SpeedOfLight`."
        )
    return said
