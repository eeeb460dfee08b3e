"""Findings of the checks with their rows, and the user's word on them: leave them out, or keep them."""

from __future__ import annotations

import hashlib
from typing import Any

import pandas as pd
import streamlit as st

from analysis.errors import StallScopeError
from analysis.interference.checks import Finding, account, exclude
from analysis.interference.rules.scopes import MEANINGS
from analysis.store.queries import exclusions
from analysis.ui.shell import access, frame
from analysis.ui.shell.columns import configured
from analysis.ui.shell.markdown import plain, sentence
from analysis.ui.shell.resources import cached, database

MARKS = {
    "error": ":red[:material/error:]",
    "warning": ":orange[:material/warning:]",
    "info": ":blue[:material/info:]",
}

_SETTINGS = configured(
    "beside", "cells/checked", "column", "copies", "corun_value", "device", "dram_clock", "entities", "file_name",
    "files", "gentlest", "gpu", "highest", "k", "largest/value", "line", "lowest", "measure", "mechanism",
    "memory_cap_mib", "minimum", "name/counter", "of", "other_dataset", "other_file", "other_gpu/there",
    "other_solo_value", "other_workload", "outcome", "partners", "rows", "rule", "run_id", "run_ids", "samples",
    "scope", "slowdown", "sm_clock", "smallest", "solo_value", "sources", "text", "thread_percentage", "unit",
    "value/number", "workload", "workloads/names",
)  # fmt: skip


def finding(found: Finding, dataset: str) -> None:
    """Show one finding, its rows, and the way to leave them out.

    Parameters
    ----------
    found : Finding
        What a rule found.
    dataset : str
        The data set on the page.
    """
    key = f"{found.rule}-{hashlib.sha256(found.where.encode()).hexdigest()[:8]}"
    with st.container(border=True, key=f"finding-{key}"):
        st.markdown(f"{MARKS[found.severity]} **{plain(_title(found.rule))}** · {plain(found.where)}")
        st.markdown(sentence(found.sentence))
        number = len(found.rows)
        with st.expander(f"The {'row' if number == 1 else f'{number:,} rows'} behind it", type="compact"):
            _rows(found, dataset, key)


def decisions(decided: pd.DataFrame) -> None:
    """Show what is left out, who decided it when and why, and the way to keep it again."""
    if decided.empty:
        return
    frame.subheading("Left out by you")
    with st.container(border=True, key="left-out", gap="small"):
        groups = list(decided.groupby("exclusion_id", sort=False))
        for position, (number, rows) in enumerate(groups):
            if position:
                st.divider()
            _decision(int(str(number)), rows)
    if len(groups) > 1 and access.button("Keep everything again", icon=":material/undo:", key="keep-all"):
        _keep([int(str(number)) for number, _ in groups])
        st.rerun()
    frame.subheading("Found by the checks")


def _decision(number: int, rows: pd.DataFrame) -> None:
    first = rows.iloc[0]
    what = ", ".join(
        frame.count(int(count), *exclusions.NOUNS[str(scope)])
        for scope, count in rows[["scope", "count"]].itertuples(index=False)
    )
    with st.container(horizontal=True, vertical_alignment="center", horizontal_alignment="distribute"):
        only = f" where {plain(first['condition'], 200)}" if first["condition"] else ""
        why = f"  \n{plain(first['why'], 400)}" if first["why"] else ""
        st.markdown(
            f":material/filter_alt_off: **{what}** by *{plain(_title(str(first['rule'])))}* · "
            f"{plain(first['place'])}{only}{why}  \n"
            f":small[:gray[{plain(first['decided_by'])}, {first['decided_at']:%d %B %Y, %H:%M}]]",
            width="stretch",
        )
        if access.button(
            "Keep", icon=":material/undo:", key=f"keep-{number}", help="These count again in every figure."
        ):
            _keep([number])
            st.rerun()
    with st.expander("What this is", type="compact"):
        table = cached(exclusions.things, database(), number).dropna(axis="columns", how="all")
        table["scope"] = [exclusions.NOUNS[scope][0] for scope in table["scope"]]
        frame.data(table.drop(columns=["slot"], errors="ignore"), name=f"left-out-{number}", columns=_labels(table))


def _rows(found: Finding, dataset: str, key: str) -> None:
    shown = found.shown.drop(columns=["dataset"], errors="ignore")
    meaning = MEANINGS[found.rule]
    if meaning.scope is None:
        frame.data(shown, name=key, columns=_labels(shown))
        st.caption(sentence(meaning.sentence))
        return
    table_key = frame.rows_key(f"rows-{key}", shown.itertuples(index=False))
    event = st.dataframe(
        shown, hide_index=True, column_config=_labels(shown), placeholder="–", alt=key, key=table_key,
        on_select="rerun", selection_mode="multi-row",
    )  # fmt: skip
    frame.download(shown, name=key)
    chosen = [row for row in event["selection"]["rows"] if row < len(shown)]
    number = len(chosen) or len(shown)
    st.caption(f"{sentence(meaning.sentence)} Rows that you mark above are left out alone; without a mark, all are.")
    with st.container(horizontal=True, vertical_alignment="bottom"):
        why = st.text_input(
            "Why (shown later)", key=f"why-{key}", width=420, placeholder="the baseline was re-measured"
        )
        these = "this row" if number == 1 else f"these {number:,} rows"
        if access.button(f"Exclude {these}", icon=":material/filter_alt_off:", key=f"exclude-{key}"):
            try:
                _leave_out(found, dataset, why or "", chosen)
            except StallScopeError as error:
                st.error(sentence(error.sentence))
            else:
                st.rerun()


@access.editing
def _leave_out(found: Finding, dataset: str, why: str, rows: list[int]) -> None:
    exclude(database(), found.rule, dataset, places=[found.where], why=why, by=_who(), rows=rows or None)


@access.editing
def _keep(numbers: list[int]) -> None:
    exclusions.keep(database(), numbers)


def _who() -> str:
    """Return the name that the user signed in with, else that of the account that serves."""
    user = st.user.to_dict()
    return str(user.get("email") or user.get("name") or account())


def _title(rule: str) -> str:
    own = {"hard-coded": "Hard-coded", "measured-during-corun": "Measured during the co-run"}
    return own.get(rule, rule.replace("-", " ").capitalize())


def _labels(table: pd.DataFrame) -> dict[str, Any]:
    return {name: _SETTINGS.get(name, name.replace("_", " ").capitalize()) for name in map(str, table.columns)}
