"""What do these words mean?"""

import pandas as pd
import streamlit as st

from analysis.predict.frame.terms import schema
from analysis.predict.predictors.registry import PREDICTORS
from analysis.reference import gpus, stall_reasons
from analysis.reference.columns import vocabulary
from analysis.reference.stall_families import BY_NAME
from analysis.settings import asset
from analysis.ui.shell import frame
from analysis.ui.shell.columns import configured
from analysis.ui.shell.search import search


def words() -> None:
    table = pd.read_csv(asset("data", "guide", "glossary.csv"))
    frame.data(
        search(table, ("term", "meaning"), "search-words"),
        name="glossary",
        columns=configured("term", "meaning"),
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
            **configured(
                "reason/name", "title/reason", "group", "meaning/reason", "helps", "min_cc", "max_cc", "nvprof"
            ),
            **{name: f"Name as {BY_NAME[name].title}" for name in spelt},
            **configured("source/citation"),
        },
        height=640,
    )


def devices() -> None:
    table = gpus.load().reset_index().drop(columns=["aliases"])
    frame.data(search(table, ("name", "architecture", "cc"), "search-gpus"), name="gpus", height=640)


def features() -> None:
    table = pd.DataFrame(schema().to_json()).drop(columns=["quantity"])
    frame.data(
        search(table, ("name", "meaning", "whose", "what"), "search-features"),
        name="features",
        columns=configured("name/feature", "meaning", "unit", "whose", "what/evidence"),
        height=640,
    )


def predictors() -> None:
    table = pd.DataFrame(
        [{"title": one.title, "name": name, "kind": one.kind, "source": one.source} for name, one in PREDICTORS.items()]
    )
    frame.data(
        search(table, ("title", "name", "kind", "source"), "search-predictors"),
        name="predictors",
        columns=configured("title/predictor", "name/command", "kind/predictor", "source/predictor"),
        height=640,
    )


def headers() -> None:
    table = pd.DataFrame(
        [{"title": one.header, "meaning": one.help, "key": one.key} for one in vocabulary().values()]
    ).drop_duplicates()
    table = table.sort_values("title", key=lambda titles: titles.str.casefold(), kind="stable")
    frame.data(
        search(table, ("title", "meaning", "key"), "search-columns"),
        name="columns",
        columns=configured("title/column", "meaning/column", "key"),
        height=640,
    )


TABLES = {
    "Words": words,
    "Columns of tables": headers,
    "Stall reasons": reasons,
    "GPUs": devices,
    "What predictors see": features,
    "Predictors": predictors,
}


def page() -> None:
    frame.header("What do these words mean?")
    shown = st.segmented_control(
        "Table", list(TABLES), default="Words", required=True, key="reference", label_visibility="collapsed",
        bind="query-params", persist_state="session",
    )  # fmt: skip
    TABLES[shown or "Words"]()


page()
