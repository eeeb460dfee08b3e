"""Twenty programs read the matrix while one sends a large file: no error, and reading stays quick."""

from __future__ import annotations

import gc
import itertools
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from tests.api.conftest import EDITOR, Client, Serve, form, known, known_file, serve
from tests.conftest import ROOT
from tests.pages.files import GPU

__all__ = ["known", "known_file", "serve"]

CLIENTS = 20
QUESTION = f"/api/v1/matrix?dataset=own&gpu={GPU}"

#: Seconds between two requests of one client; a scheduler asks now and then, not without a pause.
PAUSE = 0.2


def large(path: Path, size: int) -> int:
    """Write a profile of Nsight Compute's long form of about so many bytes; return its rows."""
    names = (
        *("ID", "Process ID", "Process Name", "Host Name", "Kernel Name", "Context", "Stream", "Block Size"),
        *("Grid Size", "Device", "CC", "Section Name", "Metric Name", "Metric Unit", "Metric Value"),
    )
    metrics = [
        *(("nsecond", "gpu__time_duration.sum"), ("%", "dram__throughput.avg.pct_of_peak_sustained_elapsed")),
        *(("inst", f"smsp__average_warps_issue_stalled_{one}_per_issue_active.ratio") for one in
          ("long_scoreboard", "wait", "barrier", "math_pipe_throttle", "short_scoreboard", "not_selected", "drain")),
    ]  # fmt: skip
    rows = 0
    with path.open("w", encoding="utf-8") as file:
        file.write(",".join(f'"{name}"' for name in names) + "\n")
        for launch in itertools.count():
            if file.tell() >= size:
                break
            name = f"void at::native::elementwise_kernel<{launch % 40}, float>(int, float)"
            grid = f"({launch % 9 + 1}, 1, 1)"
            front = f'"{launch}","1","python","host","{name}","1","7","(128, 1, 1)","{grid}","0","8.0","raw"'
            file.writelines(
                f'{front},"{metric}","{unit}","{1 + (launch * 7 + number) % 97 / 10}"\n'
                for number, (unit, metric) in enumerate(metrics)
            )
            rows += len(metrics)
    return rows


class Readers:
    """Clients that ask again and again, each on a thread of its own, and keep how long every answer took."""

    def __init__(self, port: int) -> None:
        self._stop = threading.Event()
        self.seconds: list[float] = []
        self.errors: list[object] = []
        self._threads = [threading.Thread(target=self._read, args=(port, number)) for number in range(CLIENTS)]

    def _read(self, port: int, number: int) -> None:
        client = Client(port, EDITOR)
        time.sleep(PAUSE * number / CLIENTS)
        while not self._stop.is_set():
            begun = time.perf_counter()
            try:
                status, body = client.ask("GET", QUESTION)
            except OSError as error:
                self.errors.append(error)
            else:
                if status != 200 or not body["workloads"]:
                    self.errors.append((status, body))
            self.seconds.append(time.perf_counter() - begun)
            self._stop.wait(PAUSE)

    def __enter__(self) -> Readers:
        # All clients share this interpreter, and its search for garbage would pass for slowness of the server.
        gc.collect()
        gc.disable()
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(60)
        gc.enable()

    @property
    def p95(self) -> float:
        """Seconds that 95 of 100 answers took at most."""
        return float(np.percentile(self.seconds, 95))


def _read_while_one_imports(port: int, path: Path, rows: int, alone: float) -> tuple[Readers, Readers, float]:
    client = Client(port, EDITOR)
    assert client.ask("GET", QUESTION)[0] == 200
    # Made beforehand: copying it would hold up the readers, who share this interpreter.
    body, kind = form({path.name: path.read_bytes()}, dataset="sent", gpu=GPU, workload="big")
    with Readers(port) as before:
        time.sleep(alone)
    with Readers(port) as during:
        begun = time.perf_counter()
        status, reports = client.ask("POST", "/api/v1/import", body, {"Content-Type": kind})
        took = time.perf_counter() - begun
    assert status == 200, reports
    assert reports[0]["rows_loaded"] == rows
    assert not before.errors, before.errors[:3]
    assert not during.errors, during.errors[:3]
    return before, during, took


def test_twenty_read_while_a_small_file_is_sent(known: Path, serve: Serve, tmp_path: Path) -> None:
    rows = large(tmp_path / "small.csv", 2 << 20)
    with serve(api_token=EDITOR) as client:
        before, during, _ = _read_while_one_imports(client.port, tmp_path / "small.csv", rows, 1.0)
    assert len(before.seconds) >= CLIENTS
    assert len(during.seconds) >= CLIENTS


@contextmanager
def _whole_server(db: Path) -> Iterator[int]:
    """Run the server with its pages, in a process of its own: the readers must not share its interpreter."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    environment = {**os.environ, "STALLSCOPE_API_TOKEN": EDITOR, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "analysis.cli", "serve", "--port", str(port), "--db", str(db)]
    running = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + 90
        while True:
            try:
                Client(port).ask("GET", "/_stcore/health")
                break
            except OSError:
                assert running.poll() is None
                assert time.monotonic() < deadline
                time.sleep(0.2)
        yield port
    finally:
        running.terminate()
        running.wait(30)


@pytest.mark.long
def test_reading_stays_quick_while_200_megabytes_are_sent(
    known: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = large(tmp_path / "big.csv", 200_000_000)
    with _whole_server(known) as port:
        before, during, took = _read_while_one_imports(port, tmp_path / "big.csv", rows, 15.0)
    with capsys.disabled():
        print(
            f"\n{rows:,} rows sent and loaded in {took:.0f} s; matrix p95 {before.p95 * 1000:.0f} ms alone "
            f"({len(before.seconds)} answers), {during.p95 * 1000:.0f} ms meanwhile ({len(during.seconds)}), "
            f"{during.p95 / before.p95:.1f} times"
        )
    assert during.p95 <= 3 * before.p95
