"""Binary reports: read by NVIDIA's package or program where one is installed, refused with the command otherwise."""

from __future__ import annotations

from pathlib import Path

import pytest
from ncu_files import long_form, profile_rows

from analysis.ingest.formats.ncu import report as ncu_report
from analysis.ingest.importer import import_file
from analysis.store.database import Database

#: Stands for NVIDIA's package: the part of its interface that is used, with two launches.
PACKAGE = """
class IAction:
    NameBase_DEMANGLED = 1
    def __init__(self, number): self.number = number
    def name(self, base=0): return f"void gemm<{self.number}>(float *, \\"q\\")" if base == 1 else "gemm"
    def metric_names(self):
        return [*VALUES, *(["only.second"] if self.number else [])]
    def metric_by_name(self, name):
        value, unit = VALUES.get(name, (7, ""))
        return Metric(value + self.number if name == "gpu__time_duration.sum" else value, unit)
class Metric:
    def __init__(self, value, unit): self.held, self.of = value, unit
    def value(self): return self.held
    def unit(self): return self.of
VALUES = {
    "gpu__time_duration.sum": (1234567.125, "nsecond"), "sm__cycles_active.avg": (1e-7, "cycle"),
    "smsp__average_warps_issue_stalled_wait_per_issue_active.ratio": (2.5, "inst"),
    "dram__bytes_read.sum": (2**40, "byte"), "launch__func_cache_config": ("CachePreferNone", ""),
    "odd.nan": (float("nan"), "%"), "instances.only": (None, ""),
    "device__attribute_compute_capability_major": (9, ""), "device__attribute_compute_capability_minor": (0, ""),
    "device__attribute_display_name": ("NVIDIA H100 80GB HBM3", ""),
    **{f"launch__{what}_dim_{axis}": (n, "") for what in ("grid", "block") for n, axis in enumerate("xyz", 1)},
}
class IRange:
    def num_actions(self): return 1
    def action_by_idx(self, place): return IAction(self.number)
class IContext:
    def num_ranges(self): return 2
    def range_by_idx(self, place):
        found = IRange(); found.number = place
        return found
def load_report(path):
    with open(path, "rb") as file:
        if file.read(4) != b"NVR\\0": raise ValueError("no report")
        if b"newer" in file.read(): raise RuntimeError("written by a newer version")
    return IContext()
"""


def _report(folder: Path, extra: bytes = b"") -> Path:
    path = folder / "a b;c.ncu-rep"
    path.write_bytes(b"NVR\x00" + bytes(range(256)) * 4 + extra)
    return path


@pytest.fixture(autouse=True)
def _nothing_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Hide what this machine has; a test adds what it needs."""
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    found = ncu_report.find_spec
    monkeypatch.setattr(ncu_report, "find_spec", lambda name: found(name) if (tmp_path / "site").is_dir() else None)


def _package(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = folder / "site" / "ncu_report"
    place.mkdir(parents=True)
    (place / "__init__.py").write_text(PACKAGE)
    monkeypatch.syspath_prepend(str(folder / "site"))


def _ncu(folder: Path, body: str) -> None:
    program = folder / "bin" / "ncu"
    program.write_text(f"#!/bin/sh\n{body}\n")
    program.chmod(0o755)


def test_by_the_program(database: Database, tmp_path: Path) -> None:
    csv = tmp_path / "made.csv"
    csv.write_bytes(long_form(profile_rows(3)))
    _ncu(tmp_path, f'test "$1" = --import && test -f "$2" && cat "{csv}"')
    report = import_file(database, _report(tmp_path))
    assert (report.status, report.format, report.error) == ("loaded", "ncu-rep", None)
    assert report.launches == 3
    assert report.report["exported_as"] == "ncu-long"
    assert report.report["exported_by"].endswith("/ncu")


def test_by_the_package(database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _package(tmp_path, monkeypatch)
    report = import_file(database, _report(tmp_path))
    assert (report.status, report.format, report.error) == ("loaded", "ncu-rep", None)
    assert (report.launches, report.rows_read, report.gpus) == (2, 2, ["H100-SXM"])
    assert report.stall_reasons == ["wait"]
    assert report.report["exported_by"] == "the package ncu-report"
    kernel = database.query("SELECT name, grid, block, cc, duration_ns FROM kernel ORDER BY kernel_id")
    assert kernel.values.tolist() == [
        ['void gemm<0>(float *, "q")', "(1, 2, 3)", "(1, 2, 3)", "9.0", 1234567.125],
        ['void gemm<1>(float *, "q")', "(1, 2, 3)", "(1, 2, 3)", "9.0", 1234568.125],
    ]
    stored = database.query("SELECT metric, value, text FROM kernel_metric WHERE kernel_id = 1").set_index("metric")
    assert stored.loc["sm__cycles_active.avg", "value"] == 1e-7
    assert stored.loc["dram__bytes_read.sum", "value"] == 2**40
    assert stored.loc["launch__func_cache_config", "text"] == "CachePreferNone"
    assert stored.loc["odd.nan"].isna()["value"], "not a number is no value"
    assert not {"instances.only", "only.second"} & set(stored.index), "absent is not zero"


def test_the_other_way_is_tried(database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _package(tmp_path, monkeypatch)
    csv = tmp_path / "made.csv"
    csv.write_bytes(long_form(profile_rows(3)))
    _ncu(tmp_path, f'cat "{csv}"')
    assert import_file(database, _report(tmp_path, b"newer")).launches == 3


def test_failed_export(database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _package(tmp_path, monkeypatch)
    _ncu(tmp_path, "echo 'unknown format' >&2; exit 1")
    report = import_file(database, _report(tmp_path, b"newer"))
    assert report.status == "rejected"
    for words in ("a newer version", "unknown format", "ncu --import"):
        assert words in str(report.error)
    assert database.scalar("SELECT count(*) FROM source") == 0


def test_without_either(database: Database, tmp_path: Path) -> None:
    report = import_file(database, _report(tmp_path))
    assert report.status == "rejected"
    assert "ncu --import a b;c.ncu-rep --csv" in str(report.error)
    assert "pip install ncu-report" in str(report.error)
