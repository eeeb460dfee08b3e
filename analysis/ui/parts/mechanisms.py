"""The parts of the page about sharing mechanisms: measured sets, and any jobs simulated."""

from __future__ import annotations

import numpy as np
import pandas as pd
import streamlit as st

from analysis.charts.mechanisms import mechanism_panels
from analysis.charts.theme import alt_text
from analysis.interference.mechanisms import MEASURES, answer, common_sets, summary
from analysis.reference import gpus
from analysis.sharing.compare import as_frame, co_runs, members, shares_note
from analysis.sharing.hardware import machines
from analysis.sharing.online import beside_truth
from analysis.sharing.simulate import CoRun, Simulator
from analysis.sharing.workloads import sample_workloads
from analysis.ui.shell import frame
from analysis.ui.shell.filters import pick
from analysis.ui.shell.markdown import sentence
from analysis.ui.shell.resources import theme

ALL = "All sets, on average"
_COLUMNS = {
    "mechanism": st.column_config.TextColumn("Mechanism", pinned=True),
    "setting": st.column_config.TextColumn("Setting"),
    "sets": st.column_config.NumberColumn("Sets that ran"),
    "did_not_run": st.column_config.NumberColumn("Did not run"),
    "overloaded": st.column_config.NumberColumn("Sets with a server that can't keep up"),
    "stp": st.column_config.NumberColumn("STP", format="%.2f"),
    "together": st.column_config.NumberColumn("Together, min (100 one after the other)", format="%.0f"),
    "antt": st.column_config.NumberColumn("ANTT (x)", format="%.2f"),
    "fairness": st.column_config.NumberColumn("Fairness", format="%.2f"),
    "jain": st.column_config.NumberColumn("Jain's index", format="%.3f"),
    "worst": st.column_config.NumberColumn("Worst S (x)", format="%.2f"),
    "p99_inflation": st.column_config.NumberColumn("p99 inflation (x)", format="%.2f"),
}
_MEMBER_COLUMNS = {
    "mechanism": st.column_config.TextColumn("Mechanism", pinned=True),
    "setting": st.column_config.TextColumn("Given", width=90),
    "workload": st.column_config.TextColumn("Job"),
    "first": st.column_config.CheckboxColumn("Goes first"),
    "slowdown": st.column_config.NumberColumn("S (x)", format="%.2f"),
    "p50_solo_ms": st.column_config.NumberColumn("p50 alone (ms)", format="%.4g"),
    "p50_ms": st.column_config.NumberColumn("p50 shared (ms)", format="%.4g"),
    "p99_solo_ms": st.column_config.NumberColumn("p99 alone (ms)", format="%.4g"),
    "p99_ms": st.column_config.NumberColumn("p99 shared (ms)", format="%.4g"),
    "step_p50_ms": st.column_config.NumberColumn("p50 of a step (ms)", format="%.4g"),
    "step_p99_ms": st.column_config.NumberColumn("p99 of a step (ms)", format="%.4g"),
    "utilisation": st.column_config.NumberColumn("Server's utilisation", format="%.2f"),
    "outcome": st.column_config.TextColumn("Outcome"),
    "note": st.column_config.TextColumn("Remark"),
}
_ONLINE_COLUMNS = {
    "workload": st.column_config.TextColumn("Job", pinned=True),
    "slowdown": st.column_config.NumberColumn("S, simulated (x)", format="%.2f"),
    "online": st.column_config.NumberColumn("S, read online (x)", format="%.2f"),
    "label": st.column_config.TextColumn("What it is"),
}


def measured(runs: pd.DataFrame) -> pd.DataFrame:
    """Show the comparison of the runs in the database: one set, or the mean of those that ran everywhere; return it."""
    sets = common_sets(runs)
    everything = runs[["gpu", "jobs"]].drop_duplicates()
    named = {f"{' + '.join(jobs)} on {gpu}": (gpu, jobs) for gpu, jobs in everything.itertuples(index=False)}
    picked = pick("Jobs", [ALL, *named], key="set", show=str) or ALL
    if picked in named:
        gpu, jobs = named[picked]
        shown = runs[np.array([key == (gpu, jobs) for key in zip(runs["gpu"], runs["jobs"], strict=True)], dtype=bool)]
        note = ""
    else:
        shown = (
            runs[np.array([key in set(sets) for key in zip(runs["gpu"], runs["jobs"], strict=True)], dtype=bool)]
            if sets
            else runs
        )
        left = len(everything) - len(sets)
        note = f"{frame.count(left, 'set')} did not run under every mechanism and stay out." if sets and left else ""
        if not sets:
            note = "No set ran under every mechanism, so the rows stand for different sets."
    table = summary(shown)
    frame.answer(sentence(answer(table)))
    _draw(table, shown, "mechanisms")
    missing = shown[(shown["outcome"] != "ran") | (shown["overloaded"].astype(bool))]
    caveats = [note] if note else []
    caveats += [
        f"{' + '.join(str(job) for job in jobs)} under {mechanism}: {reason}."
        for jobs, mechanism, reason in missing[["jobs", "mechanism", "note"]].head(20).to_numpy(dtype=object)
    ]
    frame.basis(
        frame.count(len(shown), "run"),
        frame.count(len(shown[["gpu", "jobs"]].drop_duplicates()), "set of jobs", "sets of jobs"),
        frame.count(shown["mechanism"].nunique(), "mechanism"),
        simulated=bool(shown["simulated"].any()),
    )
    frame.caveats(caveats)
    return shown


def simulated() -> None:
    """Show the same for any jobs of the sample on any GPU, computed on the spot."""
    names = [workload.name for workload in sample_workloads()]
    with st.container(horizontal=True, vertical_alignment="bottom"):
        gpu = st.selectbox(
            "GPU", machines(), index=machines().index("A100-80GB"), key="simulated-gpu", width=200,
            bind="query-params", persist_state="session",
        )  # fmt: skip
        jobs = st.multiselect(
            "Jobs, two to four", names, default=[names[6], names[0]], max_selections=4, key="simulated-jobs",
            bind="query-params", persist_state="session",
        )  # fmt: skip
    if len(jobs) < 2:
        st.caption("Choose at least two jobs.")
        return
    found = _simulated(str(gpu), tuple(jobs))
    runs, rows = as_frame(found), members(found)
    table = summary(runs)
    frame.answer(sentence(answer(table)))
    _draw(table, runs, "simulated-mechanisms")
    frame.subheading("Each job")
    frame.data(rows, name="simulated-members", columns=_MEMBER_COLUMNS)
    words = ["Where a mechanism lets someone go first, it is the first job chosen.", shares_note(found, len(jobs))]
    if any("prefill" in one for one in jobs):
        words.insert(0, "p50 and p99 of LLM prefill are the **TTFT**, the time to the first token.")
    if any("decode" in one for one in jobs):
        words.insert(0, "A step of LLM decoding is the **TPOT**, the time per output token.")
    st.caption(" ".join(filter(None, words)))
    online(str(gpu), tuple(jobs))
    frame.basis("the queueing model of the guide", f"{gpu}: published figures", simulated=True)
    missing = runs[(runs["outcome"] != "ran") | runs["overloaded"].astype(bool)]
    frame.caveats([f"Under {row.mechanism}: {row.note}." for row in missing.itertuples(index=False)])


def online(gpu: str, jobs: tuple[str, ...]) -> None:
    """Show the online variant of the white-box predictor beside the simulated slowdowns, and that it is no rival."""
    serving = {workload.name for workload in sample_workloads() if workload.service}
    running = tuple(job for job in jobs if job not in serving)
    with st.expander("Online: what stalls during the co-run itself would say", icon=":material/monitoring:"):
        st.caption(
            "The online variant of the white-box predictor reads stalls taken during the co-run under CUDA MPS. "
            "Profilers can't see those, so it exists for simulated data only, and it is never ranked beside predictors "
            "that know the jobs alone."
        )
        if len(running) < 2:
            st.caption("It needs two jobs that run all the time; a server's load does not show in its stalls.")
            return
        rows = _online(gpu, running)
        if rows.empty:
            st.caption("These do not fit into memory together.")
            return
        frame.data(rows.drop(columns=["co_workloads", "gpu", "simulated"]), name="online", columns=_ONLINE_COLUMNS)


@st.cache_data(show_spinner="Solving the queueing network …", max_entries=100)
def _online(gpu: str, jobs: tuple[str, ...]) -> pd.DataFrame:
    kept = [workload for workload in sample_workloads() if workload.name in jobs]
    return beside_truth(Simulator(gpus.canonical(gpu), kept), jobs)


@st.cache_data(show_spinner="Solving the queueing network …", max_entries=100)
def _simulated(gpu: str, jobs: tuple[str, ...]) -> list[CoRun]:
    kept = [workload for workload in sample_workloads() if workload.name in jobs]
    return co_runs(Simulator(gpus.canonical(gpu), kept), jobs)


def _draw(table: pd.DataFrame, runs: pd.DataFrame, name: str) -> None:
    figure = mechanism_panels(table.dropna(subset=["stp"]), runs, theme=theme())
    kept = ["mechanism", "setting", "sets", "did_not_run", "overloaded", *MEASURES]
    frame.chart(figure, name=name, alt=alt_text(figure), table=table[kept], columns=_COLUMNS)
