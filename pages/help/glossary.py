"""What do these words mean?"""

import pandas as pd
import streamlit as st

from analysis.reference import gpus, stall_reasons
from analysis.reference.stall_families import BY_NAME
from analysis.settings import asset
from analysis.ui import frame
from analysis.ui.search import search


def words() -> None:
    table = pd.read_csv(asset("data", "guide", "glossary.csv"))
    frame.data(
        search(table, ("term", "meaning"), "search-words"),
        name="glossary",
        columns={
            "term": st.column_config.TextColumn("Word", width="small"),
            "meaning": st.column_config.TextColumn("Meaning", width="large"),
        },
        height="content",
    )


def reasons() -> None:
    table = stall_reasons.load()
    spelt = [name for name in BY_NAME if name in table and name != "nvprof"]
    table = table[["title", "group", "meaning", "helps", "min_cc", "max_cc", "nvprof", *spelt, "source"]]
    frame.data(
        search(table.reset_index(), ("reason", "title", "group", "meaning", "helps", *spelt), "search-reasons"),
        name="stall-reasons",
        columns={
            "reason": "Name in ncu",
            "title": "Reason",
            "group": "Group",
            "meaning": st.column_config.TextColumn("What the warp waits for", width="large"),
            "helps": st.column_config.TextColumn("What usually helps", width="large"),
            "min_cc": st.column_config.NumberColumn("From CC", format="%.1f"),
            "max_cc": st.column_config.NumberColumn("Up to CC", format="%.1f"),
            "nvprof": "Class in nvprof",
            **{name: f"Name as {BY_NAME[name].title}" for name in spelt},
            "source": "Source",
        },
        height=640,
    )


def devices() -> None:
    table = gpus.load().reset_index().drop(columns=["aliases"])
    frame.data(search(table, ("name", "architecture", "cc"), "search-gpus"), name="gpus", height=640)


TABLES = {"Words": words, "Stall reasons": reasons, "GPUs": devices}


def page() -> None:
    frame.header("What do these words mean?")
    shown = st.segmented_control(
        "Table", list(TABLES), default="Words", required=True, key="reference", label_visibility="collapsed",
        bind="query-params", persist_state="session",
    )  # fmt: skip
    TABLES[shown or "Words"]()


page()
