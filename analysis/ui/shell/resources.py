"""What every session of the server shares: one database, one job runner, and results kept while the data stays."""

from __future__ import annotations

import atexit
import shutil
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import Any, ParamSpec, TypeVar

import streamlit as st

from analysis.jobs.runner import JobRunner
from analysis.settings import get_settings
from analysis.store.database import Database
from analysis.ui.shell import access, markdown
from analysis.ui.shell.errors import guarded

P = ParamSpec("P")
T = TypeVar("T")

#: How far DuckDB's threads stand back behind those that answer readers.
_NICE = 5

#: Folder below the spool where uploads wait to be loaded, those of each database in one of its own.
_UPLOADS = "uploads"

#: What reading writes to the spool and takes away again; seconds after which what is left belongs to nobody any more.
_PASSING = ("import-*", "table-*", "download-*")
_LEFT_AFTER = 24 * 3600.0


@dataclass(frozen=True)
class Services:
    """The database and the runner that writes to it."""

    database: Database
    jobs: JobRunner

    def close(self) -> None:
        """Stop the work, then close the file."""
        self.jobs.close()
        self.database.close()


@st.cache_resource(show_spinner=False, on_release=Services.close)
def _open(path: str) -> Services:
    database = Database(Path(path), read_only=get_settings().read_only, nice=_NICE)
    folder = uploads(database)
    if folder is not None and not database.read_only:
        # A process that may write owns the file, so uploads of an earlier one belong to nobody.
        shutil.rmtree(folder, ignore_errors=True)
        _sweep(folder.parent.parent)
    services = Services(database, JobRunner(database))
    database.guard = access.guard
    atexit.register(services.close)
    return services


def uploads(database: Database) -> Path | None:
    """Return the folder where uploads to a database wait; None for one in memory."""
    if database.spool is None or database.path is None:
        return None
    return database.spool / _UPLOADS / database.path.name


def _sweep(spool: Path) -> None:
    """Take away what a reading left that was killed; what a reading of now writes to lies there too."""
    before = time.time() - _LEFT_AFTER
    for pattern in _PASSING:
        for folder in spool.glob(pattern):
            with suppress(OSError):
                if folder.stat().st_mtime < before:
                    shutil.rmtree(folder, ignore_errors=True)


def database() -> Database:
    """Return the database of this server.

    Raises
    ------
    DatabaseBusyError
        If another process holds the file.
    """
    return _open(str(get_settings().db)).database


def jobs() -> JobRunner:
    """Return the job runner of this server."""
    return _open(str(get_settings().db)).jobs


@st.cache_data(show_spinner=False, max_entries=200)
def _kept(_call: Callable[[], Any], name: str, path: str, version: int, arguments: str) -> Any:
    return _call()


def cached(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Call a function of the database once for as long as nothing is written to it.

    Parameters
    ----------
    function : callable
        A pure reader; its first argument is the database.
    *args, **kwargs
        Its arguments. All but the database need a ``repr`` that tells them apart: strings, numbers, tuples, filters.
    """
    result: T = _kept(lambda: function(*args, **kwargs), *call_key(function, *args, **kwargs))
    return result


def call_key(function: Callable[P, Any], *args: P.args, **kwargs: P.kwargs) -> tuple[str, str, int, str]:
    """Return what tells a call of the database from every other: name, file, version of the data, arguments."""
    opened = database()
    rest = repr([value for value in args if value is not opened]) + repr(sorted(kwargs.items()))
    name = f"{function.__module__}.{getattr(function, '__qualname__', repr(function))}"
    return name, str(opened.path), opened.version, rest


@st.cache_resource(show_spinner=False, max_entries=60)
def _drawn(_draw: Callable[[], Any], arguments: str) -> Any:
    return _draw()


def drawn(draw: Callable[[], T], *key: object) -> T:
    """Draw a chart once for as long as nothing is written to the database; for each theme its own.

    Parameters
    ----------
    draw : callable
        Makes the chart, which nobody changes afterwards: every session gets the same object.
    *key : object
        What the chart depends on; each needs a ``repr`` that tells it apart.
    """
    opened = database()
    result: T = _drawn(draw, repr((str(opened.path), opened.version, theme(), *key)))
    return result


def theme() -> str:
    """Return ``light`` or ``dark``, as the reader's browser shows the application."""
    return "dark" if st.context.theme.type == "dark" else "light"


#: A page waits so long by itself, so that quick results come at once.
PATIENCE_SECONDS = 0.7

POLL_SECONDS = 0.5

#: Results that are kept.
_MOST = 20


@dataclass
class _Desk:
    """One worker for all sessions, and what it was asked for."""

    pool: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(1, thread_name_prefix="page"))
    asked: dict[str, tuple[Future[Any], float]] = field(default_factory=dict)
    lock: Lock = field(default_factory=Lock)

    def ask(self, key: str, work: Callable[[], Any]) -> tuple[Future[Any], float]:
        """Return the work of a key and when it was begun; it is begun once."""
        with self.lock:
            if key not in self.asked:
                for old in [one for one, (future, _) in self.asked.items() if future.done()][: -_MOST or None]:
                    del self.asked[old]
                self.asked[key] = (self.pool.submit(work), time.monotonic())
            return self.asked[key]

    def forget(self, key: str) -> None:
        """Let a key be begun anew."""
        with self.lock:
            self.asked.pop(key, None)


@st.cache_resource(show_spinner=False)
def _desk() -> _Desk:
    return _Desk()


def result(words: str, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T | None:
    """Return what a pure reader of the database says, once it has said it; the same call is made once.

    Parameters
    ----------
    words : str
        What is going on, shown as long as it does.
    function : callable
        Its first argument is the database; the others need a ``repr`` that tells them apart.
    *args, **kwargs
        Its arguments.

    Returns
    -------
    object or None
        None while the work goes on; the page then runs again by itself.
    """
    key = repr(call_key(function, *args, **kwargs))
    future, since = _desk().ask(key, lambda: function(*args, **kwargs))
    wait([future], timeout=PATIENCE_SECONDS)
    if future.done():
        if future.exception() is not None:  # asked again, it may succeed
            _desk().forget(key)
        found: T = future.result()
        return found
    _poll(key, words, since)
    return None


@st.fragment(run_every=POLL_SECONDS)
@guarded
def _poll(key: str, words: str, since: float) -> None:
    found = _desk().asked.get(key)
    if found is None or found[0].done():
        st.rerun()
    with st.container(border=True, key="page-work"):
        st.markdown(f":material/hourglass_top: {markdown.plain(words)} · {time.monotonic() - since:.0f} s")
        st.caption("The rest of the page can be used meanwhile.")
