"""A load that is killed at any moment leaves a database that opens, with all of the file or nothing of it."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from ncu_files import Row, long_form, stall

from analysis.store.database import Database
from analysis.store.loader import SOURCE_TABLES

_CHILD = """
import sys
from pathlib import Path
from analysis.ingest.importer import import_file
from analysis.store.database import Database
with Database(Path(sys.argv[2])) as database:
    print("ready", flush=True)
    report = import_file(database, Path(sys.argv[1]))
print(report.status, flush=True)
"""

LAUNCHES = 20_000
REASONS = ("wait", "barrier", "drain", "selected", "membar", "misc")


@pytest.fixture(scope="module")
def profile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("killed") / "profile.csv"
    rows = [Row(launch, stall(reason), f"{launch % 97}.25", "inst") for launch in range(LAUNCHES) for reason in REASONS]
    path.write_bytes(long_form(rows))
    return path


def _load(profile: Path, target: Path, delay: float | None) -> tuple[float, int]:
    """Load in a process of its own, kill it after so many seconds; return how long it lived and how it ended."""
    child = subprocess.Popen(
        [sys.executable, "-c", _CHILD, str(profile), str(target)], stdout=subprocess.PIPE, text=True
    )
    assert child.stdout is not None
    assert child.stdout.readline().strip() == "ready"
    begin = time.monotonic()
    try:
        child.wait(timeout=delay)
    except subprocess.TimeoutExpired:
        child.send_signal(signal.SIGKILL)
        child.wait()
    child.stdout.close()
    return time.monotonic() - begin, child.returncode


@pytest.mark.parametrize("moments", [2, pytest.param(10, marks=pytest.mark.long)])
def test_all_or_nothing(profile: Path, tmp_path: Path, moments: int) -> None:
    whole, code = _load(profile, tmp_path / "whole.duckdb", None)
    assert code == 0
    rng = random.Random(moments)
    for number in range(moments):
        target = tmp_path / f"{number}.duckdb"
        _load(profile, target, whole * rng.random())
        with Database(target) as database:
            counts = {table: database.scalar(f"SELECT count(*) FROM {table}") for table in SOURCE_TABLES}
            rows = database.scalar("SELECT sum(rows_loaded) FROM source")
        expected = LAUNCHES * len(REASONS)
        assert counts["source"] in (0, 1)
        assert counts["kernel_metric"] == (expected if counts["source"] else 0)
        assert counts["kernel"] == (LAUNCHES if counts["source"] else 0)
        assert (rows or 0) == counts["kernel_metric"]
