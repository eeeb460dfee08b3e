"""What do I have and what can I ask?"""

import pandas as pd
import streamlit as st

from analysis.charts.coverage_grid import coverage_grid
from analysis.charts.slowdown_heatmap import MOST
from analysis.charts.theme import alt_text
from analysis.interference.checks import run_checks
from analysis.interference.matrix import slowdown_matrix
from analysis.predict.models.judged import in_short, judged_pairs
from analysis.store.queries import coruns, sources
from analysis.ui.parts.next_step import answerable, next_step
from analysis.ui.shell import empty, filters, frame, navigation, sample
from analysis.ui.shell.columns import configured
from analysis.ui.shell.markdown import plain, sentence
from analysis.ui.shell.resources import cached, database, theme

PAGE_OF = {
    "Why does a job wait?": "stalls",
    "Who hurts whom?": "interference",
    "How well can slowdown be predicted here?": "train",
    "What will a set that never ran cost?": "what-if",
}


def start() -> None:
    frame.header("What do I have and what can I ask?")
    said = "The simulated sample is loading." if sample.loading() else "Nothing is loaded yet."
    frame.answer(
        f"{said} StallScope shows **why training jobs wait**, **what sharing a GPU costs them**, "
        "and **what a set that never ran would cost**."
    )
    empty.state("Bring your own measurements, or start from public ones.", empty.PROFILE, empty.CORUN)


def step(counts: dict[str, int]) -> None:
    """Show the next best step as a button."""
    found = next_step(counts)
    with st.container(border=True, horizontal=True, vertical_alignment="center", horizontal_alignment="distribute"):
        st.markdown(f"**Next:** {found.sentence}", width="content")
        if st.button(found.label, type="primary", icon=":material/arrow_forward:", icon_position="right"):
            st.switch_page(navigation.path(found.page))


def cards(counts: dict[str, int], findings: int) -> None:
    """Show what there is, as figures."""
    shown = {
        "GPUs": counts["gpus"],
        "Workloads": counts["workloads"],
        "Profiles": counts["profiles"],
        "Co-runs": counts["runs"],
        "Models": counts["models"],
        "Findings": findings,
    }
    for column, (label, value) in zip(st.columns(len(shown)), shown.items(), strict=True):
        column.metric(label, f"{value:,}", border=True)


def questions(counts: dict[str, int]) -> None:
    """Say which questions the data can answer, each with the way to its page."""
    for column, (question, able) in zip(st.columns(4), answerable(counts).items(), strict=True):
        with column, st.container(border=True, height="stretch", vertical_alignment="distribute"):
            icon = ":green[:material/check_circle:]" if able else ":gray[:material/radio_button_unchecked:]"
            st.markdown(f"{icon} **{question}**")
            navigation.link(PAGE_OF[question], "Open" if able else "See what it needs")


def grid(name: str) -> None:
    """Show what is known of each workload on each GPU."""
    known = cached(sources.grid, database(), name)
    if known.empty:
        return
    st.subheader("What is known of each workload on each GPU", anchor=False)
    table = known.rename(
        columns={
            "profiled": "stall profile or counters",
            "partners": "partners co-run",
            "possible": "partners possible",
            "largest_k": "most jobs at once",
        }
    )
    figure = coverage_grid(known, theme=theme())
    frame.chart(figure, name="coverage-grid", alt=alt_text(figure), table=table)


def summary(name: str, counts: dict[str, int], choices: dict[str, list[str]]) -> str:
    """Say in a sentence what the data set holds."""
    gpus = choices["gpu"]
    where = f"on {plain(', '.join(gpus[:4]), 120)}" + (f" and {len(gpus) - 4} more GPUs" if len(gpus) > 4 else "")
    parts = []
    if counts["profiles"]:
        launches = frame.count(counts["launches"], "launch", "launches")
        parts.append(f"**{frame.count(counts['profiles'], 'profile')}** ({launches})")
    if counts["runs"]:
        parts.append(f"**{frame.count(counts['runs'], 'co-run')}** ({frame.count(counts['pairs'], 'distinct pair')})")
    what = " and ".join(parts) or "no profile and no co-run"
    return f"{plain(name)} holds {what} of **{frame.count(counts['workloads'], 'workload')}** {where}."


def verdicts(name: str) -> None:
    """Say how many pairs may share at the limit, as every other page says it, with the way to them."""
    places = cached(coruns.gpus_and_mechanisms, database(), name)
    if places.empty:
        return
    first = places.sort_values("runs", ascending=False, kind="stable").iloc[0]
    gpu, mechanism = str(first["gpu"]), str(first["mechanism"])
    matrix = cached(slowdown_matrix, database(), name, gpu, mechanism)
    if not matrix.n or len(matrix.workloads) > MOST:
        return
    limit = filters.limit()
    pairs = cached(judged_pairs, database(), name, gpu, mechanism, limit)
    with st.container(horizontal=True, vertical_alignment="center", key="verdicts"):
        st.markdown(sentence(in_short(pairs, gpu, limit, simulated=matrix.simulated), 400))
        navigation.link("partners", "Who may share", dataset=name)


def page() -> None:
    name = filters.dataset()
    if name is None:
        start()
        return
    counts = cached(sources.counts, database(), name)
    based = cached(sources.basis, database(), name)
    frame.header("What do I have and what can I ask?", filters.chosen("dataset"), simulated=based["simulated"] > 0)
    frame.answer(summary(name, counts, filters.options(name)))
    verdicts(name)
    step(counts)
    findings = cached(run_checks, database(), name)
    cards(counts, len(findings))
    questions(counts)
    grid(name)
    everything: pd.DataFrame = cached(sources.datasets, database())
    if len(everything) > 1:
        st.subheader("All data sets", anchor=False)
        frame.data(
            everything.drop(columns=["citation"]),
            name="data-sets",
            columns=configured(
                "name/dataset", "title", "simulated", "licence", "sources", "workloads", "profiles", "runs/coruns"
            ),
        )
    frame.basis(frame.count(counts["sources"], "source"), simulated=based["simulated"] > 0)


page()
