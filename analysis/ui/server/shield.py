"""Stands before everything the server answers: names it is asked by, headers of answers, and who may send files."""

from __future__ import annotations

from collections.abc import Callable, MutableMapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

#: Names of this machine for itself; a page of a stranger can't make a browser send them.
LOOPBACK = ("127.0.0.1", "localhost", "::1")

_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "SAMEORIGIN",
    "Referrer-Policy": "same-origin",
}
_UPLOADS = "/_stcore/upload_file/"
_HEALTH = "/_stcore/health"
_METRICS = "/_stcore/metrics"
_API = "/api/"


class Shield:
    """Middleware of the whole server.

    Parameters
    ----------
    app : ASGI application
        What it stands before.
    hosts : sequence of str
        Names by which the server may be asked, ``*.example.org`` for all below one and ``*`` for any. Another name is
        a sign that a stranger's page sends the request.
    may_upload : callable
        Given the session that sends a file to a page; says whether it may.
    may_count : callable
        Whether everybody may read the server's own counters.
    """

    def __init__(
        self,
        app: ASGIApp,
        hosts: Sequence[str],
        may_upload: Callable[[str], bool],
        may_count: Callable[[], bool] = lambda: True,
    ) -> None:
        self._app = app
        self._hosts = tuple(host.lower() for host in hosts)
        self._may_upload = may_upload
        self._may_count = may_count

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request through or refuse it."""
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        path = str(scope["path"])
        if path != _HEALTH and not self.known(Headers(scope=scope).get("host")):
            await self._refuse(
                scope, receive, send, 400, "this server is not known by that name", "Add it with --host."
            )
            return
        if scope["type"] == "http" and path.startswith(_API) and ".." in path.split("/"):
            # Refused by what stands behind this too, but not in the form of every other refusal.
            await self._refuse(scope, receive, send, 404, "there is no such operation", "Ask without `..` in the path.")
            return
        if path == _METRICS and not self._may_count():
            await self._refuse(scope, receive, send, 403, "the server's counters are not open here", "Read its log.")
            return
        if scope["type"] == "http" and path.startswith(_UPLOADS) and scope["method"] in ("PUT", "POST", "DELETE"):
            session = path.removeprefix(_UPLOADS).partition("/")[0]
            if not self._may_upload(session):
                await self._refuse(scope, receive, send, 403, "files can't be sent here", "Ask to be named an editor.")
                return
        await self._app(scope, receive, _with_headers(send) if scope["type"] == "http" else send)

    def known(self, host: str | None) -> bool:
        """Say whether the server may be asked by this name; a port with it is ignored."""
        if "*" in self._hosts:
            return True
        try:
            name = urlsplit(f"//{host or ''}").hostname
        except ValueError:
            return False
        return name is not None and any(
            name.endswith(one[1:]) if one.startswith("*.") else name == one for one in self._hosts
        )

    async def _refuse(self, scope: Scope, receive: Receive, send: Send, status: int, error: str, cure: str) -> None:
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
            return
        response = JSONResponse({"error": f"{error[:1].upper()}{error[1:]}", "cure": cure}, status_code=status)
        await response(scope, receive, send)


def _with_headers(send: Send) -> Send:
    async def sender(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(raw=_raw(message))
            for name, value in _HEADERS.items():
                headers.setdefault(name, value)
            message["headers"] = headers.raw
        await send(message)

    return sender


def _raw(message: MutableMapping[str, Any]) -> list[tuple[bytes, bytes]]:
    return [(bytes(name), bytes(value)) for name, value in message.get("headers", [])]
