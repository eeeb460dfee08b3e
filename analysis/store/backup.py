"""Backup of a whole database to Parquet files, and the way back.

A backup is a folder: what DuckDB's EXPORT DATABASE writes, and a manifest with the schema, the rows and the hash of
every table. Restoring never runs SQL from the folder: the tables are made by this program's own migrations, up to the
schema that the backup has, filled from the Parquet files, and then brought forward like any older database.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import uuid
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb

from analysis.errors import DatabaseVersionError, InputRefusedError, NotFoundError, StallScopeError, Where
from analysis.settings import get_settings
from analysis.store.database import connect, harden
from analysis.store.migrate import migrate, steps, version

MANIFEST = "stallscope-backup.json"
_FORM = 1
_DAMAGED = "Take another backup; this one was cut off or changed."


@dataclass(frozen=True)
class Table:
    """One table of a backup: its name, its rows, its file and that file's SHA-256."""

    name: str
    rows: int
    file: str
    sha256: str


@dataclass(frozen=True)
class Backup:
    """What a backup holds.

    Attributes
    ----------
    version : int
        Schema of the database.
    created_at : str
        When it was made, UTC.
    tables : tuple of Table
        Its tables.
    """

    version: int
    created_at: str
    tables: tuple[Table, ...]

    @property
    def rows(self) -> int:
        """Rows of all tables."""
        return sum(table.rows for table in self.tables)

    def document(self) -> dict[str, Any]:
        """Return it as plain values."""
        return {"rows": self.rows, **asdict(self), "tables": [asdict(table) for table in self.tables]}


def backup(path: Path, folder: Path) -> Backup:
    """Write a database to a folder; a folder that is there is left alone, and one half written never appears.

    Parameters
    ----------
    path : Path
        The database; it is opened for reading only.
    folder : Path
        Where to.

    Returns
    -------
    Backup
        What was written, after the Parquet files were read back and counted.

    Raises
    ------
    NotFoundError
        If there is no database.
    DatabaseBusyError
        If a process that may write holds it.
    StallScopeError
        If the folder exists or can't be written, or if a table does not come back whole.
    """
    if not path.exists():
        raise NotFoundError(f"there is no database at {path}", "Name another with --db or STALLSCOPE_DB.")
    if folder.exists():
        raise StallScopeError(f"{folder} is there already", "Name another; nothing is overwritten.")
    partial = folder.with_name(f".{folder.name}.{uuid.uuid4().hex[:8]}")
    try:
        partial.mkdir(parents=True)
    except OSError as error:
        raise StallScopeError(
            f"the folder {folder} can't be made: {error.strerror or error}", "Check the path and the permissions."
        ) from error
    connection = connect(path, read_only=True)
    try:
        harden(connection, partial, get_settings().memory_limit)
        made = _export(connection, path, partial.resolve())
        (partial / MANIFEST).write_text(json.dumps({"form": _FORM, **made.document()}, indent=1), encoding="utf-8")
        partial.rename(folder)
    except duckdb.Error as error:
        raise StallScopeError(
            f"the backup could not be written: {str(error).splitlines()[0]}", "Check the free space, and try again."
        ) from error
    finally:
        connection.close()
        shutil.rmtree(partial, ignore_errors=True)
    return made


def restore(folder: Path, path: Path) -> Backup:
    """Make a database of a backup; an existing file is left alone, and one half filled never appears.

    Parameters
    ----------
    folder : Path
        The backup.
    path : Path
        The database to make.

    Returns
    -------
    Backup
        What was restored, every table counted.

    Raises
    ------
    InputRefusedError
        If the folder is no backup, or a file of it is missing or changed.
    DatabaseVersionError
        If a newer StallScope made it.
    StallScopeError
        If the database exists or can't be written.
    """
    if path.exists():
        raise StallScopeError(f"{path} is there already", "Name another file with --db; nothing is overwritten.")
    known = read(folder)
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.{uuid.uuid4().hex[:8]}")
    connection: duckdb.DuckDBPyConnection | None = None
    try:
        connection = connect(partial)
        harden(connection, folder, get_settings().memory_limit)
        migrate(connection, partial, to=known.version)
        _fill(connection, folder.resolve(), known)
        migrate(connection, partial)
        connection.execute("CHECKPOINT")
        connection.close()
        partial.rename(path)
    except duckdb.Error as error:
        raise InputRefusedError(
            f"the backup does not fit its schema: {str(error).splitlines()[0]}", _DAMAGED, Where(str(folder))
        ) from error
    finally:
        if connection is not None:
            connection.close()
        for left in (partial, partial.with_name(f"{partial.name}.wal")):
            left.unlink(missing_ok=True)
    return known


def read(folder: Path) -> Backup:
    """Read a backup's manifest and check that every file is there and unchanged.

    Raises
    ------
    InputRefusedError
        If it is no backup, or not whole.
    DatabaseVersionError
        If a newer StallScope made it.
    """
    where = Where(str(folder))
    try:
        given = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
        tables = tuple(
            Table(str(one["name"]), int(one["rows"]), str(one["file"]), str(one["sha256"])) for one in given["tables"]
        )
        known, form = Backup(int(given["version"]), str(given["created_at"]), tables), int(given["form"])
    except FileNotFoundError as error:
        raise InputRefusedError(
            f"this is no backup: it has no {MANIFEST}", "Give a folder that `stallscope backup` wrote.", where
        ) from error
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputRefusedError("the manifest of the backup can't be read", _DAMAGED, where) from error
    if form != _FORM or known.version > steps()[-1][0]:
        raise DatabaseVersionError(
            f"the backup has schema {known.version}, this StallScope knows {steps()[-1][0]}",
            "Update StallScope, and restore it then.",
        )
    for table in known.tables:
        file = folder / table.file
        if Path(table.file).name != table.file or not file.is_file() or _hash(file) != table.sha256:
            raise InputRefusedError(f"the table {table.name[:80]} is missing or was changed", _DAMAGED, where)
    return known


def _export(connection: duckdb.DuckDBPyConnection, path: Path, folder: Path) -> Backup:
    """Export in one transaction, so that counts and files are of the same moment."""
    connection.begin()
    schema = version(connection, path)
    if not schema:
        raise StallScopeError(f"{path} is not a database of StallScope", "Name another with --db or STALLSCOPE_DB.")
    counts = {name: _count(connection, f'"{name}"') for name in _tables(connection)}
    # The one statement that takes no bound value; the folder is named by this program.
    connection.execute(f"EXPORT DATABASE {_quoted(folder)} (FORMAT parquet, COMPRESSION zstd)")
    connection.commit()
    tables = []
    for name, rows in sorted(counts.items()):
        file = folder / f"{name}.parquet"
        back = _count(connection, f"read_parquet({_quoted(file)})") if file.exists() else -1
        if back != rows:
            raise StallScopeError(
                f"of {rows:,} rows of the table {name}, {max(back, 0):,} came back", "Check the disk, and try again."
            )
        tables.append(Table(name, rows, file.name, _hash(file)))
    return Backup(schema, datetime.now(UTC).isoformat(timespec="seconds"), tuple(tables))


def _fill(connection: duckdb.DuckDBPyConnection, folder: Path, known: Backup) -> None:
    there = set(_tables(connection))
    connection.begin()
    for table in known.tables:
        if table.name not in there:
            raise InputRefusedError(
                f"schema {known.version} has no table {table.name[:80]}", _DAMAGED, Where(str(folder))
            )
        # Migrations may have put rows there; what counts is what the backup holds.
        connection.execute(f'DELETE FROM "{table.name}"')
    connection.commit()
    connection.begin()
    for table in known.tables:
        connection.execute(
            f'INSERT INTO "{table.name}" BY NAME SELECT * FROM read_parquet({_quoted(folder / table.file)})'
        )
        found = _count(connection, f'"{table.name}"')
        if found != table.rows:
            raise InputRefusedError(
                f"of {table.rows:,} rows of the table {table.name}, {found:,} came back", _DAMAGED, Where(str(folder))
            )
    connection.commit()


def _tables(connection: duckdb.DuckDBPyConnection) -> list[str]:
    return [str(row[0]) for row in connection.execute("SELECT table_name FROM duckdb_tables()").fetchall()]


def _count(connection: duckdb.DuckDBPyConnection, source: str) -> int:
    return int(connection.execute(f"SELECT count(*) FROM {source}").fetchall()[0][0])


def _quoted(path: Path) -> str:
    return "'" + str(path).replace("'", "''") + "'"


def _hash(file: Path) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
