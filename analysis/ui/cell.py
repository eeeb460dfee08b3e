"""The panel of one cell of the slowdown matrix: both jobs, the runs behind the number, and the stalls of both."""

from __future__ import annotations

from typing import Any

import pandas as pd
import streamlit as st

from analysis.charts.stall_bars import stall_bars
from analysis.charts.theme import alt_text
from analysis.interference.cell import cell
from analysis.interference.matrix import DID_NOT_RUN, FLAGGED, NOT_MEASURED, SlowdownMatrix
from analysis.interference.metrics import together_per_100
from analysis.numbers import significant, slowdown
from analysis.reference import gpus
from analysis.stalls.shares import stall_shares
from analysis.store.filters import Filter
from analysis.ui import frame, markdown
from analysis.ui.resources import cached, database, theme

_COLUMNS: dict[str, Any] = {
    "run_id": st.column_config.NumberColumn("Run", format="%d", width="small"),
    "external_id": "In the file",
    "role": "Role",
    "workload": st.column_config.TextColumn("Job", width="medium"),
    "outcome": "Outcome",
    "slowdown": st.column_config.NumberColumn("Slowdown, x", format="%.3f"),
    "solo_value": st.column_config.NumberColumn("Alone", format="%.4g"),
    "corun_value": st.column_config.NumberColumn("Together", format="%.4g"),
    "unit": "Unit",
    "stp": st.column_config.NumberColumn("STP", format="%.3f"),
    "fairness": st.column_config.NumberColumn("Fairness", format="%.2f"),
    "peak_memory_mib": st.column_config.NumberColumn("Peak memory, MiB", format="localized"),
    "thread_percentage": st.column_config.NumberColumn("Threads, %", format="%.0f"),
    "memory_cap_mib": st.column_config.NumberColumn("Memory cap, MiB", format="localized"),
    "flags": "Flags",
    "file_name": "File",
    "line": st.column_config.NumberColumn("Line", format="%d"),
}


def panel(matrix: SlowdownMatrix, slowed: str, beside: str) -> None:
    """Show everything behind a cell.

    Parameters
    ----------
    matrix : SlowdownMatrix
        The matrix.
    slowed, beside : str
        Its row and its column.
    """
    with st.container(border=True, key="cell"):
        st.markdown(markdown.unbroken(_sentence(matrix, slowed, beside)))
        runs = cached(cell, database(), matrix.dataset, matrix.gpu, matrix.mechanism or None, slowed, beside)
        if not runs.empty:
            _memory(matrix, runs)
            shown = runs[[name for name in _COLUMNS if name in runs and runs[name].notna().any()]]
            frame.data(shown, name=f"runs-{slowed}-{beside}"[:120], columns=_COLUMNS)
        _stalls(matrix, slowed, beside)


def _sentence(matrix: SlowdownMatrix, slowed: str, beside: str) -> str:
    """Say what the two cost each other."""
    row, column = matrix.workloads.index(slowed), matrix.workloads.index(beside)
    names = f"**{markdown.plain(slowed)}** beside **{markdown.plain(beside)}**"
    state = matrix.state[row, column]
    if state == NOT_MEASURED:
        return f"{names} was not measured on {markdown.plain(matrix.gpu)}."
    if state == DID_NOT_RUN:
        return (
            f"{names} did not run on {markdown.plain(matrix.gpu)}: mostly this means that they do not fit into memory."
        )
    own, other = matrix.slowdown[row, column], matrix.slowdown[column, row]
    runs = int(matrix.runs[row, column])
    spread = ""
    if runs > 1:
        low, high = matrix.low[row, column], matrix.high[row, column]
        spread = f", {significant(low)} to {significant(high)} over {runs} runs"
    text = f"{names} takes **{slowdown(own)}** as long as alone{spread}"
    if slowed != beside:
        text += f"; {markdown.plain(beside)} takes {slowdown(other)}"
    stp = matrix.stp[row, column]
    if stp == stp:
        minutes = float(together_per_100(stp))
        text += f". Together they need **{minutes:.0f} min** for what takes 100 min one after the other"
    if state == FLAGGED:
        text += ". :orange[:material/warning:] This cell is flagged: a baseline behind it is doubtful"
    return text + "."


def _memory(matrix: SlowdownMatrix, runs: pd.DataFrame) -> None:
    """Say what both need of the GPU's memory."""
    peaks = runs.groupby("slot")["peak_memory_mib"].max()
    table = gpus.load()
    capacity = float(table["memory_mib"].get(matrix.gpu, float("nan")))
    if peaks.isna().any():
        st.caption("Memory: unknown, so nobody can say that the two are safe together.")
        return
    of = f" of {capacity:,.0f} MiB" if capacity == capacity else "; the GPU's memory is not known"
    st.caption(f"Memory: their peaks add up to {peaks.sum():,.0f} MiB{of}.")


def _stalls(matrix: SlowdownMatrix, slowed: str, beside: str) -> None:
    """Draw the solo stalls of both jobs, where they are profiled."""
    both = Filter(datasets=(matrix.dataset,), gpus=(matrix.gpu,), workloads=tuple({slowed: None, beside: None}))
    shares = cached(stall_shares, database(), both, "workload")
    if shares.empty:
        st.caption("Neither job is profiled on this GPU, so their stalls can't stand here.")
        return
    missing = [name for name in dict.fromkeys((slowed, beside)) if name not in set(shares["workload"])]
    st.markdown("**What each waits for when it is alone**")
    figure = stall_bars(shares, theme=theme())
    frame.chart(figure, name="stalls-of-both", alt=alt_text(figure), table=shares)
    if missing:
        st.caption(f"Not profiled: {markdown.plain(', '.join(missing), 200)}.")
