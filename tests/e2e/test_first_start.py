"""A first start on nothing: the sample loads and says so, makes way for a measurement, stays away once removed.

That every single page carries the badge is tested page by page without a browser.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.e2e.conftest import Start
from tests.pages.files import coruns

pytestmark = pytest.mark.browser

#: Waits for work: a first page, loading the sample.
WORK = 120_000
BADGE, LOADING = "Simulated data", "First start: loading a small"


def test_the_sample_from_the_first_start_to_its_removal(start: Start, page: Page, tmp_path: Path) -> None:
    with start(sample="on") as server:
        page.goto(server)
        expect(page.get_by_text(LOADING)).to_be_visible(timeout=WORK)
        expect(page.get_by_role("progressbar").first).to_be_visible()
        expect(page.get_by_text(LOADING)).to_have_count(0, timeout=WORK)
        expect(page.get_by_text(BADGE).first).to_be_visible(timeout=WORK)
        for name in ("mechanisms", "guide"):
            page.goto(f"{server}/{name}")
            expect(page.get_by_role("heading", level=1)).to_be_visible()
            expect(page.get_by_text(BADGE).first).to_be_visible()
        upload(page, server, coruns(tmp_path / "coruns.csv"))
        page.goto(f"{server}/interference")
        show = page.get_by_role("button", name="Show the simulated sample")
        expect(show).to_be_visible()
        expect(page.get_by_text(BADGE)).to_have_count(0)
        show.click()
        hide = page.get_by_role("button", name="Hide the simulated sample")
        hide.click()
        expect(show).to_be_visible()
        page.goto(f"{server}/settings")
        page.get_by_role("button", name="Remove the sample").click()
        expect(page.get_by_role("button", name="Load the sample")).to_be_visible(timeout=WORK)
    with start(sample="on") as server:
        page.goto(f"{server}/interference")
        expect(page.get_by_role("heading", name="Who hurts whom, on which GPU?")).to_be_visible(timeout=WORK)
        expect(page.get_by_text(LOADING)).to_have_count(0)
        expect(show).to_have_count(0)
        expect(page.get_by_text(BADGE)).to_have_count(0)
        page.goto(f"{server}/settings")
        expect(page.get_by_role("button", name="Load the sample")).to_be_visible()


def test_switched_off_it_starts_empty(server: str, page: Page) -> None:
    page.goto(server)
    expect(page.get_by_role("button", name="Upload files")).to_be_visible(timeout=WORK)
    expect(page.get_by_text(LOADING)).to_have_count(0)
    expect(page.get_by_text(BADGE)).to_have_count(0)


def upload(page: Page, server: str, file: Path) -> None:
    """Load one measured table."""
    page.goto(f"{server}/upload")
    with page.expect_file_chooser() as chooser:
        page.get_by_test_id("stFileUploaderDropzone").get_by_text("Upload", exact=True).click()
    chooser.value.set_files([file])
    page.get_by_role("button", name="Load 1 file").click(timeout=WORK)
    expect(page.get_by_text("1 of 1 file")).to_be_visible(timeout=WORK)
