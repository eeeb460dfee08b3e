"""PyTorch traces: only kernel events count, whatever stands around them and however the JSON is laid out."""

from __future__ import annotations

import gzip
import json
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tool_files import KERNELS, imported, parsed

from analysis.errors import InputRefusedError
from analysis.ingest.formats.profilers import kineto
from analysis.ingest.importer import import_file
from analysis.store.database import Database

DEVICES = [{"id": 0, "name": "NVIDIA A100-SXM4-80GB", "computeMajor": 8, "computeMinor": 0}]


def kernel(name: str, dur: object = 12.5, **args: object) -> dict:
    known = {"device": 0, "correlation": 9, "grid": [4, 1, 1], "block": [128, 1, 1], "registers per thread": 32,
             "est. achieved occupancy %": 57}  # fmt: skip
    return {
        "ph": "X",
        "cat": "kernel",
        "name": name,
        "pid": 0,
        "tid": 7,
        "ts": 100.0,
        "dur": dur,
        "args": {**known, **args},
    }


def trace(events: list[dict], **around: object) -> dict:
    return {"schemaVersion": 1, "deviceProperties": DEVICES, "traceEvents": events, "traceName": "t.json", **around}


OTHER = [
    {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "ts": 1, "dur": 5, "args": {}},
    {"ph": "X", "cat": "gpu_memcpy", "name": "Memcpy HtoD", "ts": 1, "dur": 5, "args": {}},
    {"ph": "i", "name": "Record Window End", "ts": 3},
]


def test_only_kernels(database: Database, tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    events = [*OTHER, kernel("gemm<1>(int)"), kernel("k", dur=None), kernel("", dur=4), kernel("zero", dur=0)]
    path.write_text(json.dumps(trace(events)))
    report = imported(database, path)
    assert (report.format, report.rows_read, report.rows_rejected, report.launches) == ("kineto-trace", 4, 2, 2)
    assert report.gpus == ["A100-80GB"]
    assert report.report["other_events"] == {"cpu_op": 1, "gpu_memcpy": 1, "i": 1}
    assert (
        database.query("SELECT duration_ns FROM kernel ORDER BY line, kernel_id")["duration_ns"].tolist()[0] == 12500.0
    )
    assert database.scalar("SELECT value FROM kernel_metric WHERE metric = 'kineto.estimated_occupancy' LIMIT 1") == 57
    assert any("estimate" in text for text in report.warnings)
    assert "ncu --csv" in report.report["command"]


@settings(max_examples=25, deadline=None)
@given(
    kernels=KERNELS, durations=st.lists(st.floats(0.001, 1e7), min_size=6, max_size=6),
    indent=st.sampled_from([None, 0, 2]), packed=st.booleans(), bare=st.booleans(),
    piece=st.sampled_from([7, 64, 1 << 20]),
)  # fmt: skip
def test_survives(
    kernels: list[str], durations: list[float], indent: int | None, packed: bool, bare: bool, piece: int
) -> None:
    events = [OTHER[0], *(kernel(name, dur) for name, dur in zip(kernels, durations, strict=False)), OTHER[2]]
    text = json.dumps(events if bare else trace(events, baseTimeNanoseconds=5), indent=indent).encode()
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(kineto, "_PIECE", piece)
        path = Path(folder) / ("t.json.gz" if packed else "t.json")
        path.write_bytes(gzip.compress(text) if packed else text)
        got = parsed(path)
    frame = got.frames["kernel"]
    assert (got.rows_read, got.rows_rejected) == (len(kernels), 0)
    assert list(frame["name"]) == kernels
    assert list(frame["duration_ns"]) == pytest.approx([value * 1e3 for value in durations[: len(kernels)]])
    assert set(frame["gpu"]) == ({"unknown"} if bare else {"A100-80GB"})


@pytest.mark.parametrize("keep", [0.3, 0.6, 0.95])
def test_cut_off(tmp_path: Path, keep: float) -> None:
    text = json.dumps(trace([kernel("k") for _ in range(200)], note="x" * 4000))
    path = tmp_path / "t.json"
    path.write_text(text[: int(len(text) * keep)])
    with pytest.raises(InputRefusedError, match=r"cut off|text ends"):
        parsed(path)


def test_no_kernel_is_refused(database: Database, tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    path.write_text(json.dumps(trace(OTHER)))
    report = import_file(database, path)
    assert report.status == "rejected"
    assert "ProfilerActivity.CUDA" in str(report.error)


def test_real_trace(database: Database, cases: Path) -> None:
    path = cases / "t4-kineto-fp32.json"
    report = imported(database, path)
    expected = [event for event in json.loads(path.read_text())["traceEvents"] if event.get("cat") == "kernel"]
    assert (report.rows_read, report.rows_rejected, report.launches, report.gpus) == (95, 0, 95, ["T4"])
    assert len(expected) == 95
    total = database.scalar("SELECT sum(duration_ns) FROM kernel")
    assert total == pytest.approx(1e3 * sum(event["dur"] for event in expected))
