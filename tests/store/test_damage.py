"""A database that is damaged inside says so in one sentence, with the cure, and what can still be read is told."""

from __future__ import annotations

import json
import re
from pathlib import Path
from random import Random

import pytest
from typer.testing import CliRunner

from analysis.cli.main import app
from analysis.errors import StallScopeError
from analysis.store.database import Database
from analysis.store.verify import verify

ROWS = 400_000


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A database of which nearly every block holds telemetry."""
    path = tmp_path_factory.mktemp("good") / "own.duckdb"
    with Database(path) as database, database.write() as cursor:
        cursor.execute(
            """INSERT INTO source SELECT 1, 'own', 'f', 's', 1, 'x', NULL, '1', 1, 1, 0, 0, '{}', '{}', false, NULL,
                   NULL, now()"""
        )
        cursor.execute(
            "INSERT INTO telemetry (source_id, name, value) SELECT 1, hash(i)::VARCHAR, (hash(i + 7) % 100000) / 7.0 "
            f"FROM range({ROWS}) t(i)"
        )
    return path.read_bytes()


def damaged(path: Path, good: bytes, number: int) -> Path:
    content = bytearray(good)
    at = Random(number).randrange(len(good) // 4, len(good) * 3 // 4)
    content[at : at + 64] = bytes(64)
    path.write_bytes(content)
    return path


def test_a_sound_one_is_read_from_end_to_end(tmp_path: Path, good: bytes) -> None:
    path = tmp_path / "own.duckdb"
    path.write_bytes(good)
    found = verify(path)
    assert not found.broken
    assert not found.loose
    assert next(table.rows for table in found.tables if table.name == "telemetry") == ROWS


@pytest.mark.parametrize("number", range(4))
def test_damage_is_one_sentence_and_the_rest_is_read(tmp_path: Path, good: bytes, number: int) -> None:
    path = damaged(tmp_path / "own.duckdb", good, number)
    with pytest.raises(StallScopeError) as told, Database(path, read_only=True) as database:
        database.query("SELECT max(name), sum(value) FROM telemetry")
    assert "is damaged inside" in told.value.sentence
    assert "stallscope restore" in told.value.sentence
    assert "\n" not in told.value.sentence
    found = verify(path)
    assert found.broken == ["telemetry"]
    assert "1 of" in found.sentence
    assert not re.search(r"Exception|Traceback|0x", found.sentence)


def test_the_doctor_says_it(tmp_path: Path, good: bytes) -> None:
    path = damaged(tmp_path / "own.duckdb", good, 1)
    asked = ["doctor", "--verify", "--json", "--db", str(path)]
    answer = CliRunner().invoke(app, asked)
    assert answer.exit_code == 1
    (finding,) = [one for one in json.loads(answer.stdout)["findings"] if one["what"] == "verified"]
    assert finding["status"] == "problem"
    assert "telemetry" in finding["sentence"]
    path.write_bytes(good)
    assert CliRunner().invoke(app, asked).exit_code == 0


def test_rows_that_belong_to_nothing_are_told(tmp_path: Path) -> None:
    path = tmp_path / "own.duckdb"
    with Database(path) as database, database.write() as cursor:
        cursor.execute("INSERT INTO telemetry (source_id, name) VALUES (7, 'x')")
    assert verify(path).loose == ("1 row of telemetry belongs to no source",)
