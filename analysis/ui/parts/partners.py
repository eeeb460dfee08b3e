"""The parts of the page about partners: the picture, the partners of one job, and those who should never meet."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import streamlit as st

from analysis.charts.sensitivity_pressure import sensitivity_pressure
from analysis.charts.theme import alt_text
from analysis.interference.partners import never_meet
from analysis.numbers import slowdown
from analysis.reference.origin import word
from analysis.ui.shell import frame
from analysis.ui.shell.markdown import plain, sentence
from analysis.ui.shell.resources import theme

PAIRS: dict[str, Any] = {
    "workload": st.column_config.TextColumn("Job", width="medium", pinned=True),
    "partner": st.column_config.TextColumn("Partner", width="medium", pinned=True),
    "verdict": st.column_config.TextColumn("Verdict", width="medium"),
    "slowdown": st.column_config.NumberColumn("The job's S, x", format="%.2f"),
    "partner_slowdown": st.column_config.NumberColumn("The partner's S, x", format="%.2f"),
    "worst": st.column_config.NumberColumn("Worst S, x", format="%.2f"),
    "stp": st.column_config.NumberColumn("STP", format="%.2f"),
    "together": st.column_config.NumberColumn("Together, min (100 in turn)", format="%.0f"),
    "antt": st.column_config.NumberColumn("ANTT, x", format="%.2f"),
    "fairness": st.column_config.NumberColumn("Fairness", format="%.2f"),
    "jain": st.column_config.NumberColumn("Jain's index", format="%.3f"),
    "memory": "Memory",
    "needed_mib": st.column_config.NumberColumn("Needed, MiB", format="localized"),
    "capacity_mib": st.column_config.NumberColumn("The GPU has, MiB", format="localized"),
    "safe": st.column_config.CheckboxColumn("Safe"),
    "runs": st.column_config.NumberColumn("Runs", format="%d"),
    "failed": st.column_config.NumberColumn("Failed runs", format="%d"),
    "capped": st.column_config.CheckboxColumn("Capped clients"),
    "why": "Why",
    "sentence": st.column_config.TextColumn("In words", width="large"),
}
_SPREAD: dict[str, Any] = {
    "workload": st.column_config.TextColumn("Job", width="medium", pinned=True),
    "family": "Family",
    "suffers": st.column_config.NumberColumn("Suffers, x", format="%.2f"),
    "suffers_low": st.column_config.NumberColumn("from", format="%.2f"),
    "suffers_high": st.column_config.NumberColumn("to", format="%.2f"),
    "hurts": st.column_config.NumberColumn("Hurts, x", format="%.2f"),
    "hurts_low": st.column_config.NumberColumn("from ", format="%.2f"),
    "hurts_high": st.column_config.NumberColumn("to ", format="%.2f"),
    "partners": st.column_config.NumberColumn("Partners co-run", format="%d"),
    "failed": st.column_config.NumberColumn("Did not run with", format="%d"),
    "flagged": st.column_config.CheckboxColumn("Baseline doubtful"),
}
_MEMORY = {"unknown": "memory unknown", "does_not_fit": "the memory does not fit"}


def ask_limit() -> float:
    """Ask for the limit; one key, so that it stays from page to page."""
    return float(
        st.number_input(
            "Limit: largest slowdown of each, x",
            min_value=1.0,
            max_value=10.0,
            value=1.2,
            step=0.05,
            key="limit",
            width=260,
            bind="query-params",
            persist_state="session",
        )
    )


def answer(pairs: pd.DataFrame, limit: float, gpu: str, job: str | None, *, simulated: bool = False) -> str:
    """Say who is safe at the limit, of measured or simulated pairs; with memory unknown nobody is, and that is said."""
    within, safe = pairs[pairs["within"]], pairs[pairs["safe"]]
    who = f"Of the partners of **{plain(job)}** on {plain(gpu)}" if job else f"Of the pairs on **{plain(gpu)}**"
    measured = int((pairs["state"] == "measured").sum())
    if within.empty:
        text = f"{who}, **none** stays within {limit:g} x ({measured} were {word(simulated)})."
        known = pairs[~pairs["doubtful"] & (pairs["state"] == "measured") & pairs["worst"].notna()]
        if len(known):
            best = known.sort_values("worst", kind="stable").iloc[0]
            name = plain(best["partner"]) if job else f"{plain(best['workload'])} with {plain(best['partner'])}"
            text += f" The nearest is {name}: the worse of the two pays **{slowdown(float(best['worst']))}**."
        return text
    text = f"{who}, **{len(within)}** of {measured} {word(simulated)} stay within {limit:g} x"
    if len(safe) == len(within):
        return f"{text}, and their memory fits: they are **safe**."
    doubtful = int(within["doubtful"].sum())
    unknown = int((within["memory"] == "unknown").sum())
    if len(safe) == 0 and unknown == len(within):
        return (
            f"{text}. **None can be called safe**: how much memory they need is not known. Bring peak memory with the "
            "solo measurements, or watch it in a trial."
        )
    text += f". **{len(safe)} are safe**"
    if unknown:
        text += f"; of {unknown} the memory is unknown"
    if doubtful:
        text += f"; in {doubtful} a job was faster beside the other than alone, which its solo baseline explains"
    if too := int((within["memory"] == "does_not_fit").sum()):
        text += f"; {too} do not fit in memory"
    return text + "."


def picture(table: pd.DataFrame, limit: float) -> None:
    """Draw who suffers and who hurts."""
    ranges = st.toggle("Draw the range over all partners", key="ranges", bind="query-params", persist_state="session")
    figure = sensitivity_pressure(table, limit=limit, ranges=ranges, theme=theme())
    st.caption(
        "Each job once: to the right it slows others, upwards it is slowed. The shaded corner is friendly; the table "
        "below has the range over all partners."
    )
    frame.chart(figure, name="suffers-and-hurts", alt=alt_text(figure), table=table, columns=_SPREAD)


def partners_of(pairs: pd.DataFrame, limit: float, job: str | None) -> None:
    """Show the judged pairs, those within the limit first, as a file too."""
    shown = pairs.assign(together=100 / pairs["stp"])
    columns = ["partner", "verdict", "slowdown", "partner_slowdown", "worst", "together", "stp", "antt", "fairness",
               "jain", "memory", "needed_mib", "capacity_mib", "runs", "failed", "capped", "sentence"]  # fmt: skip
    if job is None:
        columns.insert(0, "workload")
    within = shown[shown["within"]]
    if len(within):
        safe = int(within["safe"].sum())
        title = "Safe partners" if safe == len(within) else "Partners within the limit"
        frame.subheading(title if job else title.replace("Partners", "Pairs").replace("partners", "pairs"))
        slug = "safe-partners" if safe == len(within) else "partners-within-limit"
        frame.data(_used(within[columns]), name=f"{slug}-{limit:g}", columns=PAIRS)
    rest = shown[~shown["within"]]
    if len(rest):
        with st.expander(frame.count(len(rest), "other partner" if job else "other pair"), icon=":material/block:"):
            frame.data(_used(rest[columns]), name=f"beyond-{limit:g}", columns=PAIRS)


def apart(pairs: pd.DataFrame, job: str | None) -> None:
    """Show who should never meet."""
    found = never_meet(pairs)
    frame.subheading("Whom it should never meet" if job else "Who should never meet")
    if found.empty:
        st.caption("Nobody here: every pair that was tried ran, and got more done together than in turn.")
        return
    failed = int((found["why"] == "did not run together").sum())
    slower = len(found) - failed
    parts = [f"{frame.count(failed, 'pair')} did not run together"] if failed else []
    parts += [f"{frame.count(slower, 'pair')} took longer than one after the other"] if slower else []
    st.markdown(sentence(f"{' and '.join(parts)}."))
    columns = ["workload", "partner", "why", "slowdown", "partner_slowdown", "stp", "runs", "failed"]
    frame.data(_used(found[columns]), name="never-meet", columns=PAIRS)


def _used(table: pd.DataFrame) -> pd.DataFrame:
    """Leave out columns that say nothing: counts of failures and caps that are all zero, values that nobody has."""
    silent = [
        name for name in table
        if table[name].isna().all() or (name in ("failed", "capped") and not np.any(table[name].to_numpy(dtype=float)))
    ]  # fmt: skip
    return table.drop(columns=silent)
