"""Starts the browser application, and the programming interface with it, from a checkout or an installed wheel."""

from __future__ import annotations

import gc
import importlib.util
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

from analysis.errors import StallScopeError, UsageError, Where
from analysis.settings import asset, get_settings
from analysis.store.database import Database
from analysis.ui.api.tokens import PREFIX, Tokens, tokens
from analysis.ui.server.shield import LOOPBACK
from analysis.ui.shell import access
from analysis.ui.shell.access import Role

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

#: Seconds between two looks at whether the server answers, and after which nobody waits any more.
_LOOK, _LONGEST = 0.1, 300.0

#: Addresses that mean every interface, and where such a server answers on this machine.
_EVERY = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}  # noqa: S104 - compared with, not listened on


def who_may(tokens: Tokens, *, exposed: bool, login: bool) -> str:
    """Return two sentences: who may look at the pages and change something, and the same of programs."""
    read_only = get_settings().read_only
    if login:
        named = access.current()
        pages = f"those who sign in: {_counted(len(named.editors), 'editor')}, {_counted(len(named.viewers), 'viewer')}"
        pages += ", none of whom may change anything" if read_only else " by address or pattern"
    else:
        who = "everyone who reaches this address" if exposed else "everyone on this machine"
        pages = f"{who} may {'read' if read_only else 'read and change everything'}, without signing in"
    kept = list(tokens.roles.values())
    if kept:
        programs = f"those with a token: {_counted(kept.count(Role.EDITOR), 'editor')}, "
        programs += _counted(kept.count(Role.VIEWER), "viewer")
        programs += "; nothing can be written" if read_only else ""
    elif exposed or login:
        programs = "off, as no token is set"
    else:
        programs = "reading without a token, as only this machine reaches it; nothing can be written without one"
    return f"Pages: {pages}.\nPrograms: {programs}."


def _counted(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def say_when_ready(address: str, port: int, text: str) -> threading.Thread:
    """Print a text once the server answers: whoever waits for the line can connect then. Then warm up."""

    def wait() -> None:
        end = time.monotonic() + _LONGEST
        while time.monotonic() < end:
            try:
                with socket.create_connection((_EVERY.get(address, address), port), timeout=1):
                    break
            except OSError:
                time.sleep(_LOOK)
        sys.stdout.write(text)
        sys.stdout.flush()
        _warm()

    thread = threading.Thread(target=wait, name="stallscope-announcing", daemon=True)
    thread.start()
    return thread


#: Streamlit's own port, tried first so that the address in the README is right.
FIRST_PORT = 8501
_TRIES = 50

#: Modules without which nobody can sign in, though the server would start.
LOGIN_NEEDS = ("authlib", "httpx")

#: Seconds that a thread may compute before another that waits gets its turn.
_TURN = 0.0005


@dataclass(frozen=True)
class Place:
    """Where the server listens and by which names it may be asked.

    Attributes
    ----------
    address : str
        Interface to listen on.
    port : int
        Port to listen on.
    hosts : tuple of str
        Names that others may ask by, as given; this machine's own names are always among those allowed.
    """

    address: str
    port: int
    hosts: tuple[str, ...] = ()

    @property
    def exposed(self) -> bool:
        """Whether others than this machine can reach it, be it through a proxy that asks by another name."""
        return self.address not in LOOPBACK or any(host not in LOOPBACK for host in self.hosts)

    @property
    def allowed(self) -> tuple[str, ...]:
        """Names that the server answers to."""
        if self.address not in LOOPBACK and not self.hosts:
            return ("*",)
        return (*LOOPBACK, *self.hosts)


def serve(
    *,
    db: Path | None = None,
    address: str = "127.0.0.1",
    port: int | None = None,
    hosts: Sequence[str] = (),
    read_only: bool = False,
    secrets: Path | None = None,
) -> int:
    """Run the application until it is stopped by Ctrl-C or a termination signal.

    Streamlit finds the shipped configuration beside ``app.py``, where it outranks a configuration of the directory the
    user happens to be in; what matters for safety is given as flags, which outrank everything.

    Parameters
    ----------
    db : Path, optional
        The database file; that of the settings when left out.
    address : str
        Interface to listen on.
    port : int, optional
        Port to listen on; the first free one from 8501 on when left out.
    hosts : sequence of str
        Names by which others may ask, such as that of a proxy; ``*.example.org`` means all below one.
    read_only : bool
        Open the database so that nothing can write to it.
    secrets : Path, optional
        The file with the section ``auth``; Streamlit's own places when left out.

    Returns
    -------
    int
        Exit code, 0 after an orderly stop.

    Raises
    ------
    DatabaseBusyError, DatabaseVersionError
        If the database can't be opened: better said here than on every page.
    StallScopeError
        If the port is taken, the address is not one of this machine, or login or tokens are set up wrongly.
    """
    if db is not None:
        os.environ["STALLSCOPE_DB"] = str(db.expanduser().resolve())
    if read_only:
        os.environ["STALLSCOPE_READ_ONLY"] = "true"
    get_settings.cache_clear()
    settings = get_settings()
    Database(settings.db, read_only=settings.read_only).close()
    app = asset("app.py")
    port = _checked(address, port) if port is not None else _free(address)
    place = Place(address, port, tuple(hosts))
    files = _secrets(secrets)
    signed = login(files)
    for warning in warnings(place, login=signed):
        sys.stderr.write(f"{warning}\n")
    shown = f"[{address}]" if ":" in address else address
    how = ", for reading only" if settings.read_only else ""
    may = who_may(tokens(settings, exposed=place.exposed), exposed=place.exposed, login=signed)
    text = f"StallScope at http://{shown}:{port}\nDatabase {settings.db}{how}\n{may}\nCtrl-C ends it.\n"
    say_when_ready(address, port, text)
    return _run(app, place, files)


def warnings(place: Place, *, login: bool) -> list[str]:
    """Say what is open to whom, each with the cure."""
    settings, found = get_settings(), []
    if place.exposed and not login:
        may = "read the database" if settings.read_only else "read and change the database"
        behind = place.address in LOOPBACK
        where = f"whatever passes requests for {', '.join(place.hosts)} on to it" if behind else place.address
        cure = "leave out --host" if behind else "listen on 127.0.0.1"
        found.append(
            f"Others can reach this server. There is no login unless you configure one: anyone who reaches {where} can "
            f"{may}. Add a section [auth] to the secrets, or {cure}."
        )
    if place.exposed and not place.hosts:
        found.append(
            "This server answers to any name, so that a stranger's page can reach it through a reader's browser. Name "
            "those that it is known by with --host."
        )
    if login and not access.anybody_named(settings):
        found.append(
            "Nobody is named who may sign in: set STALLSCOPE_ROLES, STALLSCOPE_EDITORS or STALLSCOPE_VIEWERS, or "
            "every reader is turned away."
        )
    return found


def _secrets(path: Path | None) -> list[str]:
    if path is None:
        return []
    if not path.is_file():
        raise UsageError("there is no such file of secrets", "Check --secrets.", Where(str(path)))
    return [str(path.resolve())]


def login(files: Sequence[str] = ()) -> bool:
    """Say whether readers sign in, once what that needs has been checked.

    Parameters
    ----------
    files : sequence of str
        The files of secrets; Streamlit's own places when left out.

    Raises
    ------
    StallScopeError
        If the secrets can't be read, or what signing in needs is not installed.
    """
    import tomllib

    candidates = [Path(file) for file in files] or [
        Path.home() / ".streamlit" / "secrets.toml",
        asset("app.py").parent / ".streamlit" / "secrets.toml",
        Path.cwd() / ".streamlit" / "secrets.toml",
    ]
    found = False
    for path in candidates:
        try:
            found = found or "auth" in tomllib.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            continue
        except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
            # Not the parser's own words: they may hold a line of the secrets.
            raise UsageError("the file of secrets can't be read", "Correct it.", Where(str(path))) from error
    missing = [name for name in LOGIN_NEEDS if importlib.util.find_spec(name) is None]
    if found and missing:
        raise StallScopeError(
            f"login is configured, but what it needs is not installed: {', '.join(missing)}",
            "Install them with `pip install 'stallscope[login]'`.",
        )
    if found:
        access.current()
    return found


class _Interface:
    """The programming interface, imported with the first question: what it needs costs more than the whole server."""

    def __init__(self, held: Tokens) -> None:
        self._tokens = held
        self._router: ASGIApp | None = None
        self._lock = threading.Lock()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        import anyio

        router = self._router
        if router is None:
            router = await anyio.to_thread.run_sync(self._made)
        await router(scope, receive, send)

    def _made(self) -> ASGIApp:
        from starlette.routing import Router

        from analysis.ui.api.routes import Interface

        with self._lock:
            if self._router is None:
                self._router = Router(Interface(self._tokens).routes())
            return self._router


def _warm() -> None:
    """Import what the first page and the first question need, while nobody waits for it."""
    import plotly.graph_objects  # noqa: F401

    import analysis.ui.api.routes  # noqa: F401

    # What is imported by now stays: looking for garbage in it would stop all readers for a sixth of a second.
    gc.collect()
    gc.freeze()


def application(app: Path, place: Place) -> object:
    """Return the ASGI application: the pages, and the programming interface beside them."""
    import streamlit as st
    from starlette.middleware import Middleware
    from starlette.routing import Route

    from analysis.ui.server.shield import Shield
    from analysis.ui.shell import access

    interface = _Interface(tokens(get_settings(), exposed=place.exposed))
    shield = Middleware(
        Shield,
        hosts=place.allowed,
        may_upload=access.may_upload,
        may_count=lambda: not (place.exposed or access.login_configured()),
    )
    return st.App(app, routes=[Route(f"{PREFIX}/{{rest:path}}", interface)], middleware=[shield])


def _run(app: Path, place: Place, secrets: list[str]) -> int:
    from streamlit.runtime.pages_manager import PagesManager

    # app.py registers its pages. Until it has run once, Streamlit takes the folder pages/ for its older convention and
    # tells the first visitor of a page's address that there is no such page.
    PagesManager.uses_pages_directory = False
    flags: dict[str, object] = {
        "server.address": place.address,
        "server.port": place.port,
        "server.enableXsrfProtection": True,
        "server.enableCORS": True,
        "logger.hideWelcomeMessage": True,
    }
    if "*" not in place.allowed:
        flags["server.allowedHosts"] = list(place.allowed)
    if secrets:
        flags["secrets.files"] = secrets
    made = application(app, place)
    _end_in_time()
    # Work of a page computes without a pause: readers get their turn ten times as often as by default.
    sys.setswitchinterval(_TURN)
    # Streamlit looks for its configuration beside the program that was started.
    sys.argv = [str(app)]
    try:
        made.run(config=flags)  # type: ignore[attr-defined]
    except KeyboardInterrupt:
        return 0
    except SystemExit as stopped:
        return stopped.code if isinstance(stopped.code, int) else 1
    return 0


#: Seconds after the first signal: as long as that requests and jobs may end by themselves, and when nothing is left.
_ORDERLY, _LAST = 3.0, 4.5


def _end_in_time() -> None:
    """Let a signal end the process within seconds, whatever runs in it.

    The server would wait for every open request, be it an import of an hour, and Python for threads that compute. What
    is not committed by then is rolled back when the file is opened next, and a job that was running says so.
    """
    import uvicorn

    told = uvicorn.Server.handle_exit
    begun = threading.Event()

    def end() -> None:
        time.sleep(_ORDERLY)
        sys.stdout.flush()
        os._exit(0)

    def handle_exit(self: uvicorn.Server, sig: int, frame: FrameType | None) -> None:
        if not begun.is_set():
            begun.set()
            threading.Thread(target=end, name="stallscope-ending", daemon=True).start()
            # The kernel itself, where no thread of Python gets its turn any more.
            if hasattr(signal, "setitimer"):
                signal.signal(signal.SIGALRM, signal.SIG_DFL)
                signal.setitimer(signal.ITIMER_REAL, _LAST)
        told(self, sig, frame)

    uvicorn.Server.handle_exit = handle_exit  # type: ignore[method-assign]


def _checked(address: str, port: int) -> int:
    problem = _problem(address, port)
    if problem:
        raise StallScopeError(
            f"port {port} on {address} can't be used: {problem}",
            "Stop the program that holds it, or give another with --port and --address.",
        )
    return port


def _free(address: str) -> int:
    problem = ""
    for port in range(FIRST_PORT, FIRST_PORT + _TRIES):
        problem = _problem(address, port)
        if not problem:
            return port
    raise StallScopeError(
        f"no port from {FIRST_PORT} to {FIRST_PORT + _TRIES - 1} on {address} can be used: {problem}",
        "Give a free one with --port, and one of this machine's own addresses with --address.",
    )


def _problem(address: str, port: int) -> str:
    """Say why one can't listen there, or return an empty string."""
    try:
        family, kind, protocol, _, target = socket.getaddrinfo(address, port, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind, protocol) as probe:
            # As the server will: a port whose last connections are still winding down is free.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(target)
    except OSError as error:
        return error.strerror or str(error)
    return ""
