"""The whole main job in a real browser: from files to an explained prediction and a report that holds its figures."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.pages.files import GPU, JOBS, all_files

pytestmark = pytest.mark.browser

#: Waits for work: loading, scoring, training.
WORK = 180_000
SLOWED, BESIDE = "bert_bs8_amp", "gnn_bs1024_fp32"


def test_from_files_to_a_report(server: str, page: Page, tmp_path: Path) -> None:
    page.goto(server)
    expect(page.get_by_role("heading", name="What do I have and what can I ask?")).to_be_visible()
    page.get_by_role("button", name="Upload files").click()

    upload(page, all_files(tmp_path))
    top_reason = stalls(page)
    slowdown = matrix(page)
    error = comparison(page)
    prediction = explanation(page)
    sections = report(page, tmp_path)

    # Each figure in its own section: the whole file holds plotly.js, in which any short number can be found.
    assert top_reason in said(sections["stalls"])
    assert matrix_row(sections["interference"], SLOWED)[sorted(JOBS).index(BESIDE)] == slowdown
    assert f"Victim and aggressor effects is off by {error} %" in said(sections["evaluation"])
    assert re.search(rf"(?<![\d.]){re.escape(prediction)}(?![\d.])", said(sections["answer"]))


def upload(page: Page, files: list[Path]) -> None:
    """Choose the files, see what each was taken for, load them."""
    expect(page.get_by_role("heading", name="What did you take from my files?")).to_be_visible()
    with page.expect_file_chooser() as chooser:
        page.get_by_test_id("stFileUploaderDropzone").get_by_text("Upload", exact=True).click()
    chooser.value.set_files(files)
    load = page.get_by_role("button", name="Load 3 files")
    load.wait_for(timeout=WORK)
    expect(page.get_by_role("textbox", name="Workload").first).to_have_value(
        files[0].name.removesuffix("_A100-40GB.csv")
    )
    load.click()
    expect(page.get_by_text("3 of 3 files loaded")).to_be_visible(timeout=WORK)
    expect(page.get_by_text("24 launches")).to_be_visible()
    expect(page.get_by_text("42 co-runs").first).to_be_visible()


def stalls(page: Page) -> str:
    """See why the two profiled jobs wait; return the reason that leads."""
    page.get_by_role("link", name="See why these jobs wait").click()
    expect(page.get_by_role("heading", name="Why does this job wait?")).to_be_visible()
    expect(page.get_by_text("2 profiles")).to_be_visible()
    chart = page.get_by_test_id("stPlotlyChart").first
    expect(chart).to_be_visible()
    expect(chart.get_by_text("Long scoreboard").first).to_be_visible()
    return "Long scoreboard"


def matrix(page: Page) -> str:
    """Open the matrix, click one cell, read the slowdown behind it."""
    go(page, "Explore", "Interference")
    expect(page.get_by_role("heading", name="Who hurts whom, on which GPU?")).to_be_visible()
    plot = page.get_by_test_id("stPlotlyChart").first.locator(".nsewdrag").first
    box = plot.bounding_box()
    assert box is not None
    names = sorted(JOBS)
    cell = box["width"] / len(names), box["height"] / len(names)
    row, column = names.index(SLOWED), names.index(BESIDE)
    page.mouse.click(box["x"] + (column + 0.5) * cell[0], box["y"] + (row + 0.5) * cell[1])
    panel = page.locator(".st-key-cell")
    expect(panel.get_by_text(f"{SLOWED} beside {BESIDE} takes")).to_be_visible()
    expect(page).to_have_url(re.compile(f"slowed={SLOWED}.*beside={BESIDE}|beside={BESIDE}.*slowed={SLOWED}"))
    expect(panel.get_by_text("What each waits for when it is alone")).to_be_visible()
    found = re.search(r"takes ([\d.]+)\sx as long as alone", panel.inner_text())
    assert found is not None
    return found[1]


def comparison(page: Page) -> str:
    """Score three quick predictors, read the best one's error, train a model."""
    go(page, "Predict", "Train")
    expect(page.get_by_role("heading", name="How well can it be predicted here?")).to_be_visible()
    keep_only(page, ("Victim and aggressor effects",))
    page.get_by_role("button", name="Score the predictors").click()
    expect(page.get_by_text("The last comparison")).to_be_visible(timeout=WORK)
    answer = page.locator(".st-key-answer").inner_text()
    found = re.search(r"is off by ([\d.]+)\s% under unseen-pair", answer)
    assert found is not None, answer
    assert "train median" in answer
    assert "no interference" in answer
    box = page.get_by_test_id("stSelectbox").filter(has_text="Predictor").get_by_role("combobox")
    box.click()
    box.fill("Ridge")
    page.get_by_role("option", name="Ridge regression").click()
    page.get_by_role("button", name="Train a model").click()
    expect(page.get_by_text("is ready")).to_be_visible(timeout=WORK)
    return found[1]


def keep_only(page: Page, titles: tuple[str, ...]) -> None:
    """Replace the chosen predictors."""
    box = page.get_by_test_id("stMultiSelect").filter(has_text="Predictors")
    box.get_by_role("button", name=re.compile("[Cc]lear")).click()
    for title in titles:
        box.get_by_role("combobox").fill(title)
        page.get_by_role("option", name=title).click()
    page.keyboard.press("Escape")


def explanation(page: Page) -> str:
    """Ask why one pair is predicted to slow down as it is; return the prediction."""
    page.get_by_role("link", name="See why it says what it says").click()
    expect(page.get_by_role("heading", name="Why this number?")).to_be_visible()
    heading = page.get_by_role("heading", name=re.compile(r"beside .*: [\d.]+ x"))
    expect(heading).to_be_visible(timeout=WORK)
    expect(page.get_by_text("is predicted to take").first).to_be_visible()
    expect(page.get_by_test_id("stPlotlyChart").first.get_by_text("prediction").first).to_be_visible()
    found = re.search(r": ([\d.]+) x", heading.inner_text())
    assert found is not None
    return found[1]


def report(page: Page, folder: Path) -> dict[str, str]:
    """Download the report of the data set and that of a set of jobs; return their sections by their keys."""
    go(page, "Report", "Report")
    expect(page.get_by_role("heading", name="What do I hand on?")).to_be_visible()
    sections = downloaded(page, folder)
    page.get_by_role("combobox", name=re.compile("^Report|Report$")).click()
    page.get_by_role("option", name="Prediction for a set of jobs").click()
    expect(page.get_by_role("combobox", name=re.compile("Job 1"))).to_be_visible(timeout=WORK)
    answer = downloaded(page, folder)
    return {**sections, "answer": answer["answer"]}


def downloaded(page: Page, folder: Path) -> dict[str, str]:
    """Download the report that the page offers; return its sections by their keys, without scripts and styles."""
    app = page.get_by_test_id("stApp")
    expect(app).to_have_attribute("data-test-script-state", "notRunning", timeout=WORK)
    with page.expect_download(timeout=WORK) as download:
        page.get_by_role("button", name="Download HTML").click()
    path = folder / download.value.suggested_filename
    download.value.save_as(path)
    html = path.read_text(encoding="utf-8")
    assert html.lstrip().lower().startswith("<!doctype html>")
    assert GPU in html
    visible = re.sub(r"<(script|style)\b.*?</\1>", " ", html, flags=re.DOTALL)
    return dict(re.findall(r'<section id="([a-z]+)"[^>]*>(.*?)</section>', visible, flags=re.DOTALL))


def said(section: str) -> str:
    """Return the text that a reader sees."""
    return " ".join(re.sub(r"<[^>]+>", " ", section).split())


def matrix_row(section: str, workload: str) -> list[str]:
    """Return the cells of a workload's row in the first matrix of a section."""
    table = section[section.index('class="matrix') :]
    row = re.search(rf'scope="row"[^>]*><bdi>{re.escape(workload)}</bdi></th>(.*?)</tr>', table, flags=re.DOTALL)
    assert row is not None
    return [said(cell) for cell in re.findall(r"<td[^>]*>(.*?)</td>", row[1], flags=re.DOTALL)]


def go(page: Page, section: str, title: str) -> None:
    """Open a page by the navigation."""
    bar = page.get_by_test_id("stHeader")
    bar.get_by_role("button", name=section, exact=True).click()
    page.get_by_role("menuitem", name=title, exact=True).click()
