"""Predictors made elsewhere: the folds go out, predictions come back, and both are judged alike."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from typer.testing import CliRunner

from analysis.cli import app
from tests.pages import files

Json = Callable[..., Any]


COMMON = ("--dataset", "own", "--protocol", "unseen-pair")


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database with 42 co-runs and one comparison; tests only read it."""
    folder = tmp_path_factory.mktemp("loaded")
    for arguments in (["import", files.coruns(folder / "coruns.csv")], ["evaluate", *COMMON, "--predictor", "effects"]):
        done = CliRunner().invoke(app, [*(str(one) for one in arguments), "--db", str(folder / "own.duckdb")])
        assert done.exit_code == 0, done.output
    return folder / "own.duckdb"


@pytest.fixture(scope="module")
def divided(loaded: Path) -> tuple[pd.DataFrame, dict[str, Any]]:
    """The frame with its folds, and what was printed about them."""
    path = loaded.parent / "folds.csv"
    done = CliRunner().invoke(app, ["folds", *COMMON, "--out", str(path), "--db", str(loaded), "--json"])
    assert done.exit_code == 0, done.output
    return pd.read_csv(path), json.loads(done.stdout)


def _folds(as_json: Json, db: Path, path: Path, protocol: str = "unseen-pair") -> tuple[pd.DataFrame, dict[str, Any]]:
    document = as_json("folds", "--dataset", "own", "--protocol", protocol, "--out", path, "--db", db)
    return (pd.read_parquet(path) if path.suffix == ".parquet" else pd.read_csv(path)), document


def _predict(table: pd.DataFrame, document: dict[str, Any], predict: Callable[[pd.DataFrame], float]) -> pd.DataFrame:
    """Predict every test row of every fold by one number made from the fold's training rows."""
    parts = []
    for fold in document["folds"]:
        role = table[fold["column"]]
        test = table[role == "test"][["run_id", "slot"]]
        value = predict(table[role == "train"])
        parts.append(test.assign(seed=fold["seed"], fold=fold["fold"], predicted=value))
    return pd.concat(parts, ignore_index=True)


@pytest.mark.parametrize("ending", [".csv", ".parquet"])
def test_the_folds_leak_nothing(as_json: Json, loaded: Path, tmp_path: Path, ending: str) -> None:
    table, document = _folds(as_json, loaded, tmp_path / f"folds{ending}")
    assert document["rows"] == len(table) == 84
    assert len(document["folds"]) == 15
    assert all(meaning["meaning"] for meaning in document["columns"])
    for fold in document["folds"]:
        role = table[fold["column"]].fillna("")
        assert ((role == "train").sum(), (role == "test").sum()) == (fold["train"], fold["test"])
        pair = [frozenset(names) for names in zip(table["workload"], table["co_workloads"], strict=True)]
        sides = {
            kind: {p for p, one in zip(pair, role, strict=True) if one == kind} for kind in ("train", "test")
        }  # fmt: skip
        assert not sides["train"] & sides["test"]


def test_a_workload_left_out_is_in_no_training_row(as_json: Json, loaded: Path, tmp_path: Path) -> None:
    table, document = _folds(as_json, loaded, tmp_path / "folds.csv", "leave-one-workload-out")
    assert len(document["folds"]) == len(files.JOBS)
    for fold in document["folds"]:
        train = table[table[fold["column"]] == "train"]
        assert not (set(train["workload"]) | set(train["co_workloads"])) & {fold["held_out"]}


def test_the_same_predictions_get_the_same_figures(
    as_json: Json, loaded: Path, divided: tuple[pd.DataFrame, dict[str, Any]], tmp_path: Path
) -> None:
    """S = 1 and the train median, computed outside, must land exactly on our own rows."""
    table, document = divided
    common = [*COMMON, "--db", loaded]
    ours = {row["predictor"]: row for row in as_json("evaluate", *common, "--predictor", "effects")}
    for name, predict in (
        ("no-interference", lambda train: 1.0),
        ("train-median", lambda train: float(train["slowdown"].median())),
    ):
        path = tmp_path / f"mine-{name}.csv"
        _predict(table, document, predict).to_csv(path, index=False)
        rows = as_json("rank", "--predictions", path, *common)
        assert [row["mape"] for row in rows] == sorted(row["mape"] for row in rows)
        mine = next(row for row in rows if row["predictor"] == path.stem)
        for figure in ("n", "mape", "mape_folds", "median_ape", "p95_ape", "within_10", "bias", "skill", "mape_ci"):
            assert mine[figure] == pytest.approx(ours[name][figure]), figure
        assert {row["predictor"] for row in rows} >= {"effects", "no-interference", "train-median"}


def test_the_file_can_name_its_data_set_and_protocol(
    as_json: Json, loaded: Path, divided: tuple[pd.DataFrame, dict[str, Any]], tmp_path: Path
) -> None:
    table, document = divided
    given = _predict(table, document, lambda train: 1.3)
    path = tmp_path / "mine.parquet"
    given.assign(predictor="flat", dataset="own", protocol="unseen-pair").to_parquet(path)
    assert "flat" in {row["predictor"] for row in as_json("rank", "--predictions", path, "--db", loaded)}
    given.to_parquet(path)
    assert "--dataset" in as_json("rank", "--predictions", path, "--db", loaded, code=2)["error"]


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda table: table.iloc[1:], "lacks 1 of"),
        (lambda table: pd.concat([table, table.iloc[:1]]), "more than once"),
        (lambda table: pd.concat([table, table.iloc[:1].assign(run_id=999)]), "not tested"),
        (lambda table: table.assign(predicted=[0.0, *table["predicted"].iloc[1:]]), "line 2, column predicted"),
        (lambda table: table.assign(predicted=["x", *table["predicted"].iloc[1:]]), "not a positive number"),
        (lambda table: table.drop(columns="fold"), "'fold' is missing"),
        (lambda table: table.iloc[:0].drop(columns=list(table)), "can't be read"),
    ],
)
def test_incomplete_predictions_are_refused(
    as_json: Json,
    loaded: Path,
    divided: tuple[pd.DataFrame, dict[str, Any]],
    tmp_path: Path,
    spoil: Callable[[pd.DataFrame], pd.DataFrame],
    words: str,
) -> None:
    table, document = divided
    path = tmp_path / "mine.csv"
    spoil(_predict(table, document, lambda train: 1.0)).to_csv(path, index=False)
    assert words in as_json("rank", "--predictions", path, *COMMON, "--db", loaded, code=1)["error"]


def test_what_cannot_be_written_or_read_is_said(as_json: Json, loaded: Path, tmp_path: Path) -> None:
    common = [*COMMON, "--db", loaded]
    assert ".xlsx" in as_json("folds", *common, "--out", tmp_path / "x.xlsx", code=2)["error"]
    assert as_json("folds", *common, "--out", tmp_path / "none" / "x.csv", code=1)["error"]
    assert "no such file" in as_json("rank", "--predictions", tmp_path / "none.csv", *common, code=1)["error"]


@pytest.mark.parametrize(("ending", "holds"), [(".csv", "effects"), (".tex", r"\toprule")])
def test_a_comparison_is_written_for_papers(
    cli: Callable[..., Any], loaded: Path, tmp_path: Path, ending: str, holds: str
) -> None:
    out = tmp_path / f"comparison{ending}"
    done = cli("evaluate", *COMMON, "--predictor", "effects", "--out", out, "--db", loaded)
    assert done.exit_code == 0, done.output
    assert holds in out.read_text()
    assert "unseen-pair" in out.read_text()
    refused = cli("evaluate", *COMMON, "--out", tmp_path / "comparison.docx", "--db", loaded)
    assert refused.exit_code == 2
    assert ".csv or .tex" in refused.stderr


def test_a_published_evaluation_needs_its_data(cli: Callable[..., Any], loaded: Path) -> None:
    done = cli("reproduce", "--dataset", "own", "--db", loaded)
    assert done.exit_code == 1
    assert "catalogue" in done.stderr


def test_models_are_shown_activated_and_deleted(cli: Callable[..., Any], loaded: Path, tmp_path: Path) -> None:
    own = tmp_path / "own.duckdb"
    own.write_bytes(loaded.read_bytes())
    ids = []
    for _ in range(2):
        done = cli("train", "--dataset", "own", "--predictor", "effects", "--db", own, "--json")
        assert done.exit_code == 0, done.output
        ids.append(json.loads(done.stdout)["model_id"])
    card = cli("models", "--card", ids[0], "--db", own)
    assert card.exit_code == 0
    assert card.stdout.startswith("# Model card")
    listed = json.loads(cli("models", "--activate", ids[0], "--db", own, "--json").stdout)
    assert {one["model_id"]: one["active"] for one in listed} == {ids[0]: True, ids[1]: False}
    left = json.loads(cli("models", "--delete", ids[0], "--db", own, "--json").stdout)
    assert [one["model_id"] for one in left] == [ids[1]]
    both = cli("models", "--card", ids[1], "--delete", ids[1], "--db", own)
    assert both.exit_code == 2
