"""A load that is killed at any moment leaves a database that opens, with all of a file or nothing of it."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import pytest
from ncu_files import Row, long_form, stall

from analysis.store.database import Database
from analysis.store.loader import SOURCE_TABLES

_CHILD = """
import sys
from pathlib import Path
from analysis.ingest import importer
from analysis.store.database import Database
whole = importer.load
def load(*given):
    print("writing", flush=True)
    done = whole(*given)
    print("written", flush=True)
    return done
importer.load = load
with Database(Path(sys.argv[2])) as database:
    print("ready", flush=True)
    report = importer.import_file(database, Path(sys.argv[1]))
print(report.status, flush=True)
"""

LAUNCHES = 10_000
REASONS = ("wait", "barrier", "drain", "selected")
RUNS = 4_000


def profile(path: Path) -> Path:
    rows = [Row(launch, stall(reason), f"{launch % 97}.25", "inst") for launch in range(LAUNCHES) for reason in REASONS]
    path.write_bytes(long_form(rows))
    return path


def coruns(path: Path) -> Path:
    lines = ["run_id,gpu,mechanism,workload,solo_throughput,corun_throughput"]
    lines += [f"{run},T4,CUDA MPS,w{(run + slot) % 40},10,{5 + run % 7}" for run in range(RUNS) for slot in (0, 1)]
    path.write_text("\n".join(lines) + "\n")
    return path


def archive(path: Path) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as target:
        target.write(coruns(path.with_name("in.csv")), "coruns.csv")
        target.write(profile(path.with_name("profile.csv")), "profile.csv")
    return path


#: Rows that each file brings to each table.
PROFILE = {"kernel": LAUNCHES, "kernel_value": LAUNCHES * len(REASONS)}
CORUNS = {"run": RUNS, "member": 2 * RUNS}
KINDS = {"profile": (profile, [PROFILE]), "coruns": (coruns, [CORUNS]), "zip": (archive, [CORUNS, PROFILE])}


class Child:
    """A load in a process of its own, and when it said what."""

    def __init__(self, file: Path, target: Path) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", _CHILD, str(file), str(target)], stdout=subprocess.PIPE, text=True
        )

    def wait_for(self, word: str) -> float:
        assert self.process.stdout is not None
        while (said := self.process.stdout.readline().strip()) != word:
            assert said, f"the load ended before it was {word}"
        return time.monotonic()

    def kill(self, after: float) -> bool:
        """Kill it after so many seconds; say whether it was still alive."""
        try:
            self.process.wait(timeout=after)
        except subprocess.TimeoutExpired:
            self.process.send_signal(signal.SIGKILL)
            self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()
        return self.process.returncode == -signal.SIGKILL


def held(target: Path, files: list[dict[str, int]]) -> int:
    """Hold the database to all or nothing of each file, in their order; return how many are there."""
    with Database(target) as database:
        counts = {table: int(database.scalar(f"SELECT count(*) FROM {table}")) for table in SOURCE_TABLES}
        accounted = int(database.scalar("SELECT coalesce(sum(rows_loaded), 0) FROM source"))
    there = files[: counts["source"]]
    assert counts["source"] <= len(files)
    for table in ("kernel", "kernel_value", "run", "member"):
        assert counts[table] == sum(file.get(table, 0) for file in there), (table, counts)
    assert accounted == sum(max(file.values()) for file in there)
    return len(there)


@pytest.mark.parametrize(
    ("kind", "moments"), [("zip", 2), *(pytest.param(kind, 10, marks=pytest.mark.long) for kind in KINDS)]
)
def test_all_or_nothing(kind: str, moments: int, tmp_path: Path) -> None:
    write, files = KINDS[kind]
    file = write(tmp_path / "file")
    child = Child(file, tmp_path / "whole.duckdb")
    begin = child.wait_for("ready")
    writing = child.wait_for("writing")
    writes = child.wait_for("written") - writing
    assert not child.kill(60)
    assert held(tmp_path / "whole.duckdb", files) == len(files)
    reads, whole = writing - begin, time.monotonic() - begin
    rng = random.Random(f"{kind}{moments}")
    hit = 0
    for number in range(moments):
        target = tmp_path / f"{number}.duckdb"
        child = Child(file, target)
        # Most moments in the transaction itself, the others anywhere in the load.
        if number % 3 == 2:
            child.wait_for("ready")
            hit += child.kill(min(reads, whole) * rng.random())
        else:
            child.wait_for("writing")
            hit += child.kill(writes * rng.uniform(0, 0.9))
        held(target, files)
    assert hit > moments / 2, "too few of the moments fell into the load"
