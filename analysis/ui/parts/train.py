"""Asking for a comparison or a model: the form, and the work that the job runner does."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import streamlit as st

from analysis.jobs.runner import Progress
from analysis.predict.evaluate.evaluate import evaluate
from analysis.predict.evaluate.protocols import PROTOCOLS
from analysis.predict.evaluate.selection import EVIDENCE
from analysis.predict.frame import mechanism as onemechanism
from analysis.predict.models import models
from analysis.predict.predictors.registry import DEFAULT, PREDICTORS
from analysis.store.database import Database
from analysis.ui.shell import access
from analysis.ui.shell.resources import cached, database, jobs

EVALUATE, TRAIN = "evaluate", "train"

#: Scored unless the user chooses others: the plain baselines, the published opponent, the real one, and ours.
FIRST_CHOICE = ("no-interference", "train-median", "effects", "kace-linear", "kace-forest", "boosting", DEFAULT)

PROTOCOL_TITLES = {
    "unseen-pair": "Unseen pair",
    "leave-one-workload-out": "Unseen workload",
    "leave-one-family-out": "Unseen model family",
    "unseen-gpu": "Unseen GPU",
    "pairs-to-k": "From pairs to larger sets",
    "few-shot": "New family with few runs",
    "random-rows": "Random rows (leaky)",
}


@dataclass(frozen=True)
class Request:
    """What a comparison is asked to do."""

    dataset: str
    protocol: str
    predictors: tuple[str, ...]
    gpu: str | None
    mechanism: str | None
    include_flagged: bool
    runs: int | None
    evidence: tuple[str, ...] = ()
    train_gpus: tuple[str, ...] = ()

    def plain(self) -> dict[str, Any]:
        """Return it as plain values, for the record of the job."""
        lists = {name: list(getattr(self, name)) for name in ("predictors", "evidence", "train_gpus")}
        return {**vars(self), **lists}


def form(dataset: str, choices: Mapping[str, list[str]]) -> Request | None:
    """Ask what to compare; return the request once the user sends it.

    Parameters
    ----------
    dataset : str
        Data set to learn from.
    choices : mapping
        GPUs that are there, as `analysis.ui.shell.filters.options` gives them.
    """
    with st.form("comparison", border=True):
        left, right = st.columns([1, 1], gap="large")
        with left:
            protocol = st.radio(
                "What should the predictor not have seen?",
                list(PROTOCOL_TITLES),
                format_func=PROTOCOL_TITLES.__getitem__,
                captions=[PROTOCOLS[name] for name in PROTOCOL_TITLES],
                key="protocol",
                persist_state="session",
            )
        with right:
            predictors = st.multiselect(
                "Predictors",
                list(PREDICTORS),
                default=[name for name in FIRST_CHOICE if name in PREDICTORS],
                format_func=lambda name: PREDICTORS[name].title,
                key="predictors",
                persist_state="session",
                wrap=True,
                help="No interference and the train median are always scored along.",
            )
            every = "All"
            gpu = st.selectbox(
                "GPU", [every, *choices["gpu"]], key="train-gpu", help="For an unseen GPU: the one to test on."
            )
            train_gpus = st.multiselect(
                "Train on", choices["gpu"], key="train-gpus", placeholder="All others",
                help="Only for an unseen GPU: the GPUs whose runs may be learnt from.",
            )  # fmt: skip
            evidence = st.multiselect(
                "Features", list(EVIDENCE), key="evidence", placeholder="All",
                help="What predictors may see of a job alone, beside how it is configured.",
            )  # fmt: skip
            mechanism = mechanism_of(dataset, key="train-mechanism")
            runs = st.number_input(
                "Measured runs of the new family", 2, 20, 10, help="Only for a new family with few runs."
            )
            flagged = st.toggle(
                "Keep flagged workloads", key="keep-flagged", help="Workloads whose solo baseline the checks doubt."
            )
        sent = st.form_submit_button(
            "Score the predictors", type="primary", icon=":material/model_training:", disabled=not access.may_edit()
        )
    if not sent:
        return None
    return Request(
        dataset=dataset,
        protocol=str(protocol),
        predictors=tuple(predictors),
        gpu=None if gpu == every else gpu,
        mechanism=mechanism,
        include_flagged=bool(flagged),
        runs=int(runs) if protocol == "few-shot" else None,
        evidence=tuple(evidence),
        train_gpus=tuple(train_gpus) if protocol == "unseen-gpu" else (),
    )


def mechanism_of(dataset: str, *, key: str, width: int | Literal["stretch"] = "stretch") -> str | None:
    """Ask for the one mechanism that it is about, the most measured one first; None where there is only one."""
    known = cached(onemechanism.most_measured, database(), dataset)
    if len(known) < 2:
        return None
    runs = dict(known)
    picked: str | None = st.selectbox(
        "Mechanism", list(runs), key=key, width=width, format_func=lambda name: f"{name} ({runs.get(name, 0):,} runs)",
        help="Mechanisms are never pooled: a slowdown under one says little about another.",
    )  # fmt: skip
    return picked


@access.editing
def submit_comparison(request: Request) -> str:
    """Queue a comparison; return the job."""
    opened = database()
    return jobs().submit(EVALUATE, request.plain(), lambda progress: compare(opened, request, progress))


def compare(opened: Database, request: Request, progress: Progress) -> dict[str, Any]:
    """Score the predictors; the figures are stored, the job keeps their id."""
    result = evaluate(
        opened,
        request.dataset,
        request.protocol,
        predictors=list(request.predictors) or None,
        gpu=request.gpu,
        mechanism=request.mechanism,
        runs=request.runs,
        include_flagged=request.include_flagged,
        evidence=request.evidence or None,
        train_gpus=request.train_gpus or None,
        progress=progress,
    )
    return {"evaluation_id": result.evaluation_id, "dataset": request.dataset, "seconds": result.seconds}


@access.editing
def submit_training(dataset: str, predictor: str, gpu: str | None, mechanism: str | None) -> str:
    """Queue the training of a model on everything measured; return the job."""
    opened = database()
    request = {"dataset": dataset, "predictor": predictor, "gpu": gpu, "mechanism": mechanism}

    def work(progress: Progress) -> dict[str, Any]:
        card = models.train(opened, dataset, predictor, gpu=gpu, mechanism=mechanism, progress=progress)
        return {"model_id": card.model_id, "dataset": dataset, "notes": card.notes}

    return jobs().submit(TRAIN, request, work)
