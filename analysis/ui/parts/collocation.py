"""Sharing mechanisms on a page, further parts: each job, the questions of a collocation study, what is not isolated."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd
import streamlit as st

from analysis.interference.collocation import aggregate_memory, mps_or_mig, serial_gain, smallest_profiles
from analysis.numbers import significant
from analysis.reference import isolation as facts
from analysis.reference import mig
from analysis.store.filters import Filter
from analysis.store.queries import coruns
from analysis.ui.shell import frame
from analysis.ui.shell.markdown import plain, sentence
from analysis.ui.shell.resources import cached, database

_MEMBERS: dict[str, Any] = {
    "mechanism": st.column_config.TextColumn("Mechanism", pinned=True),
    "run_id": st.column_config.NumberColumn("Run", format="%d"),
    "workload": st.column_config.TextColumn("Job", width="medium"),
    "slowdown": st.column_config.NumberColumn("S, x", format="%.2f"),
    "measure": "Measured",
    "unit": "Unit",
    "solo_value": st.column_config.NumberColumn("Alone", format="%.4g"),
    "corun_value": st.column_config.NumberColumn("Shared", format="%.4g"),
    "p99_solo_ms": st.column_config.NumberColumn("p99 alone, ms", format="%.4g"),
    "p99_corun_ms": st.column_config.NumberColumn("p99 shared, ms", format="%.4g"),
    "thread_percentage": st.column_config.NumberColumn("Threads, %", format="%.0f"),
    "memory_cap_mib": st.column_config.NumberColumn("Memory cap, MiB", format="localized"),
    "mig_profile": "MIG profile",
    "priority": "Priority",
    "outcome": "Outcome",
    "note": "Note",
}
_SETS: dict[str, Any] = {
    "gpu": st.column_config.TextColumn("GPU", pinned=True),
    "set": st.column_config.TextColumn("Jobs", width="large"),
    "better": "Better",
    "mps": "Best under MPS",
    "mps_stp": st.column_config.NumberColumn("STP", format="%.2f"),
    "mps_worst": st.column_config.NumberColumn("Worst S, x", format="%.2f"),
    "mig": "Best under MIG",
    "mig_stp": st.column_config.NumberColumn("STP ", format="%.2f"),
    "mig_worst": st.column_config.NumberColumn("Worst S, x ", format="%.2f"),
    "memory": "Memory",
    "needed_mib": st.column_config.NumberColumn("Needed, MiB", format="localized"),
    "capacity_mib": st.column_config.NumberColumn("The GPU has, MiB", format="localized"),
    "mechanism": "Mechanism",
    "setting": "Given",
    "gain": st.column_config.NumberColumn("Work in the same time, in turn = 1", format="%.2f"),
    "basis": "For",
}
_FACTS = {
    "mechanism": "Mechanism",
    "memory_protection": "Memory protection",
    "faults": "Fault domain",
    "memory_capacity": "How much memory",
    "bandwidth": "Bandwidth and caches",
    "source": "Source",
}


def members(runs: pd.DataFrame, name: str) -> None:
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
            "workload": st.column_config.TextColumn("Job", width="medium", pinned=True),
            "needed_mib": st.column_config.NumberColumn("Needs, MiB", format="localized"),
            **{f"profile_{size}": st.column_config.TextColumn(f"Smallest profile, {size}") for size in sizes},
            "replicas": st.column_config.NumberColumn("Replicas at most", format="%d"),
            "measured": st.column_config.TextColumn("Measured in MIG", width="large"),
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
