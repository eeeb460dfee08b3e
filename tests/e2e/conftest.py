"""A server of the application on a free port, and one page of a real Chromium that looks at it."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect, sync_playwright

from analysis.ingest.importer import import_paths
from analysis.predict.evaluate.evaluate import evaluate
from analysis.predict.models import models
from analysis.store.database import Database
from tests.conftest import ROOT
from tests.pages.files import all_files

_ARGUMENTS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
]  # fmt: skip


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """The home directory of the server's user, with nothing in it."""
    folder = tmp_path / "home"
    folder.mkdir()
    return folder


@pytest.fixture
def filled(home: Path, tmp_path: Path) -> Path:
    """A database with profiles, co-runs, a comparison and a model; ask for it before `server`."""
    with Database(home / "stallscope.duckdb") as database:
        import_paths(database, all_files(tmp_path))
        evaluate(database, "own", "unseen-pair", predictors=["effects", "ridge"])
        models.train(database, "own", "ridge")
    return home


Start = Callable[..., AbstractContextManager[str]]


@pytest.fixture
def start(home: Path, tmp_path: Path) -> Start:
    """Start the server on the home's database, the simulated sample on or off, and end it again."""

    @contextmanager
    def started(sample: str = "off") -> Iterator[str]:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("STALLSCOPE_")},
            "STALLSCOPE_SAMPLE": sample,
            "STALLSCOPE_DB": str(home / "stallscope.duckdb"),
            "HOME": str(home),
            "XDG_DATA_HOME": str(home),
            "PYTHONPATH": str(ROOT),
            "OMP_NUM_THREADS": "1",
        }
        log = (tmp_path / f"server-{port}.log").open("w")
        process = subprocess.Popen(
            [sys.executable, "-m", "analysis.cli", "serve", "--port", str(port)],
            cwd=home, env=environment, stdout=log, stderr=subprocess.STDOUT,
        )  # fmt: skip
        try:
            address = f"http://127.0.0.1:{port}"
            _wait(address, process, Path(log.name))
            yield address
        finally:
            process.terminate()
            try:
                process.wait(15)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait(5)
            log.close()

    return started


@pytest.fixture
def server(start: Start) -> Iterator[str]:
    """The address of a server without the sample, on an empty database unless `filled` was there before."""
    with start() as address:
        yield address


def _wait(address: str, process: subprocess.Popen[bytes], log: Path, seconds: float = 90) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if process.poll() is not None:
            break
        try:
            with urllib.request.urlopen(f"{address}/_stcore/health", timeout=2) as answer:
                if answer.status == 200:
                    return
        except (urllib.error.URLError, OSError):
            time.sleep(0.2)
    pytest.fail(f"the server did not start:\n{log.read_text()}")


@pytest.fixture
def page(tmp_path: Path) -> Iterator[Page]:
    """One page of Debian's Chromium; a machine without it is a failure in CI and a skip elsewhere."""
    chromium = shutil.which("chromium")
    if chromium is None:
        if os.environ.get("CI", "").lower() in ("1", "true"):
            pytest.fail("CI needs chromium, and there is none")
        pytest.skip("no chromium on this machine")
    with sync_playwright() as playwright:
        context = playwright.chromium.launch_persistent_context(
            str(tmp_path / "profile"), executable_path=chromium, args=_ARGUMENTS, headless=True, accept_downloads=True,
            viewport={"width": 1440, "height": 900},
        )  # fmt: skip
        try:
            opened = context.pages[0] if context.pages else context.new_page()
            opened.set_default_timeout(60_000)
            expect.set_options(timeout=60_000)
            yield opened
        finally:
            context.close()
