"""Every page runs, twice, on an empty and on a filled database, and says something a reader can use."""

from __future__ import annotations

from pathlib import Path

import pytest

from analysis.ui.shell.navigation import PAGES
from tests.conftest import ROOT
from tests.pages.conftest import Open

NAMES = [page.name for page in PAGES]
SCRIPTS = {page.name: page.path for page in PAGES}


def test_every_script_is_in_the_navigation() -> None:
    there = {str(path.relative_to(ROOT)) for path in (ROOT / "pages").rglob("*.py")}
    assert there == set(SCRIPTS.values())


def test_scripts_stand_one_level_down() -> None:
    assert not list((ROOT / "pages").glob("*.py"))


@pytest.mark.parametrize("name", NAMES)
def test_on_an_empty_database(app: Open, name: str) -> None:
    page = app(SCRIPTS[name])
    assert len(page.title) == 1
    assert page.title[0].value.endswith("?")
    assert not page.error


@pytest.mark.parametrize("name", NAMES)
def test_on_a_filled_database(app: Open, filled: Path, name: str) -> None:
    page = app(SCRIPTS[name])
    assert len(page.title) == 1
    assert page.title[0].value.endswith("?")
    assert not page.error
