"""SQLite exports of Nsight Systems, old and new: tables may be absent, names are numbers into another table."""

from __future__ import annotations

import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tool_files import KERNELS, imported, parsed

from analysis.errors import InputRefusedError
from analysis.ingest.importer import import_file
from analysis.store.database import Database

COLUMNS = (
    '"start" INTEGER, "end" INTEGER, deviceId INTEGER, correlationId INTEGER, globalPid INTEGER, '
    "demangledName INTEGER, shortName INTEGER, gridX INTEGER, gridY INTEGER, gridZ INTEGER, blockX INTEGER, "
    "blockY INTEGER, blockZ INTEGER, registersPerThread INTEGER, "
    "staticSharedMemory INTEGER, dynamicSharedMemory INTEGER"
)


def export(path: Path, rows: list[tuple], names: list[str], *, gpus: tuple[str, ...] = ("NVIDIA H200",)) -> Path:
    """Write a database; a row is start, end, device, number of the name."""
    with closing(sqlite3.connect(path)) as made:
        made.execute("CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT)")
        made.executemany("INSERT INTO StringIds VALUES (?, ?)", list(enumerate(names)))
        made.execute("CREATE TABLE META_DATA_EXPORT (name TEXT, value TEXT)")
        made.execute("INSERT INTO META_DATA_EXPORT VALUES ('EXPORT_SCHEMA_VERSION', '3.11.0')")
        if gpus:
            made.execute(
                "CREATE TABLE TARGET_INFO_GPU (id INTEGER, name TEXT, computeMajor INTEGER, computeMinor INTEGER)"
            )
            made.executemany("INSERT INTO TARGET_INFO_GPU VALUES (?, ?, 9, 0)", list(enumerate(gpus)))
        if rows:
            made.execute(f"CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL ({COLUMNS})")
            made.executemany(
                "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (?,?,?,7,281,?,?,4,2,1,128,1,1,40,1024,0)",
                [(start, end, device, name, name) for start, end, device, name in rows],
            )
        made.execute("CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY (start INTEGER)")
        made.execute("INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY VALUES (1)")
        made.commit()
    return path


def test_launches_of_two_gpus(database: Database, tmp_path: Path) -> None:
    rows = [(100, 350, 0, 0), (400, 900, 1, 1), (900, 800, 0, 1), (None, 5, 0, 0), (1, 2, 0, 99)]
    path = export(tmp_path / "odd name?.sqlite", rows, ["a(int)", "b<1>()"], gpus=("NVIDIA H200", "Tesla T4"))
    report = imported(database, path)
    assert (report.format, report.rows_read, report.rows_rejected, report.launches) == ("nsys-sqlite", 5, 3, 2)
    assert report.gpus == ["H200", "T4"]
    assert report.report["era"] == "schema 3.11.0"
    kernel = database.query("SELECT name, grid, block, duration_ns, device FROM kernel ORDER BY kernel_id")
    assert kernel.values.tolist() == [
        ["a(int)", "(4, 2, 1)", "(128, 1, 1)", 250.0, "NVIDIA H200 (0)"],
        ["b<1>()", "(4, 2, 1)", "(128, 1, 1)", 500.0, "Tesla T4 (1)"],
    ]
    assert any("1 copies of memory" in text for text in report.warnings)
    assert any("2 GPUs" in text for text in report.warnings)


def test_absent_tables(database: Database, tmp_path: Path) -> None:
    no_kernel = import_file(database, export(tmp_path / "a.sqlite", [], ["a"]))
    assert no_kernel.status == "rejected"
    assert "--trace=cuda" in str(no_kernel.error)
    no_gpu = imported(database, export(tmp_path / "b.sqlite", [(1, 5, 0, 0)], ["a"], gpus=()))
    assert no_gpu.gpus == ["unknown"]
    other = tmp_path / "c.sqlite"
    with closing(sqlite3.connect(other)) as made:
        made.execute("CREATE TABLE t (a)")
        made.commit()
    assert "SQLite" in str(import_file(database, other).error)


@pytest.mark.parametrize("launches", [True, False])
def test_samples_of_gpu_metrics(database: Database, tmp_path: Path, launches: bool) -> None:
    path = export(tmp_path / "m.sqlite", [(100, 350, 0, 0)] if launches else [], ["a(int)"])
    kind = 0x0101010101010100
    with closing(sqlite3.connect(path)) as made:
        made.execute("CREATE TABLE GPU_METRICS (timestamp INT, typeId INT, metricId INT, value INT)")
        made.execute("CREATE TABLE TARGET_INFO_GPU_METRICS (typeId INT, sourceId INT, typeName TEXT, metricId INT, "
                     "metricName TEXT)")  # fmt: skip
        made.execute("CREATE TABLE TARGET_INFO_SESSION_START_TIME (utcEpochNs INT, utcTime TEXT)")
        made.execute("INSERT INTO TARGET_INFO_SESSION_START_TIME VALUES (1700000000000000000, '')")
        names = ["GPC Clock Frequency [MHz]", "SMs Active [Throughput %]", "Compute Warps in Flight"]
        made.executemany(
            "INSERT INTO TARGET_INFO_GPU_METRICS VALUES (?, 1, 'gh100', ?, ?)",
            [(kind, place, name) for place, name in enumerate(names)],
        )
        rows = [(10**6 * n, kind, metric, n * 10 + metric) for n in range(3) for metric in range(3)]
        rows += [(5, kind, 99, 1), (5, kind, 1, None), (None, kind, 1, 4)]
        made.executemany("INSERT INTO GPU_METRICS VALUES (?, ?, ?, ?)", rows)
        made.commit()
    report = imported(database, path)
    assert (report.rows_read, report.rows_loaded, report.rows_rejected) == (12 + launches, 9 + launches, 3)
    assert report.launches == launches
    held = database.query(
        "SELECT name, unit, value, gpu, device, measured_at FROM telemetry ORDER BY measured_at, name"
    )
    assert held["name"].tolist()[:3] == ["Compute Warps in Flight", "GPC Clock Frequency", "SMs Active"]
    assert held["unit"].tolist()[1:3] == ["MHz", "%"]
    assert held["value"].tolist() == [2, 0, 1, 12, 10, 11, 22, 20, 21]
    assert (set(held["device"]), set(held["gpu"])) == ({"0"}, {"H200"})
    assert str(held["measured_at"].iloc[-1]) == "2023-11-14 22:13:20.002000"


def test_damaged(tmp_path: Path) -> None:
    path = export(tmp_path / "a.sqlite", [(n, n + 5, 0, 0) for n in range(2000)], ["a" * 400])
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])
    with pytest.raises(InputRefusedError):
        parsed(path)


@settings(max_examples=15, deadline=None)
@given(kernels=KERNELS, took=st.lists(st.integers(1, 10**10), min_size=1, max_size=12))
def test_survives(kernels: list[str], took: list[int]) -> None:
    rows = [(1000, 1000 + value, 0, place % len(kernels)) for place, value in enumerate(took)]
    with tempfile.TemporaryDirectory() as folder:
        got = parsed(export(Path(folder) / "p.sqlite", rows, kernels))
    frame = got.frames["kernel"]
    assert (got.rows_read, got.rows_rejected) == (len(took), 0)
    assert list(frame["duration_ns"]) == took
    assert list(frame["name"]) == [kernels[place % len(kernels)] for place in range(len(took))]
