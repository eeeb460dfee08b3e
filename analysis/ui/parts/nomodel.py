"""What a page that needs a model says when there is none: train one, or what to measure first, with the commands."""

from __future__ import annotations

import streamlit as st

from analysis.errors import StallScopeError
from analysis.predict.models import missing, models, untrained
from analysis.store.queries import overview
from analysis.ui.shell import frame, navigation
from analysis.ui.shell.markdown import sentence
from analysis.ui.shell.resources import cached, database

#: What gets a profile that the white box can read, memory included, and a co-run to learn from.
COMMANDS = "\n".join(
    (
        missing.PROFILE,
        "nvidia-smi --query-gpu=timestamp,utilization.gpu,memory.used --format=csv -lms 100 > job-memory.csv",
        missing.CORUN,
    )
)


def say(dataset: str) -> None:
    """Say how to get an answer about a data set without a model."""
    if cached(overview.counts, database(), dataset)["runs"]:
        frame.answer("A model has to be trained first: it takes one click.")
        navigation.link("train", "Train a model", dataset=dataset)
        return
    frame.answer("**Measure first.** No job of this data set ran beside another, and nothing here stands in for that.")
    st.markdown(sentence(lacking(dataset), 600))
    st.code(COMMANDS, language="sh", wrap_lines=True)
    st.caption(
        "The first line profiles a job alone: stall reasons and counters, which the white box needs to answer without "
        "a co-run. The second notes its peak memory. The third measures two jobs together; 30 such runs train a model "
        "that can be scored."
    )
    with st.container(horizontal=True):
        navigation.link("stalls", "See why these jobs wait", dataset=dataset)
        navigation.link("report", "A report of what to measure", dataset=dataset)
        others = [card for card in cached(models.list_models, database()) if card.dataset != dataset]
        if others:
            first = others[0]
            navigation.link("what-if", f"Ask the model of {first.dataset} about a profile", dataset=first.dataset)


def lacking(dataset: str) -> str:
    """Say why the white box can't answer from the profiles that are there."""
    try:
        untrained.card(database(), dataset)
    except StallScopeError as error:
        return f"{error.sentence[:1].upper()}{error.sentence[1:]}"
    return ""
