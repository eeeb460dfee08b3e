"""Files read by a process of their own: the same tables as read here, and nothing left however that process ends."""

from __future__ import annotations

import gzip
import os
import signal
import subprocess
import sys
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from form_writers import WRITERS
from ncu_files import long_form, profile_rows

from analysis.errors import CancelledError
from analysis.ingest import worker
from analysis.ingest.contract.format import Hints
from analysis.ingest.importer import import_all
from analysis.ingest.worker import InProcess, Worker, reader_for, weight
from analysis.store.database import Database

GOOD = long_form(profile_rows())


@pytest.fixture
def reader(tmp_path: Path) -> Iterator[Worker]:
    found = Worker(tmp_path / "spool", idle=False)
    yield found
    found.close()
    assert not list((tmp_path / "spool").iterdir())


def contents(database: Database) -> dict[str, pd.DataFrame]:
    found = {}
    for name in database.query("SELECT table_name FROM duckdb_tables()")["table_name"]:
        if name not in ("schema_version", "job"):
            table = database.query(f"SELECT * FROM {name}")
            table = table.drop(columns=[one for one in ("created_at", "imported_at", "loaded_at") if one in table])
            found[name] = table.astype(str).sort_values(list(table.columns)).reset_index(drop=True)
    return found


def test_every_form_is_the_same_read_here_and_apart(tmp_path: Path, reader: Worker) -> None:
    files = []
    for number, (name, write) in enumerate(sorted(WRITERS.items())):
        files.append(tmp_path / f"{number}.dat")
        files[-1].write_bytes(write(Random(name)).content)
    files.append(tmp_path / "some.zip")
    with zipfile.ZipFile(files[-1], "w") as archive:
        archive.writestr("once.csv", GOOD)
        archive.writestr("again.csv", GOOD)
        archive.writestr("notes.txt", b"hello\n")
        archive.writestr("packed.csv.gz", gzip.compress(long_form(profile_rows(4))))
    with Database(tmp_path / "here" / "a.duckdb") as here, Database(tmp_path / "there" / "b.duckdb") as there:
        for file in files:
            told = [
                [one.model_dump(mode="json") for one in import_all(into, file, hints=Hints(gpu="T4"), reader=read)]
                for into, read in ((here, InProcess().read), (there, reader.read))
            ]
            assert told[0] == told[1], file.name
            if file in files[:: len(files) // 3]:
                assert InProcess().preview(file, file.name, []) == reader.preview(file, file.name, [])
        assert [one["status"] for one in told[0]] == ["loaded", "duplicate", "rejected", "loaded"]
        first, second = contents(here), contents(there)
    for name, table in first.items():
        pd.testing.assert_frame_equal(table, second[name])
    assert min(len(first[name]) for name in ("kernel", "member", "telemetry", "feature", "rejected_row")) > 0


def test_a_cancel_ends_the_reading_at_once(tmp_path: Path, database: Database) -> None:
    file = tmp_path / "a.csv"
    file.write_bytes(GOOD)
    asked: list[int] = []

    def wanted() -> None:
        asked.append(1)
        if len(asked) > 2:
            raise CancelledError("enough", "")

    found = Worker(tmp_path / "spool", wanted, idle=False)
    with pytest.raises(CancelledError):
        import_all(database, file, reader=found.read)
    assert found._process is None
    assert not list((tmp_path / "spool").iterdir())
    assert database.scalar("SELECT count(*) FROM source") == 0


def test_a_reader_that_dies_costs_its_file_and_no_other(tmp_path: Path, database: Database, reader: Worker) -> None:
    file = tmp_path / "a.csv"
    file.write_bytes(GOOD)
    reader._wanted = lambda: os.kill(reader._started().pid, signal.SIGKILL)
    report = import_all(database, file, reader=reader.read)[0]
    assert report.status == "rejected"
    assert "was ended by signal 9" in str(report.error)
    assert "was ended by signal 9" in str(reader.preview(file, "a.csv", []).error)
    reader._wanted = lambda: None
    assert import_all(database, file, reader=reader.read)[0].status == "loaded"


def test_a_reader_that_gets_no_turn_is_begun_again_with_one(
    tmp_path: Path, database: Database, reader: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker, "_PATIENCE", 0.0)
    monkeypatch.setattr(worker, "_LEAST", float("inf"))
    file = tmp_path / "a.csv"
    file.write_bytes(GOOD)
    reader._idle = True
    assert import_all(database, file, reader=reader.read)[0].status == "loaded"
    assert not reader._idle


_PARENT = """
import sys, time
from pathlib import Path
from analysis.ingest.worker import Worker
from analysis.ingest.contract.format import Hints
from analysis.ingest.reading import ReadContext
found = Worker(Path(sys.argv[1]), idle=False)
def known(_):
    print(found._started().pid, flush=True)
    time.sleep(60)
list(found.read(Path(sys.argv[2]), "a.csv", ReadContext(Hints(), None, known, list)))
"""


def test_a_reader_ends_with_whoever_started_it_even_killed(tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    file.write_bytes(GOOD)
    parent = subprocess.Popen(
        [sys.executable, "-c", _PARENT, str(tmp_path / "spool"), str(file)], stdout=subprocess.PIPE, text=True
    )
    assert parent.stdout is not None
    reader = Path(f"/proc/{int(parent.stdout.readline())}")
    assert reader.exists()
    parent.kill()
    parent.wait()
    parent.stdout.close()
    end = time.monotonic() + 20
    while reader.exists() and "Z" not in (reader / "stat").read_text().rpartition(")")[2].split()[0]:
        assert time.monotonic() < end
        time.sleep(0.05)
    assert not list((tmp_path / "spool").iterdir())


def test_only_large_files_are_worth_a_process(tmp_path: Path) -> None:
    small, packed, large = tmp_path / "small", tmp_path / "packed", tmp_path / "large"
    small.write_bytes(b"x" * 1000)
    packed.write_bytes(b"\x1f\x8b" + b"x" * (worker.WORTH // 8))
    large.write_bytes(b"x" * worker.WORTH)
    assert weight([small, tmp_path / "none"]) == 1000
    for paths, kind in (([small], InProcess), ([packed], Worker), ([large], Worker), ([small] * 9000, Worker)):
        with reader_for(paths, spool=tmp_path) as files:
            assert type(files) is kind


def _parquet(path: Path, rows: int) -> Path:
    pq.write_table(pa.table({"run_id": pa.array(range(rows)), "gpu": pa.array(["T4"] * rows)}), path)
    return path


def test_what_unfolds_is_never_read_here_and_within_its_memory(tmp_path: Path, database: Database) -> None:
    small = tmp_path / "small.sqlite"
    small.write_bytes(b"SQLite format 3\x00" + bytes(100))
    with reader_for([small], spool=tmp_path / "spool") as files:
        assert type(files) is Worker
    # Enough for its start, and for none of the rows.
    tight = Worker(tmp_path / "spool", idle=False, memory=160 << 20)
    report = import_all(database, _parquet(tmp_path / "t.parquet", 900_000), reader=tight.read)[0]
    tight.close()
    assert report.status == "rejected"
    assert "Traceback" not in str(report.error)
    assert "memory" in str(report.error)


def test_what_takes_too_long_is_ended(
    tmp_path: Path, database: Database, reader: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker, "SECONDS", 0.01)
    monkeypatch.setattr(worker, "BYTES_A_SECOND", 1 << 60)
    file = tmp_path / "a.csv"
    file.write_bytes(long_form(profile_rows()) * 50)
    report = import_all(database, file, reader=reader.read)[0]
    assert report.status == "rejected"
    assert "of a processor" in str(report.error)
    monkeypatch.setattr(worker, "SECONDS", 60.0)
    file.write_bytes(GOOD)
    assert import_all(database, file, reader=reader.read)[0].status == "loaded"
