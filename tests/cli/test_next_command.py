"""What to measure next, by command."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from typer.testing import Result

from tests.pages import files

NEW = "bert_bs8_amp"


@pytest.fixture
def one_new(tmp_path: Path, cli: Callable[..., Result], db: Path) -> Path:
    """Co-runs in which one workload was measured three times only."""
    table = pd.read_csv(files.coruns(tmp_path / "all.csv"))
    with_new = table.loc[table["workload"] == NEW, "run_id"].unique()
    kept = table[~table["run_id"].isin(with_new[3:])]
    kept.to_csv(tmp_path / "coruns.csv", index=False)
    assert cli("import", tmp_path / "coruns.csv", "--db", db).exit_code == 0
    return db


def test_json_holds_the_choice_and_what_it_is_worth(one_new: Path, as_json: Callable[..., Any]) -> None:
    found = as_json("next", "--dataset", "own", "--workload", NEW, "--runs", 2, "--check", "--db", one_new)
    assert [one["rank"] for one in found["suggestions"]] == [1, 2]
    assert found["suggestions"][1]["expected_error"] < found["suggestions"][0]["expected_error"]
    assert found["suggestions"][0]["expected_error"] < found["expected_error"]
    assert NEW in found["suggestions"][0]["command"]
    assert {"none", "by_lot", "active", "better", "p_value"} <= set(found["check"])


def test_words_name_the_partner_and_the_command(one_new: Path, cli: Callable[..., Result]) -> None:
    done = cli("next", "--dataset", "own", "--workload", NEW, "--runs", 1, "--db", one_new)
    assert done.exit_code == 0, done.output
    assert f"Measure {NEW} beside" in done.stdout
    assert "stallscope capture corun" in done.stdout


def test_an_unknown_workload_is_refused_with_a_cure(one_new: Path, cli: Callable[..., Result]) -> None:
    done = cli("next", "--dataset", "own", "--workload", "nobody", "--db", one_new)
    assert done.exit_code == 1
    assert "nobody" in done.stderr
    assert "Import its profile" in done.stderr
