"""Parts of the Stalls page: the verdicts in a sentence and a table, and one job opened up kernel by kernel."""

from __future__ import annotations

from typing import Any

import pandas as pd
import streamlit as st

from analysis.charts.stall_bars import stall_bars
from analysis.charts.stall_heatmap import stall_heatmap
from analysis.charts.theme import alt_text, reason_title
from analysis.numbers import significant
from analysis.reference import stall_reasons
from analysis.stalls.shares import ENOUGH_ACCOUNTED, stall_shares
from analysis.stalls.verdict import verdicts
from analysis.stalls.weights import SENTENCES
from analysis.store.filters import Filter
from analysis.store.queries import profiles
from analysis.ui import frame, markdown
from analysis.ui.resources import cached, database, theme

#: Key, and parameter in the address, of the job that is opened up.
JOB = "job"
UNITS = {"share": "Share of warp cycles", "cycles": "Cycles per issued instruction"}

#: Kernels in the picture; the table holds all.
MOST_KERNELS = 25

_COLUMNS: dict[str, Any] = {
    "workload": st.column_config.TextColumn("Workload", width="medium", pinned=True),
    "gpu": "GPU",
    "kernel": st.column_config.TextColumn("Kernel", width="large"),
    "short_name": st.column_config.TextColumn("Kernel", width="medium"),
    "grid": "Grid",
    "block": "Block",
    "reason": "Reason",
    "group": "Group",
    "share": st.column_config.NumberColumn("Share, %", format="%.2f"),
    "cycles": st.column_config.NumberColumn("Cycles per issue", format="%.4g"),
    "total": st.column_config.NumberColumn("Total, cycles per issue", format="%.4g"),
    "accounted": st.column_config.NumberColumn("Accounted, %", format="%.1f"),
    "launches": st.column_config.NumberColumn("Launches", format="localized"),
    "kernels": st.column_config.NumberColumn("Kernels", format="localized"),
    "kind": "Verdict",
    "stall_family": "Family of metrics",
    "weight": "Weight",
    "profiled": st.column_config.NumberColumn("Profiled GPU time, %", format="%.1f"),
    "sources": "Sources",
    "simulated": st.column_config.CheckboxColumn("Simulated"),
    "sentence": st.column_config.TextColumn("In words", width="large"),
}


def sentence(table: pd.DataFrame) -> str:
    """Answer in a sentence: the verdict of the one job, or how many of which kind and the most extreme."""
    if len(table) == 1:
        row = table.iloc[0]
        name, gpu = markdown.plain(row["workload"]), markdown.plain(row["gpu"])
        return f"**{name}** on {gpu}. {markdown.sentence(row['sentence'])}"
    kinds = table["kind"].value_counts()
    parts = [f"{count} {kind}" for kind, count in kinds.items() if kind != "unknown"]
    unknown = int(kinds.get("unknown", 0))
    parts += [f"{unknown} without a verdict"] if unknown else []
    text = f"**{len(table)} profiles**: {', '.join(parts)}."
    known = table[table["share"].notna() & (table["kind"] != "unknown")]
    if known.empty:
        return text
    worst = known.sort_values("share", ascending=False, kind="stable").iloc[0]
    reason = f", mostly {reason_title(worst['reason']).lower()}" if worst["reason"] else ""
    return (
        f"{text} {markdown.plain(worst['workload'])} on {markdown.plain(worst['gpu'])} is the clearest case: "
        f"{markdown.plain(worst['kind'])}, {significant(worst['share'])} % of its warp cycles{reason}."
    )


def overview(chosen: Filter) -> None:
    """Show one bar a job, and the verdicts as a table."""
    shares = cached(stall_shares, database(), chosen, "workload")
    has_cycles = bool(shares["cycles"].notna().any())
    unit = _unit(has_cycles, "unit")
    figure = stall_bars(shares, unit=unit, theme=theme())
    frame.chart(figure, name="stall-shares", alt=alt_text(figure), table=shares, columns=_COLUMNS)
    weights = sorted({SENTENCES[name] for name in shares["weight"] if name in SENTENCES})
    st.caption(" ".join(weights))


def job(chosen: Filter) -> None:
    """Open one job up: its verdict, its kernels by reasons, what helps."""
    table = cached(verdicts, database(), chosen, "workload")
    keys = table[["dataset", "workload", "gpu"]].astype(str).to_numpy().tolist()
    places = {f"{workload} · {gpu}": (dataset, workload, gpu) for dataset, workload, gpu in keys}
    st.subheader("One job, kernel by kernel", anchor=False)
    name = st.selectbox("Job", list(places), key=JOB, bind="query-params", persist_state="session", width=560)
    if name not in places:
        return
    dataset, workload, gpu = places[name]
    own = Filter(datasets=(dataset,), workloads=(workload,), gpus=(gpu,))
    row = table[(table["workload"] == workload) & (table["gpu"] == gpu)].iloc[0]
    if len(table) > 1:
        st.markdown(markdown.sentence(row["sentence"]))
    if row["helps"]:
        st.markdown(f":material/build: **What usually helps:** {markdown.sentence(row['helps'])}")
    shares = cached(stall_shares, database(), own, "kernel")
    if shares.empty:
        return
    figure = stall_heatmap(shares, unavailable=_unavailable(own, shares), theme=theme(), most=MOST_KERNELS)
    frame.chart(figure, name="kernels-by-reasons", alt=alt_text(figure), table=shares, columns=_COLUMNS)


def verdict_table(table: pd.DataFrame) -> None:
    """Show all verdicts."""
    columns = ["workload", "gpu", "kind", "share", "accounted", "launches", "simulated", "sentence"]
    frame.data(table[columns], name="verdicts", columns=_COLUMNS)


def caveats(table: pd.DataFrame) -> list[str]:
    """Say which profiles explain too little of their warp cycles."""
    low = table[table["accounted"] < ENOUGH_ACCOUNTED]
    return [
        f"{row['workload']} on {row['gpu']}: the reported reasons account for {significant(row['accounted'])} % of the "
        "warp cycles; the rest is drawn as unaccounted."
        for row in low.to_dict("records")
    ]


def rule_texts(chosen: Filter) -> pd.DataFrame:
    """Return the top reasons that the profiler's rules name, for profiles that hold no stall metrics."""
    rules = cached(profiles.rules, database(), chosen)
    named = rules[rules["top_reason"].notna()]
    columns = ["workload", "gpu", "kernel", "top_reason", "top_share", "source_id"]
    return named[columns].reset_index(drop=True)


def show_rules(named: pd.DataFrame) -> None:
    """Show what only the rule texts say, marked as such."""
    st.subheader("Named by the profiler's rules only", anchor=False)
    st.caption(
        "These profiles hold no stall metrics. Their rule texts name the largest reason of some kernels; "
        "the other reasons are unknown, not zero."
    )
    frame.data(
        named.assign(top_reason=[reason_title(name) for name in named["top_reason"]]).drop(columns=["source_id"]),
        name="rule-texts",
        columns={
            **_COLUMNS,
            "top_reason": "Largest reason, by rule text",
            "top_share": st.column_config.NumberColumn("Its share, %", format="%.1f"),
        },
    )


def _unit(has_cycles: bool, key: str) -> str:
    if not has_cycles:
        return "share"
    picked = st.segmented_control(
        "Unit", list(UNITS), default="share", required=True, format_func=UNITS.__getitem__, key=key,
        label_visibility="collapsed", bind="query-params", persist_state="session",
    )  # fmt: skip
    return str(picked or "share")


def _unavailable(own: Filter, shares: pd.DataFrame) -> tuple[str, ...]:
    """Return the reasons that the job's GPU can't report, by its compute capability."""
    kernels = cached(profiles.kernels, database(), own)
    known = kernels["cc"].dropna().value_counts()
    if known.empty:
        return ()
    there = set(stall_reasons.available(str(known.index[0])))
    return tuple(name for name in stall_reasons.load().index if name not in there and name not in set(shares["reason"]))
