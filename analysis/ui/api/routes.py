"""The routes beside the pages: who asks is checked, the question read and answered, an error turned into an answer."""

from __future__ import annotations

import json
import uuid
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from analysis.errors import (
    DatabaseBusyError,
    NotAllowedError,
    NotFoundError,
    StallScopeError,
    UsageError,
)
from analysis.logs import get_logger
from analysis.settings import get_settings
from analysis.store.database import Database
from analysis.ui.api import openapi, operations, reading, uploads
from analysis.ui.api.operations import OPERATIONS, Operation, Rendered
from analysis.ui.api.questions import Question
from analysis.ui.api.tokens import PREFIX, Refusal, Tokens
from analysis.ui.shell import access

_log = get_logger(__name__)

#: Questions that are computed at a time; the rest wait, so that the pages keep their share of the processors.
_AT_ONCE = 4

_STATUS: tuple[tuple[type[StallScopeError], int], ...] = (
    (NotFoundError, 404),
    (UsageError, 400),
    (NotAllowedError, 403),
    (DatabaseBusyError, 503),
    (StallScopeError, 422),
)

Answer = Callable[[Request], Awaitable[Response]]


class Interface:
    """The programming interface of one server.

    Parameters
    ----------
    tokens : Tokens
        Who may ask.
    """

    def __init__(self, tokens: Tokens) -> None:
        self._tokens = tokens
        self._ready = False
        self._limiter: anyio.CapacityLimiter | None = None
        self._kept: OrderedDict[tuple[int, str, str], Response] = OrderedDict()
        self._locks: dict[tuple[int, str, str], anyio.Lock] = {}

    def routes(self) -> list[Route]:
        """Return the routes of all operations and of the document that describes them."""
        made = [Route(one.path, self._guarded(one), methods=[one.method], name=one.name) for one in OPERATIONS]
        made.append(Route(openapi.PATH, self._document, methods=["GET"]))
        # Last, so that what is not there is refused in the same form, and never answered by a page.
        everything = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT"]
        made.append(Route(f"{PREFIX}/{{rest:path}}", _nothing_there, methods=everything))
        return made

    def _guarded(self, operation: Operation) -> Answer:
        async def handle(request: Request) -> Response:
            try:
                header = request.headers.get("authorization")
                self._tokens.check(header, writes=operation.writes, login=access.login_configured())
                if operation.writes and get_settings().read_only:
                    return refused(Refusal(403, *access.READ_ONLY))
                return await self._answer(operation, request)
            except Refusal as refusal:
                return refused(refusal)
            except StallScopeError as error:
                status = next(number for kind, number in _STATUS if isinstance(error, kind))
                place = f"{error.where}: " if str(error.where) else ""
                return refused(Refusal(status, f"{place}{error.what}", error.cure))
            except ClientDisconnect:
                return Response(status_code=400)
            except Exception:
                log_id = uuid.uuid4().hex[:8]
                _log.exception("request failed", operation=operation.name, log_id=log_id)
                what = f"this did not work, through no fault of yours ({log_id})"
                return refused(Refusal(500, what, "The server's log says more."))

        return handle

    async def _answer(self, operation: Operation, request: Request) -> Response:
        if operation.sent == "form":
            return JSONResponse(await uploads.answer(request))
        if operation.sent == "json":
            asked = await reading.from_json(operation, request)
        else:
            asked = reading.from_query(operation, request)
        if not operation.kept:
            return await self._compute(operation, asked)
        # Opening the file for the first time may take a while; afterwards it is at hand.
        opened = _opened() if self._ready else await anyio.to_thread.run_sync(_opened)
        self._ready = True
        # A file that is loaded into another data set need not make twenty readers wait for the same answer again.
        version = opened.version_of(str(getattr(asked, "dataset"))) if operation.of_dataset else opened.version  # noqa: B009
        key = (version, operation.name, asked.model_dump_json())
        # Those who ask the same at once wait for the first of them.
        async with self._locks.setdefault(key, anyio.Lock()):
            found = self._kept.get(key)
            if found is None:
                found = await self._compute(operation, asked)
                self._keep(key, found)
        self._locks.pop(key, None)
        # Each request gets an answer of its own: what stands around it may add to its headers.
        return Response(bytes(found.body), headers=dict(found.headers))

    def _keep(self, key: tuple[int, str, str], found: Response) -> None:
        for old in [one for one in self._kept if one[1:] == key[1:] and one[0] != key[0]]:
            del self._kept[old]
        self._kept[key] = found
        while sum(len(one.body) for one in self._kept.values()) > operations.KEEP_BYTES:
            self._kept.popitem(last=False)

    async def _compute(self, operation: Operation, asked: Question) -> Response:
        self._limiter = self._limiter or anyio.CapacityLimiter(_AT_ONCE)

        def work() -> Response:
            found = operations.answer(operation, _opened(), asked)
            if not isinstance(found, Rendered):
                return Response(json.dumps(found, allow_nan=False), media_type="application/json")
            # A report is for a file: shown in place, it would be a page of this server's own origin.
            named = {"Content-Disposition": f'attachment; filename="{found.file_name}"'}
            return Response(found.text, media_type=found.media_type, headers=named)

        return await anyio.to_thread.run_sync(work, limiter=self._limiter)

    async def _document(self, _: Request) -> Response:
        return JSONResponse(openapi.document())


def _opened() -> Database:
    # Streamlit's caches want to be made once its server runs, and not when the routes are.
    from analysis.ui.shell.resources import database

    return database()


async def _nothing_there(request: Request) -> Response:
    known = {operation.path: operation.method for operation in OPERATIONS}
    method = known.get(request.url.path)
    if method is not None:
        return refused(Refusal(405, f"{request.method} is not how this is asked", f"Use {method}."))
    return refused(Refusal(404, "there is no such operation", f"{openapi.PATH} lists those that there are."))


def refused(refusal: Refusal) -> Response:
    """Return the one form of every refusal."""
    body: dict[str, Any] = {"error": f"{refusal.error[:1].upper()}{refusal.error[1:]}", "cure": refusal.cure}
    headers = {"WWW-Authenticate": "Bearer"} if refusal.status == 401 else None
    return JSONResponse(body, status_code=refusal.status, headers=headers)
