"""Runs the command line inside the test and as a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from analysis.cli import app


@pytest.fixture
def db(tmp_path: Path) -> Path:
    """A database file that does not exist yet."""
    return tmp_path / "cli.duckdb"


@pytest.fixture
def cli() -> Callable[..., Result]:
    """Run a command in this process; returns its output and exit code."""

    def run(*arguments: object) -> Result:
        return CliRunner().invoke(app, [str(argument) for argument in arguments], prog_name="stallscope")

    return run


@pytest.fixture
def as_json(cli: Callable[..., Result]) -> Callable[..., Any]:
    """Run a command with --json, check its exit code, and return the one document on standard output."""

    def run(*arguments: object, code: int = 0) -> Any:
        done = cli(*arguments, "--json")
        assert done.exit_code == code, done.output
        return json.loads(done.stdout)

    return run


@pytest.fixture
def process(tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run a command as a process in an empty directory."""
    folder = tmp_path / "elsewhere"
    folder.mkdir()

    def run(*arguments: object) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "analysis.cli", *(str(argument) for argument in arguments)],
            capture_output=True,
            text=True,
            cwd=folder,
            env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
            timeout=120,
        )

    return run
