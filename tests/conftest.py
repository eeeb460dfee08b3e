"""Fixtures that all tests share."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from analysis.settings import get_settings
from analysis.store.database import Database

ROOT = Path(__file__).resolve().parent.parent
SHARED = ROOT.parent / "shared"


@pytest.fixture(autouse=True)
def _own_environment(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Keep every test away from the user's own database and settings."""
    for name in [key for key in os.environ if key.startswith("STALLSCOPE_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("STALLSCOPE_DB", str(tmp_path_factory.mktemp("data") / "test.duckdb"))
    monkeypatch.setenv("STALLSCOPE_SAMPLE", "off")
    get_settings.cache_clear()
    yield
    get_settings.cache_clear()


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    """An empty database in a directory of its own."""
    with Database(tmp_path / "own.duckdb") as opened:
        yield opened


@pytest.fixture(scope="session")
def cases() -> Path:
    """The folder of real exports; tests that need it are skipped where it is missing."""
    folder = SHARED / "cases"
    if not folder.is_dir():
        pytest.skip("no real exports beside this checkout")
    return folder


@pytest.fixture(scope="session")
def datasets() -> Path:
    """The folder of public data sets; tests that need it are skipped where it is missing."""
    folder = SHARED / "datasets"
    if not folder.is_dir():
        pytest.skip("no public data sets beside this checkout")
    return folder
