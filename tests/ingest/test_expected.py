"""Every real export gives by command what the table beside them says, and a small file of each kind does the same."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from ncu_files import PREAMBLE, long_form, profile_rows
from typer.testing import CliRunner

from analysis.cli import app
from tests.expected import SAID, Expected, expected


def by_command(tmp_path: Path, files: list[Path]) -> dict[str, dict[str, Any]]:
    done = CliRunner().invoke(app, ["import", "--json", "--db", str(tmp_path / "c.duckdb"), *map(str, files)])
    assert done.exit_code in (0, 1), done.output
    return {report["file"]: report for report in json.loads(done.stdout)}


def held(report: dict[str, Any], wanted: Expected) -> None:
    """Compare one file's account with what is expected of it."""
    name = wanted.name
    assert report["rows_read"] == report["rows_loaded"] + report["rows_rejected"], name
    said = " ".join([*report["warnings"], report["error"] or "", *report["set_aside"]])
    for words in SAID.get(name, ()):
        assert words in said, (name, words, said)
    if wanted.refused:
        assert (report["status"], report["rows_loaded"]) == ("rejected", 0), name
        return
    assert (report["status"], report["error"]) == ("loaded", None), name
    assert report["rows_rejected"] == 0, name
    for found, number in (
        (report["rows_read"], wanted.rows),
        (report["launches"], wanted.launches),
        (report["kernels"], wanted.kernels),
        (len(report["stall_reasons"]), wanted.reasons),
    ):
        assert number is None or found == number, (name, found, number)


def test_every_real_export(cases: Path, tmp_path: Path) -> None:
    table = expected(cases)
    assert len(table) >= 20
    assert {wanted.name for wanted in table} == {path.name for path in cases.iterdir()} - {"EXPECT.md"}
    reports = by_command(tmp_path, [cases / wanted.name for wanted in table])
    for wanted in table:
        held(reports[wanted.name], wanted)


def test_small_twins(tmp_path: Path) -> None:
    """The same comparison on files written here, which must be able to fail."""
    (tmp_path / "EXPECT.md").write_text(
        "| file | what it is | rows | launches / kernel names | stalls | must be noticed |\n|---|---|---|---|---|---|\n"
        "| run.csv | ncu | 21 (with all) | 3 / 1 | 4 reasons | |\n| dead.txt | failed | 0 | | | refused |\n"
        "| cfd.csv | nvprof | 2 (+ 1 in a second table) | | no | |\n"
    )
    run = long_form(profile_rows(3), before=PREAMBLE)
    (tmp_path / "run.csv").write_bytes(run)
    (tmp_path / "dead.txt").write_text("==PROF== Connected\n==ERROR== ERR_NVGPUCTRPERM - no permission\n")
    (tmp_path / "cfd.csv").write_text(
        "==1== NVPROF is profiling\n==1== Profiling result:\n"
        '"Type","Time(%)","Time","Calls","Avg","Min","Max","Name"\n,%,ms,,us,us,ms,\n'
        '"GPU activities",60.0,6.0,3,2000.0,1.0,4.0,"k(int)"\n"GPU activities",40.0,4.0,1,4000.0,1.0,4.0,"j()"\n'
        '\n==1== Unified Memory profiling result:\n"Device","Count","Avg Size","Name"\n,,KB,\n"T4 (0)",3,4.0,"x"\n'
    )
    table = expected(tmp_path)
    reports = by_command(tmp_path, [tmp_path / wanted.name for wanted in table])
    assert [wanted.rows for wanted in table] == [21, 0, 3]
    kernels, reasons = reports["run.csv"]["kernels"], len(reports["run.csv"]["stall_reasons"])
    for wanted in table:
        held(reports[wanted.name], wanted)
    wrong = Expected("run.csv", 21, 4, kernels, reasons)
    with pytest.raises(AssertionError):
        held(reports["run.csv"], wrong)
