"""Reads a request into a question, and says in one sentence what is wrong with one that can't be read."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable
from typing import Any

from pydantic import ValidationError
from starlette.requests import Request

from analysis.ui.api.operations import Operation
from analysis.ui.api.questions import Question
from analysis.ui.api.tokens import Refusal

#: Bytes of a request that carries no files.
MAX_BODY = 1 << 20


def from_query(operation: Operation, request: Request) -> Question:
    """Read the fields of an address.

    Raises
    ------
    Refusal
        If a field is unknown, missing, given twice, or holds what it can't.
    """
    return from_pairs(operation.question, request.query_params.multi_items())


def from_pairs(kind: type[Question], pairs: Iterable[tuple[str, str]]) -> Question:
    """Read fields that come as text, several of one name where the field holds several."""
    given: dict[str, Any] = {}
    for name, value in pairs:
        field = kind.model_fields.get(name)
        if field is not None and str(field.annotation).startswith("tuple"):
            given.setdefault(name, []).append(value)
        elif name in given:
            raise Refusal(400, f"{name[:80]} is given twice", "Give it once.")
        else:
            given[name] = value
    try:
        return kind.model_validate(given)
    except ValidationError as error:
        raise wrong(error) from error


async def from_json(operation: Operation, request: Request) -> Question:
    """Read a JSON body.

    Raises
    ------
    Refusal
        If it is too large, no JSON, or not of the fields that are asked for.
    """
    media = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media != "application/json":
        raise Refusal(400, "the body is not said to be JSON", "Send it with `Content-Type: application/json`.")
    parts = [part async for part in limited(request, MAX_BODY)]
    try:
        return operation.question.model_validate_json(b"".join(parts))
    except ValidationError as error:
        raise wrong(error) from error


async def limited(request: Request, most: int) -> AsyncGenerator[bytes, None]:
    """Yield the body, and stop as soon as it is longer than it may be, whatever its header says."""
    told = request.headers.get("content-length", "")
    seen = int(told) if told.isdecimal() and len(told) < 20 else 0
    too_large = Refusal(
        413, f"the request is larger than {most >> 20:,} MiB", "Send less at once, or compress files with gzip."
    )
    if seen > most:
        raise too_large
    seen = 0
    async for part in request.stream():
        seen += len(part)
        if seen > most:
            raise too_large
        yield part


def wrong(error: ValidationError) -> Refusal:
    """Say what is wrong with a request: the first field that is, without what was sent."""
    first = error.errors(include_url=False, include_input=False)[0]
    place = ".".join(str(part) for part in first["loc"])[:80]
    words = first["msg"].removeprefix("Value error, ")
    sentence = f"{place}: {words[:1].lower()}{words[1:]}" if place else words
    return Refusal(400, sentence[:400], "The document at /api/v1/openapi.json says which fields there are.")
