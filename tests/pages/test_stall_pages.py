"""Stalls and Kernels: the page shows what the command prints, an address opens every level, filters say themselves."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from streamlit.testing.v1 import AppTest
from typer.testing import CliRunner

from analysis.cli import app as command
from analysis.ingest import matching
from analysis.ingest.importer import import_paths
from analysis.settings import get_settings
from analysis.store.database import Database
from tests.pages.conftest import Open
from tests.pages.files import PROFILED, profile

STALLS, KERNELS = "pages/explore/stalls.py", "pages/explore/kernels.py"
GPU = "A100-40GB"
#: What the profiles are called before they are matched with the co-runs: as their files.
JOBS = tuple(f"{job}_{GPU}" for job in PROFILED)


def words(page: AppTest) -> str:
    texts = [text.value for text in [*page.markdown, *page.caption, *page.subheader]]
    return "\n".join(texts).replace("\\", "").replace("\xa0", " ")


def frame_with(page: AppTest, *columns: str) -> pd.DataFrame:
    return next(table.value for table in page.dataframe if set(columns) <= set(table.value.columns))


def same(shown: pd.DataFrame, printed: list[dict[str, Any]]) -> None:
    expected = pd.DataFrame(printed)
    assert len(expected) == len(shown) > 0
    pd.testing.assert_frame_equal(
        shown[expected.columns].reset_index(drop=True), expected, check_dtype=False, rtol=1e-12, atol=0
    )


@pytest.fixture
def changed(filled: Path, tmp_path: Path) -> Path:
    """The filled database and one profile more: the first job again, with another share of waiting in one kernel."""
    path = profile(tmp_path / "later.csv", PROFILED[0])
    text = path.read_text().replace("(64, 1, 1)", "(640, 1, 1)")
    path.write_text(text)
    with Database(filled) as database:
        (report,) = import_paths(database, [path], workload="later", gpu=GPU)
        assert report.status == "loaded", report
    return filled


def test_the_page_shows_what_compare_prints(app: Open, changed: Path) -> None:
    base, other = JOBS[0], "later"
    result = CliRunner().invoke(command, ["compare", base, other, "--json", "--db", str(get_settings().db)])
    assert result.exit_code == 0, result.output
    printed = json.loads(result.stdout)
    page = app(STALLS, see="Compare", base=f"{base} · {GPU}", against=f"{other} · {GPU}", show="All reasons")
    same(frame_with(page, "other", "difference", "state").drop(columns=["other", "other_gpu"]), printed["totals"])
    same(frame_with(page, "slower"), printed["pairs"])
    same(frame_with(page, "side", "launches"), printed["unmatched"])
    kernels = next(t.value for t in page.dataframe if {"difference", "grid"} <= set(t.value.columns))
    same(kernels, printed["kernels"])


def test_differences_come_first(app: Open, filled: Path) -> None:
    page = app(STALLS, see="Compare")
    first = frame_with(page, "other", "difference")
    assert (first["difference"].abs() >= 1).all()
    assert "percentage points" in words(page)


def test_jobs_side_by_side_are_linked_to_what_was_measured(app: Open, filled: Path) -> None:
    with Database(filled) as database:
        matching.apply(database, "own", dict(zip(JOBS, PROFILED, strict=True)))
    page = app(STALLS, see="Side by side")
    text = words(page)
    assert "Both lean on DRAM" in text
    assert "Together, measured under CUDA MPS:" in text
    costs = frame_with(page, "beside", "origin")
    assert set(costs["origin"]) == {"measured"}
    assert (costs["slowdown"] > 1).all()


def test_a_level_of_kernels_and_a_launch_have_addresses(app: Open, filled: Path) -> None:
    page = app(KERNELS)
    table = frame_with(page, "time_ms", "largest")
    assert table["time_ms"].is_monotonic_decreasing
    assert "takes the most GPU time" in words(page)
    name = page.selectbox(key="kernel").options[0]
    page = app(KERNELS, kernel=name)
    number = page.selectbox(key="launch").options[0]
    page = app(KERNELS, kernel=name, launch=number)
    rows = frame_with(page, "metric", "line", "value")
    assert rows["line"].is_monotonic_increasing
    assert "gpu__time_duration.sum" in set(rows["metric"])
    assert "from line" in words(page)


def test_kernels_are_found_and_grouped(app: Open, filled: Path) -> None:
    page = app(KERNELS, find="no such kernel")
    assert "0 kernels" in words(page)
    page = app(KERNELS, group="Short name")
    assert frame_with(page, "time_ms", "largest")["grid"].eq("").all()


def test_a_search_leads_the_answer_and_the_kernel_that_is_opened(app: Open, filled: Path) -> None:
    page = app(KERNELS)
    table = frame_with(page, "time_ms", "largest")
    first, last = table["short_name"].iloc[0], table["short_name"].iloc[-1]
    held = page.selectbox(key="kernel").options[0]
    page = app(KERNELS, find=last, kernel=held)
    hits = frame_with(page, "time_ms", "largest")
    assert 0 < len(hits) < len(table)
    answer = next(text for text in words(page).splitlines() if "takes the most GPU time" in text)
    assert last in answer
    assert f"Of the {len(hits)} kernel" in answer
    assert first not in answer
    assert page.selectbox(key="kernel").value is None
    assert len(page.selectbox(key="kernel").options) == len(hits)


def test_an_address_always_says_its_data_set(app: Open, filled: Path) -> None:
    page = app(KERNELS, dataset="own", gpu=GPU)
    assert page.query_params["dataset"] in ("own", ["own"])
    page = app(KERNELS)
    assert page.query_params["dataset"] in ("own", ["own"])


def test_a_source_is_a_filter_and_says_its_file(app: Open, filled: Path) -> None:
    file = f"{JOBS[1]}.csv"
    page = app(STALLS, source=file)
    assert f"source {file}" in words(page)
    assert set(frame_with(page, "reason", "share")["workload"]) == {JOBS[1]}
    page.switch_page(KERNELS).run()
    assert f"source {file}" in words(page)
    assert set(frame_with(page, "time_ms")["workload"]) == {JOBS[1]}
