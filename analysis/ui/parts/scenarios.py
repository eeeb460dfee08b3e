"""Scenarios side by side: up to four questions, all of them in the address, so that the view can be sent on."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pandas as pd
import streamlit as st

from analysis.errors import StallScopeError
from analysis.interference.metrics import fairness, stp, together_per_100
from analysis.numbers import significant
from analysis.predict.models import models
from analysis.predict.models.jobs import JobPrediction
from analysis.predict.models.manifest import Manifest
from analysis.ui.parts.question import Question
from analysis.ui.shell import frame
from analysis.ui.shell.markdown import plain, sentence
from analysis.ui.shell.resources import cached, database

#: Scenarios side by side, the one in the form among them.
MOST = 4
_NAME = "scenarios"
_LETTERS = "ABCD"
_COLUMNS: dict[str, Any] = {
    "scenario": st.column_config.TextColumn("Scenario", width="small", pinned=True),
    "jobs": st.column_config.TextColumn("Jobs", width="large"),
    "gpu": "GPU",
    "mechanism": "Mechanism",
    "threads": "Threads, %",
    "memory": "Memory",
    "verdict": "Verdict",
    "slowdowns": st.column_config.TextColumn("Slowdown of each", width="medium"),
    "worst": st.column_config.NumberColumn("Worst S, x", format="%.2f"),
    "together": st.column_config.NumberColumn(
        "Together, min (100 in turn)", format="%.0f", help="While all of them run; empty where they do not fit."
    ),
    "stp": st.column_config.NumberColumn("STP", format="%.2f"),
    "fairness": st.column_config.NumberColumn("Fairness", format="%.2f"),
    "extrapolating": st.column_config.CheckboxColumn("Extrapolating"),
    "evidence": "Evidence",
}


def encode(asked: Question) -> str:
    """Write a question as one value of the address."""
    return json.dumps(
        [asked.model.model_id, asked.gpu, asked.mechanism, list(asked.jobs), list(asked.caps)], separators=(",", ":")
    )


def decode(text: str, known: Sequence[Manifest]) -> Question | None:
    """Read a value of the address; None where it is damaged or its model is gone."""
    try:
        model_id, gpu, mechanism, jobs, caps = json.loads(text)
        card = next(one for one in known if one.model_id == model_id)
        return Question(card, str(gpu), str(mechanism), tuple(map(str, jobs)), tuple(map(float, caps)))
    except (ValueError, TypeError, StopIteration):
        return None


def kept() -> list[str]:
    """Return the scenarios that were put aside: those of this session, or of the address it was opened with."""
    if _NAME not in st.session_state:
        st.session_state[_NAME] = st.query_params.get_all(_NAME)[: MOST - 1]
    found: list[str] = st.session_state[_NAME]
    if found:
        st.query_params[_NAME] = found
    elif _NAME in st.query_params:
        del st.query_params[_NAME]
    return found


def side_by_side(asked: Question, found: list[JobPrediction], known: Sequence[Manifest]) -> None:
    """Offer to put the question aside, and compare it with those that were."""
    aside, here = kept(), encode(asked)
    with st.container(horizontal=True, vertical_alignment="center"):
        full = len(aside) >= MOST - 1
        if st.button(
            "Keep this to compare", icon=":material/add_column_right:", key="keep-scenario",
            disabled=here in aside or full,
            help="Three are kept at most; change the question above to compare." if full else None,
        ):  # fmt: skip
            st.session_state[_NAME] = [*aside, here]
            st.rerun()
        if aside and st.button("Forget the kept ones", icon=":material/close:", key="forget", type="tertiary"):
            st.session_state[_NAME] = []
            st.rerun()
    if not aside:
        return
    rows = [_row("this one", asked, found)]
    for number, text in enumerate(one for one in aside if one != here):
        question = decode(text, known)
        if question is None:
            st.caption("One of the kept scenarios asks a model that is no longer here; it is left out.")
            continue
        try:
            answer = cached(
                models.predict, database(), question.model.model_id, question.gpu, question.jobs, question.mechanism,
                caps=question.capped,
            )  # fmt: skip
        except StallScopeError as error:
            st.caption(f"Kept scenario {_LETTERS[number]} can't be answered: {sentence(error.sentence)}")
            continue
        rows.append(_row(_LETTERS[number], question, answer))
    table = pd.DataFrame(rows)
    frame.subheading("Side by side")
    _said(table)
    # Rows high enough for a line a job: long names run on into the next line instead of being cut.
    lines = int(table["jobs"].str.count(r" \+ ").max()) + 1
    frame.data(table, name="scenarios", columns=_COLUMNS, height="content", row_height=14 + 21 * lines)
    st.caption("The address of this page holds all of them: whoever opens it sees the same on the same data.")


def _row(name: str, asked: Question, found: list[JobPrediction]) -> dict[str, Any]:
    every = [one.slowdown for one in found]
    first = found[0]
    return {
        "scenario": name,
        "jobs": " + ".join(asked.jobs),
        "gpu": asked.gpu,
        "mechanism": asked.mechanism,
        "threads": ", ".join(f"{cap:g}" for cap in asked.caps) or None,
        "memory": first.memory.replace("_", " "),
        "verdict": first.verdict,
        "slowdowns": "; ".join(
            f"{one.slowdown:.2f}" + (f" ({one.low:.2f} to {one.high:.2f})" if one.low and one.high else "")
            for one in found
        ),
        "worst": max(every),
        "together": None if first.memory == "does_not_fit" else float(together_per_100(stp(every))),
        "stp": stp(every),
        "fairness": fairness(every),
        "extrapolating": any(one.extrapolating for one in found),
        "evidence": first.evidence,
    }


def _said(table: pd.DataFrame) -> None:
    possible = table[table["memory"] != "does not fit"]
    if len(table) < 2 or possible.empty:
        return
    best = possible.sort_values("together", kind="stable").iloc[0]
    mild = possible.sort_values("worst", kind="stable").iloc[0]
    pays = significant(float(mild["worst"]))
    text = (
        f"Shortest together: **{plain(best['scenario'])}**, {best['together']:.0f} min for what takes 100 one after "
        f"the other. Mildest: **{plain(mild['scenario'])}**, where the worst pays {pays} x."
    )
    st.markdown(text)
