"""Every page, filled, light and dark: axe finds nothing serious."""

from __future__ import annotations

from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect

from analysis.ui.shell.navigation import PAGES

pytestmark = [pytest.mark.browser, pytest.mark.long]

_GRAVE = ("serious", "critical")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_no_page_has_a_grave_fault(filled: Path, server: str, page: Page, scheme: str) -> None:
    page.emulate_media(color_scheme=scheme)
    faults = []
    for spec in PAGES:
        page.goto(server if spec is PAGES[0] else f"{server}/{spec.name}")
        expect(page.get_by_role("heading", level=1)).to_be_visible()
        expect(page.get_by_test_id("stApp")).to_have_attribute("data-test-script-state", "notRunning")
        expect(page.get_by_test_id("stSkeleton")).to_have_count(0)
        found = Axe().run(page).response["violations"]
        faults += [(spec.name, one["id"], one["nodes"][0]["html"]) for one in found if one["impact"] in _GRAVE]
    assert not faults
