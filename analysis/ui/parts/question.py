"""Asking about a set of jobs: which model, GPU and mechanism, and which jobs at once; all of it in the address."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd
import streamlit as st

from analysis.errors import StallScopeError
from analysis.predict.models import activemodel, missing, models, untrained
from analysis.predict.models.manifest import Manifest
from analysis.reference import gpus
from analysis.reference.mechanism_names import MPS
from analysis.store.database import Database
from analysis.store.filters import Filter
from analysis.store.queries import coruns, sources
from analysis.ui.shell import frame, navigation
from analysis.ui.shell.markdown import plain, sentence
from analysis.ui.shell.resources import cached, database

#: Most jobs that the form offers at once.
MOST_JOBS = 4

#: Measured runs offered to start from.
MOST_STARTS = 2000

#: Data set that a profile brought along goes to.
OWN = "own"
_KEEP: dict[str, Any] = {"bind": "query-params", "persist_state": "session"}


@dataclass(frozen=True)
class Question:
    """A set of jobs on one GPU.

    Attributes
    ----------
    model : Manifest
        The model that is asked.
    gpu, mechanism : str
        Where and how they share.
    jobs : tuple of str
        Workloads; one may stand there twice.
    caps : tuple of float
        MPS thread percentage of each job; empty where nobody is capped.
    """

    model: Manifest
    gpu: str
    mechanism: str
    jobs: tuple[str, ...]
    caps: tuple[float, ...] = ()

    @property
    def capped(self) -> tuple[float, ...] | None:
        """The thread percentages for the engine; None without any."""
        return self.caps or None

    def address(self) -> dict[str, str]:
        """Return it as parameters of the address, for links."""
        named = {f"job{number}": job for number, job in enumerate(self.jobs, start=1)}
        return {
            "dataset": self.model.dataset,
            "model": self.model.model_id,
            "on": self.gpu,
            "by": self.mechanism,
            "jobs": str(len(self.jobs)),
            **named,
            **{f"cap{number}": f"{cap:g}" for number, cap in enumerate(self.caps, start=1)},
            **({"capped": "true"} if self.caps else {}),
        }


def trained(dataset: str) -> list[Manifest]:
    """Return the models of a data set: the active one, the newest first; then the one that needs no training."""
    stored = [card for card in cached(models.list_models, database()) if card.dataset == dataset]
    return [*activemodel.active_first(database(), stored), *cached(untrained.available, database(), dataset)]


def model_of(known: Sequence[Manifest]) -> Manifest:
    """Ask for the model, where there are several."""
    by_id = {card.model_id: card for card in known}
    if len(by_id) == 1:
        return known[0]
    picked = st.selectbox(
        "Model", list(by_id), key="model", format_func=lambda key: _title(by_id[key]) if key in by_id else key, **_KEEP
    )
    return by_id.get(str(picked), known[0])


def ask(known: Sequence[Manifest]) -> Question:
    """Ask for the whole question."""
    with st.container(border=True, key="question"):
        top = st.columns([4, 3, 3, 2], vertical_alignment="bottom")
        with top[0]:
            card = model_of(known)
            if len(known) == 1:
                st.text_input("Model", value=_title(card), disabled=True, key=f"model-{card.model_id}")
        options = list(dict.fromkeys([*card.gpus, *gpus.load().index]))
        gpu = top[1].selectbox("GPU", options, key="on", **_KEEP)
        ways = list(dict.fromkeys([*card.mechanisms, MPS, "time-slicing"]))
        mechanism = top[2].selectbox("Mechanism", ways, key="by", **_KEEP)
        count = top[3].selectbox("Jobs at once", [str(k) for k in range(2, MOST_JOBS + 1)], key="jobs", **_KEEP)
        names = _workloads(card)
        _say_unknown(names)
        _start(card)
        slots = st.columns(int(count or 2))
        jobs = tuple(
            str(
                slot.selectbox(
                    f"Job {number}", names, index=min(number - 1, len(names) - 1), key=f"job{number}", **_KEEP
                )
            )
            for number, slot in enumerate(slots, start=1)
        )
        caps = _caps(str(mechanism), len(jobs), slots)
    return Question(card, str(gpu), str(mechanism), jobs, caps)


def _say_unknown(names: Sequence[str]) -> None:
    """Say which jobs of the address are not there, before the form puts others in their place."""
    asked = [st.query_params.get(f"job{number}") for number in range(1, MOST_JOBS + 1)]
    unknown = [plain(name) for name in asked if name and name not in names]
    if unknown:
        st.warning(f"Not in this data set: {', '.join(unknown)}. Other jobs stand in for what the address named.")


def _caps(mechanism: str, count: int, slots: Sequence[Any]) -> tuple[float, ...]:
    """Ask for the thread percentage of each client, where the mechanism knows one."""
    if not mechanism.startswith(MPS):
        return ()
    if not st.toggle(
        "Cap the clients", key="capped", help="MPS thread percentage: the part of the threads that a client may use.",
        **_KEEP,
    ):  # fmt: skip
        return ()
    given = tuple(
        float(
            slot.number_input(
                f"Threads of job {number}, %", min_value=1, max_value=100, value=100, step=5, key=f"cap{number}",
                **_KEEP,
            )
        )
        for number, slot in enumerate(slots[:count], start=1)
    )  # fmt: skip
    return given if any(cap < 100 for cap in given) else ()


def _start(card: Manifest) -> None:
    """Offer measured runs to start from: a choice fills in the whole question."""
    runs = cached(starts, database(), card.dataset)
    if runs.empty:
        return
    labels: dict[str, Any] = {f"{row.jobs}  ·  {row.gpu}, {row.mechanism}": row for row in runs.itertuples()}

    def fill() -> None:
        row = labels.get(str(st.session_state.get("start")))
        if row is not None:
            names = [str(name) for name in row.names][:MOST_JOBS]
            st.session_state.update({"on": row.gpu, "by": row.mechanism, "jobs": str(len(names))})
            st.session_state.update({f"job{number}": name for number, name in enumerate(names, start=1)})
            st.session_state["start"] = None

    st.selectbox(
        "Start from a measured run", list(labels), index=None, key="start", on_change=fill,
        placeholder="Start from a measured run", label_visibility="collapsed",
    )  # fmt: skip


def starts(opened: Database, dataset: str) -> pd.DataFrame:
    """Return the different sets that ran, as many jobs as the form takes: jobs, names, gpu, mechanism."""
    members = coruns.members(opened, Filter(datasets=(dataset,)))
    members = members[(members["run_outcome"] == "ran") & members["k"].between(2, MOST_JOBS)]
    rows = [
        (" + ".join(sorted(part["workload"])), tuple(sorted(part["workload"])), part["gpu"].iloc[0],
         part["mechanism"].iloc[0])
        for _, part in members.groupby("run_id", sort=False)
    ]  # fmt: skip
    found = pd.DataFrame(rows, columns=["jobs", "names", "gpu", "mechanism"]).drop_duplicates()
    return found.sort_values(["jobs", "gpu"], ignore_index=True).head(MOST_STARTS)


def _title(card: Manifest) -> str:
    return " · ".join(
        part for part in (card.title, ", ".join(card.gpus), card.created_at[:16].replace("T", " ")) if part
    )


def _workloads(card: Manifest) -> list[str]:
    """Return the workloads of the data set, those that the model has learnt from first; then profiles of one's own."""
    table = cached(sources.workloads, database(), Filter(datasets=(card.dataset,)))
    own = cached(sources.workloads, database(), Filter(datasets=(OWN,)))
    profiled = own.loc[own["profiles"] > 0, "workload"].astype(str)
    return list(dict.fromkeys([*card.workloads, *table["workload"].astype(str), *profiled]))


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
    if cached(sources.counts, database(), dataset)["runs"]:
        frame.answer(
            "There is no model of this data set. What ran answers without one; a model, trained by one click, "
            "says more about sets that never ran."
        )
        with st.container(horizontal=True):
            navigation.link("what-if", "Ask about a set of jobs", dataset=dataset)
            navigation.link("train", "Train a model", dataset=dataset)
        return
    frame.answer("**Measure first.** No job of this data set ran beside another, and nothing here stands in for that.")
    st.markdown(sentence(lacking(dataset), 600))
    st.code(COMMANDS, language="sh", wrap_lines=True)
    st.caption(
        "The first line profiles a job alone: stall reasons and counters, which the white box needs to answer without "
        "a co-run. The second notes its peak memory. The third measures two jobs together; any number trains "
        "a model, and from 30 on its errors can be scored."
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
