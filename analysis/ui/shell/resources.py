"""What every session of the server shares: one database, one job runner, and results kept while the data stays."""

from __future__ import annotations

import atexit
import shutil
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import streamlit as st

from analysis.jobs.runner import JobRunner
from analysis.settings import get_settings
from analysis.store.database import Database
from analysis.ui.shell import access

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
