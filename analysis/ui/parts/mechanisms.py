"""The parts of the page about sharing mechanisms: measured sets, and any jobs simulated."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import streamlit as st

from analysis.charts.mechanisms import mechanism_panels
from analysis.charts.theme import alt_text
from analysis.interference.collocation import aggregate_memory, mps_or_mig, serial_gain, smallest_profiles
from analysis.interference.mechanisms import MEASURES, answer, common_sets, summary
from analysis.numbers import significant
from analysis.reference import gpus, mig
from analysis.reference import isolation as facts
from analysis.sharing.compare import as_frame, co_runs, members, shares_note
from analysis.sharing.demands import machines
from analysis.sharing.online import beside_truth
from analysis.sharing.simulate import CoRun, Simulator
from analysis.sharing.workloads import sample_workloads
from analysis.store.filters import Filter
from analysis.store.queries import coruns
from analysis.ui.shell import frame
from analysis.ui.shell.columns import configured
from analysis.ui.shell.filters import pick
from analysis.ui.shell.markdown import plain, sentence
from analysis.ui.shell.resources import cached, database, theme

ALL = "All sets, on average"
_COLUMNS = configured(
    "mechanism", "setting", "sets", "did_not_run", "overloaded", "stp", "together", "antt", "fairness", "jain",
    "worst", "p99_inflation", mechanism={"pinned": True},
)  # fmt: skip
_MEMBER_COLUMNS = configured(
    "mechanism", "setting", "workload/job", "first", "slowdown", "p50_solo_ms", "p50_ms", "p99_solo_ms", "p99_ms",
    "step_p50_ms", "step_p99_ms", "utilisation", "outcome", "note", mechanism={"pinned": True},
)  # fmt: skip
_ONLINE_COLUMNS = configured("workload/job", "slowdown/simulated", "online", "label", workload={"pinned": True})


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


_MEMBERS: dict[str, Any] = configured(
    "mechanism", "run_id", "workload/job", "slowdown", "measure", "unit", "solo_value", "corun_value", "p99_solo_ms",
    "p99_corun_ms", "thread_percentage", "memory_cap_mib", "mig_profile", "priority", "outcome", "note",
    mechanism={"pinned": True},
)  # fmt: skip
_SETS: dict[str, Any] = configured(
    "gpu", "set", "better", "mps", "mps_stp", "mps_worst", "mig", "mig_stp", "mig_worst", "memory", "needed_mib",
    "capacity_mib", "mechanism", "setting", "gain/work", "basis/for", gpu={"pinned": True},
)  # fmt: skip
_FACTS = {
    "mechanism": "Mechanism",
    "memory_protection": "Memory protection",
    "faults": "Fault domain",
    "memory_capacity": "How much memory",
    "bandwidth": "Bandwidth and caches",
    "source": "Source",
}


def show_members(runs: pd.DataFrame, name: str) -> None:
    """Show each job under each mechanism: throughput, step or epoch time, p99, caps."""
    table = cached(coruns.members, database(), Filter(datasets=(name,)))
    table = table[table["run_id"].isin(runs["run_id"])]
    table = table.sort_values(["mechanism", "run_id", "slot"], kind="stable")
    shown = [column for column in _MEMBERS if table[column].notna().any()]
    with st.expander("Each job: throughput or time, p99, caps", icon=":material/table_rows:"):
        frame.data(table[shown], name="jobs-by-mechanism", columns=_MEMBERS)


def questions(runs: pd.DataFrame, name: str) -> None:
    """Answer the questions of a collocation study from these sets."""
    frame.subheading("Collocation, question by question")
    _mps_or_mig(runs)
    _memory(runs, name)
    _gain(runs, name)
    _profiles(runs, name)


def _question(text: str, answer: str, table: pd.DataFrame | None, key: str, columns: dict[str, Any]) -> None:
    st.markdown(f"**{text}** {sentence(answer)}")
    if table is not None and len(table):
        with st.expander(
            "The sets behind it" if not key.startswith("mig-profiles") else "Job by job", icon=":material/table_rows:"
        ):
            frame.data(table, name=key, columns=columns)


def _mps_or_mig(runs: pd.DataFrame) -> None:
    table = mps_or_mig(runs)
    counts = table["better"].value_counts()
    if table.empty:
        said = "No set here was tried under both, so these data can't tell."
    else:
        won = int(counts.get("MPS", 0))
        parts = [f"MPS got more done in {won} of {frame.count(len(table), 'set')} that were tried under both"]
        both = table.dropna(subset=["mps_stp", "mig_stp"])
        if len(both):
            parts.append(
                f"at the median its STP was {both['mps_stp'].median():.2f} against {both['mig_stp'].median():.2f}, the "
                f"worst S {both['mps_worst'].median():.2f} x against {both['mig_worst'].median():.2f} x"
            )
        said = "; ".join(parts) + ". MIG isolates what MPS does not: see below."
    _question("Is MPS better than MIG?", said, _with_set(table), "mps-or-mig", _SETS)


def _memory(runs: pd.DataFrame, name: str) -> None:
    table = aggregate_memory(database(), name, runs)
    counts = table["memory"].value_counts()
    words = {"fits": "fits in", "tight": "is tight in", "does_not_fit": "does not fit in", "unknown": "is unknown in"}
    parts = [f"{word} {int(counts[key])}" for key, word in words.items() if key in counts]
    said = f"Of {frame.count(len(table), 'set')} it {', '.join(parts)}."
    if "unknown" in counts:
        said += " Unknown: a job's peak memory, or the size of the GPU's, is not in these data; nothing is called safe."
    shown = _with_set(table)[["gpu", "set", "memory", "needed_mib", "capacity_mib"]]
    _question("Does the memory of all fit?", said, shown, "aggregate-memory", _SETS)


def _gain(runs: pd.DataFrame, name: str) -> None:
    table = serial_gain(database(), name, runs)
    if table.empty:
        _question("What is gained over taking turns?", "No set here ran with all its values.", None, "gain", _SETS)
        return
    best = table.iloc[0]
    means = table.groupby("mechanism")["gain"].median().sort_values(ascending=False)
    said = (
        f"Most under {best['mechanism']}: {significant(float(best['gain']))} times the work of taking turns in the "
        f"same time, for {' + '.join(best['jobs'])} on {best['gpu']} ({best['basis']}). Medians: "
        + ", ".join(f"{mechanism} {value:.2f}" for mechanism, value in means.items())
        + "."
    )
    shown = _with_set(table)[["gpu", "set", "mechanism", "setting", "gain", "basis"]]
    _question("What is gained over taking turns?", said, shown, "serial-gain", _SETS)


def _profiles(runs: pd.DataFrame, name: str) -> None:
    """Say which MIG profile holds each job, and what a device plugin's replicas would leave each of them."""
    st.markdown(
        "**Which is the smallest MIG profile for each job, and how many replicas may there be?** A device plugin with "
        "R replicas gives each MPS client 100/R % of the threads and of the memory; the tables have the largest R that "
        "each job's memory allows. Runs without caps say nothing of such clients."
    )
    for gpu in dict.fromkeys(runs["gpu"].astype(str)):
        table = cached(smallest_profiles, database(), name, gpu)
        sizes = list(mig.profiles(gpu))
        known = table["needed_mib"].notna()
        if not sizes:
            said = f"{gpu} has no MIG."
        elif not known.any():
            said = f"Unknown on {gpu}: no job's peak memory is in these data."
        else:
            parts = []
            for size in sizes:
                counts = table.loc[known, f"profile_{size}"].value_counts()
                parts.append(f"on {size} " + ", ".join(f"{profile} for {count}" for profile, count in counts.items()))
            said = f"By memory, {'; '.join(parts)} of {frame.count(int(known.sum()), 'job')} with a known peak."
        columns = {
            **configured("workload/job", "needed_mib", workload={"pinned": True}),
            **{f"profile_{size}": st.column_config.TextColumn(f"Smallest profile, {size}") for size in sizes},
            **configured("replicas", "measured/mig"),
        }
        _question(f"Smallest MIG profile on {plain(gpu)}?", said,
                  table if known.any() else None, f"mig-profiles-{gpu}", columns)  # fmt: skip


def _with_set(table: pd.DataFrame) -> pd.DataFrame:
    """Write the jobs of a set as one text, after the GPU."""
    texts = [" + ".join(map(str, jobs)) for jobs in table["jobs"]]
    found = table.drop(columns="jobs")
    found.insert(1, "set", texts)
    return found


def isolation(mechanisms: Sequence[str] = ()) -> None:
    """Show what each mechanism isolates and what it does not, as plain facts with their sources."""
    frame.subheading("What the mechanism does not isolate")
    table = facts.of(mechanisms) if mechanisms else facts.load()
    if any("MPS" in name for name in table["mechanism"]):
        st.markdown(
            "Under CUDA MPS **a fatal fault of one client ends every client on that GPU**, and nobody's share of the "
            "memory bandwidth is kept for them."
        )
    # A table of sentences has to wrap, which the grid of other tables does not.
    shown = table.rename(columns=_FACTS).set_index(_FACTS["mechanism"])
    shown.index = pd.Index([plain(name) for name in shown.index], name=_FACTS["mechanism"])
    st.table(shown)
    frame.download(table, name="isolation")
