"""A finding opens into its rows, which are left out and kept again; pages say what is left out."""

from __future__ import annotations

from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from analysis.ingest.importer import import_paths
from analysis.store.database import Database
from analysis.store.queries import exclusions
from analysis.ui.shell.resources import database
from tests.pages.conftest import Open
from tests.pages.files import GPU, JOBS, MECHANISM

PAGE = "pages/data/checks.py"


@pytest.fixture
def doubtful(filled: Path, tmp_path: Path) -> Path:
    """Add a run in which both jobs were faster than alone."""
    first, second = list(JOBS)[:2]
    table = tmp_path / "fast.csv"
    table.write_text(
        "run_id,gpu,mechanism,slot,workload,solo_throughput,corun_throughput\n"
        f"900,{GPU},{MECHANISM},0,{first},100,125\n900,{GPU},{MECHANISM},1,{second},80,100\n"
    )
    with Database(filled) as opened:
        assert import_paths(opened, [table])[0].status == "loaded"
    return filled


def words(page: AppTest) -> str:
    return "\n".join(text.value for text in [*page.markdown, *page.caption, *page.subheader]).replace("\\", "")


def button(page: AppTest, key: str):
    return next(found for found in page.button if (found.key or "").startswith(key))


def test_rows_are_left_out_with_a_reason_and_kept_again(app: Open, doubtful: Path) -> None:
    page = app(PAGE)
    assert "2 of " in words(page)
    next(field for field in page.text_input if field.key.startswith("why-faster")).input("a *warm* cache").run()
    button(page, "exclude-faster-than-alone").click().run()
    assert not page.exception
    text = words(page)
    assert "Left out by you" in text
    assert "**2 slowdowns**" in text
    assert "a *warm* cache" in text
    assert not any((found.key or "").startswith("exclude-faster") for found in page.button)
    assert exclusions.decisions(database(), "own").iloc[0]["why"] == "a *warm* cache"
    for other in ("pages/explore/interference.py", "pages/home/overview.py", "pages/data/library.py"):
        page.switch_page(other).run()
        assert "Left out by the user: 2 slowdowns (rule faster-than-alone)." in words(page), other
    page.switch_page(PAGE).run()
    button(page, "keep-").click().run()
    assert exclusions.decisions(database()).empty
    assert any((found.key or "").startswith("exclude-faster") for found in page.button)
