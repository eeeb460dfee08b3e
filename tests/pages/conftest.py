"""The application as a browser would run it, on an empty and on a filled database."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import streamlit as st
from streamlit.testing.v1 import AppTest

from analysis.ingest.importer import import_paths
from analysis.settings import get_settings
from analysis.store.database import Database
from tests.conftest import ROOT
from tests.pages.files import all_files

Open = Callable[..., AppTest]


@pytest.fixture(scope="session")
def filled_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database with two profiles and 42 co-runs, read from files."""
    folder = tmp_path_factory.mktemp("filled")
    path = folder / "filled.duckdb"
    with Database(path) as database:
        reports = import_paths(database, all_files(folder))
        assert [report.status for report in reports] == ["loaded"] * 3, reports
    return path


@pytest.fixture(autouse=True)
def _closed_afterwards() -> Iterator[None]:
    """Close the shared database, so that no test sees another's."""
    yield
    st.cache_resource.clear()
    st.cache_data.clear()


@pytest.fixture
def app() -> Open:
    """Open a page of the application, in this test's own database, and run it twice."""

    def open_page(script: str, **query: str) -> AppTest:
        test = AppTest.from_file(str(ROOT / "app.py"), default_timeout=60)
        # What all pages share is read from the address once, when the session begins.
        test.query_params.update({name: value for name, value in query.items() if name == "limit"})
        test.run()
        for name, value in query.items():
            test.query_params[name] = value
        test.switch_page(script)
        test.run()
        assert not test.exception, test.exception
        test.run()
        assert not test.exception, test.exception
        return test

    return open_page


@pytest.fixture
def filled(filled_file: Path) -> Path:
    """Put the filled database where the application looks for it."""
    path = get_settings().db
    path.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(filled_file, path)
    return path
