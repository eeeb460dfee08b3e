"""The container's recipe holds what it must, and its steps, replayed without an engine, end in a server."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import ROOT

RECIPE = ROOT / ".docker" / "Dockerfile"


def _steps() -> Iterator[tuple[str, str]]:
    """Yield the recipe's instructions with their arguments, comments left out and lines joined."""
    text = re.sub(r"\\\n", " ", RECIPE.read_text())
    for line in text.splitlines():
        if line.strip() and not line.startswith("#"):
            word, _, rest = line.partition(" ")
            yield word, rest.strip()


STEPS = list(_steps())


def test_it_is_not_root_and_asks_for_its_health() -> None:
    words = [word for word, _ in STEPS]
    last = max(index for index, word in enumerate(words) if word == "FROM")
    final = STEPS[last:]
    assert ("USER", "stallscope") in final
    # Nothing is installed or written by the user who serves.
    assert "RUN" not in [word for word, _ in final[final.index(("USER", "stallscope")) :]]
    assert any(word == "HEALTHCHECK" and "/_stcore/health" in rest for word, rest in final)
    assert ("VOLUME", "/data") in final
    assert "STALLSCOPE_DB=/data/" in dict(final)["ENV"]
    assert not re.search(r"(?i)token|password|secret", RECIPE.read_text())


def test_it_copies_what_is_there_and_nothing_else() -> None:
    allowed = (ROOT / ".docker" / "Dockerfile.dockerignore").read_text().split()
    assert allowed[0] == "*"
    for word, rest in STEPS:
        if word != "COPY" or rest.startswith("--from"):
            continue
        for source in shlex.split(rest)[:-1]:
            assert (ROOT / source).exists(), source
            assert f"!{source}" in allowed, source


def test_the_compose_file_closes_what_it_can() -> None:
    text = (ROOT / ".docker" / "compose.yaml").read_text()
    for line in ("read_only: true", "cap_drop: [ALL]", "no-new-privileges:true", '"127.0.0.1:8501:8501"', "data:/data"):
        assert line in text, line
    assert "docker.sock" not in text
    assert "privileged: true" not in text


@pytest.mark.long
def test_its_steps_replayed_in_an_empty_environment_end_in_a_server(tmp_path: Path) -> None:
    """No engine runs here: COPY and RUN are replayed in folders and a virtual environment that stand for the image."""
    image = {
        "/src": tmp_path / "src",
        "/wheels": tmp_path / "wheels",
        "/tmp": tmp_path / "tmp",
        "/data": tmp_path / "data",
    }
    for folder in image.values():
        folder.mkdir()
    subprocess.run([sys.executable, "-m", "venv", str(tmp_path / "venv")], check=True)
    programs = tmp_path / "venv" / "bin"
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith(("STALLSCOPE_", "PYTHONPATH"))},
        "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
        "HOME": str(tmp_path),
    }

    def inside(text: str) -> str:
        return re.sub(r"(?<![\w/.])/(src|wheels|tmp|data)\b", lambda found: str(image[found[0]]), text)

    for word, rest in STEPS:
        if word == "COPY" and not rest.startswith("--from"):
            *sources, target = shlex.split(rest)
            for source in sources:
                absolute = Path(inside(target)) if target.startswith("/") else image["/src"] / target
                absolute = absolute / source if target in (".", "./") else absolute
                absolute.parent.mkdir(parents=True, exist_ok=True)
                if (ROOT / source).is_dir():
                    shutil.copytree(ROOT / source, absolute, ignore=shutil.ignore_patterns("__pycache__"))
                else:
                    shutil.copy(ROOT / source, absolute)
        elif word == "COPY":
            shutil.copytree(image["/wheels"], image["/tmp"] / "wheels", dirs_exist_ok=True)
        elif word == "RUN" and not rest.startswith("useradd"):
            done = subprocess.run(
                ["bash", "-ec", inside(rest)], cwd=image["/src"], env=environment, capture_output=True, text=True
            )
            assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
        elif word == "ENV":
            environment.update(one.split("=", 1) for one in shlex.split(inside(rest)))
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    health = dict(STEPS)["HEALTHCHECK"].partition("CMD ")[2]
    command = [*json.loads(dict(STEPS)["ENTRYPOINT"]), "serve", "--port", str(port)]
    running = subprocess.Popen(command, cwd=tmp_path / "data", env={**environment, "STALLSCOPE_SAMPLE": "off"})
    try:
        checked = [word.replace("8501", str(port)) for word in json.loads(health)]
        deadline = time.monotonic() + 120
        while subprocess.run(checked, env=environment, capture_output=True).returncode:
            assert running.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.5)
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/api/v1/datasets", timeout=30) as answer:
            assert answer.read() == b"[]"
    finally:
        running.terminate()
        running.wait(30)
    assert (tmp_path / "data" / "stallscope.duckdb").exists()
