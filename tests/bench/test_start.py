"""What a start costs beside what it can't do without: the server beside bare Streamlit, a command beside its libraries.

CPU seconds, taken in turns in one run; run with ``-m long -n 0``.
"""

from __future__ import annotations

import os
import resource
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from pathlib import Path

import pytest

from analysis.store.database import Database
from tests.conftest import ROOT
from tests.pages.files import PROFILED, profile

pytestmark = pytest.mark.long

ROUNDS = 5
BARE = "import streamlit as st\nst.write('nothing')\n"


def _spent(command: Sequence[str], environment: dict[str, str]) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, env=environment, check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def _until_it_answers(command: Sequence[str], port: int, environment: dict[str, str], folder: Path) -> float:
    """Start a server and return the CPU seconds that it had used when it answered."""
    running = subprocess.Popen(
        command, env=environment, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        end = time.monotonic() + 120
        while True:
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/_stcore/health", timeout=2) as answer:
                    assert answer.read() == b"ok"
                parts = Path(f"/proc/{running.pid}/stat").read_text().rpartition(")")[2].split()
                return (int(parts[11]) + int(parts[12])) / os.sysconf("SC_CLK_TCK")
            except (OSError, urllib.error.URLError):
                assert running.poll() is None
                assert time.monotonic() < end
                time.sleep(0.02)
    finally:
        running.kill()
        running.wait()


def _port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def test_the_server_starts_about_as_fast_as_bare_streamlit(tmp_path: Path) -> None:
    (tmp_path / "bare.py").write_text(BARE)
    db = tmp_path / "x.duckdb"
    Database(db).close()
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "STALLSCOPE_DB": str(db), "STALLSCOPE_SAMPLE": "off"}
    bare, own = [], []
    for _ in range(ROUNDS):
        port = _port()
        flags = ["--server.port", str(port), "--server.headless", "true", "--server.address", "127.0.0.1"]
        start = [sys.executable, "-m", "streamlit", "run", "bare.py", *flags]
        bare.append(_until_it_answers(start, port, environment, tmp_path))
        port = _port()
        start = [sys.executable, "-m", "analysis.cli", "serve", "--port", str(port)]
        own.append(_until_it_answers(start, port, environment, tmp_path))
    print(f"answers after {min(own):.2f} CPU s, bare Streamlit after {min(bare):.2f}: {min(own) / min(bare):.2f} x")
    assert min(own) <= 2.2 * min(bare)


def test_a_small_import_costs_little_beside_its_libraries(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    file = profile(tmp_path / f"{PROFILED[0]}_A100-40GB.csv", PROFILED[0])
    libraries, helps, imports = [], [], []
    for turn in range(ROUNDS):
        libraries.append(_spent([sys.executable, "-c", "import pandas, duckdb, pyarrow, pydantic"], environment))
        helps.append(_spent([sys.executable, "-m", "analysis.cli", "--help"], environment))
        command = [sys.executable, "-m", "analysis.cli", "import", str(file), "--db", str(tmp_path / f"{turn}.duckdb")]
        imports.append(_spent(command, environment))
    print(
        f"--help {min(helps):.2f} CPU s; import of a small file from a cold start {min(imports):.2f} CPU s, of which "
        f"the libraries alone {min(libraries):.2f}"
    )
    assert min(helps) < min(libraries)
    assert min(imports) <= 3.0 * min(libraries)
