"""The panel of one cell of the slowdown matrix: both jobs, the runs behind the number, and the stalls of both."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import streamlit as st

from analysis.charts.stall_bars import stall_bars
from analysis.charts.theme import alt_text
from analysis.interference.cell import alone, cell, nearest_pairs
from analysis.interference.matrix import DID_NOT_RUN, FLAGGED, NOT_MEASURED, SlowdownMatrix
from analysis.interference.memory import capacity, memory_fit, memory_sentence, needs
from analysis.interference.metrics import together_per_100
from analysis.numbers import significant, slowdown
from analysis.predict.models.judged import judged_pairs
from analysis.stalls.shares import by_family, stall_shares
from analysis.store.filters import Filter
from analysis.ui.shell import filters, frame, markdown
from analysis.ui.shell.columns import configured
from analysis.ui.shell.navigation import link
from analysis.ui.shell.resources import cached, database, theme

_RUNS: dict[str, Any] = configured(
    "run_id", "external_id", "role", "workload/job", "outcome", "slowdown", "solo_value", "corun_value", "unit",
    "stp", "fairness", "peak_memory_mib", "thread_percentage", "memory_cap_mib", "mig_profile", "priority", "flags",
    "note", "file_name", "line",
)  # fmt: skip
_ALONE: dict[str, Any] = configured(
    "workload/job", "measure", "value/number", "unit", "peak_memory_mib", "memory_kind", "minimum", "gentlest",
    "baseline",
)  # fmt: skip
_NEAREST: dict[str, Any] = configured(
    "workload/slowed", "beside", "slowdown", "beside_slowdown", "stp", "difference/typical"
)


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
        _decision(matrix, slowed, beside)
        _figures(matrix, slowed, beside)
        key = (database(), matrix.dataset, matrix.gpu, matrix.mechanism or None, slowed, beside)
        runs = cached(cell, *key)
        both = cached(alone, *key)
        _memory(matrix, both, slowed, beside)
        _caps(runs)
        if not runs.empty:
            st.markdown("**Its runs**")
            shown = runs[[name for name in _RUNS if name in runs and _says_something(runs[name])]]
            frame.data(shown, name=f"runs-{slowed}-{beside}"[:120], columns=_RUNS)
        st.markdown("**Both jobs alone**")
        frame.data(both[[name for name in _ALONE if both[name].notna().any()]], name="alone", columns=_ALONE)
        near = nearest_pairs(matrix, slowed, beside)
        link(
            "what-if", "Ask about these two", dataset=matrix.dataset, on=matrix.gpu, jobs="2", job1=slowed, job2=beside,
            **({"by": matrix.mechanism} if matrix.mechanism else {}),
        )  # fmt: skip
        if len(near):
            st.markdown("**The most similar other pairs**")
            frame.data(near, name=f"nearest-{slowed}-{beside}"[:120], columns=_NEAREST)
        _stalls(matrix, slowed, beside)


def _says_something(column: pd.Series[Any]) -> bool:
    """Say whether any cell of a column holds something; an empty list of flags is nothing."""
    return any(len(value) > 0 if isinstance(value, list | np.ndarray | str) else pd.notna(value) for value in column)


def _sentence(matrix: SlowdownMatrix, slowed: str, beside: str) -> str:
    """Say what the two cost each other."""
    row, column = matrix.workloads.index(slowed), matrix.workloads.index(beside)
    names = f"**{markdown.plain(slowed)}** beside **{markdown.plain(beside)}**"
    state = matrix.state[row, column]
    if state == NOT_MEASURED:
        return f"{names} was not co-run on {markdown.plain(matrix.gpu)}."
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
    if failed := int(matrix.failed[row, column]):
        times = frame.count(failed, "more run")
        text += f". :orange[:material/warning:] It failed in {times}: count on that, too"
    if state == FLAGGED:
        text += ". :orange[:material/warning:] This cell is flagged: a baseline or a value behind it is doubtful"
    return text + "."


def _figures(matrix: SlowdownMatrix, slowed: str, beside: str) -> None:
    """Show the metrics of the pair."""
    place = matrix.workloads.index(slowed), matrix.workloads.index(beside)
    if np.isnan(matrix.stp[place]):
        return
    shown = {
        "STP": significant(matrix.stp[place]),
        "ANTT": slowdown(matrix.antt[place]),
        "Fairness": significant(matrix.fairness[place]),
        "Jain's index": significant(matrix.jain[place]),
        "Worst S": slowdown(matrix.worst[place]),
    }
    for column, (label, value) in zip(st.columns(len(shown)), shown.items(), strict=True):
        column.metric(label, value)


def _decision(matrix: SlowdownMatrix, slowed: str, beside: str) -> None:
    """Say the verdict on the pair at the limit, as every page says it."""
    limit = filters.limit()
    table = cached(judged_pairs, database(), matrix.dataset, matrix.gpu, matrix.mechanism, limit, min(slowed, beside))
    row = table[table["partner"] == max(slowed, beside)]
    if row.empty:
        return
    first = row.iloc[0]
    word = str(first["verdict"])
    text = f"**{word[:1].upper()}{word[1:]}** at {limit:g} x: {markdown.sentence(str(first['why']), 600)}"
    st.markdown(f":material/gavel: {text}")


def _memory(matrix: SlowdownMatrix, both: pd.DataFrame, slowed: str, beside: str) -> None:
    """Say what both need of the GPU's memory, and what it has."""
    of = {str(row["workload"]): row for row in both.to_dict("records")}
    pair = [of[name] for name in (slowed, beside)]
    values = [float(one["peak_memory_mib"]) for one in pair]
    kinds = [one["memory_kind"] if isinstance(one["memory_kind"], str) else None for one in pair]
    room = capacity(matrix.gpu)
    verdict = memory_fit(values, kinds, room)
    has = f" {matrix.gpu} has {significant(room / 1024)} GiB." if np.isfinite(room) else ""
    needed = float(np.nansum(needs(values, kinds)))
    text = memory_sentence(verdict, needed, room)
    if verdict == "unknown":
        text += f"{has} So nobody can say that the two are safe together."
    st.markdown(f":material/memory: {markdown.sentence(text)}")


def _caps(runs: pd.DataFrame) -> None:
    """Say whether clients were capped: a number measured without caps is not one of capped clients."""
    if runs.empty:
        return
    capped = runs.groupby("run_id")["capped"].any()
    if not capped.any():
        text = (
            "No client was capped. Under a device plugin with R replicas every client gets 100/R % of the threads and "
            "of the memory: this number does not hold there."
        )
    else:
        shares = sorted({f"{value:.0f} %" for value in runs["thread_percentage"].dropna() if value < 100})
        text = f"Clients were capped in {int(capped.sum())} of {len(capped)} runs"
        text += f", to {', '.join(shares)} of the threads." if shares else "."
        if not capped.all():
            text += " The number is of the runs without caps."
    st.caption(markdown.sentence(text))


def _stalls(matrix: SlowdownMatrix, slowed: str, beside: str) -> None:
    """Draw the solo stalls of both jobs, where they are profiled."""
    both = Filter(datasets=(matrix.dataset,), gpus=(matrix.gpu,), workloads=tuple({slowed: None, beside: None}))
    shares = cached(stall_shares, database(), both, "workload")
    if shares.empty:
        st.caption("Neither job is profiled on this GPU, so their stalls can't stand here.")
        return
    missing = [name for name in dict.fromkeys((slowed, beside)) if name not in set(shares["workload"])]
    st.markdown("**What each waits for when it is alone**")
    for family, part in by_family(shares):  # families of metrics have no common axis
        figure = stall_bars(part, theme=theme())
        frame.chart(figure, name=f"stalls-of-both-{family}", alt=alt_text(figure), table=part)
    if missing:
        st.caption(f"Not profiled: {markdown.plain(', '.join(missing), 200)}.")
    link("stalls", "More of their stalls", dataset=matrix.dataset)
