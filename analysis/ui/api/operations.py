"""Every operation of the programming interface, in one list; routes and the OpenAPI document are made from it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from analysis.errors import UsageError
from analysis.report.plain import plain
from analysis.store.database import Database
from analysis.ui.api import questions
from analysis.ui.api.questions import Question
from analysis.ui.api.tokens import PREFIX

#: Bytes of all answers that are kept: a dozen reports, which are the largest.
KEEP_BYTES = 64 << 20


@dataclass(frozen=True)
class Rendered:
    """An answer that is no JSON document of ours."""

    text: str
    media_type: str
    file_name: str


@dataclass(frozen=True)
class Operation:
    """One thing that can be asked.

    Attributes
    ----------
    name, summary : str
        Its id and what it does.
    method, path : str
        How it is asked.
    question : type
        The fields of the request: of the address for GET, of a JSON body for POST, of a form for an upload.
    answer : callable or None
        Given the database and the question; None for an upload, which `uploads` answers.
    sent : {"query", "json", "form"}
        Where the fields stand.
    writes : bool
        Whether it changes something.
    kept : bool
        Whether the answer is kept while nothing is written to the database.
    of_dataset : bool
        Whether the answer rests on the data set asked for and on nothing else, so that it is kept through loads into
        others.
    """

    name: str
    summary: str
    method: Literal["GET", "POST"]
    path: str
    question: type[Question]
    answer: Callable[[Database, Any], Any] | None
    sent: Literal["query", "json", "form"] = "query"
    writes: bool = False
    kept: bool = False
    of_dataset: bool = False


def _datasets(database: Database, _: questions.Nothing) -> Any:
    from analysis.store.queries import sources

    return sources.datasets(database)


def _models(database: Database, asked: questions.ModelsQuestion) -> Any:
    from analysis.predict.models import models

    known = [card for card in models.list_models(database) if asked.dataset in (None, card.dataset)]
    fields = {"model_id", "predictor", "title", "dataset", "gpus", "mechanisms", "runs", "simulated", "created_at"}
    return [card.model_dump(mode="json", include=fields) for card in known]


def _matrix(database: Database, asked: questions.MatrixQuestion) -> Any:
    from analysis.interference.matrix import slowdown_matrix

    return slowdown_matrix(database, asked.dataset, asked.gpu, mechanism=asked.mechanism).to_json()


def _stalls(database: Database, asked: questions.StallsQuestion) -> Any:
    from analysis.stalls.shares import stall_shares
    from analysis.store.queries.profiles import chosen_profiles

    chosen = chosen_profiles(database, asked.gpu, asked.dataset, asked.workload)
    return stall_shares(database, chosen, by=asked.by)


def _explain(database: Database, asked: questions.ExplainQuestion) -> Any:
    from analysis.predict.explain.explain import explain

    model = _model(database, asked.model, asked.dataset)
    found = explain(database, model, asked.gpu, list(asked.jobs), asked.mechanism, asked.dataset)
    return [one.to_json() for one in found]


def _predict(database: Database, asked: questions.PredictQuestion) -> Any:
    from analysis.predict.models.models import predict

    model = _model(database, asked.model, asked.dataset)
    found = predict(database, model, asked.gpu, list(asked.jobs), asked.mechanism, asked.dataset, limit=asked.limit)
    return [one.to_json() for one in found]


def _plan(database: Database, asked: questions.PlanQuestion) -> Any:
    import math

    from analysis.plan.jobs import JobList
    from analysis.plan.planner import make_plan
    from analysis.plan.problem import Job, gpu_kind

    listed = []
    for number, one in enumerate(asked.jobs, start=1):
        if isinstance(one, str):
            listed.append(Job(f"{one}-{number}", one))
            continue
        peak = math.nan if one.peak_memory_mib is None else one.peak_memory_mib
        name = one.job or f"{one.workload}-{number}"
        listed.append(
            Job(name, one.workload, one.owner, one.gpus, peak, one.limit, one.priority, threads=one.threads)
        )  # fmt: skip
    gpus = [gpu_kind(name, count) for name, count in asked.gpus.items()]
    wanted, forbidden = (
        frozenset(frozenset(names) for names in pairs) for pairs in (asked.wanted, asked.forbidden)
    )  # fmt: skip
    found = make_plan(
        database, JobList(tuple(listed), "table", wanted, forbidden), gpus, dataset=asked.dataset, model_id=asked.model,
        mechanism=asked.mechanism, k=asked.k, limit=asked.limit, objective=asked.objective, risk=asked.risk,
        reserve=asked.reserve, over_limit=asked.over_limit, time_limit=asked.time_limit,
    )  # fmt: skip
    return found.to_json()


def _split(database: Database, asked: questions.SplitQuestion) -> Any:
    from analysis.plan.split import split_gpu

    return split_gpu(
        database, asked.gpu, asked.jobs, dataset=asked.dataset, mechanism=asked.mechanism, limit=asked.limit,
        reserve=asked.reserve,
    ).to_json()  # fmt: skip


def _may_join(database: Database, asked: questions.JoinQuestion) -> Any:
    from analysis.plan.planner import may_join

    return may_join(
        database, asked.gpu, asked.running, asked.workload, dataset=asked.dataset, model_id=asked.model,
        mechanism=asked.mechanism, limit=asked.limit, reserve=asked.reserve,
    ).to_json()  # fmt: skip


def _predict_sets(database: Database, asked: questions.PredictSetsQuestion) -> Any:
    from analysis.predict.models.many import answers

    model = _model(database, asked.model, asked.dataset)
    return [one.to_json() for one in answers(database, model, asked.gpu, asked.sets, asked.mechanism, asked.limit)]


def _model(database: Database, model: str | None, dataset: str | None) -> str:
    """Return the model that is asked: the one that is named, else what answers for the data set."""
    from analysis.predict.models.activemodel import answering

    if model is not None:
        return model
    if dataset is None:
        raise UsageError("neither a model nor a data set is named", "Give one of them.")
    return answering(database, dataset)


_MEDIA = {"json": "application/json", "html": "text/html", "csv": "text/csv"}


def _report(database: Database, asked: questions.ReportQuestion) -> Any:
    from analysis.predict.models.models import card
    from analysis.report.build import dataset_report
    from analysis.report.render import to_csv, to_html, to_json

    if asked.model is not None:
        # Known before a long report is made, and not after.
        card(database, asked.model)
    document = dataset_report(
        database,
        asked.dataset,
        gpus=asked.gpu,
        mechanisms=asked.mechanism,
        model_id=asked.model,
        jobs=asked.job,
        limit=asked.limit,
    )
    text = {"json": to_json, "html": to_html, "csv": to_csv}[asked.format](document)
    return Rendered(text, _MEDIA[asked.format], f"stallscope-report.{asked.format}")


OPERATIONS: tuple[Operation, ...] = (
    Operation(
        "datasets", "The data sets that are loaded.", "GET", f"{PREFIX}/datasets", questions.Nothing, _datasets,
        kept=True,
    ),
    Operation(
        "models", "The trained models, the newest first.", "GET", f"{PREFIX}/models", questions.ModelsQuestion, _models,
        kept=True,
    ),
    Operation(
        "stalls", "What the warps of each profile wait for, as shares of warp cycles in percent.", "GET",
        f"{PREFIX}/stalls", questions.StallsQuestion, _stalls, kept=True,
    ),
    Operation(
        "matrix", "Who slows whom: rows the slowed, columns the aggressor, plain ratios.", "GET", f"{PREFIX}/matrix",
        questions.MatrixQuestion, _matrix, kept=True, of_dataset=True,
    ),
    Operation(
        "predict", "What each job of a set would pay for sharing, and whether they may share.", "POST",
        f"{PREFIX}/predict", questions.PredictQuestion, _predict, sent="json",
    ),
    Operation(
        "explain", "Why a model predicts what it does for each job of a set; contributions are in ln S and add up.",
        "POST", f"{PREFIX}/explain", questions.ExplainQuestion, _explain, sent="json",
    ),
    Operation(
        "plan", "Which jobs go together on which GPU, what that gains, and who waits.", "POST", f"{PREFIX}/plan",
        questions.PlanQuestion, _plan, sent="json",
    ),
    Operation(
        "may-join", "Whether one job may join what runs on a GPU.", "POST", f"{PREFIX}/may-join",
        questions.JoinQuestion, _may_join, sent="json",
    ),
    Operation(
        "split", "Which thread percentages or MIG profiles serve jobs on one GPU best.", "POST", f"{PREFIX}/split",
        questions.SplitQuestion, _split, sent="json",
    ),
    Operation(
        "predict-sets", "Whether the jobs of each of many sets may share.", "POST", f"{PREFIX}/predict-sets",
        questions.PredictSetsQuestion, _predict_sets, sent="json",
    ),
    Operation(
        "report", "A report on a data set.", "GET", f"{PREFIX}/report", questions.ReportQuestion, _report, kept=True,
    ),
    Operation(
        "import", "Load files into the database; answers once they are loaded.", "POST", f"{PREFIX}/import",
        questions.ImportQuestion, None, sent="form", writes=True,
    ),
)  # fmt: skip


def answer(operation: Operation, database: Database, asked: Question) -> Any:
    """Compute the answer: plain values, or text of another form."""
    if operation.answer is None:
        raise TypeError(f"{operation.name} is no question")
    found = operation.answer(database, asked)
    return found if isinstance(found, Rendered) else plain(found)
