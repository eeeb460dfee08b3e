"""What was read of a database, kept for as long as nothing is written to it."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from threading import Lock
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

from analysis.store.database import Database

T = TypeVar("T")

#: Results kept for each database and kind.
MOST = 4

_KEPT: WeakKeyDictionary[Database, dict[tuple[str, int, Hashable], Any]] = WeakKeyDictionary()
_LOCK = Lock()


def kept(database: Database, kind: str, key: Hashable, read: Callable[[], T]) -> T:
    """Return what a reader says, read once for each state of the database; nobody may change it.

    Parameters
    ----------
    database : Database
        The open database.
    kind : str
        What is read.
    key : hashable
        Which of the kind.
    read : callable
        Reads it.
    """
    version = database.version
    with _LOCK:
        of_database = _KEPT.setdefault(database, {})
        if (kind, version, key) in of_database:
            found: T = of_database[kind, version, key]
            return found
    read_now = read()
    with _LOCK:
        alike = [one for one in of_database if one[0] == kind]
        for old in [one for one in alike if one[1] != version] + alike[: max(len(alike) - MOST + 1, 0)]:
            of_database.pop(old, None)
        of_database[kind, version, key] = read_now
    return read_now
