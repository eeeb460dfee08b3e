"""The OpenAPI document, made from the operations themselves."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Iterable, Mapping
from typing import Any

from analysis.reference.columns import terms
from analysis.ui.api.operations import OPERATIONS, Operation
from analysis.ui.api.tokens import PREFIX

#: Refusals that every operation may give, and what they mean.
REFUSALS = {
    "400": "The request is malformed.",
    "401": "No valid token was sent.",
    "403": "The token, or this server, may not do that.",
    "404": "What was named is not in the database.",
    "413": "The request is larger than this server takes.",
    "422": "The request is understood and can't be answered: a file was refused, or the data can't carry it.",
    "429": "Too many uploads at once.",
}

#: What the fields of the rows of an answer mean, in the words of pages and reports.
_ROWS: Mapping[str, tuple[str, ...]] = {
    "datasets": (
        "name/dataset", "title", "simulated", "licence", "citation", "sources", "workloads", "profiles", "runs/coruns",
    ),
    "models": (
        "model_id", "predictor", "title/predictor", "dataset", "gpus", "mechanisms", "runs/coruns", "simulated",
        "created_at",
    ),
    "predict": (
        "workload/job", "slowdown", "low/interval", "high/interval", "coverage/level", "measured", "extrapolating",
        "evidence", "memory", "verdict", "why", "simulated", "thread_percentage",
    ),
}  # fmt: skip

_ERROR = {
    "type": "object",
    "required": ["error", "cure"],
    "properties": {"error": {"type": "string"}, "cure": {"type": "string"}},
}


def document() -> dict[str, Any]:
    """Return the document."""
    paths: dict[str, Any] = {}
    for operation in OPERATIONS:
        paths.setdefault(operation.path, {})[operation.method.lower()] = _operation(operation)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "StallScope",
            "version": importlib.metadata.version("stallscope"),
            "description": "Which training jobs can share a GPU, and what will each of them pay for it? Slowdowns are "
            "plain ratios, errors and coverages in percent, and a value that does not exist is null.",
        },
        "paths": paths,
        "components": {
            "schemas": {"Error": _ERROR, **_parts()},
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def _schema(operation: Operation) -> dict[str, Any]:
    return operation.question.model_json_schema(ref_template="#/components/schemas/{model}")


def _parts() -> dict[str, Any]:
    """Return the schemas that questions are made of."""
    return {name: part for one in OPERATIONS for name, part in _schema(one).get("$defs", {}).items()}


def _operation(operation: Operation) -> dict[str, Any]:
    schema = _schema(operation)
    schema.pop("$defs", None)
    described: dict[str, Any] = {
        "operationId": operation.name,
        "summary": operation.summary,
        "security": [{"token": []}] if operation.writes else [{}, {"token": []}],
        "responses": {
            "200": {"description": "The answer.", "content": _answers(operation)},
            **{
                status: {"description": words, "content": {"application/json": {"schema": _reference()}}}
                for status, words in REFUSALS.items()
            },
        },
    }
    if operation.sent == "query":
        required = set(schema.get("required", []))
        described["parameters"] = [
            {"name": name, "in": "query", "required": name in required, "schema": field}
            for name, field in schema.get("properties", {}).items()
        ]
    else:
        media = "application/json" if operation.sent == "json" else "multipart/form-data"
        if operation.sent == "form":
            files = {"type": "array", "minItems": 1, "items": {"type": "string", "format": "binary"}}
            schema = {
                **schema,
                "properties": {"file": files, **schema["properties"]},
                "required": ["file", *schema.get("required", [])],
            }
        described["requestBody"] = {"required": True, "content": {media: {"schema": schema}}}
    return described


def _answers(operation: Operation) -> dict[str, Any]:
    if operation.name == "report":
        return {media: {} for media in ("application/json", "text/html", "text/csv")}
    if operation.name in ("matrix", "plan", "may-join", "split"):
        return {"application/json": {"schema": {"type": "object"}}}
    return {"application/json": {"schema": {"type": "array", "items": _row(_ROWS.get(operation.name, ()))}}}


def _row(names: Iterable[str]) -> dict[str, Any]:
    """Describe the rows of an answer by entries of the vocabulary of columns; they may have other fields too."""
    fields = {one.key: {"title": one.header, "description": one.help} for one in terms(names)}
    return {"type": "object", "properties": fields}


def _reference() -> dict[str, str]:
    return {"$ref": "#/components/schemas/Error"}


#: Where the document itself is.
PATH = f"{PREFIX}/openapi.json"
