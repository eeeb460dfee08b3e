"""The HTML report in a real Chromium, opened from disk with the network off."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, sync_playwright

from analysis.report.document import ReportDocument
from analysis.report.render import write

CHROMIUM = shutil.which("chromium")
pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="no chromium on this machine"),
]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield opened
        opened.close()


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    context = browser.new_context(offline=True, viewport={"width": 1100, "height": 900})
    yield context.new_page()
    context.close()


def _open(page: Page, document: ReportDocument, folder: Path) -> tuple[list[str], list[str]]:
    complaints: list[str] = []
    requests: list[str] = []
    page.on("console", lambda message: complaints.append(message.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("request", lambda request: requests.append(request.url))
    path = folder / "report.html"
    write(document, path)
    page.goto(path.as_uri())
    page.wait_for_selector(".chart .main-svg")
    return complaints, requests


def test_it_draws_without_a_request_or_a_complaint(page: Page, harmless: ReportDocument, tmp_path: Path) -> None:
    complaints, requests = _open(page, harmless, tmp_path)
    assert page.locator(".chart .plot-container").count() == 2
    assert page.locator(".chart .bars path").count() == 6
    assert requests == [(tmp_path / "report.html").as_uri()]
    assert complaints == []


def test_hostile_names_do_nothing(page: Page, hostile: ReportDocument, tmp_path: Path) -> None:
    complaints, requests = _open(page, hostile, tmp_path)
    for link in page.locator(".chart a, .chart image").all():
        assert not link.get_attribute("href")
    assert page.evaluate("window.hacked") is None
    assert len(requests) == 1
    assert complaints == []
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")


def test_axe_finds_nothing_serious(page: Page, harmless: ReportDocument, tmp_path: Path) -> None:
    _open(page, harmless, tmp_path)
    found: list[dict[str, Any]] = Axe().run(page).response["violations"]
    serious = [v for v in found if v["impact"] in ("serious", "critical")]
    assert not serious, [(v["id"], [node["html"][:200] for node in v["nodes"]]) for v in serious]


def test_it_prints_on_a4_without_cutting_anything(page: Page, harmless: ReportDocument, tmp_path: Path) -> None:
    _open(page, harmless, tmp_path)
    # 182 mm between the margins at 96 dots an inch.
    page.set_viewport_size({"width": 688, "height": 1000})
    page.emulate_media(media="print")
    assert page.evaluate("document.documentElement.scrollWidth") <= 688
    for chart in page.locator(".chart .main-svg").all():
        box = chart.bounding_box()
        assert box is not None
        assert box["x"] + box["width"] <= 689
    pdf = page.pdf(prefer_css_page_size=True, print_background=True)
    assert pdf.startswith(b"%PDF")
    assert b"/MediaBox [0 0 594.95" in pdf or b"/MediaBox [0 0 595" in pdf
