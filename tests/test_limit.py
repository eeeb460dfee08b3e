"""One limit: set once, on every page in the sidebar and the address, and the same for every command."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from analysis.errors import UsageError
from analysis.interference.decision import Case, Forecast, Levels, decide
from analysis.settings import Settings, get_settings
from analysis.ui.shell.navigation import PAGES
from tests.cli.conftest import as_json as as_json
from tests.cli.conftest import cli as cli
from tests.pages.conftest import Open
from tests.pages.conftest import _closed_afterwards as _closed_afterwards
from tests.pages.conftest import app as app
from tests.pages.conftest import filled as filled
from tests.pages.conftest import filled_file as filled_file

WITH_VERDICTS = [page.name for page in PAGES if "limit" in page.filters]


@pytest.mark.parametrize(
    "given",
    [{"STALLSCOPE_LIMIT": "0.9"}, {"STALLSCOPE_SHARE_FROM": "101"}, {"STALLSCOPE_SHARE_FROM": "10"}],
    ids=["below 1", "no percentage", "levels that cross"],
)
def test_settings_that_cannot_be(given: dict[str, str]) -> None:
    with pytest.raises(UsageError):
        Settings.from_environment(given)


def test_the_levels_decide() -> None:
    case = Case(1.3, "fits", forecast=Forecast((1.1, 1.2), 0.7, n=40, evidence="counters"))
    assert decide(case).verdict == "measure first"
    assert decide(case, Levels(0.6, 0.1)).verdict == "share"
    assert decide(case, Levels(0.9, 0.75)).verdict == "don't"


@pytest.fixture
def lax(monkeypatch: pytest.MonkeyPatch) -> None:
    """Settings with another limit."""
    monkeypatch.setenv("STALLSCOPE_LIMIT", "1.7")
    get_settings.cache_clear()


def test_pages_that_judge_have_the_limit() -> None:
    assert {"overview", "interference", "partners", "what-if", "measure-next", "placement", "report"} <= set(
        WITH_VERDICTS
    )


@pytest.mark.parametrize("name", ["overview", "interference", "partners", "what-if", "placement", "measure-next"])
def test_the_limit_of_the_settings_stands_in_the_sidebar(app: Open, filled: Path, lax: None, name: str) -> None:
    script = next(page.path for page in PAGES if page.name == name)
    assert app(script).sidebar.number_input(key="limit").value == 1.7
    assert app(script, limit="1.35").sidebar.number_input(key="limit").value == 1.35


def test_commands_take_the_limit_of_the_settings(
    as_json: Callable[..., Any], cli: Callable[..., Any], filled: Path, lax: None
) -> None:
    rows = as_json("partners", "--dataset", "own", "--gpu", "A100-40GB")
    assert {row["limit"] for row in rows} == {1.7}
    assert {
        row["limit"] for row in as_json("partners", "--dataset", "own", "--gpu", "A100-40GB", "--limit", "1.3")
    } == {1.3}
    for command in ("plan", "may-join", "split", "predict", "report", "replay", "architectures"):
        assert "STALLSCOPE_LIMIT" in cli(command, "--help").stdout
