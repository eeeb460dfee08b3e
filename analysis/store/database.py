"""The one object through which everything reads and writes the DuckDB file."""

from __future__ import annotations

import os
import re
import shutil
import sys
import threading
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import duckdb

from analysis.errors import DatabaseBusyError, NotAllowedError, NotFoundError, StallScopeError
from analysis.settings import get_settings
from analysis.store.migrate import current, migrate

if TYPE_CHECKING:  # DuckDB imports it with the first frame, and a server that starts waits for nothing
    import pandas as pd

T = TypeVar("T")

#: Results of one kind that are kept until something is written.
MOST_OF_A_KIND = 4

Parameters = Sequence[object] | Mapping[str, object] | None


class Database:
    """A DuckDB file with one guarded writer and a cursor for every read.

    The process that opens the file owns it; threads share this object. Reads never wait for one another, writes are
    serialised and each is one transaction.

    Parameters
    ----------
    path : Path or None
        The database file, made when missing; None for a database in memory.
    spool : Path, optional
        The only directory DuckDB may read files from. By default ``spool`` beside the database file.
    memory_limit : str, optional
        DuckDB's memory limit; by default that of the settings.
    read_only : bool
        Open the file so that nothing can write to it, DuckDB itself included. Several processes may do so at once.
    nice : int
        How far DuckDB's own threads stand back behind those that ask it, where the system can tell them apart. A server
        wants that: loading a file would otherwise take every processor from those who answer readers.

    Attributes
    ----------
    guard : callable
        Asked before every write, in the thread that writes; raises where whoever runs there may only read.

    Raises
    ------
    DatabaseBusyError
        If another process holds the file.
    DatabaseVersionError
        If a newer StallScope wrote the file. One of an older is read through a private copy where it is opened for
        reading only; then, if there is no room for the copy.
    NotFoundError
        If it is opened for reading only and does not exist.
    """

    def __init__(
        self,
        path: Path | None,
        *,
        spool: Path | None = None,
        memory_limit: str | None = None,
        read_only: bool = False,
        nice: int = 0,
    ) -> None:
        self.path = path
        self.read_only = read_only
        self.guard: Callable[[], None] = _anyone
        self._lock = threading.RLock()
        self._version = 0
        self._of_all = 0
        self._of_one: Counter[str] = Counter()
        self._results: dict[tuple[str, int, Hashable], Any] = {}
        self._results_lock = threading.Lock()
        if path is not None:
            path = path.expanduser()
            if read_only and not path.exists():
                raise NotFoundError(f"there is no database at {path}", "Name another with --db or STALLSCOPE_DB.")
            if not read_only:
                _make_folder(path.parent)
            spool = spool or path.parent / "spool"
        self.spool = spool
        self._copy: Path | None = None
        self._connection = _standing_back(lambda: connect(path, read_only=read_only), nice)
        try:
            with speaking_of(path):
                if path is not None and read_only:
                    self._connection, self._copy = current(self._connection, path, _connect_to)
                # Nothing is loaded where nothing may be written: no folder is needed, and none can be made perhaps.
                harden(self._connection, None if read_only else spool, memory_limit or get_settings().memory_limit)
                if not read_only:
                    migrate(self._connection, path)
        except BaseException:
            self.close()
            raise

    @property
    def version(self) -> int:
        """Number of writes so far in this process: a key for caches that must follow the data."""
        return self._version

    def version_of(self, dataset: str) -> int:
        """Return the number of writes so far that may have changed a data set: those of other data sets don't count."""
        return self._of_all + self._of_one[dataset]

    def cached(self, kind: str, key: Hashable, read: Callable[[], T]) -> T:
        """Return what a reader says, read once for each state of the database; nobody may change it.

        Parameters
        ----------
        kind : str
            What is read.
        key : hashable
            Which of the kind; the last few of a kind are kept.
        read : callable
            Reads it.
        """
        # The version first: a write in between makes the next call look again.
        version = self._version
        with self._results_lock:
            if (kind, version, key) in self._results:
                found: T = self._results[kind, version, key]
                return found
        read_now = read()
        with self._results_lock:
            alike = [one for one in self._results if one[0] == kind]
            old = [one for one in alike if one[1] != version]
            now = [one for one in alike if one[1] == version]
            for one in (*old, *now[: max(len(now) - MOST_OF_A_KIND + 1, 0)]):
                self._results.pop(one, None)
            self._results[kind, version, key] = read_now
        return read_now

    def query(self, sql: str, parameters: Parameters = None) -> pd.DataFrame:
        """Run one statement on a cursor of its own and return its rows.

        Parameters
        ----------
        sql : str
            The statement; values are bound, never formatted in.
        parameters : sequence or mapping, optional
            Values for ``?`` or ``$name``.

        Returns
        -------
        pd.DataFrame
            The result, one row a record.
        """
        with telling_damage(self.path), self._connection.cursor() as cursor:
            return cursor.execute(sql, parameters).df()

    def scalar(self, sql: str, parameters: Parameters = None) -> Any:
        """Return the first column of the first row, or None when there is no row."""
        with telling_damage(self.path), self._connection.cursor() as cursor:
            rows = cursor.execute(sql, parameters).fetchmany(1)
        return rows[0][0] if rows else None

    @contextmanager
    def write(self, *, content: bool = True, dataset: str | None = None) -> Iterator[duckdb.DuckDBPyConnection]:
        """Hold the writer's lock and a transaction; any exception rolls all of it back.

        Parameters
        ----------
        content : bool
            False for bookkeeping that no figure depends on, such as the progress of a job: `version` stays, and with it
            every cache.
        dataset : str, optional
            The only data set whose figures the write can change, see `version_of`.

        Raises
        ------
        NotAllowedError
            If the file is open for reading only, or `guard` refuses.
        """
        if self.read_only:
            raise NotAllowedError(
                "nothing can be changed here: the database is open for reading only",
                "Ask for it where StallScope runs without --read-only.",
            )
        self.guard()
        with self._lock, telling_damage(self.path), self._connection.cursor() as cursor:
            cursor.begin()
            try:
                yield cursor
                cursor.commit()
            except BaseException as error:
                # A commit that failed has ended the transaction already.
                with suppress(duckdb.Error):
                    cursor.rollback()
                if isinstance(error, duckdb.Error) and (said := _no_room(error, self.path)) is not None:
                    raise said from error
                raise
            self._version += content
            if dataset is None:
                self._of_all += content
            else:
                self._of_one[dataset] += content

    def close(self) -> None:
        """Close the file; the object can't be used afterwards."""
        with self._lock:
            self._connection.close()
        if self._copy is not None:
            shutil.rmtree(self._copy, ignore_errors=True)

    def __enter__(self) -> Database:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _anyone() -> None:
    """Let everybody write: who may is for the user interface to say."""


def connect(path: Path | None, *, read_only: bool = False) -> duckdb.DuckDBPyConnection:
    """Open a DuckDB file, or one in memory, with errors in words; `harden` comes next."""
    with speaking_of(path):
        return duckdb.connect(":memory:" if path is None else str(path), read_only=read_only)


def _no_room(error: duckdb.Error, path: Path | None) -> StallScopeError | None:
    """Say in words that a disk or the memory is full; None for other errors."""
    if "No space left" in str(error) or "Disk quota exceeded" in str(error):
        return StallScopeError(
            f"the disk is full: {path or 'the database'} can't be written, so nothing was changed",
            "Free some space there, or give another file with --db, and do it again.",
        )
    if isinstance(error, duckdb.OutOfMemoryException):
        return StallScopeError(
            "the database has no memory left for this, so nothing was changed",
            "Raise STALLSCOPE_MEMORY_LIMIT, or load less at once.",
        )
    return None


#: What DuckDB raises where what it reads is not what it wrote.
_BROKEN = (duckdb.InternalException, duckdb.FatalException, duckdb.SerializationException)
_BLOCKS = re.compile(r"checksum|corrupt|could not read|unexpected end|deseriali|invalidated", re.IGNORECASE)


@contextmanager
def telling_damage(path: Path | None) -> Iterator[None]:
    """Say in one sentence that a file is damaged inside, which shows where a block of it is read first."""
    try:
        yield
    except _BROKEN as error:
        raise damage(error, path) from error
    except duckdb.Error as error:
        # Checksums that don't fit come as the plain error, and as that of reading.
        if type(error) in (duckdb.Error, duckdb.IOException) and _BLOCKS.search(str(error)):
            raise damage(error, path) from error
        raise


def damage(error: duckdb.Error, path: Path | None) -> StallScopeError:
    """Return the sentence for a file that is damaged inside, with the cure."""
    found = re.search(r"checksum|corrupt|could not read", str(error), re.IGNORECASE)
    words = {"checksum": "a checksum does not fit", "corrupt": "a block of it is corrupt"}
    how = words.get(found[0].lower(), "a block of it can't be read") if found else "what it holds does not fit together"
    return StallScopeError(
        f"the database {path} is damaged inside ({how})",
        "Restore a backup with `stallscope restore`; `stallscope doctor --verify` says which tables can still be read.",
    )


def _connect_to(path: Path, read_only: bool) -> duckdb.DuckDBPyConnection:
    return connect(path, read_only=read_only)


@contextmanager
def speaking_of(path: Path | None) -> Iterator[None]:
    """Say in words what keeps a file from being opened."""
    try:
        yield
    except duckdb.Error as error:
        told = (str(error).strip().splitlines() or [type(error).__name__])[0]
        holder = re.search(r"held in (.+?)\s*\(PID (\d+)\)", str(error))
        if holder:
            what = f"the database {path} is in use by process {holder[2]} ({Path(holder[1]).name})"
            raise DatabaseBusyError(what, "Stop that process, or give another file with --db.") from error
        if "not a valid DuckDB database" in told:
            raise StallScopeError(
                f"{path} is no DuckDB database", "Give another file with --db or STALLSCOPE_DB."
            ) from error
        if not isinstance(error, duckdb.IOException) or re.search("corrupt|checksum", told, re.IGNORECASE):
            raise StallScopeError(
                f"the database {path} is damaged ({told.rstrip('.!')})",
                "Restore a backup with `stallscope restore`, or give another file with --db.",
            ) from error
        if re.search(r"\bWAL\b|replay", told):
            raise StallScopeError(
                f"the log of the database {path}, {path}.wal, is torn ({told.rstrip('.!')})",
                "Restore a backup with `stallscope restore`. To have what was written before the log, move it aside "
                "and start again: what it held is lost.",
            ) from error
        raise StallScopeError(
            f"the database {path} can't be opened ({told.rstrip('.!')})",
            "Check the permissions and the free space, or give another file with --db.",
        ) from error


def _standing_back(connecting: Callable[[], duckdb.DuckDBPyConnection], nice: int) -> duckdb.DuckDBPyConnection:
    """Connect such that the threads that DuckDB starts have a lower priority: on Linux they take their maker's."""
    if not nice or not sys.platform.startswith("linux"):
        return connecting()

    def lower() -> duckdb.DuckDBPyConnection:
        with suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), os.nice(0) + nice)
        return connecting()

    with ThreadPoolExecutor(1) as maker:
        return maker.submit(lower).result()


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StallScopeError(
            f"the folder {folder} can't be made: {error.strerror or error}",
            "Check the permissions and the free space, or give another file with --db.",
        ) from error


def harden(connection: duckdb.DuckDBPyConnection, spool: Path | None, memory_limit: str) -> None:
    """Shut DuckDB off from files, network and Python variables before any user's value meets it."""
    connection.execute("SET memory_limit = ?", [memory_limit])
    connection.execute("SET python_enable_replacements = false")
    connection.execute("SET autoinstall_known_extensions = false")
    connection.execute("SET autoload_known_extensions = false")
    if spool is not None:
        _make_folder(spool)
        connection.execute("SET allowed_directories = ?", [[str(spool.resolve())]])
    connection.execute("SET enable_external_access = false")
    connection.execute("SET lock_configuration = true")
