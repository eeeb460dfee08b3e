"""Importing: several files, archives, folders, duplicates, guesses, and what happens when something breaks."""

from __future__ import annotations

import gzip
import io
import os
import time
import zipfile
from pathlib import Path

import pytest
from ncu_files import PREAMBLE, long_form, profile_rows

from analysis.ingest import importer
from analysis.ingest.contract.format import Hints
from analysis.ingest.formats.ncu.long import NcuLong
from analysis.ingest.importer import import_file, import_paths, preview
from analysis.ingest.source.opening import opened_files
from analysis.store.database import Database
from analysis.store.queries import profiles, sources

GOOD = long_form(profile_rows(), before=PREAMBLE)
OTHER = long_form(profile_rows(2), before=PREAMBLE)


def write(folder: Path, name: str, content: bytes) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def test_folders_patterns_and_a_bad_file_among_good_ones(database: Database, tmp_path: Path) -> None:
    write(tmp_path, "runs/bert_A100.csv", GOOD)
    write(tmp_path, "runs/deep/resnet50_A100.csv", OTHER)
    write(tmp_path, "runs/notes.txt", b"hello\n")
    write(tmp_path, "runs/.hidden", b"hello\n")
    reports = import_paths(database, [tmp_path / "runs"])
    assert [(report.file, report.status) for report in reports] == [
        ("bert_A100.csv", "loaded"), ("resnet50_A100.csv", "loaded"), ("notes.txt", "rejected"),
    ]  # fmt: skip
    assert set(profiles.kernels(database)["workload"]) == {"bert_A100", "resnet50_A100"}
    with Database(tmp_path / "second.duckdb") as second:
        assert len(import_paths(second, [str(tmp_path / "runs" / "*.csv")], workload="one", gpu="T4")) == 1
        kernels = profiles.kernels(second)
        assert set(kernels["workload"]) == {"one"}
        assert set(kernels["gpu"]) == {"T4"}


def test_the_same_bytes_load_once_whatever_packs_them(database: Database, tmp_path: Path) -> None:
    first = import_file(database, write(tmp_path, "a.csv", GOOD))
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("x/b.csv", GOOD)
    for name, content in (("c.csv", GOOD), ("d.csv.gz", gzip.compress(GOOD)), ("e.zip", packed.getvalue())):
        report = import_file(database, write(tmp_path, name, content))
        assert (report.status, report.source_id, report.rows_read) == ("duplicate", first.source_id, 0)
        assert "a.csv" in report.warnings[0]
    assert len(sources.sources(database)) == 1


def test_an_archive_of_several_files(database: Database, tmp_path: Path) -> None:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("runs/bert.csv", GOOD)
        archive.writestr("runs/gpt.csv.gz", gzip.compress(OTHER))
        archive.writestr("../../evil.txt", b"no table\n")
        archive.writestr("__MACOSX/._bert.csv", b"x")
    path = write(tmp_path, "all.zip", packed.getvalue())
    reports = import_paths(database, [path])
    assert [(report.file, report.status) for report in reports] == [
        ("all.zip/bert.csv", "loaded"), ("all.zip/gpt.csv", "loaded"), ("all.zip/evil.txt", "rejected"),
    ]  # fmt: skip
    assert set(profiles.kernels(database)["workload"]) == {"bert", "gpt"}
    assert not (tmp_path.parent.parent / "evil.txt").exists()
    with Database(tmp_path / "second.duckdb") as second:
        merged = import_file(second, path)
        assert (merged.status, merged.rows_read, merged.launches) == ("loaded", 35, 5)
        assert len(merged.report["files"]) == 3
        assert any("no table" in text or "without a table" in text for text in merged.warnings)


def test_guesses_from_the_name(database: Database, tmp_path: Path) -> None:
    path = write(tmp_path, "resnet50_bs64_amp_A100.csv", GOOD)
    seen = preview(path)
    assert (seen.format, seen.rows, seen.launches, seen.error) == ("ncu-long", 21, 3, None)
    assert (seen.workload, seen.gpu, seen.asks_workload, seen.asks_gpu) == ("resnet50_bs64_amp", "A100", True, True)
    assert seen.parts["batch_size"] == 64
    assert seen.parts["precision"] == "amp"
    assert seen.gpus[0] == "A100"
    assert not any("workload" in text for text in seen.warnings)
    assert len(sources.sources(database)) == 0
    report = import_file(database, path)
    assert any("no workload was given" in text.lower() for text in report.warnings)
    stored = sources.workloads(database).iloc[0]
    assert (stored["workload"], stored["batch_size"], stored["precision"]) == ("resnet50_bs64_amp_A100", 64, "amp")


def test_what_the_user_says_holds(database: Database, tmp_path: Path) -> None:
    hints = Hints(workload="GPT-2", gpu="NVIDIA A100-SXM4-80GB", dataset="lab")
    report = import_file(database, write(tmp_path, "x_V100.csv", GOOD), name="upload.csv", hints=hints)
    assert (report.file, report.gpus) == ("upload.csv", ["A100-80GB"])
    assert [text.split(" have")[0] for text in report.warnings] == ["Only 4 stall reasons"]
    assert sources.datasets(database)["name"].tolist() == ["lab"]


def test_several_files_make_one_profile(database: Database, tmp_path: Path) -> None:
    for name, content in (("a.csv", GOOD), ("b.csv", OTHER)):
        import_file(database, write(tmp_path, name, content), hints=Hints(workload="bert", gpu="A100"))
    assert database.scalar("SELECT count(*) FROM profile") == 1
    assert len(profiles.kernels(database)) == 5


def test_an_unexpected_fault_is_a_sentence(database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError

    path = write(tmp_path, "a.csv", GOOD)
    monkeypatch.setattr(importer, "load", broken)
    report = import_file(database, path)
    assert report.status == "rejected"
    assert "its content is not what its beginning promises" in str(report.error)
    assert database.scalar("SELECT count(*) FROM source") == 0


def test_a_file_that_grows_while_it_is_read_is_refused(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path, "a.csv", GOOD)
    whole = NcuLong.parse

    def parse(self: NcuLong, *arguments: object) -> object:
        found = whole(self, *arguments)  # type: ignore[arg-type]
        path.write_bytes(GOOD + b"more\n")
        return found

    monkeypatch.setattr(NcuLong, "parse", parse)
    assert "changed while it was read" in str(import_file(database, path).error)


def test_windows_1252_is_read_and_said(database: Database, tmp_path: Path) -> None:
    content = GOOD.replace(b"epoch 0", "Épöche 0".encode("cp1252"))
    report = import_file(database, write(tmp_path, "a.csv", content))
    assert report.rows_loaded == 21
    assert report.report["encoding"] == "cp1252"
    assert any("Windows-1252" in text for text in report.warnings)


def test_what_killed_imports_left_behind_is_taken_out(tmp_path: Path) -> None:
    spool = tmp_path / "spool"
    for name, hours in (("import-old", 30), ("import-new", 1), ("other", 30)):
        (spool / name).mkdir(parents=True)
        (spool / name / "text").write_text("x")
        moment = time.time() - 3600 * hours
        os.utime(spool / name, (moment, moment))
    path = tmp_path / "t.csv"
    path.write_text("a,b\n1,2\n")
    with opened_files(path, spool=spool):
        pass
    assert sorted(left.name for left in spool.iterdir()) == ["import-new", "other"]
