"""Reads a database of an older schema where nothing may be written: a private copy is brought forward instead."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

import duckdb

from analysis.errors import DatabaseVersionError
from analysis.store.migrate import check_current, migrate, steps, version

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
