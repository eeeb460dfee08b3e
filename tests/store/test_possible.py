"""Numbers that can't be are rejected rows whatever the format, and no writer can put one into the database."""

from __future__ import annotations

import gzip
import json
import sqlite3
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from analysis.cli.main import app
from analysis.ingest.importer import import_paths
from analysis.store.database import Database, connect
from analysis.store.loader import SourceInfo, load
from analysis.store.migrate import migrate
from analysis.store.parsed import Parsed
from analysis.store.possible import POSSIBLE, sift

CORUNS = "run_id,gpu,mechanism,workload,solo_throughput,corun_throughput,slowdown,peak_memory_mib\n"
GOOD = "1,T4,CUDA MPS,a,10,5,,100\n1,T4,CUDA MPS,b,10,5,,100\n"


def _names() -> list[tuple[str, str]]:
    return [(table, column) for table, columns in POSSIBLE.items() for column in columns]


@pytest.mark.parametrize(("table", "column"), _names())
def test_the_schema_refuses_what_the_reader_rejects(database: Database, table: str, column: str) -> None:
    stored = "kernel_value" if table == "kernel_metric" else table
    allowed = POSSIBLE[table][column]
    kinds = {
        str(row["column_name"]): (str(row["data_type"]), str(row["is_nullable"]), str(row["column_default"]))
        for row in database.query(
            "SELECT column_name, data_type, is_nullable, column_default FROM information_schema.columns "
            "WHERE table_name = ?",
            [stored],
        ).to_dict("records")
    }
    whole = kinds[column][0] in ("INTEGER", "BIGINT")
    needed = {name for name, (_, nullable, _) in kinds.items() if nullable == "NO"} - {column}
    samples: dict[str, object] = {"outcome": "ran", "flags": []}
    others = {name: samples.get(name, "x" if kinds[name][0] == "VARCHAR" else 1) for name in needed}

    def put(value: float) -> None:
        names = ", ".join(f'"{name}"' for name in [column, *others])
        marks = ", ".join("?" for _ in [column, *others])
        with database.write() as cursor:
            cursor.execute(
                f"INSERT INTO {stored} ({names}) VALUES ({marks})", [int(value) if whole else value, *others.values()]
            )
            cursor.execute(f"DELETE FROM {stored}")

    bad = [allowed.least - 1 if allowed.least > -1e20 else allowed.least * 2]
    bad += [] if whole else [allowed.most * 2, np.inf, -np.inf, np.nan]
    bad += [allowed.tiny / 2] if allowed.tiny else []
    for value in bad:
        with pytest.raises(duckdb.ConstraintException):
            put(value)
    put(min(max(1.0, allowed.least), allowed.most))


@pytest.mark.parametrize("number", ["5e-324", "1e308", "9" * 25, "1e999", "-3", "nan(7)"])
@pytest.mark.parametrize("column", [4, 5, 7])
def test_a_table_of_co_runs(database: Database, tmp_path: Path, number: str, column: int) -> None:
    cells = ["2", "T4", "CUDA MPS", "a", "10", "5", "", "100"]
    cells[column] = number
    path = tmp_path / "own.csv"
    path.write_text(CORUNS + GOOD + ",".join(cells) + "\n2,T4,CUDA MPS,b,10,5,,100\n")
    (report,) = import_paths(database, [path])
    assert (report.status, report.runs, report.rows_rejected) == ("loaded", 1, 1), report
    told = database.query('SELECT line, "column", reason FROM rejected_row').iloc[0]
    assert told["line"] == 4
    assert told["column"]
    assert told["reason"]
    assert database.scalar("SELECT max(slowdown) FROM member") == 2


def test_a_parquet_table_of_co_runs(database: Database, tmp_path: Path) -> None:
    rows = {
        "run_id": ["1", "1", "2", "2"], "gpu": ["T4"] * 4, "mechanism": ["CUDA MPS"] * 4,
        "workload": ["a", "b", "a", "b"], "solo_throughput": [10.0, 10.0, 10.0, np.inf],
        "corun_throughput": [5.0, 5.0, 5e-324, 5.0],
    }  # fmt: skip
    pq.write_table(pa.table(rows), tmp_path / "own.parquet")
    (report,) = import_paths(database, [tmp_path / "own.parquet"])
    assert (report.status, report.runs, report.rows_rejected) == ("loaded", 1, 2), report


def test_launches_of_nsight_systems(database: Database, tmp_path: Path) -> None:
    path = tmp_path / "p.sqlite"
    with sqlite3.connect(path) as made:
        made.execute("CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT)")
        made.execute("INSERT INTO StringIds VALUES (1, 'gemm')")
        made.execute('CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start, "end", deviceId, demangledName, gridX)')
        for start, end in ((1, 100), (5, (1 << 62) + 7), (7, 90), (1, 1e308)):
            made.execute("INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (?, ?, 0, 1, 1)", [start, end])
    made.close()
    (report,) = import_paths(database, [path], gpu="T4")
    assert (report.status, report.rows_read, report.rows_rejected) == ("loaded", 4, 2), report
    assert database.scalar("SELECT max(duration_ns) FROM kernel") == 99
    assert set(database.query("SELECT line FROM rejected_row")["line"]) == {2, 4}


def test_samples_of_no_time(database: Database, tmp_path: Path) -> None:
    path = tmp_path / "m.json"
    values = [[1_700_000_000, "50"], [1e13, "50"], [1_700_000_001, "1e300"], [1_700_000_002, "51"]]
    series = {"metric": {"__name__": "DCGM_FI_DEV_GPU_UTIL", "gpu": "0"}, "values": values}
    path.write_text(json.dumps({"status": "success", "data": {"resultType": "matrix", "result": [series]}}))
    (report,) = import_paths(database, [path], gpu="T4")
    assert (report.status, report.rows_read, report.rows_rejected) == ("loaded", 4, 2), report
    assert database.scalar("SELECT max(value) FROM telemetry") == 51


def test_what_is_sifted_goes_with_what_belongs_to_it() -> None:
    frames = {
        "workload": pd.DataFrame({"name": ["a"], "batch_size": [10**15]}),
        "kernel": pa.table({"launch": [0, 1], "workload": ["a", "a"], "gpu": ["T4", "T4"], "name": ["k", "k"],
                            "duration_ns": [5.0, 1e300], "line": [2, 3]}),
        "kernel_metric": pa.table({"launch": [0, 1, 1], "line": [2, 3, 3], "metric": ["m"] * 3,
                                   "value": [float("nan"), 1.0, 2.0]}),
        "run": pd.DataFrame({"run": [0, 1], "gpu": ["T4"] * 2, "mechanism": ["x"] * 2, "k": [2, 2],
                             "outcome": ["ran"] * 2, "line": [4, 5]}),
        "member": pd.DataFrame({"run": [0, 0, 1, 1], "slot": [0, 1, 0, 1], "workload": ["a"] * 4,
                                "outcome": ["ran"] * 4, "slowdown": [1.0, 2.0, 1.0, np.inf]}),
    }  # fmt: skip
    found = sift(Parsed(format="x", rows_read=4, frames=frames))
    assert found.rows_rejected == 2
    assert list(found.rejected["line"]) == [3, 5]
    assert {name: len(frame) for name, frame in found.frames.items()} == {
        "workload": 1, "kernel": 1, "kernel_metric": 1, "run": 1, "member": 2,
    }  # fmt: skip
    assert found.frames["workload"]["batch_size"].isna().all()
    assert found.frames["kernel_metric"].column("value").null_count == 1
    untouched = Parsed(format="x", rows_read=4, frames={"run": frames["run"]})
    assert sift(untouched) is untouched


def test_what_an_older_version_stored_becomes_absent_and_is_told(tmp_path: Path) -> None:
    path = tmp_path / "old.duckdb"
    with connect(path) as old:
        migrate(old, path, to=11)
        old.execute(
            """INSERT INTO source SELECT 1, 'own', 'f', 's', 1, 'own-coruns', NULL, '1', 2, 2, 0, 0, '{}', '{}', false,
                   NULL, NULL, now();
               INSERT INTO run VALUES (1, 1, 'r', 'T4', 'CUDA MPS', 2, 'ran', 2, NULL);
               INSERT INTO member (run_id, source_id, slot, workload_id, outcome, slowdown, corun_value)
               VALUES (1, 1, 0, 1, 'ran', 'inf', 5), (1, 1, 1, 1, 'ran', 1.5, 5e-324)"""
        )
    with Database(path) as database:
        held = database.query("SELECT slowdown, corun_value FROM member ORDER BY slot")
        assert held["slowdown"].isna().tolist() == [True, False]
        assert held["corun_value"].isna().tolist() == [False, True]
        assert sorted(database.query('SELECT "column" FROM rejected_row')["column"]) == ["corun_value", "slowdown"]


def test_the_matrix_never_prints_one(tmp_path: Path) -> None:
    path, db = tmp_path / "own.csv.gz", tmp_path / "x.duckdb"
    path.write_bytes(
        gzip.compress((CORUNS + GOOD + "2,T4,CUDA MPS,a,1e308,1e-308,,\n2,T4,CUDA MPS,b,1,1,,\n").encode())
    )
    with Database(db) as database:
        import_paths(database, [path])
    answer = CliRunner().invoke(app, ["matrix", "--dataset", "own", "--gpu", "T4", "--json", "--db", str(db)])
    assert answer.exit_code == 0, answer.output
    assert "Infinity" not in answer.output
    assert "e+30" not in answer.output


def test_the_loader_itself_stores_none(database: Database) -> None:
    solo = pd.DataFrame({"workload": ["a"], "gpu": ["T4"], "measure": ["time"], "value": [np.inf]})
    with pytest.raises(duckdb.ConstraintException):
        load(database, Parsed(format="x", rows_read=1, frames={"solo": solo}), SourceInfo("own", "f", "s", 1))
    assert database.scalar("SELECT count(*) FROM source") == 0
