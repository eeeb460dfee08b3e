"""SQLite files that compute what they do not hold are refused, quickly and in one sentence."""

from __future__ import annotations

import sqlite3
import time
from pathlib import Path

import pytest

from analysis.ingest.contract.format import Hints
from analysis.ingest.formats.profilers import nsys_sqlite
from analysis.ingest.importer import import_file
from analysis.store.database import Database

KERNEL = "CUPTI_ACTIVITY_KIND_KERNEL"
_PLAIN = f'CREATE TABLE {KERNEL} (start, "end", deviceId, demangledName)'
_STRINGS = "CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT)"
_ENDLESS = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c)"

#: Name -> statements, and words of the refusal.
HOSTILE: dict[str, tuple[list[str], str]] = {
    "a view without an end": (
        [_STRINGS, f'CREATE VIEW {KERNEL} AS {_ENDLESS} SELECT x AS start, x AS "end", 1 AS demangledName FROM c'],
        "is a view",
    ),
    "strings from a view": (
        [_PLAIN, f"CREATE VIEW StringIds AS {_ENDLESS} SELECT x AS id, 'a' AS value FROM c"], "is a view",
    ),
    "a virtual table": ([_STRINGS, f"CREATE VIRTUAL TABLE {KERNEL} USING fts5(start, demangledName)"], "is a virtual"),
    "a computed column": (
        [_STRINGS, f'CREATE TABLE {KERNEL} (start, "end" AS (length(zeroblob(900000000))), demangledName)'],
        "computes one of its columns",
    ),
    "a cell of 40 MB": (
        [_PLAIN, "CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value)",
         "INSERT INTO StringIds VALUES (1, zeroblob(40000000))", f"INSERT INTO {KERNEL} VALUES (1, 2, 0, 1)"],
        "can't be read",
    ),
    "a catalogue that lies": (
        [_STRINGS, "CREATE TABLE hidden (x)", "PRAGMA writable_schema = ON",
         f"UPDATE sqlite_master SET name = '{KERNEL}', tbl_name = '{KERNEL}', type = 'table', "
         f"sql = 'CREATE VIEW {KERNEL} AS SELECT 1 AS start' WHERE name = 'hidden'"],
        "",
    ),
}  # fmt: skip


def write(path: Path, statements: list[str]) -> Path:
    made = sqlite3.connect(path, isolation_level=None)
    for statement in statements:
        made.execute(statement)
    made.close()
    return path


@pytest.mark.parametrize("name", HOSTILE)
def test_it_is_refused_in_one_sentence(database: Database, tmp_path: Path, name: str) -> None:
    statements, words = HOSTILE[name]
    path = write(tmp_path / "p.sqlite", statements)
    begin = time.process_time()
    report = import_file(database, path, hints=Hints(gpu="T4"))
    assert report.status == "rejected"
    assert words in str(report.error)
    assert "\n" not in str(report.error)
    # Far from the limit that would end it otherwise.
    assert time.process_time() - begin < nsys_sqlite.SECONDS
    assert database.scalar("SELECT count(*) FROM source") == 0


def test_a_query_without_an_end_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nsys_sqlite, "SECONDS", 0.1)
    path = write(tmp_path / "p.sqlite", [_PLAIN, *[f"INSERT INTO {KERNEL} VALUES (1, 2, 0, 'a')"] * 60])
    connection = nsys_sqlite._connect(path)
    with pytest.raises(sqlite3.OperationalError, match="interrupted"):
        connection.execute(
            f"SELECT count(*) FROM {KERNEL} a, {KERNEL} b, {KERNEL} c, {KERNEL} d, {KERNEL} e"
        ).fetchall()
    connection.close()


@pytest.mark.parametrize(
    "statement",
    ["ATTACH '/etc/passwd' AS other", "SELECT load_extension('x')", "SELECT randomblob(9)", "DELETE FROM StringIds",
     "PRAGMA journal_mode = WAL", f"{_ENDLESS} SELECT x FROM c"],
)  # fmt: skip
def test_nothing_but_reading_is_allowed(tmp_path: Path, statement: str) -> None:
    connection = nsys_sqlite._connect(write(tmp_path / "p.sqlite", [_STRINGS]))
    with pytest.raises(sqlite3.Error):
        connection.execute(statement).fetchall()
    connection.close()
