"""No command imports what it does not use: each of these may load only the heavy modules that are named for it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from analysis.ingest.importer import import_paths
from analysis.store.database import Database
from tests.conftest import ROOT
from tests.pages.files import all_files

HEAVY = (
    "duckdb", "jinja2", "pandas", "pandera", "plotly", "pyarrow", "pydantic", "rich", "scipy", "shap", "simpy",
    "skops", "sklearn", "streamlit", "structlog",
)  # fmt: skip

_RUN = """
import contextlib, io, json, runpy, sys
sys.argv = ["stallscope", *json.loads(sys.argv[1])]
with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):
    runpy.run_module("analysis.cli", run_name="__main__")
print(json.dumps(sorted(name for name in json.loads(sys.argv_heavy) if name in sys.modules)))
"""

DATA = {"duckdb", "pandas", "pyarrow"}
#: What a command may load; rich prints tables for people.
ALLOWED = {
    "--help": set(),
    "--version": set(),
    "import --help": {"pydantic"},  # typer looks whether it is there
    "import FILE": {*DATA, "pandera", "pydantic", "rich"},
    "sources list": {*DATA, "rich", "pydantic"},
    "matrix --dataset own --gpu A100-40GB": {*DATA, "rich", "pydantic"},
    "stalls": {*DATA, "rich", "pydantic"},
    "check": {*DATA, "rich", "pydantic"},
    # It asks the model that answers for the data set, where there is one.
    "partners --dataset own --gpu A100-40GB": {*DATA, "rich", "pydantic", "jinja2", "scipy", "sklearn", "skops"},
}


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("loads")
    with Database(folder / "own.duckdb") as database:
        import_paths(database, all_files(folder))
    return folder


@pytest.mark.parametrize("command", ALLOWED)
def test_a_command_loads_what_it_uses(command: str, filled: Path) -> None:
    words = [str(next(filled.glob("*.csv"))) if word == "FILE" else word for word in command.split()]
    if not words[-1].startswith("--") or len(words) > 2:
        words += ["--db", str(filled / "own.duckdb"), "--json"]
    script = _RUN.replace("json.loads(sys.argv_heavy)", repr(HEAVY))
    done = subprocess.run(
        [sys.executable, "-c", script, json.dumps(words)], capture_output=True, text=True, cwd=ROOT, timeout=120,
        env={**os.environ, "PYTHONPATH": str(ROOT)}, check=True,
    )  # fmt: skip
    loaded = set(json.loads(done.stdout.splitlines()[-1]))
    assert loaded - ALLOWED[command] == set()
    if command == "import FILE":  # the test sees what is loaded
        assert "pandas" in loaded
