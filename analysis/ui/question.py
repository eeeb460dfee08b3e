"""Asking about a set of jobs: which model, GPU and mechanism, and which jobs at once; all of it in the address."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import streamlit as st

from analysis.predict import activemodel, models, untrained
from analysis.predict.manifest import Manifest
from analysis.reference import gpus
from analysis.store.filters import Filter
from analysis.store.queries import sources
from analysis.ui.resources import cached, database

#: Most jobs that the form offers at once.
MOST_JOBS = 4
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
    """

    model: Manifest
    gpu: str
    mechanism: str
    jobs: tuple[str, ...]

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
        ways = list(dict.fromkeys([*card.mechanisms, "CUDA MPS", "time-slicing"]))
        mechanism = top[2].selectbox("Mechanism", ways, key="by", **_KEEP)
        count = top[3].selectbox("Jobs at once", [str(k) for k in range(2, MOST_JOBS + 1)], key="jobs", **_KEEP)
        names = _workloads(card)
        slots = st.columns(int(count or 2))
        jobs = tuple(
            str(
                slot.selectbox(
                    f"Job {number}", names, index=min(number - 1, len(names) - 1), key=f"job{number}", **_KEEP
                )
            )
            for number, slot in enumerate(slots, start=1)
        )
    return Question(card, str(gpu), str(mechanism), jobs)


def _title(card: Manifest) -> str:
    return " · ".join(
        part for part in (card.title, ", ".join(card.gpus), card.created_at[:16].replace("T", " ")) if part
    )


def _workloads(card: Manifest) -> list[str]:
    """Return the workloads of the data set: those that the model has learnt from first."""
    table = cached(sources.workloads, database(), Filter(datasets=(card.dataset,)))
    return list(dict.fromkeys([*card.workloads, *table["workload"].astype(str)]))
