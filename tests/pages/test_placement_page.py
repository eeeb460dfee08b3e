"""The page that places jobs: answers without a model, shows gains, and offers an export or the rule against it."""

from __future__ import annotations

from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from analysis.errors import UsageError
from analysis.plan import planner
from analysis.plan.jobs import JobList
from analysis.plan.problem import GpuKind, Job
from analysis.plan.sets import LibraryFigures
from analysis.settings import get_settings
from analysis.store.database import Database
from tests.pages.conftest import Open
from tests.pages.files import GPU, JOBS

PAGE = "pages/plan/placement.py"


def _words(page: AppTest) -> str:
    return " ".join(item.value for item in (*page.markdown, *page.caption, *page.warning, *page.info))


def test_it_answers_without_a_model(app: Open, filled: Path) -> None:
    page = app(PAGE)
    words = _words(page)
    assert "6 of 6 jobs go on 4 GPUs" in words or "wait" in words
    assert "Mean slowdown" in words
    assert any("Where do my jobs go" in title.value for title in page.title)
    tables = [list(one.value.columns) for one in page.dataframe]
    assert any("way" in columns for columns in tables)


def test_a_target_that_cannot_say_the_plan_is_refused_with_the_rule(app: Open, filled: Path) -> None:
    page = app(PAGE)
    page.selectbox(key="plan-target").set_value("hami").run()
    assert any("UUID" in item.value for item in page.warning)
    page.selectbox(key="plan-target").set_value("slurm").run()
    assert not page.exception
    assert not any("express this plan" in item.value for item in page.warning)


def test_a_job_moved_by_hand_changes_the_cost_or_is_refused(filled: Path) -> None:
    names = list(JOBS)[:3]
    jobs = tuple(Job(name, name, "ada" if number < 2 else "bo", memory_mib=2000.0) for number, name in enumerate(names))
    with Database(Path(get_settings().db)) as database:
        found = planner.make_plan(database, JobList(jobs, "table"), (GpuKind(GPU, 3, 40960.0),), dataset="own")
        figures = LibraryFigures(database, "own", found.plan.problem.mechanism)
        first, second, third = names
        moved = planner.moved(found.plan, figures, {first: (GPU, 0), second: (GPU, 0), third: (GPU, 2)})
        assert moved.gpus_used == 2
        assert moved.antt > found.plan.antt
        assert planner.moved(found.plan, figures, {first: (GPU, 0)}).waiting
        with pytest.raises(UsageError, match="different owners"):
            planner.moved(found.plan, figures, {first: (GPU, 0), third: (GPU, 0)})
        with pytest.raises(UsageError, match="there is no"):
            planner.moved(found.plan, figures, {first: (GPU, 3)})
