"""nvprof: metrics with units in the cells, summaries with a row of units, traces."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tool_files import ENCODINGS, ENDS, KERNELS, imported, line, parsed, written

from analysis.errors import InputRefusedError
from analysis.store.database import Database
from analysis.store.queries import profiles

METRICS = '"Device","Kernel","Invocations","Metric Name","Metric Description","Min","Max","Avg"'
PREAMBLE = ["==7== NVPROF is profiling process 7, command: ./a", "epoch 1, loss 2", "==7== Metric result:"]
SUMMARY = ['"Type","Time(%)","Time","Calls","Avg","Min","Max","Name"', ",%,ms,,us,us,ms,"]


def metric(kernel: str, name: str, value: object, device: str = "Tesla P100-SXM2-16GB (0)", calls: object = 3) -> str:
    return line([device, kernel, calls, name, "what it is", value, value, value])


def test_metrics_with_units_and_stalls(database: Database, tmp_path: Path) -> None:
    rows = [
        metric("a(int)", "stall_memory_dependency", "61.50%"),
        metric("a(int)", "stall_sleeping", "1.5%"),
        metric("a(int)", "dram_read_throughput", "1.5GB/s"),
        metric("a(int)", "tex_utilization", "Mid (5)"),
        metric("b(int)", "stall_memory_dependency", "<OVERFLOW>", calls=2),
        metric("b(int)", "ipc", "bad", calls=2),
        metric("", "ipc", "1", calls=2),
    ]
    report = imported(database, written(tmp_path / "p.csv", [*PREAMBLE, METRICS, *rows]))
    assert (report.format, report.rows_read, report.rows_rejected) == ("nvprof-metrics", 7, 2)
    assert report.gpus == ["P100"]
    assert report.launches == 5
    assert report.stall_reasons == ["memory_dependency", "sleeping"]
    stalls = profiles.stall_metrics(database)
    assert set(stalls["stall_family"]) == {"nvprof"}
    assert sorted(stalls["value"].dropna()) == [1.5, 61.5]
    kept = dict(
        database.query("SELECT metric, value FROM kernel_metric WHERE family IS NULL").itertuples(
            index=False, name=None
        )
    )
    assert kept == {"dram_read_throughput": 1.5e9, "tex_utilization": 5.0}
    assert any("own classes" in text for text in report.warnings)
    assert "--metrics" in report.report["command"]


@settings(max_examples=20, deadline=None)
@given(
    kernels=KERNELS,
    values=st.lists(st.floats(0, 1e6, allow_nan=False).map(lambda value: round(value, 6)), min_size=6, max_size=6),
    end=ENDS,
    encoding=ENCODINGS,
    before=st.integers(0, 3),
    quoted=st.booleans(),
)
def test_metrics_survive(
    kernels: list[str], values: list[float], end: str, encoding: str, before: int, quoted: bool
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        cells = [("Quadro GV100 (0)", kernel, 4, "ipc", "IPC", 0, 9, f"{value:.6f}")
                 for kernel, value in zip(kernels, values, strict=False)]  # fmt: skip
        lines = [*PREAMBLE[:before], METRICS, *(line(list(row), quoted) for row in cells)]
        got = parsed(written(Path(folder) / "p.csv", lines, end, encoding))
    assert (got.rows_read, got.rows_rejected) == (len(cells), 0)
    frame = got.frames["kernel_metric"]
    assert list(frame["value"]) == pytest.approx([float(row[-1]) for row in cells])
    assert list(got.frames["kernel"]["name"]) == kernels


def test_summary_units_second_table_and_text(database: Database, tmp_path: Path) -> None:
    lines = [
        "==5== NVPROF is profiling process 5, command: ./a", "==5== Profiling result:", *SUMMARY,
        line(["GPU activities", 80, 30.0, 10, 3000.0, 2000, 4, "k(int, float)"]),
        line(["GPU activities", 15, 1.0, 2, 500.0, 400, 0.6, "[CUDA memcpy HtoD]"]),
        line(["API calls", 5, 1.0, 2, 500.0, 400, 0.6, "cudaMalloc"]),
        line(["GPU activities", 5, "x", 2, 500.0, 400, 0.6, "broken"]),
        "", "==5== Unified Memory profiling result:",
        '"Device","Count","Avg Size","Min Size","Max Size","Total Size","Total Time",""',
        '"Tesla T4 (0)",158,40.8KB,4.0KB,600.0KB,6.3MB,0.0,"Host To Device"', "Total CPU Page faults: 49",
    ]  # fmt: skip
    report = imported(database, written(tmp_path / "s.csv", lines))
    assert (report.format, report.rows_read, report.rows_rejected) == ("nvprof-summary", 5, 1)
    assert report.set_aside == {"not_a_kernel": 2, "other_table": 1}
    assert report.gpus == ["T4"]
    kernel = database.query("SELECT name, invocations, duration_ns, line FROM kernel").iloc[0]
    assert tuple(kernel) == ("k(int, float)", 10, 3_000_000.0, 5)
    top = database.scalar("SELECT value FROM kernel_metric WHERE metric = 'time.max'")
    assert top == 4_000_000.0


def test_trace_with_units(database: Database, tmp_path: Path) -> None:
    names = ["Start", "Duration", "Grid X", "Grid Y", "Grid Z", "Block X", "Block Y", "Block Z",
             "Registers Per Thread", "Static SMem", "Size", "Device", "Context", "Stream", "Name"]  # fmt: skip
    lines = [
        "==5== Profiling result:", line(names, True), "ms,us,,,,,,,,KB,KB,,,,",
        line([1.0, 2.5, "", "", "", "", "", "", "", "", 16, "Tesla T4 (0)", 1, 7, "[CUDA memcpy HtoD]"]),
        line([1.5, 7.25, 10, 1, 1, 128, 1, 1, 32, 2, "", "Tesla T4 (0)", 1, 7, "k(int) [123]"]),
    ]  # fmt: skip
    report = imported(database, written(tmp_path / "t.csv", lines))
    assert (report.format, report.rows_read, report.set_aside) == ("nsys-gpu-trace", 2, {"memory_operation": 1})
    kernel = database.query("SELECT grid, block, duration_ns FROM kernel").iloc[0]
    assert tuple(kernel) == ("(10, 1, 1)", "(128, 1, 1)", 7250.0)
    assert database.scalar("SELECT value FROM kernel_metric WHERE metric LIKE '%shared%'") == 2000.0


def test_only_broken_rows_are_refused(tmp_path: Path) -> None:
    path = written(tmp_path / "p.csv", [METRICS, metric("a", "ipc", "bad")])
    with pytest.raises(InputRefusedError, match="is no number"):
        parsed(path)


def test_real_files(database: Database, cases: Path) -> None:
    jetson = imported(database, cases / "jetson-nano-nvprof-dcgan.csv")
    assert (jetson.rows_read, jetson.kernels, len(jetson.report["metrics"]), jetson.gpus, jetson.rows_rejected) == (
        105, 5, 21, ["Tegra X1"], 0,
    )  # fmt: skip
    assert jetson.report["lines_skipped"] == 5
    volta = imported(database, cases / "giotyp-v100-nvprof.csv")
    assert (volta.rows_read, volta.kernels, volta.gpus) == (9, 1, ["Tesla V100S-PCIE-32GB"])
    summary = imported(database, cases / "nvprof-summary-cfd.csv")
    assert (summary.rows_read, summary.kernels) == (9, 4)
    assert summary.set_aside == {"not_a_kernel": 3, "other_table": 2}
    longest = database.scalar("SELECT max(value) FROM kernel_metric WHERE metric = 'time.max'")
    assert longest == pytest.approx(1.791976e6)
