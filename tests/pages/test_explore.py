"""Looking at the data: one chosen cell for picture, table and address; filters that stay; the library's changes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import streamlit as st
from streamlit.testing.v1 import AppTest

from analysis.interference.matrix import slowdown_matrix
from analysis.store.database import Database
from analysis.store.queries import sources
from analysis.ui.parts import interference
from analysis.ui.shell import resources
from tests.conftest import ROOT
from tests.pages.conftest import Open
from tests.pages.files import JOBS, MECHANISM, PROFILED

SLOWED, BESIDE = "bert_bs8_amp", "gnn_bs1024_fp32"


def words(page: AppTest) -> str:
    return (
        "\n".join(text.value for text in [*page.markdown, *page.caption, *page.subheader])
        .replace("\\", "")
        .replace("\xa0", " ")
    )


def test_the_address_opens_a_cell(app: Open, filled: Path) -> None:
    page = app("pages/explore/interference.py", slowed=SLOWED, beside=BESIDE)
    text = words(page)
    assert f"**{SLOWED}** beside **{BESIDE}** takes **" in text
    assert "min** for what takes 100 min one after the other" in text
    assert "The memory fits: " in text
    runs = next(frame.value for frame in page.dataframe if "role" in frame.value.columns)
    assert set(runs["workload"]) == {SLOWED, BESIDE}


def test_an_address_that_names_nothing_opens_nothing(app: Open, filled: Path) -> None:
    page = app("pages/explore/interference.py", slowed="no such job", beside=BESIDE)
    assert "Click a cell above" in words(page)
    assert not page.error


def test_picture_and_table_choose_the_same_cell(
    filled_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Database(filled_file) as database:
        found = slowdown_matrix(database, "own")
    row, column = found.workloads.index(SLOWED), found.workloads.index(BESIDE)
    for event in (
        {"selection": {"points": [{"customdata": [row, column]}]}},
        {"selection": {"points": [{"customdata": {"0": row, "1": column}}]}},
    ):
        state: dict = {"chart": event}
        monkeypatch.setattr(st, "session_state", state)
        interference._from_chart("chart", found)
        assert (state[interference.SLOWED], state[interference.BESIDE]) == (SLOWED, BESIDE)
    state = {"table": {"selection": {"cells": [(row, BESIDE)]}}}
    monkeypatch.setattr(st, "session_state", state)
    interference._from_table("table", found)
    assert interference.chosen({found.gpu: found}) == (found.gpu, SLOWED, BESIDE)


def test_the_table_says_why_a_cell_has_no_number(filled_file: Path) -> None:
    with Database(filled_file) as database:
        found = slowdown_matrix(database, "own")
    states = found.state.copy()
    states[0, 1], states[0, 2], states[0, 3] = "not_measured", "did_not_run", "flagged"
    failed = found.failed.copy()
    failed[1, 2] = 2
    changed = replace(found, state=states, failed=failed)
    table = interference.wide(changed)
    assert table.iloc[0, 1] == "·"
    assert table.iloc[0, 2] == "did not run"
    assert table.iloc[0, 3].endswith(" flagged")
    assert table.iloc[1, 1] == f"{found.slowdown[1, 1]:.2f}"
    assert table.iloc[1, 2] == f"{found.slowdown[1, 2]:.2f}, 2 failed"


def test_stalls_name_the_reason_and_the_job(app: Open, filled: Path) -> None:
    page = app("pages/explore/stalls.py")
    text = words(page)
    assert "**2 profiles**" in text
    assert any(job in text for job in PROFILED)
    shares = next(frame.value for frame in page.dataframe if "reason" in frame.value.columns)
    assert shares["share"].between(0, 100).all()


def test_a_filter_stays_from_page_to_page(app: Open, filled: Path) -> None:
    page = app("pages/explore/stalls.py")
    page.multiselect(key="workload").select(PROFILED[1]).run()
    assert f"workload {PROFILED[1]}" in words(page)
    page.switch_page("pages/data/upload.py").run()
    page.switch_page("pages/explore/stalls.py").run()
    assert page.multiselect(key="workload").value == [PROFILED[1]]
    assert f"workload {PROFILED[1]}" in words(page)


def test_workloads_are_renamed_and_sources_listed(app: Open, filled: Path) -> None:
    page = app("pages/data/library.py")
    table = next(frame.value for frame in page.dataframe if "rows_read" in frame.value.columns)
    assert (table["rows_read"] == table["rows_loaded"] + table["rows_rejected"]).all()
    page.button_group(key="table").set_value("Workloads").run()
    table = next(frame.value for frame in page.dataframe if "batch_size" in frame.value.columns)
    assert set(JOBS) <= set(table["workload"])


def test_profiles_are_matched_with_coruns_by_the_user(upload_state: AppTest) -> None:
    page = upload_state
    assert "Which profile belongs to which job" in words(page)
    page.button(key="confirm-matches").click().run()
    assert not page.exception
    table = sources.workloads(resources.database()).set_index("workload")
    assert table.loc["bert_bs8_amp", "profiles"] == 1
    assert table.loc["bert_bs8_amp", "runs"] > 0
    assert "bert-bs8" not in table.index


@pytest.fixture
def upload_state(tmp_path: Path) -> AppTest:
    """The upload page after a profile under another name and the co-runs were loaded."""
    from tests.pages.files import coruns, profile
    from tests.pages.test_upload import drop, load

    page = AppTest.from_file(str(ROOT / "app.py"), default_timeout=60)
    page.run()
    page.switch_page("pages/data/upload.py")
    page.run()
    path = profile(tmp_path / "x.csv", "bert_bs8_amp")
    table = coruns(tmp_path / "coruns.csv")
    page = drop(page, ("bert_b8_A100-40GB.csv", path.read_bytes()), (table.name, table.read_bytes()))
    return load(page)


def test_mechanism_stands_in_the_answer(app: Open, filled: Path) -> None:
    assert MECHANISM in words(app("pages/explore/interference.py"))
