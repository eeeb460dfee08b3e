"""Binary reports: exported by the ncu that is installed, refused with the command where there is none."""

from __future__ import annotations

from pathlib import Path

import pytest
from ncu_files import long_form, profile_rows

from analysis.ingest import ncu_report
from analysis.ingest.importer import import_file
from analysis.store.database import Database


def _report(folder: Path) -> Path:
    path = folder / "a b;c.ncu-rep"
    path.write_bytes(b"NVR\x00" + bytes(range(256)) * 4)
    return path


def _ncu(folder: Path, monkeypatch: pytest.MonkeyPatch, body: str) -> None:
    program = folder / "bin" / "ncu"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\n{body}\n")
    program.chmod(0o755)
    monkeypatch.setattr(ncu_report, "exporter", lambda: str(program))


def test_exported(database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    csv = tmp_path / "made.csv"
    csv.write_bytes(long_form(profile_rows(3)))
    _ncu(tmp_path, monkeypatch, f'test "$1" = --import && test -f "$2" && cat "{csv}"')
    report = import_file(database, _report(tmp_path))
    assert (report.status, report.format, report.error) == ("loaded", "ncu-rep", None)
    assert report.launches == 3
    assert report.report["exported_as"] == "ncu-long"


def test_failed_export(database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _ncu(tmp_path, monkeypatch, "echo 'newer format' >&2; exit 1")
    report = import_file(database, _report(tmp_path))
    assert report.status == "rejected"
    assert "newer format" in str(report.error)


def test_without_ncu(database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ncu_report, "exporter", lambda: None)
    report = import_file(database, _report(tmp_path))
    assert report.status == "rejected"
    assert "ncu --import" in str(report.error)
