"""A backup comes back whole, never over what is there; databases of every earlier schema are brought forward."""

from __future__ import annotations

import json
import re
import shutil
import tempfile
from pathlib import Path
from random import Random

import duckdb
import pytest

from analysis.errors import (
    DatabaseVersionError,
    InputRefusedError,
    NotAllowedError,
    NotFoundError,
    StallScopeError,
)
from analysis.ingest.importer import import_paths
from analysis.store import backup, migrate
from analysis.store.database import Database
from analysis.store.queries import settings
from tests.pages.files import all_files

_VALUES = {
    "INTEGER": "1", "BIGINT": "1", "DOUBLE": "1.5", "VARCHAR": "'a'", "BOOLEAN": "true", "JSON": "'{}'", "BLOB": "'x'",
    "TIMESTAMP": "TIMESTAMP '2026-01-02 03:04:05'", "VARCHAR[]": "['a']", "INTEGER[]": "[1]",
}  # fmt: skip
_CHECKED = {"outcome": "'ran'", "scope": "'run'", "rows_rejected": "0"}
LEVELS = [number for number, _ in migrate.steps()]


def _tables(connection: duckdb.DuckDBPyConnection) -> list[str]:
    return [row[0] for row in connection.execute("SELECT table_name FROM duckdb_tables() ORDER BY 1").fetchall()]


def _fill(connection: duckdb.DuckDBPyConnection) -> None:
    """Put one row into every table of a schema."""
    for table in _tables(connection):
        if table == "schema_version":
            continue
        columns = connection.execute(f'DESCRIBE "{table}"').fetchall()
        values = [_CHECKED.get(name, _VALUES[kind]) for name, kind, *_ in columns]
        connection.execute(f'INSERT INTO "{table}" VALUES ({", ".join(values)})')


def _old(path: Path, level: int) -> None:
    with duckdb.connect(str(path)) as connection:
        assert migrate.migrate(connection, path, to=level) == level
        _fill(connection)


#: What a later schema keeps elsewhere, and what it made anew because nothing was ever written to it.
_MOVED, _DROPPED = {"kernel_metric": "kernel_value"}, {5: {"exclusion"}}


@pytest.mark.parametrize("level", LEVELS)
def test_a_database_of_every_schema_is_brought_forward(tmp_path: Path, level: int) -> None:
    path = tmp_path / "old.duckdb"
    _old(path, level)
    with duckdb.connect(str(path)) as connection:
        before = set(_tables(connection))
    lost = {name for number, names in _DROPPED.items() if number > level for name in names}
    content = path.read_bytes()
    for read_only in (True, False):
        with Database(path, read_only=read_only) as database:
            assert database.scalar("SELECT max(version) FROM schema_version") == LEVELS[-1]
            for table in before - {"schema_version"} - lost:
                assert database.scalar(f'SELECT count(*) FROM "{table}"') == 1, table
            assert database.query("SELECT name, value FROM setting").values.tolist() == [["a", "a"]]
            assert database.query("SELECT metric, value FROM kernel_metric").values.tolist() == [["a", 1.5]]
        if read_only:
            assert path.read_bytes() == content


def test_a_backup_comes_back_whole(tmp_path: Path) -> None:
    path, folder, again = tmp_path / "own.duckdb", tmp_path / "it's" / "kept", tmp_path / "new" / "again.duckdb"
    with Database(path) as database:
        import_paths(database, all_files(tmp_path))
        settings.put(database, "name", "value")
    done = backup.backup(path, folder)
    assert done.rows > 100
    assert backup.restore(folder, again) == done
    with duckdb.connect() as both:
        both.execute(f"ATTACH '{path}' AS one (READ_ONLY)")
        both.execute(f"ATTACH '{again}' AS two (READ_ONLY)")
        for table in done.tables:
            order = "ORDER BY ALL"
            one, two = (both.execute(f"FROM {name}.{table.name} {order}").fetchall() for name in ("one", "two"))
            assert one == two, table.name
            assert len(one) == table.rows
        views = "SELECT view_name, sql FROM duckdb_views() WHERE NOT internal AND database_name = ?"
        assert both.execute(views, ["one"]).fetchall() == both.execute(views, ["two"]).fetchall()
    for attempt in (lambda: backup.backup(path, folder), lambda: backup.restore(folder, again)):
        with pytest.raises(StallScopeError, match="is there already"):
            attempt()
    with pytest.raises(NotFoundError):
        backup.backup(tmp_path / "none.duckdb", tmp_path / "x")
    assert sorted(entry.name for entry in tmp_path.iterdir() if entry.name.startswith(".")) == []


def test_a_backup_of_an_older_schema_is_restored_and_brought_forward(tmp_path: Path) -> None:
    _old(tmp_path / "old.duckdb", LEVELS[0])
    assert backup.backup(tmp_path / "old.duckdb", tmp_path / "kept").version == LEVELS[0]
    backup.restore(tmp_path / "kept", tmp_path / "new.duckdb")
    with Database(tmp_path / "new.duckdb", read_only=True) as database:
        assert database.scalar("SELECT count(*) FROM source") == 1


def test_what_is_no_whole_backup_is_refused_and_runs_nothing(tmp_path: Path) -> None:
    path, folder, target = tmp_path / "own.duckdb", tmp_path / "kept", tmp_path / "new.duckdb"
    Database(path).close()
    backup.backup(path, folder)
    marker = tmp_path / "marker.csv"
    # A restore must not run what stands in the folder.
    for name in ("schema.sql", "load.sql"):
        (folder / name).write_text(f"COPY (SELECT 1) TO '{marker}';")
    backup.restore(folder, target)
    assert not marker.exists()
    target.unlink()
    manifest = folder / backup.MANIFEST
    good = manifest.read_text()
    table = json.loads(good)["tables"][0]
    for broken in (
        "{", "[]", "{}", good.replace(table["sha256"], "0" * 64), good.replace(table["file"], f"../{table['file']}"),
        re.sub(r'"rows": 0,(?=\s*"file": "dataset)', '"rows": 1,', good),
        good.replace('"name": "dataset"', '"name": "x"'),
    ):  # fmt: skip
        assert broken != good
        manifest.write_text(broken)
        with pytest.raises(InputRefusedError):
            backup.restore(folder, target)
    manifest.write_text(re.sub(r'"version": \d+', '"version": 999', good))
    with pytest.raises(DatabaseVersionError):
        backup.restore(folder, target)
    manifest.unlink()
    with pytest.raises(InputRefusedError):
        backup.restore(folder, target)
    assert not target.exists()
    assert not [entry.name for entry in tmp_path.iterdir() if entry.name.startswith(".")]


def test_a_file_opened_for_reading_only_can_t_be_written(tmp_path: Path) -> None:
    path = tmp_path / "own.duckdb"
    with pytest.raises(NotFoundError):
        Database(path, read_only=True)
    Database(path).close()
    with Database(path, read_only=True) as database:
        with pytest.raises(NotAllowedError):
            settings.put(database, "a", "b")
        with pytest.raises(duckdb.Error, match="read-only"):
            database.query("INSERT INTO setting VALUES ('a', 'b')")


def test_an_older_schema_is_read_through_a_copy_where_nothing_may_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, scratch = tmp_path / "there" / "own.duckdb", tmp_path / "scratch"
    path.parent.mkdir()
    scratch.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(scratch))
    with duckdb.connect(str(path)) as connection:
        migrate.migrate(connection, path, to=LEVELS[-2])
        connection.execute("INSERT INTO dataset (name, title) VALUES ('old', 'old')")
    before = path.read_bytes()
    path.chmod(0o400)
    with Database(path, read_only=True) as database:
        assert database.scalar("SELECT name FROM dataset") == "old"
        assert database.scalar("SELECT max(version) FROM schema_version") == LEVELS[-1]
        with pytest.raises(NotAllowedError):
            settings.put(database, "a", "b")
        assert len(list(scratch.iterdir())) == 1
    assert path.read_bytes() == before
    assert [*scratch.iterdir(), *path.parent.iterdir()] == [path]
    monkeypatch.setattr(shutil, "copyfile", lambda *_: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    with pytest.raises(DatabaseVersionError, match=r"No space left on device.*stallscope check"):
        Database(path, read_only=True)
    assert not list(scratch.iterdir())


def test_a_damaged_file_is_said_to_be_damaged(tmp_path: Path) -> None:
    path = tmp_path / "own.duckdb"
    Database(path).close()
    good = path.read_bytes()
    rng = Random(3)
    said = set()
    for number in range(24):
        content = bytearray(good)
        if number % 3 == 2:
            content = content[: rng.randrange(len(good))]
        else:
            for _ in range(20):
                content[rng.randrange(12288 if number % 3 else len(good))] = rng.randrange(256)
        path.write_bytes(content)
        path.with_name("own.duckdb.wal").unlink(missing_ok=True)
        for read_only in (False, True):
            try:
                with Database(path, read_only=read_only):
                    said.add("opened")
            except StallScopeError as error:
                said.add(re.sub(r"\(.*\)|/\S+", "", error.what).strip())
    assert said <= {"opened", "the database  is damaged", "is no DuckDB database", "the database  can't be opened"}
    assert "the database  is damaged" in said


def test_the_guard_is_asked_before_every_write(database: Database) -> None:
    def refuse() -> None:
        raise NotAllowedError("no", "Ask.")

    database.guard = refuse
    with pytest.raises(NotAllowedError):
        settings.put(database, "a", "b")
    assert settings.get(database, "a") is None
