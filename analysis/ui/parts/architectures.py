"""The parts of the page about architectures: the scatter, the pairs that change sides, and what copying would cost."""

from __future__ import annotations

from typing import Any

import pandas as pd
import streamlit as st

from analysis.charts.predictions import transfer_scatter
from analysis.charts.theme import alt_text
from analysis.interference.architectures import PUBLISHED_ERROR, changed_sides
from analysis.numbers import significant
from analysis.ui.shell import filters, frame
from analysis.ui.shell.columns import configured
from analysis.ui.shell.markdown import plain, sentence
from analysis.ui.shell.navigation import link
from analysis.ui.shell.resources import theme

_KEEP: dict[str, Any] = {"bind": "query-params", "persist_state": "session"}
_TRANSFERS: dict[str, Any] = configured(
    "source", "target", "cells", "spearman", "copy_error", "bias", "pairs", "changed", "did_not_run/pairs"
)


def controls(gpus: list[str]) -> tuple[str, str, float]:
    """Ask for the two GPUs and the limit."""
    with st.container(horizontal=True, vertical_alignment="bottom"):
        source = st.selectbox("Known on", gpus, key="from-gpu", width=220, **_KEEP)
        others = [gpu for gpu in gpus if gpu != source]
        target = st.selectbox("Wanted on", others, key="to-gpu", index=len(others) - 1, width=220, **_KEEP)
        limit = filters.limit()
    return str(source), str(target or others[-1]), limit


def answer(table: pd.DataFrame, source: str, target: str, limit: float) -> str:
    """Say what copying a slowdown would cost, whether the order carries over, and how many verdicts change."""
    row = table[(table["source"] == source) & (table["target"] == target)]
    if row.empty or not int(row.iloc[0]["cells"]):
        return f"No pair ran soundly on both {plain(source)} and {plain(target)}."
    one = row.iloc[0]
    text = (
        f"Copying a slowdown from **{plain(source)}** to **{plain(target)}** is off by "
        f"**{significant(float(one['copy_error']))} %** on average"
    )
    if one["spearman"] == one["spearman"]:
        rank = float(one["spearman"])
        carried = (
            "mostly carries over" if rank >= 0.8 else "carries over in part" if rank >= 0.5 else "hardly carries over"
        )
        text += f"; the order of the pairs {carried} (rank correlation {rank:.2f})"
    text += f". **{int(one['changed'])}** of {int(one['pairs'])} pairs that ran on both change sides of {limit:g} x"
    if int(one["did_not_run"]):
        text += f"; {int(one['did_not_run'])} did not run on one of them, or on both, and count for nothing here"
    return text + "."


def warning(table: pd.DataFrame) -> None:
    """Warn that a slowdown does not travel by itself, with the figures of these data."""
    errors = table["copy_error"].dropna()
    if errors.empty:
        return
    text = (
        f"A slowdown does not travel by itself: copied between the GPUs of this data set it is "
        f"{significant(float(errors.min()), 2)} to {significant(float(errors.max()), 2)} % wrong. Measure on the GPU "
        "that the jobs will share, or ask a model that has seen it."
    )
    st.warning(sentence(text), icon=":material/warning:")


def one_gpu(gpu: str) -> None:
    """Say what is known of one GPU alone."""
    low, high = PUBLISHED_ERROR
    frame.answer(
        f"This data set holds {plain(gpu)} alone, so nothing here can tell. In public data sets a slowdown copied from "
        f"another GPU was **{low:g} to {high:g} %** wrong: it does not travel by itself."
    )


def picture(pairs: pd.DataFrame, source: str, target: str, limit: float) -> None:
    """Draw every pair on both GPUs."""
    wide = pairs[pairs["gpu"].isin([source, target])].pivot(
        index=["workload", "beside"], columns="gpu", values="slowdown"
    )
    rows = wide.reindex(columns=[source, target]).dropna().reset_index()
    rows.columns = pd.Index(["workload", "beside", "source", "target"])
    figure = transfer_scatter(rows, source, target, limit=limit, theme=theme())
    columns = configured(
        "workload/slowed", "beside", "source/slowdown", "target/slowdown",
        source={"label": f"On {source}, x"}, target={"label": f"On {target}, x"},
    )  # fmt: skip
    frame.chart(figure, name=f"{source}-{target}", alt=alt_text(figure), table=rows, columns=columns)


def sides(pairs: pd.DataFrame, source: str, target: str, limit: float) -> None:
    """Show the pairs that may share on one GPU and not on the other."""
    frame.subheading("Pairs that change sides")
    found = changed_sides(pairs, source, target, limit)
    changed = found[found["changed"]].drop(columns=["changed", "ran"])
    if changed.empty:
        st.caption("None: what is within the limit on one is within it on the other.")
        return
    columns = configured(
        "workload/job", "beside", "source_worst", "target_worst", "change",
        source_worst={"label": f"Worst S on {source}, x"}, target_worst={"label": f"Worst S on {target}, x"},
    )  # fmt: skip
    frame.data(changed, name=f"change-sides-{source}-{target}", columns=columns)


def all_transfers(table: pd.DataFrame) -> None:
    """Show every GPU that could be copied from and to."""
    frame.subheading("From every GPU to every other")
    frame.data(table, name="between-gpus", columns=_TRANSFERS)
    link("what-if", "Ask a model about another GPU")
