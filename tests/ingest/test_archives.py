"""Whatever a file is packed with: it is opened within the limits, or refused, and never read as if it were text."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from ncu_files import Row, long_form, profile_rows, stall

from analysis.ingest.importer import import_file, import_paths
from analysis.ingest.source.opening import opened_files
from analysis.settings import get_settings
from analysis.store.database import Database
from analysis.store.queries import profiles

GOOD = long_form(profile_rows())
OTHER = long_form([Row(7, stall("wait"), "3", "inst"), Row(8, stall("wait"), "4", "inst")])


def tar(
    files: dict[str, bytes], form: int = tarfile.PAX_FORMAT, *, change: Callable[[tarfile.TarInfo], None] | None = None
) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=form) as archive:
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            if change:
                change(info)
            archive.addfile(info, io.BytesIO(content))
    return out.getvalue()


def arrow(kind: str) -> Callable[[bytes], bytes]:
    def pack(content: bytes) -> bytes:
        sink = pa.BufferOutputStream()
        with pa.CompressedOutputStream(sink, kind) as out:
            out.write(content)
        return sink.getvalue().to_pybytes()

    return pack


PACKERS: dict[str, Callable[[bytes], bytes]] = {
    "gz": gzip.compress, "bz2": bz2.compress, "xz": lzma.compress, "zst": arrow("zstd"), "lz4": arrow("lz4"),
    "lzma": lambda content: lzma.compress(content, lzma.FORMAT_ALONE),
}  # fmt: skip


@pytest.mark.parametrize("suffix", PACKERS)
def test_a_packed_file_is_the_file(database: Database, tmp_path: Path, suffix: str) -> None:
    (tmp_path / "bert.csv").write_bytes(GOOD)
    (tmp_path / f"bert.csv.{suffix}").write_bytes(PACKERS[suffix](GOOD))
    packed = import_file(database, tmp_path / f"bert.csv.{suffix}")
    assert (packed.status, packed.file, packed.report["workload"]) == ("loaded", "bert.csv", "bert")
    assert import_file(database, tmp_path / "bert.csv").status == "duplicate"
    cut = tmp_path / f"cut.csv.{suffix}"
    cut.write_bytes(PACKERS[suffix](OTHER)[:-14])
    refused = import_file(database, cut)
    assert refused.status == "rejected"
    assert "cut off" in str(refused.error)


@pytest.mark.parametrize(
    ("suffix", "form"),
    [("", tarfile.USTAR_FORMAT), ("gz", tarfile.GNU_FORMAT), *((suffix, tarfile.PAX_FORMAT) for suffix in PACKERS)],
)
def test_the_files_of_a_tar_archive_stay_apart(tmp_path: Path, suffix: str, form: int) -> None:
    members = {
        "run/é/a.csv": b"==PROF== Connected\n" + GOOD,
        "run/b.csv": OTHER,
        ".hidden": b"x",
        f"{'d/' * 80}c": b"y",
    }
    path = tmp_path / "runs.tar"
    path.write_bytes(PACKERS.get(suffix, bytes)(tar(members, form)))
    with opened_files(path, spool=tmp_path / "spool") as files:
        assert [file.name for file in files] == [f"runs.tar/{name}" for name in ("a.csv", "b.csv", "c")]
        assert [file.path.read_bytes() for file in files] == [members["run/é/a.csv"], OTHER, b"y"]


def test_the_files_of_a_tar_archive_are_loaded_one_by_one(database: Database, tmp_path: Path) -> None:
    path = tmp_path / "runs.tgz"
    path.write_bytes(gzip.compress(tar({"a.csv": b"==PROF== x\n" + GOOD, "b.csv": OTHER, "c.pdf": b"%PDF-1.7\n"})))
    reports = import_paths(database, [path])
    assert [report.status for report in reports] == ["loaded", "loaded", "rejected"]
    assert len(profiles.kernels(database)) == reports[0].launches + reports[1].launches


def _link(info: tarfile.TarInfo) -> None:
    info.type, info.linkname, info.size = tarfile.SYMTYPE, "/etc/passwd", 0


BAD = {
    "cut in a file": (tar({"a.csv": GOOD * 9})[:3000], "damaged or cut off"),
    "cut between files": (tar({"a.csv": GOOD, "b.csv": OTHER})[: 512 * (1 + -(-len(GOOD) // 512))], "cut off"),
    "damaged second header": (tar({"a.csv": GOOD, "b.csv": OTHER}).replace(b"b.csv", b"c.csv"), "damaged"),
    "two put together": (tar({"a.csv": GOOD}) + tar({"b.csv": OTHER}), "goes on behind its end"),
    "links only": (tar({"a.csv": b""}, change=_link), "holds no files"),
    "too many files": (tar({f"{n}.csv": b"" for n in range(1001)}, tarfile.USTAR_FORMAT), "1,001 files"),
    "bomb": (gzip.compress(tar({"a.csv": b"0" * (80 << 20)})), "times larger"),
    "cpio": (b"070701" + b"0" * 104 + b"a.csv\0\0" + GOOD, "packed with cpio"),
    "ar": (b"!<arch>\na.csv/          0           0     0     644     9         `\n" + GOOD, "packed with ar"),
    "rar": (b"Rar!\x1a\x07\x01\x00" + GOOD, "packed with RAR"),
    "unknown container": ((b"HEAD\0\0\0\0\0\0\0\0" + GOOD) * 9, "NUL bytes stand among its text"),
    "bytes of any kind": (bytes(range(256)) * 40, "binary file of an unknown kind"),
    "sqlite with a table's text": (b"SQLite format 3\0" + GOOD, "SQLite"),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_refused(database: Database, tmp_path: Path, case: str) -> None:
    content, words = BAD[case]
    path = tmp_path / "a.csv"
    path.write_bytes(content)
    report = import_file(database, path)
    assert report.status == "rejected"
    assert words in str(report.error), report.error
    assert database.scalar("SELECT count(*) FROM source") == 0


def test_archives_within_an_archive_share_one_limit(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STALLSCOPE_MAX_UNPACKED_BYTES", str(10 << 20))
    get_settings.cache_clear()
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for number in range(4):
            archive.writestr(f"{number}.csv.gz", gzip.compress(b"0123456789" * 300_000))
    path = tmp_path / "a.zip"
    path.write_bytes(out.getvalue())
    assert "larger than 10 MiB" in str(import_file(database, path).error)


def test_nul_bytes_in_a_text(database: Database, tmp_path: Path) -> None:
    path = tmp_path / "room.csv"
    path.write_bytes(GOOD + bytes(1 << 16))
    report = import_file(database, path)
    assert (report.status, report.rows_rejected) == ("loaded", 0)
    assert any("65,536 NUL bytes at its end were left out" in text for text in report.warnings), report.warnings


def test_files_of_one_name_are_told_apart(database: Database, tmp_path: Path) -> None:
    """Two profiles called after their files must not become one workload."""
    archive = tmp_path / "runs.tar"
    archive.write_bytes(tar({"../bert/p.csv": GOOD, "gpt/p.csv": OTHER, "gpt/q.csv": b"%PDF-1"}))
    reports = import_paths(database, [archive])
    assert [report.file.rpartition("/")[2] for report in reports] == ["bert-p.csv", "gpt-p.csv", "q.csv"]
    for folder, content in (("one", GOOD + b"\n"), ("two", OTHER + b"\n")):
        (tmp_path / "runs" / folder).mkdir(parents=True)
        (tmp_path / "runs" / folder / "p.csv").write_bytes(content)
    again = import_paths(database, [tmp_path / "runs"])
    assert [report.report["workload"] for report in [*reports[:2], *again]] == ["bert-p", "gpt-p", "one-p", "two-p"]


def test_a_name_without_the_gpu_is_said(database: Database, tmp_path: Path) -> None:
    (tmp_path / "bert-a100-base.csv").write_bytes(GOOD)
    (report,) = import_paths(database, [tmp_path / "bert-a100-base.csv"])
    assert report.report["workload"] == "bert-a100-base"
    assert any("the browser leaves the GPU out and suggests 'bert-base'" in text for text in report.warnings)
