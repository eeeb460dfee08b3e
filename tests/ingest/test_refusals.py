"""What is no profile is refused with one sentence and the cure, and the database stays as it was."""

from __future__ import annotations

import gzip
import io
import zipfile
from pathlib import Path

import pytest
from ncu_files import PREAMBLE, Row, long_form, profile_rows, stall, wide_form

from analysis.ingest.importer import import_file, import_paths
from analysis.ingest.preview import preview
from analysis.store.database import Database

TEXT_REPORT = """==PROF== Connected to process 807108 (/opt/bench)
==PROF== Profiling "gemm" - 0: 0%....50%....100% - 9 passes
[807108] bench@127.0.0.1
  gemm(int) (1024, 1, 1)x(32, 1, 1), Context 1, Stream 7, Device 0, CC 8.6
    Section: GPU Speed Of Light Throughput
    ----------------------- ------------- ------------
    Metric Name               Metric Unit Metric Value
    ----------------------- ------------- ------------
    DRAM Frequency          cycle/nsecond         6.27
"""

GOOD = long_form(profile_rows())


def zipped(**members: bytes) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name.replace("__", "."), content)
    return out.getvalue()


def misplaced(packed: bytes) -> bytes:
    """Make an archive say that its directory lies further behind than it does."""
    end = packed.rindex(b"PK\x05\x06") + 16
    place = int.from_bytes(packed[end : end + 4], "little") + 5000
    return packed[:end] + place.to_bytes(4, "little") + packed[end + 4 :]


CASES = {
    "empty": ("a.csv", b"", ("is empty", "Export it again")),
    "blanks": ("a.csv", b"\n  \r\n\n", ("nothing but blanks", "Export it again")),
    "text report": ("a.csv", TEXT_REPORT.encode(), ("text report of Nsight Compute", "ncu --import")),
    "coloured text report": ("a.csv", b"\x1b[36m[INFO]\x1b[39m\n" + TEXT_REPORT.encode(), ("text report", "--csv")),
    "no permission": (
        "a.txt",
        b"==PROF== Connected\n==ERROR== ERR_NVGPUCTRPERM - The user does not have permission\n",
        ("permission", "NVreg_RestrictProfilingToAdminUsers=0"),
    ),
    "no kernels": (
        "a.txt",
        b"==PROF== Connected to process 3\n==WARNING== No kernels were profiled.\n",
        ("no kernels were profiled", "--target-processes all"),
    ),
    "another error": (
        "a.txt",
        b"==PROF== Connected\n==ERROR== The application returned an error code (9).\n",
        ("returned an error code (9)", "profile again"),
    ),
    "screen output": ("a.txt", "\n".join(PREAMBLE).encode(), ("without a table", "--log-file")),
    "binary report": ("run7.ncu-rep", b"NVR\x00\x01\x02" + bytes(range(256)) * 40, ("ncu --import run7.ncu-rep",)),
    "systems report": ("run7.nsys-rep", b"\x00\x01\x02\x03" + bytes(range(256)) * 40, ("nsys stats",)),
    "database": ("a.sqlite", b"SQLite format 3\x00" + bytes(4096), ("SQLite",)),
    "pickle": ("a.pkl", b"\x80\x04\x95" + bytes(range(64)) * 9, ("pickle", "CSV")),
    "spreadsheet": ("a.xlsx", zipped(**{"[Content_Types]__xml": b"<x/>", "xl": b"1"}), ("Excel", "Save the sheet")),
    "7z": ("a.7z", b"7z\xbc\xaf\x27\x1c" + bytes(range(200)), ("packed with 7z", "zip or tar")),
    "damaged zstd": ("a.csv.zst", b"\x28\xb5\x2f\xfd" + bytes(range(200)), ("zstd file is damaged",)),
    "web page": ("a.csv", b"<!DOCTYPE html>\n<html><body>429</body></html>", ("web page", "raw file")),
    "lfs pointer": ("a.csv", b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n", ("git lfs pull",)),
    "json": ("a.json", b'{"a": [1, 2]}', ("JSON", "StallScope reads")),
    "another table": ("a.csv", b"city,people,area\nBern,134591,51.6\n", ("city, people, area", "StallScope reads")),
    "source page": (
        "a.csv",
        b'"#","Address","Source","Warp Stall Sampling (All Samples)","stall_long_sb"\n"0","0x7f","MOV R1","12","7"\n',
        ("source page", "--page raw"),
    ),
    "summary over all kernels": (
        "a.csv",
        b'"Device","Section Name","Metric Name","Metric Unit","Minimum","Average"\n"0","s","m","","1","1"',
        ("over all kernels", "--print-summary per-kernel"),
    ),
    "nsys stats as text": (
        "a.txt",
        b" Time (%)  Total Time (ns)  Instances  Avg (ns)  Name\n --------  -----\n 50.0  1,000,000  2  500,000  k()",
        ("`nsys stats` prints", "--format csv"),
    ),
    "nvidia-smi": (
        "a.txt",
        b"Fri Mar  1 12:00:00 2024\n+----------+\n| NVIDIA-SMI 550.54   Driver Version: 550.54   CUDA: 12.4 |\n+----",
        ("`nvidia-smi` prints for people", "--query-gpu=timestamp", "--format=csv"),
    ),
    "nvidia-smi -q": ("a.txt", b"\n==============NVSMI LOG==============\n\nTimestamp : x\n", ("-q", "--query-gpu=")),
    "nvidia-smi -x": (
        "a.xml",
        b'<?xml version="1.0" ?>\n<!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v12.dtd">\n<nvidia_smi_log>\n',
        ("XML of `nvidia-smi -q -x`", "--query-gpu="),
    ),
    "nvidia-smi -L": ("a.txt", b"GPU 0: NVIDIA L4 (UUID: GPU-1-2)\n", ("nvidia-smi -L", "--query-gpu=")),
    "sacct for people": (
        "a.txt",
        b"JobID           JobName      State \n------------ ---------- ----------\n101   b  C\n",
        ("`sacct` prints for people", "--parsable2", "TRESUsageInAve"),
    ),
    "sacct without use": ("a.txt", b"JobID|JobName|State|\n101|b|C|\n", ("Slurm jobs without", "--parsable2")),
    "calls of the API": (
        "a.csv",
        b"Time (%),Total Time (ns),Num Calls,Avg (ns),Name\n50.0,1000,10,100.0,cudaLaunchKernel\n",
        ("calls on the CPU", "cuda_gpu_kern_sum"),
    ),
    "sizes of copies": ("a.csv", b"Total (MB),Count,Avg (MB),Operation\n1,1,1,[CUDA memset]\n", ("copies of memory",)),
    "nvprof by launch": (
        "a.csv",
        b"==9== NVPROF is profiling process 9, command: ./a\n==9== Profiling result:\n"
        b'"Device","Context","Stream","Kernel","Correlation_ID","achieved_occupancy"\n'
        b'"Tesla V100 (0)","1","7","k",1,0.5\n',
        ("launch by launch", "without --print-gpu-trace"),
    ),
    "nvprof as text": (
        "a.txt",
        b"==9== NVPROF is profiling process 9, command: ./a\n==9== Profiling result:\n  Type  Time(%)  Time\n",
        ("nvprof prints for people", "--csv --log-file"),
    ),
    "error of Prometheus": (
        "a.json",
        b'{"status": "error", "errorType": "bad_data", "error": "exceeded maximum resolution of 11,000 points."}',
        ("Prometheus answered: exceeded maximum resolution of 11,000 points.", "longer step"),
    ),
    "legends of Grafana": (
        "a.csv",
        b'"Time","GPU 0","GPU 1"\n2024-03-01 12:00:00,50 %,60%\n',
        ("legend of a panel (GPU 0, GPU 1)", "{{__name__}}"),
    ),
    "cut Parquet": ("a.parquet", b"PAR1" + bytes(range(200)), ("Parquet file that is cut off",)),
    "damaged Parquet": ("a.parquet", b"PAR1" + bytes(range(200)) + b"PAR1", ("Parquet file that is damaged",)),
    "cut database": (
        "a.sqlite",
        b"SQLite format 3\x00\x10\x00\x01\x01\x00\x40\x20\x20\x00\x00\x00\x07\x00\x00\x00\x09"
        + bytes(60)
        + b"\x00\x00\x00\x07"
        + bytes(5000),
        ("SQLite database that is cut off",),
    ),
    "no names of columns": (
        "a.csv",
        b"resnet50,8,throughput,132.94,latency,0.00752\nvgg16,8,throughput,99.1,latency,0.01\n",
        ("first line holds values", "on top of it"),
    ),
    "words": ("a.txt", b"hello\nworld\n", ("text without a table",)),
    "cut off": ("a.csv", GOOD[:-9], ("cut off in the middle", "line 22")),
    "cut off in the unit": ("a.csv", GOOD[: GOOD.rindex(b'"25.17"') - 9], ("cut off in the middle", "line 22")),
    "no rows": ("a.csv", long_form([]), ("header and no rows", "--launch-count")),
    "no rows after an error": (
        "a.csv",
        long_form([], before=["==ERROR== ERR_NVGPUCTRPERM - no permission"]),
        ("permission", "NVreg"),
    ),
    "all rows wrong": ("a.csv", long_form([Row(0, stall("wait"), "x", "inst")]), ("no number here",)),
    "ten thousand columns": (
        "a.csv",
        wide_form({f"sm__m{n}.sum": ("", ["1"]) for n in range(10_000)}),
        ("10,011 columns", "at most"),
    ),
    "ten thousand other columns": ("a.csv", ",".join(f"c{n}" for n in range(10_000)).encode(), ("10,000 columns",)),
    "one long line": ("a.csv", b"x" * (50 << 20), ("longer than a mebibyte",)),
    "one long line in a table": ("a.csv", GOOD + b"y" * (50 << 20), ("longer than a mebibyte",)),
    "long line in a row": ("a.csv", long_form([Row(0, "m.sum", "1" * (3 << 20))]), ("longer than a mebibyte",)),
    "long cell": ("a.csv", b"x" * 200_000 + b",b,c\n1,2,3\n", ("no format claims", "StallScope reads")),
    "unknown encoding": ("a.csv", "时间,值\n".encode("gb18030") + b"\x81\x20\x8d\x90", ("encoding", "UTF-8")),
    "zip bomb": ("a.zip", zipped(a__csv=b"0" * (80 << 20)), ("200 times larger", "unpack it yourself")),
    "gzip bomb": ("a.csv.gz", gzip.compress(b"0" * (80 << 20)), ("200 times larger", "unpack it yourself")),
    "damaged gzip": ("a.csv.gz", gzip.compress(GOOD)[:-20], ("cut off before its end",)),
    "no gzip inside": ("a.csv.gz", gzip.compress(GOOD)[:60] + b"nonsense" * 99, ("gzip file is damaged",)),
    "damaged zip": ("a.zip", zipped(a__csv=GOOD)[:-30], ("zip file is damaged",)),
    "misplaced zip": ("a.zip", misplaced(zipped(a__csv=GOOD)), ("zip file is damaged",)),
    "empty zip": ("a.zip", zipped(), ("holds no files",)),
    "empty file in a gzip": ("a.csv.gz", gzip.compress(b""), ("nothing but blanks",)),
    "nested too deeply": ("a.zip", zipped(b__zip=zipped(c__zip=zipped(a__csv=GOOD))), ("too deeply",)),
}


@pytest.mark.parametrize("case", CASES)
def test_refused(database: Database, tmp_path: Path, case: str) -> None:
    name, content, words = CASES[case]
    path = tmp_path / name
    path.write_bytes(content)
    report = import_file(database, path)
    assert report.status == "rejected"
    assert report.rows_loaded == 0
    error = str(report.error)
    assert error.startswith(name.removesuffix(".gz") if "gzip" not in error else name) or name in error
    for word in words:
        assert word in error, error
    assert "\n" not in error
    assert "Traceback" not in error
    assert len(error) < 700
    assert database.scalar("SELECT count(*) FROM source") == 0
    assert database.scalar("SELECT count(*) FROM workload") == 0
    assert not list((database.spool or tmp_path).glob("import-*")), "what was unpacked is gone"
    assert preview(path, name=name).error == error


def test_missing_path_and_folders(database: Database, tmp_path: Path) -> None:
    (tmp_path / "nothing").mkdir()
    reports = import_paths(database, [tmp_path / "gone.csv", tmp_path / "nothing", tmp_path / "*.xyz"])
    assert [report.status for report in reports] == ["rejected"] * 3
    assert "no such file" in str(reports[0].error)
    assert "holds no files" in str(reports[1].error)
    assert "no such file" in str(reports[2].error)


def test_a_file_beyond_the_limit(database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from analysis.settings import get_settings

    monkeypatch.setenv("STALLSCOPE_MAX_FILE_BYTES", "1000")
    get_settings.cache_clear()
    path = tmp_path / "a.csv"
    path.write_bytes(GOOD)
    assert "larger than" in str(import_file(database, path).error)


def test_password_protected_archive(database: Database, tmp_path: Path) -> None:
    content = bytearray(zipped(a__csv=GOOD))
    content[6] |= 1
    content[content.rindex(b"PK\x01\x02") + 8] |= 1
    path = tmp_path / "a.zip"
    path.write_bytes(bytes(content))
    assert "password" in str(import_file(database, path).error)
