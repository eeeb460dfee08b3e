"""Files dropped in a real browser: the numbers on the page are those that the files must give."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.expected import SAID, Expected, expected
from tests.pages.files import all_files

pytestmark = pytest.mark.browser

WORK = 180_000


def drop(server: str, page: Page, files: list[Path]) -> tuple[dict[str, Locator], str]:
    """Upload files, load them, and open each one's account; return the accounts by name, and what was said before."""
    page.goto(f"{server}/upload")
    expect(page.get_by_role("heading", name="What did you take from my files?")).to_be_visible()
    with page.expect_file_chooser() as chooser:
        page.get_by_test_id("stFileUploaderDropzone").get_by_text("Upload", exact=True).click()
    chooser.value.set_files(files)
    load = page.get_by_role("button", name=re.compile(r"^(?:\S+ )?Load \d+ files?$"))
    load.wait_for(timeout=WORK)
    pending = page.locator(".st-key-pending")
    notes = pending.locator("summary").all()
    for note in notes:
        note.click()
    said = " ".join(pending.inner_text().split())
    load.click()
    expect(page.get_by_text(re.compile(r"\d+ of \d+ files loaded"))).to_be_visible(timeout=WORK)
    accounts = {}
    for path in files:
        account = page.get_by_test_id("stExpander").filter(has=page.locator("summary", has_text=path.name)).first
        if account.locator("details").get_attribute("open") is None:
            account.locator("summary").click()
        accounts[path.name] = account
    return accounts, said


def numbers(account: Locator) -> dict[str, int]:
    """Read the figures of an account."""
    expect(account.get_by_test_id("stMetric").first).to_be_visible()
    out = {}
    for metric in account.get_by_test_id("stMetric").all():
        label = metric.get_by_test_id("stMetricLabel").inner_text().strip()
        out[label] = int(metric.get_by_test_id("stMetricValue").inner_text().strip().replace(",", ""))
    return out


def held(account: Locator, wanted: Expected, before: str) -> None:
    """Compare an account with what is expected; what the form asked is said there, before loading."""
    if wanted.refused:
        expect(account.get_by_test_id("stAlert").first).to_be_visible()
    else:
        shown = numbers(account)
        used = shown["Rows loaded"] + shown.get("Set aside", 0)
        assert used + shown["Rows rejected"] == shown["Rows read"], wanted.name
        for label, number in (
            ("Rows read", wanted.rows),
            ("Launches", wanted.launches),
            ("Kernels", wanted.kernels),
            ("Stall reasons", wanted.reasons),
        ):
            assert number is None or shown.get(label, 0) == number, (wanted.name, label, shown)
    said = before + " ".join(account.inner_text().split())
    for words in SAID.get(wanted.name, ()):
        assert words in said, (wanted.name, words, said)


def test_small_twins(server: str, page: Page, tmp_path: Path) -> None:
    first, second, table = all_files(tmp_path)
    dead = tmp_path / "dead.txt"
    dead.write_text("==PROF== Connected\n==ERROR== ERR_NVGPUCTRPERM - no permission\n")
    log = tmp_path / "log.csv"
    log.write_text("timestamp, name, utilization.gpu [%]\n" + "2026/01/03 15:36:53.507, Tesla T4, 4 %\n" * 3)
    accounts, before = drop(server, page, [first, second, table, dead, log])
    rows = first.read_text(encoding="utf-8").count("\n") - 3
    for path in (first, second):
        held(accounts[path.name], Expected(path.name, rows, 12, 3, 18), before)
    held(accounts[log.name], Expected(log.name, 3, None, None, 0), before)
    held(accounts[dead.name], Expected(dead.name, 0, None, None, None, refused=True), before)
    assert "NVreg_RestrictProfilingToAdminUsers=0" in accounts[dead.name].inner_text()
    assert numbers(accounts[table.name])["Co-runs"] == 42


@pytest.mark.long
def test_every_real_export(server: str, page: Page, cases: Path) -> None:
    table = expected(cases)
    accounts, before = drop(server, page, [cases / wanted.name for wanted in table])
    for wanted in table:
        held(accounts[wanted.name], wanted, before)
