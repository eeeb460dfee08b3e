"""The slowdown matrix is read and walked with the keyboard alone; groups open into their workloads."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from analysis.ingest.importer import import_paths
from analysis.store.database import Database
from tests.pages.files import JOBS, all_files

pytestmark = pytest.mark.browser

NAMES = sorted(JOBS)
TAKES = re.compile(r"takes [\d.]+\sx as long as alone")


@pytest.fixture
def loaded(home: Path, tmp_path: Path) -> None:
    """Put profiles and co-runs into the server's database; ask for it before `server`."""
    with Database(home / "stallscope.duckdb") as database:
        import_paths(database, all_files(tmp_path))


def test_the_matrix_is_walked_with_the_keyboard_alone(loaded: None, server: str, page: Page) -> None:
    page.goto(f"{server}/interference")
    expect(page.get_by_role("heading", name="Who hurts whom, on which GPU?")).to_be_visible()
    settled(page)
    walk_to(page, "summary", "to walk with the keyboard")
    page.keyboard.press("Enter")
    expect(page.get_by_test_id("stDataFrame").first).to_be_visible()
    walk_to(page, "canvas", "")
    # The cursor enters at the name of the first row: two down, and four to the right of the names.
    for key in ("ArrowDown", "ArrowDown", "ArrowRight", "ArrowRight", "ArrowRight", "ArrowRight"):
        page.keyboard.press(key)
    page.keyboard.press("Enter")
    panel = page.locator(".st-key-cell")
    expect(panel.get_by_text(f"{NAMES[2]} beside {NAMES[3]} takes")).to_be_visible()
    expect(panel.get_by_text(TAKES)).to_be_visible()
    expect(panel.get_by_text("Both jobs alone")).to_be_visible()
    expect(page).to_have_url(re.compile(f"slowed={NAMES[2]}.*beside={NAMES[3]}|beside={NAMES[3]}.*slowed={NAMES[2]}"))

    # An address opens two groups, and a pair within them.
    page.goto(f"{server}/interference?group=Precisions&rows=amp&columns=fp32&slowed={NAMES[0]}&beside={NAMES[2]}")
    settled(page)
    expect(page.get_by_role("heading", name="amp beside fp32")).to_be_visible()
    expect(page.locator(".st-key-cell").get_by_text(TAKES)).to_be_visible()


def settled(page: Page) -> None:
    expect(page.get_by_test_id("stApp")).to_have_attribute("data-test-script-state", "notRunning")


def walk_to(page: Page, tag: str, text: str, most: int = 80) -> None:
    """Press Tab until an element of this kind, with this text, has the focus."""
    for _ in range(most):
        page.keyboard.press("Tab")
        there = page.evaluate("[document.activeElement.tagName.toLowerCase(), document.activeElement.textContent]")
        if there[0] == tag and text in there[1]:
            return
    pytest.fail(f"no {tag} with {text!r} was reached in {most} steps")
