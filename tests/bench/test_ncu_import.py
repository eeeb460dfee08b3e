"""A profile of a million rows loads about as fast as its text can be scanned, and does not fill the memory.

Only ratios of times taken on the same machine in turns are asserted; run with ``-m long -n 0``.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import duckdb
import pandas as pd
import pytest

from analysis.ingest.importer import import_file
from analysis.store.database import Database

pytestmark = pytest.mark.long

LAUNCHES, METRICS, PREAMBLE_LINES = 40_000, 26, 3
ROWS = LAUNCHES * METRICS
ROUNDS = 3

REASONS = (
    "barrier", "dispatch_stall", "drain", "imc_miss", "lg_throttle", "long_scoreboard", "math_pipe_throttle", "membar",
    "mio_throttle", "misc", "no_instruction", "not_selected", "selected", "short_scoreboard", "sleeping",
    "tex_throttle", "wait",
)  # fmt: skip
OTHERS = (
    ("gpu__time_duration.sum", "us"), ("dram__bytes_read.sum", "Mbyte"),
    ("dram__throughput.avg.pct_of_peak_sustained_elapsed", "%"),
    ("sm__throughput.avg.pct_of_peak_sustained_elapsed", "%"),
    ("sm__warps_active.avg.pct_of_peak_sustained_active", "%"), ("smsp__issue_active.avg.per_cycle_active", ""),
    ("launch__registers_per_thread", "register/thread"),
    ("smsp__average_warps_active_per_issue_active.ratio", ""), ("smsp__inst_executed.sum", "inst"),
)  # fmt: skip
HEADER = (
    '"ID","Process ID","Process Name","Host Name","Kernel Name","Context","Stream","Block Size","Grid Size","Device",'
    '"CC","Section Name","Metric Name","Metric Unit","Metric Value"'
)


@pytest.fixture(scope="module")
def profile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write 340 MB: lines before the header end in LF, rows in CR LF, numbers have commas between thousands."""
    path = tmp_path_factory.mktemp("bench") / "profile.csv"
    metrics = [(f"smsp__average_warps_issue_stalled_{reason}_per_issue_active.ratio", "inst") for reason in REASONS]
    metrics += OTHERS
    assert len(metrics) == METRICS
    kernels = [
        f"void at::native::vectorized_elementwise_kernel<{n}, at::native::FillFunctor<float>, "
        "at::detail::Array<char *, 1>>(int, T2, T3)"
        for n in range(40)
    ]
    with path.open("wb") as file:
        file.write(b"==PROF== Connected to process 23104\nepoch 0 loss 2.3\n==PROF== Disconnected from process 23104\n")
        file.write(HEADER.encode() + b"\r\n")
        for launch in range(LAUNCHES):
            head = (
                f'"{launch}","23104","python3.11","127.0.0.1","{kernels[launch % 40]}","1","7","(128, 1, 1)",'
                f'"({1024 + launch % 7}, 1, 1)","0","8.0","Command line profiler metrics"'
            )
            rows = [
                f'{head},"{metric}","{unit}","{(launch * 7919 + number * 104729) % 9_999_991 / 1000:,.3f}"\r\n'
                for number, (metric, unit) in enumerate(metrics)
            ]
            file.write("".join(rows).encode())
    assert 320e6 < path.stat().st_size < 380e6
    return path


def seconds(work: Callable[[], object]) -> float:
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def scan(path: Path) -> None:
    """Let DuckDB read the table and nothing else."""
    with duckdb.connect() as connection:
        found = connection.execute(
            "SELECT count(*) FROM read_csv(?, skip = ?, header = true, strict_mode = false)",
            [str(path), PREAMBLE_LINES],
        ).fetchall()
    assert found == [(ROWS,)]


def with_pandas(path: Path, target: Path) -> None:
    """Do what a notebook does: read, pivot, write."""
    table = pd.read_csv(path, skiprows=PREAMBLE_LINES, thousands=",")
    wide = table.pivot_table(index=["ID", "Kernel Name"], columns="Metric Name", values="Metric Value")
    assert len(wide) == LAUNCHES
    with duckdb.connect(str(target)) as connection:
        connection.register("wide", wide.reset_index())
        connection.execute("CREATE TABLE profile AS SELECT * FROM wide")


def test_speed(profile: Path, tmp_path: Path) -> None:
    scans, loads = [], []
    for number in range(ROUNDS):
        scans.append(seconds(lambda: scan(profile)))
        with Database(tmp_path / f"{number}.duckdb") as database:
            loads.append(seconds(lambda: check(database, profile)))
    ratio = min(loads) / min(scans)
    print(f"scan {min(scans):.2f} s, load {min(loads):.2f} s ({ratio:.1f} x)")
    assert ratio <= 6


def test_faster_than_a_notebook(profile: Path, tmp_path: Path) -> None:
    notebooks, loads = [], []
    for number in range(2 * ROUNDS):
        target = tmp_path / f"pandas-{number}.duckdb"
        notebooks.append(both_clocks(lambda: with_pandas(profile, target)))  # noqa: B023
        with Database(tmp_path / f"{number}.duckdb") as database:
            loads.append(both_clocks(lambda: check(database, profile)))
    (wall, used), (own_wall, own_used) = (tuple(map(min, zip(*runs, strict=True))) for runs in (notebooks, loads))
    print(f"pandas {wall:.2f} s, load {own_wall:.2f} s; of processors {used:.2f} s and {own_used:.2f} s")
    assert own_wall < wall


def both_clocks(work: Callable[[], object]) -> tuple[float, float]:
    """Return seconds on the wall and of the processors."""
    begin = time.process_time()
    return seconds(work), time.process_time() - begin


def check(database: Database, profile: Path) -> None:
    report = import_file(database, profile)
    assert (report.rows_read, report.rows_loaded, report.launches) == (ROWS, ROWS, LAUNCHES)
    assert len(report.stall_reasons) == len(REASONS)
    assert report.report["reader"] == "fast"


_CHILD = """
import json, resource, sys
from pathlib import Path
from analysis.ingest.importer import import_file
from analysis.store.database import Database
with Database(Path(sys.argv[2])) as database:
    report = import_file(database, Path(sys.argv[1]))
print(json.dumps({"rows": report.rows_loaded, "peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss}))
"""


def _peak(profile: Path, target: Path) -> tuple[int, float]:
    done = subprocess.run(
        [sys.executable, "-c", _CHILD, str(profile), str(target)], capture_output=True, text=True, check=True
    )
    found = json.loads(done.stdout.splitlines()[-1])
    return found["rows"], found["peak"] * 1024


def test_memory(profile: Path, tmp_path: Path) -> None:
    rows, peak = _peak(profile, tmp_path / "m.duckdb")
    assert rows == ROWS
    assert peak < 1.5e9


def test_memory_of_the_exact_reader(profile: Path, tmp_path: Path) -> None:
    """A blank line makes the file irregular: slower, but no larger."""
    irregular = tmp_path / "irregular.csv"
    with profile.open("rb") as source, irregular.open("wb") as target:
        for number, line in enumerate(source):
            target.write(line if number != 500_000 else b"\r\n" + line)
    rows, peak = _peak(irregular, tmp_path / "m.duckdb")
    assert rows == ROWS
    assert peak < 1.5e9
