"""Brings a database file forward to this version's schema, one numbered step at a time."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from importlib import resources
from pathlib import Path

import duckdb

from analysis.errors import DatabaseVersionError, StallScopeError


def steps() -> list[tuple[int, str]]:
    """Return the migrations as (number, SQL), in order."""
    folder = resources.files("analysis.store").joinpath("migrations")
    files = sorted((entry for entry in folder.iterdir() if entry.name.endswith(".sql")), key=lambda entry: entry.name)
    return [(int(entry.name.split("_")[0]), entry.read_text(encoding="utf-8")) for entry in files]


def version(connection: duckdb.DuckDBPyConnection, path: Path | None) -> int:
    """Return the schema of a file, 0 for an empty one.

    Raises
    ------
    StallScopeError
        If the file is a DuckDB file of another program.
    """
    tables = {row[0] for row in connection.execute("SELECT table_name FROM duckdb_tables()").fetchall()}
    if tables and "schema_version" not in tables:
        raise StallScopeError(
            f"{path} is a DuckDB file, but not one of StallScope", "Give another file with --db or STALLSCOPE_DB."
        )
    if not tables:
        return 0
    return int(connection.execute("SELECT coalesce(max(version), 0) FROM schema_version").fetchall()[0][0])


def check_current(connection: duckdb.DuckDBPyConnection, path: Path | None) -> int:
    """Return the schema of a file that can't be brought forward, as it is open for reading only.

    Raises
    ------
    DatabaseVersionError
        If it is not this version's schema.
    """
    current, known = version(connection, path), steps()[-1][0]
    if current > known:
        raise _too_new(path, current, known)
    if current < known:
        raise DatabaseVersionError(
            f"{path} has schema {current}, this StallScope reads {known}",
            "`stallscope check --db FILE` brings it forward, as does every command that may write to it.",
        )
    return current


def _too_new(path: Path | None, current: int, known: int) -> DatabaseVersionError:
    return DatabaseVersionError(
        f"{path} has schema {current}, this StallScope knows {known}",
        "Update StallScope, or give another file with --db.",
    )


def migrate(connection: duckdb.DuckDBPyConnection, path: Path | None, *, to: int | None = None) -> int:
    """Apply the migrations that the file lacks, each in a transaction of its own.

    Parameters
    ----------
    connection : duckdb.DuckDBPyConnection
        An open, writable connection.
    path : Path or None
        The file's path, for the error text.
    to : int, optional
        The schema to stop at; this version's own when left out.

    Returns
    -------
    int
        The schema version afterwards.

    Raises
    ------
    DatabaseVersionError
        If the file's schema is newer than this program.
    StallScopeError
        If the file is a DuckDB file of another program.
    """
    current = version(connection, path)
    connection.execute(
        "CREATE TABLE IF NOT EXISTS schema_version (version INTEGER PRIMARY KEY, "
        "applied_at TIMESTAMP NOT NULL DEFAULT current_timestamp)"
    )
    known = steps()
    if current > known[-1][0]:
        raise _too_new(path, current, known[-1][0])
    for number, sql in known:
        if number <= current or (to is not None and number > to):
            continue
        connection.begin()
        try:
            connection.execute(sql)
            connection.execute("INSERT INTO schema_version (version) VALUES (?)", [number])
            connection.commit()
        except BaseException:
            connection.rollback()
            raise
        current = number
    return current


Connecting = Callable[[Path, bool], duckdb.DuckDBPyConnection]


def current(
    connection: duckdb.DuckDBPyConnection, path: Path, connecting: Connecting
) -> tuple[duckdb.DuckDBPyConnection, Path | None]:
    """Return a connection, for reading only, to what the file holds in this version's schema.

    Parameters
    ----------
    connection : duckdb.DuckDBPyConnection
        Of the file, open for reading only, which keeps others from writing to it meanwhile. It is closed if another is
        returned.
    path : Path
        The file.
    connecting : callable
        Opens a file, for reading only or not.

    Returns
    -------
    duckdb.DuckDBPyConnection
        The given one where its schema is this version's.
    Path or None
        The folder of the copy, to be removed once the connection is closed.

    Raises
    ------
    DatabaseVersionError
        If the schema is newer, or the copy can't be made.
    """
    found, known = version(connection, path), steps()[-1][0]
    if found == known or found > known or found == 0:
        check_current(connection, path)
        return connection, None
    folder = Path(tempfile.mkdtemp(prefix="stallscope-"))
    try:
        copy = folder / path.name
        for given in (path, path.with_name(path.name + ".wal")):
            if given.exists():
                shutil.copyfile(given, folder / given.name)
        with connecting(copy, False) as forward:
            migrate(forward, path)
        made = connecting(copy, True)
    except OSError as error:
        shutil.rmtree(folder, ignore_errors=True)
        raise DatabaseVersionError(
            f"{path} has schema {found}, this StallScope reads {known}, and no copy can be brought forward in "
            f"{folder.parent} ({error.strerror or error})",
            "Make room there or set TMPDIR; or let one who may write to the file run `stallscope check --db FILE`, "
            "which brings it forward for good.",
        ) from error
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    connection.close()
    return made, folder
