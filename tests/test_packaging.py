"""A wheel installed away from the checkout holds the same app, and nothing private has slipped into the repository."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
import time
import urllib.request
import zipfile
from pathlib import Path

import pytest

from tests.conftest import ROOT


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, unpacked into an empty directory."""
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder), str(ROOT)]
    subprocess.run(command, check=True, capture_output=True, cwd=folder)
    (wheel,) = folder.glob("*.whl")
    site = folder / "site"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)
    return site


def _environment(site: Path, **more: str) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(site), **more}


def test_assets_ride_in_the_wheel(installed: Path) -> None:
    wanted = [path.relative_to(ROOT) for path in (ROOT / "pages").rglob("*.py")]
    wanted += [path.relative_to(ROOT) for path in (ROOT / "data").rglob("*") if path.is_file()]
    wanted += [Path("app.py"), Path(".streamlit/config.toml")]
    missing = [str(path) for path in wanted if not (installed / "analysis" / "_bundle" / path).exists()]
    assert not missing
    code = "from analysis.settings import asset; print(asset('app.py')); print(asset('data', 'gpus.csv'))"
    done = subprocess.run(
        [sys.executable, "-c", code], env=_environment(installed), cwd=installed, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert all(line.startswith(str(installed)) for line in done.stdout.split())


def test_the_installed_app_starts(installed: Path, tmp_path: Path) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    server = subprocess.Popen(
        [sys.executable, "-m", "analysis.cli", "serve", "--port", str(port), "--db", str(tmp_path / "x.duckdb")],
        env=_environment(installed, STALLSCOPE_SAMPLE="off"),
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    try:
        deadline = time.monotonic() + 90
        while True:
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/_stcore/health", timeout=2) as answer:
                    assert answer.read() == b"ok"
                    break
            except OSError:
                assert server.poll() is None, server.stdout and server.stdout.read().decode()
                assert time.monotonic() < deadline, "the server did not answer"
                time.sleep(0.3)
    finally:
        server.terminate()
        server.wait(timeout=20)


def _tracked() -> list[Path]:
    done = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True)
    if done.returncode != 0:
        pytest.skip("not a git checkout")
    return [ROOT / name for name in done.stdout.split("\0") if name and (ROOT / name).is_file()]


def test_the_top_level_holds_what_the_design_allows() -> None:
    allowed = {"pyproject.toml", "README.md", "LICENSE", "app.py", "pages", "analysis", "data", "tests"}
    top = {path.relative_to(ROOT).parts[0] for path in _tracked()}
    assert {name for name in top if not name.startswith(".")} <= allowed


def test_no_lock_file_and_no_machine_path_is_tracked() -> None:
    private = re.compile(rb"(?<![\w.])/(?:work|root)/[a-z.]|files\.pythonhosted\.org|pypi\.org/simple")
    offenders = [
        str(path.relative_to(ROOT))
        for path in _tracked()
        if path.suffix not in {".png", ".parquet"} and path != Path(__file__) and private.search(path.read_bytes())
    ]
    assert not offenders
    assert not [path.name for path in _tracked() if path.name in {"uv.lock", "poetry.lock", "package-lock.json"}]


def test_constraints_are_plain_pins() -> None:
    lines = (ROOT / ".ci" / "constraints.txt").read_text().split()
    assert lines
    assert all(re.fullmatch(r"[a-z0-9_.\-]+==[0-9a-z.+]+", line) for line in lines)


def test_test_modules_have_names_of_their_own() -> None:
    names = [path.name for path in (ROOT / "tests").rglob("test_*.py")]
    assert len(names) == len(set(names)), sorted(name for name in names if names.count(name) > 1)
