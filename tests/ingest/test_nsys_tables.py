"""Tables of `nsys stats`: any age, any time unit, a preamble, several reports in one file."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tool_files import ENCODINGS, ENDS, KERNELS, imported, line, parsed, written

from analysis.store.database import Database

PREAMBLE = ["Generating SQLite file a.sqlite from a.nsys-rep", "Processing [a.sqlite] with [cuda_gpu_kern_sum.py]... "]
FACTOR = {"ns": 1.0, "us": 1e3, "ms": 1e6, "s": 1e9}


def summary(unit: str) -> list[str]:
    return [
        "Time (%)", f"Total Time ({unit})", "Instances", f"Avg ({unit})", f"Med ({unit})", f"Min ({unit})",
        f"Max ({unit})", f"StdDev ({unit})", "Name",
    ]  # fmt: skip


TRACE = [
    "Start (ns)", "Duration (ns)", "CorrId", "GrdX", "GrdY", "GrdZ", "BlkX", "BlkY", "BlkZ", "Reg/Trd", "StcSMem (MB)",
    "DymSMem (MB)", "Bytes (MB)", "Throughput (MB/s)", "SrcMemKd", "DstMemKd", "Device", "Ctx", "Strm", "Name",
]  # fmt: skip


@settings(max_examples=25, deadline=None)
@given(
    kernels=KERNELS, unit=st.sampled_from(list(FACTOR)), before=st.integers(0, 2), end=ENDS, encoding=ENCODINGS,
    durations=st.lists(st.integers(1, 10**7), min_size=6, max_size=6), blank=st.booleans(),
)  # fmt: skip
def test_summaries_survive(
    kernels: list[str], unit: str, before: int, end: str, encoding: str, durations: list[int], blank: bool
) -> None:
    rows = [line([10.0, value * 4, 4, value, value, value, value, 0.0, kernel])
            for kernel, value in zip(kernels, durations, strict=False)]  # fmt: skip
    lines = [*PREAMBLE[:before], line(summary(unit)), *rows, *([""] if blank else [])]
    with tempfile.TemporaryDirectory() as folder:
        got = parsed(written(Path(folder) / "k.csv", lines, end, encoding))
    kernel = got.frames["kernel"]
    assert (got.format, got.rows_read, got.rows_rejected) == ("nsys-kern-sum", len(rows), 0)
    assert list(kernel["name"]) == kernels
    assert list(kernel["invocations"]) == [4] * len(rows)
    assert list(kernel["duration_ns"]) == pytest.approx([value * FACTOR[unit] for value in durations[: len(rows)]])
    assert list(kernel["line"]) == [before + 2 + place for place in range(len(rows))]


def test_concatenated_reports(database: Database, tmp_path: Path) -> None:
    lines = [
        *PREAMBLE, "", " ** CUDA API Summary (cuda_api_sum):", "",
        "Time (%),Total Time (ns),Num Calls,Avg (ns),Name", "50.0,100,4,25.0,cudaLaunch", "50.0,100,4,25.0,cudaFree",
        "", " ** CUDA GPU Kernel Summary (cuda_gpu_kern_sum):", "", line(summary("ns")),
        line([60.0, 400, 4, 100, 100, 90, 110, 1.0, "a(int, int)"]),
        line([40.0, "n/a", 4, 100, 100, 90, 110, 1.0, "b"]),
        "", "Time (%),Total Time (ns),Instances,Avg (ns),GridXYZ,BlockXYZ,Name", '100.0,400,4,100,"1 1 1"," 32 1 1",a',
    ]  # fmt: skip
    report = imported(database, written(tmp_path / "all.csv", lines))
    assert (report.rows_read, report.rows_rejected, report.kernels) == (5, 1, 1)
    assert report.set_aside == {"other_table": 2, "same_kernels_again": 1}
    assert database.scalar('SELECT "text" FROM rejected_row') == "n/a"
    assert database.scalar("SELECT line FROM rejected_row") == 14


def test_old_names_without_units(database: Database, tmp_path: Path) -> None:
    lines = ["Time(%),Total Time (ns),Instances,Average,Minimum,Maximum,Name", "100.0,900,3,300.0,200,400,k"]
    report = imported(database, written(tmp_path / "old.csv", lines))
    assert report.format == "nsys-kern-sum"
    assert database.scalar("SELECT duration_ns FROM kernel") == 300.0


@settings(max_examples=20, deadline=None)
@given(
    rows=st.lists(st.tuples(st.booleans(), st.integers(1, 10**9), st.integers(1, 65535)), min_size=1, max_size=8),
    end=ENDS, encoding=ENCODINGS, green=st.booleans(),
)  # fmt: skip
def test_traces_survive(rows: list[tuple[bool, int, int]], end: str, encoding: str, green: bool) -> None:
    rows = [(False, 5, 5), *rows]
    names = [*TRACE[:18], "GreenCtx", *TRACE[18:]] if green else TRACE
    cells = [
        [1000 + place, took, place, *([""] * 9 if copy else [grid, 1, 1, 64, 1, 1, 32, 0, 0]),
         1.5 if copy else "", "", "", "", "NVIDIA A100-SXM4-40GB (0)", 1, *([""] if green else []), 7,
         "[CUDA memcpy HtoD]" if copy else "void k<(int)1, float>(T *)"]
        for place, (copy, took, grid) in enumerate(rows)
    ]  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        got = parsed(written(Path(folder) / "t.csv", [line(names), *map(line, cells)], end, encoding))
    copies = sum(copy for copy, _, _ in rows)
    kernel = got.frames["kernel"]
    assert (got.rows_read, got.rows_rejected, got.rows_set_aside) == (len(rows), 0, copies)
    assert list(kernel["duration_ns"]) == [took for copy, took, _ in rows if not copy]
    assert list(kernel["grid"]) == [f"({grid}, 1, 1)" for copy, _, grid in rows if not copy]
    assert set(kernel["gpu"]) == {"A100-40GB"}


def test_trace_rejects_what_it_cannot_read(database: Database, tmp_path: Path) -> None:
    good = [1, 2, 3, 4, 1, 1, 64, 1, 1, 32, 0, 0, "", "", "", "", "Tesla T4 (0)", 1, 7, "k"]
    bad = [1, 0, 3, 4, 1, 1, 64, 1, 1, 32, 0, 0, "", "", "", "", "Tesla T4 (0)", 1, 7, "k"]
    half = [1, 2, 3, 4, "", 1, 64, 1, 1, 32, 0, 0, "", "", "", "", "Tesla T4 (0)", 1, 7, "k"]
    report = imported(database, written(tmp_path / "t.csv", [line(TRACE), line(good), line(bad), line(half), "1,2"]))
    assert (report.rows_read, report.rows_rejected, report.launches) == (4, 3, 1)
    assert "ncu --csv" in report.report["command"]


def test_real_files(database: Database, cases: Path) -> None:
    for name, rows, aside in (
        ("polyfhe-nsys-kernsum.csv", 26, 0),
        ("cudnn-rtx5070ti-nsys-resnet18.csv", 36, 0),
        ("flame-a4500-nsys-gputrace-torch.csv", 2685, 203),
    ):
        report = imported(database, cases / name)
        assert (report.rows_read, report.rows_rejected, sum(report.set_aside.values())) == (rows, 0, aside)
        assert report.stall_reasons == []
    text = (cases / "flame-a4500-nsys-gputrace-torch.csv").read_text()
    assert sum(",,,,,,,,," in row for row in text.splitlines()) == 203
