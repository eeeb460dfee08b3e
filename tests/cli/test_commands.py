"""Every command on small files of its own: what it prints, as JSON and for people, and its exit code."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from analysis.cli import app
from analysis.cli.import_files import IMPORT_FIELDS
from tests.pages import files

Run = Callable[..., Result]
Json = Callable[..., Any]


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database with two profiles, a co-run table and a trained model; tests only read it."""
    folder = tmp_path_factory.mktemp("loaded")
    db = folder / "own.duckdb"
    runner = CliRunner()
    profiles = [(job, files.profile(folder / f"{job}.csv", job)) for job in files.PROFILED]
    for arguments in (
        *(["import", str(path), "--workload", job, "--gpu", files.GPU, "--json"] for job, path in profiles),
        ["import", str(files.coruns(folder / "coruns.csv")), "--json"],
        ["evaluate", "--dataset", "own", "--protocol", "unseen-pair", "--predictor", "kace-forest", "--json"],
        ["train", "--dataset", "own", "--predictor", "boosting", "--json"],
    ):
        done = runner.invoke(app, [*arguments, "--db", str(db)])
        assert done.exit_code == 0, done.output
    return db


@pytest.fixture
def model(as_json: Json, loaded: Path) -> str:
    """The id of the trained model."""
    return str(as_json("models", "--db", loaded)[0]["model_id"])


def test_import_accounts_for_every_file(as_json: Json, db: Path, tmp_path: Path) -> None:
    good = files.profile(tmp_path / "bert_bs8_amp_A100-40GB.csv", "bert_bs8_amp")
    bad, empty = tmp_path / "bad.csv", tmp_path / "empty.csv"
    bad.write_text("no table at all\n")
    empty.touch()
    reports = as_json("import", good, bad, empty, tmp_path / "missing.csv", "--db", db, code=1)
    assert [report["status"] for report in reports] == ["loaded", "rejected", "rejected", "rejected"]
    for report in reports:
        assert list(report) == [*IMPORT_FIELDS, "rejects", "set_aside_rows"]
        assert report["rows_read"] == report["rows_loaded"] + report["rows_rejected"]
        assert (report["error"] is None) == (report["status"] == "loaded")
    assert reports[0]["launches"] == 12
    assert reports[0]["gpus"] == ["A100-40GB"]
    assert "long_scoreboard" in reports[0]["stall_reasons"]
    again = as_json("import", good, "--db", db)
    assert [report["status"] for report in again] == ["duplicate"]


def test_import_takes_names_from_the_user(as_json: Json, db: Path, tmp_path: Path) -> None:
    path = files.profile(tmp_path / "x.csv", "bert_bs8_amp")
    as_json("import", path, "--workload", "BERT", "--gpu", "A100-80GB", "--dataset", "mine", "--db", db)
    rows = as_json("stalls", "--dataset", "mine", "--db", db)
    assert {(row["workload"], row["gpu"]) for row in rows} == {("BERT", "A100-80GB")}


def test_import_prints_a_table_and_the_refusal(cli: Run, db: Path, tmp_path: Path) -> None:
    bad = tmp_path / "bad.csv"
    bad.write_text("no table at all\n")
    done = cli("import", bad, "--db", db)
    assert done.exit_code == 1
    assert "rejected" in done.stdout
    assert "bad.csv:" in done.stdout


def test_datasets_list_needs_no_database(as_json: Json, db: Path) -> None:
    rows = as_json("datasets", "list", "--db", db)
    assert {"kace", "gavel-oracle", "gavel-sim"} <= {row["name"] for row in rows}
    assert not any(row["loaded"] for row in rows)
    assert all(row["licence"] and row["citation"] for row in rows)
    assert not db.exists()


def test_datasets_load_refuses_other_files(as_json: Json, db: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.csv"
    other.write_text("a,b\n1,2\n")
    document = as_json("datasets", "load", "kace", "--file", other, "--db", db, code=1)
    assert "kace" in document["error"]
    assert "no public data set" in as_json("datasets", "load", "nonsense", "--db", db, code=1)["error"]


def test_datasets_load_from_local_copies(as_json: Json, db: Path, datasets: Path) -> None:
    given = ["--file", datasets / "kace_pairs.csv", "--file", datasets / "kace_kernel_lengths.csv"]
    reports = as_json("datasets", "load", "kace", *given, "--db", db)
    assert [report["status"] for report in reports] == ["loaded", "loaded"]
    assert sum(report["runs"] for report in reports) == 181
    assert {row["name"]: row["loaded"] for row in as_json("datasets", "list", "--db", db)}["kace"]


def test_check_gives_findings(as_json: Json, cli: Run, loaded: Path) -> None:
    for finding in as_json("check", "--dataset", "own", "--db", loaded):
        assert set(finding) == {"rule", "severity", "where", "count", "sentence"}
    assert cli("check", "--db", loaded).exit_code == 0
    assert "nonsense" in as_json("check", "--dataset", "nonsense", "--db", loaded, code=1)["error"]


def test_stalls_add_up_to_what_is_accounted(as_json: Json, loaded: Path) -> None:
    rows = as_json("stalls", "--gpu", "A100", "--db", loaded)
    wanted = ["workload", "gpu", "reason", "group", "share", "cycles", "accounted", "launches"]
    assert list(rows[0])[: len(wanted)] == wanted
    assert {row["workload"] for row in rows} == set(files.PROFILED)
    for workload in files.PROFILED:
        mine = [row for row in rows if row["workload"] == workload]
        assert sum(row["share"] for row in mine) == pytest.approx(96, abs=0.5)
        assert mine[0]["launches"] == 12
    kernels = as_json("stalls", "--by", "kernel", "--workload", files.PROFILED[0], "--db", loaded)
    assert len({(row["kernel"], row["grid"]) for row in kernels}) == 12
    assert as_json("stalls", "--gpu", "H100", "--db", loaded, code=1)["error"]
    assert "nonsense" in as_json("stalls", "--workload", "nonsense", "--db", loaded, code=1)["error"]


def test_stalls_print_a_table(cli: Run, loaded: Path) -> None:
    done = cli("stalls", "--db", loaded)
    assert done.exit_code == 0
    assert "long_scoreboard" in done.stdout
    assert "share of warp cycles (%)" in done.stdout


def test_matrix_is_square_and_directional(
    as_json: Json, cli: Run, loaded: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    document = as_json("matrix", "--dataset", "own", "--gpu", "A100", "--db", loaded)
    n = len(document["workloads"])
    assert n == len(files.JOBS)
    for name in ("slowdown", "state", "stp"):
        assert len(document[name]) == n
        assert all(len(row) == n for row in document[name])
    assert document["n"] == 42
    own, other = document["workloads"].index("bert_bs8_amp"), document["workloads"].index("gnn_bs1024_fp32")
    expected = files.slowdown(files.JOBS["bert_bs8_amp"], files.JOBS["gnn_bs1024_fp32"])
    assert document["slowdown"][own][other] == pytest.approx(expected, rel=0.021)
    assert document["slowdown"][own][other] != document["slowdown"][other][own]
    assert "bert_bs8_amp" in cli("matrix", "--dataset", "own", "--gpu", "A100", "--db", loaded).stdout
    monkeypatch.setattr("analysis.cli.screen._PIPE_WIDTH", 60)
    listed = cli("matrix", "--dataset", "own", "--gpu", "A100", "--db", loaded).stdout
    worst = max(value for row in document["slowdown"] for value in row)
    assert f"{worst:.2f}" in listed.splitlines()[2]
    assert "more cells" in listed
    assert "H100" in as_json("matrix", "--dataset", "own", "--gpu", "H100", "--db", loaded, code=1)["error"]


def test_evaluate_puts_every_figure_beside_the_baselines(as_json: Json, loaded: Path) -> None:
    rows = as_json(
        "evaluate", "--dataset", "own", "--protocol", "unseen-pair", "--predictor", "effects", "--db", loaded
    )
    wanted = [
        "predictor", "protocol", "status", "fold_count", "n", "mape", "mape_folds", "median_ape", "p95_ape",
        "within_10", "spearman", "bias", "skill", "mape_ci", "coverage", "width",
    ]  # fmt: skip
    assert all(list(row)[: len(wanted)] == wanted for row in rows)
    assert [row["predictor"] for row in rows] == ["no-interference", "train-median", "effects"]
    by_name = {row["predictor"]: row for row in rows}
    assert by_name["no-interference"]["mape"] > by_name["effects"]["mape"] > 0
    assert by_name["effects"]["mape_ci"][0] <= by_name["effects"]["mape"] <= by_name["effects"]["mape_ci"][1]
    assert {row["status"] for row in rows} == {"ok"}


def test_a_predictor_without_its_inputs_has_no_figure(as_json: Json, db: Path, tmp_path: Path) -> None:
    as_json("import", files.coruns(tmp_path / "coruns.csv"), "--db", db)
    arguments = ["--dataset", "own", "--protocol", "unseen-pair", "--predictor", "boosting-stalls"]
    rows = as_json("evaluate", *arguments, "--db", db)
    assert rows[-1]["status"].startswith("needs:")
    assert rows[-1]["mape"] is None


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["--dataset", "own", "--protocol", "nonsense"], 2),
        (["--dataset", "own", "--protocol", "unseen-pair", "--predictor", "nonsense"], 2),
        (["--dataset", "nonsense", "--protocol", "unseen-pair"], 1),
        (["--dataset", "own", "--protocol", "pairs-to-k"], 1),
    ],
)
def test_what_cannot_be_evaluated_is_said(as_json: Json, loaded: Path, arguments: list[str], code: int) -> None:
    assert as_json("evaluate", *arguments, "--db", loaded, code=code)["error"]


def test_train_and_models_name_the_same_model(as_json: Json, cli: Run, loaded: Path, model: str) -> None:
    assert model.startswith("boosting-")
    assert model in cli("models", "--db", loaded).stdout
    card = as_json("models", "--db", loaded)[0]
    assert card["dataset"] == "own"
    assert card["runs"] == 42
    assert {row["predictor"] for row in card["protocol_results"]} >= {"no-interference", "train-median"}


def test_predict_gives_a_row_a_job(as_json: Json, cli: Run, loaded: Path, model: str) -> None:
    arguments = ["--model", model, "--gpu", "A100", "--job", "bert_bs8_amp", "--job", "resnet50_bs64_amp"]
    rows = as_json("predict", *arguments, "--db", loaded)
    assert [row["workload"] for row in rows] == ["bert_bs8_amp", "resnet50_bs64_amp"]
    for row in rows:
        wanted = {"slowdown", "low", "high", "coverage", "extrapolating", "evidence", "memory", "verdict"}
        assert wanted <= set(row)
        assert row["slowdown"] > 0.9
        assert row["memory"] in {"fits", "tight", "does_not_fit", "unknown"}
    assert "bert_bs8_amp" in cli("predict", *arguments, "--db", loaded).stdout
    assert as_json("predict", *arguments[:-2], "--db", loaded, code=2)["error"]
    missing = [*arguments[:2], "--gpu", "A100", "--job", "bert_bs8_amp", "--job", "nonsense"]
    assert "nonsense" in as_json("predict", *missing, "--db", loaded, code=1)["error"]
    assert as_json("predict", "--model", "none", *arguments[2:], "--db", loaded, code=1)["error"]


def test_explain_adds_up(as_json: Json, cli: Run, loaded: Path, model: str) -> None:
    arguments = ["--model", model, "--gpu", "A100", "--job", "bert_bs8_amp", "--job", "resnet50_bs64_amp"]
    predicted = {row["workload"]: row["slowdown"] for row in as_json("predict", *arguments, "--db", loaded)}
    for one in as_json("explain", *arguments, "--db", loaded):
        assert {"workload", "base", "prediction", "contributions", "sentence"} <= set(one)
        total = one["base"] + sum(part["shap"] for part in one["contributions"])
        assert total == pytest.approx(one["prediction"], abs=1e-6)
        assert math.exp(one["prediction"]) == pytest.approx(predicted[one["workload"]])
        assert {"feature", "whose", "group", "value", "shap"} <= set(one["contributions"][0])
    assert "factor on S (x)" in cli("explain", *arguments, "--db", loaded).stdout


def test_report_says_what_the_other_commands_say(as_json: Json, loaded: Path, model: str, tmp_path: Path) -> None:
    jobs = ["--job", "bert_bs8_amp", "--job", "resnet50_bs64_amp"]
    out = tmp_path / "report.json"
    written = as_json("report", "--dataset", "own", "--model", model, *jobs, "--out", out, "--db", loaded)
    assert written == {
        "file": str(out),
        "bytes": out.stat().st_size,
        "title": written["title"],
        "kind": "data set",
    }
    document = json.loads(out.read_text())
    assert {section["key"] for section in document["sections"]} == {
        "model", "verdicts", "interference", "stalls", "checks", "evaluation",
    }  # fmt: skip
    blocks = [block for section in document["sections"] for block in section["blocks"]]
    matrix = next(block for block in blocks if block["type"] == "matrix")
    shown = as_json("matrix", "--dataset", "own", "--gpu", "A100", "--db", loaded)
    assert matrix["slowdown"] == shown["slowdown"]
    predicted = as_json("predict", "--model", model, "--gpu", "A100", *jobs, "--db", loaded)
    table = next(block for block in blocks if block.get("title") == "Predicted slowdowns")
    assert [row[1] for row in table["rows"]] == [row["slowdown"] for row in predicted]
    for ending in (".html", ".csv"):
        first, again = tmp_path / f"first{ending}", tmp_path / f"again{ending}"
        as_json("report", "--from", out, "--out", first)
        as_json("report", "--from", out, "--out", again)
        assert first.read_bytes() == again.read_bytes()
        assert "bert_bs8_amp" in first.read_text(encoding="utf-8-sig")
    rows = list(csv.reader((tmp_path / "first.csv").read_text(encoding="utf-8-sig").splitlines()))
    assert ["workload", "beside", "slowdown", "low", "high", "state", "runs", "stp"] in rows


def test_a_report_that_cannot_be_made_says_why(as_json: Json, loaded: Path, tmp_path: Path) -> None:
    out = tmp_path / "report.html"
    assert "--dataset" in as_json("report", "--out", out, "--db", loaded, code=2)["error"]
    assert ".docx" in as_json("report", "--dataset", "own", "--out", "x.docx", "--db", loaded, code=2)["error"]
    assert (
        "--model" in as_json("report", "--dataset", "own", "--job", "a", "--out", out, "--db", loaded, code=2)["error"]
    )
    assert as_json("report", "--dataset", "nonsense", "--out", out, "--db", loaded, code=1)["error"]
    assert as_json("report", "--dataset", "own", "--gpu", "H100", "--out", out, "--db", loaded, code=1)["error"]
    assert as_json("report", "--from", tmp_path / "none.json", "--out", out, code=1)["error"]
    assert not out.exists()


def test_doctor_names_what_is_missing(as_json: Json, cli: Run, loaded: Path) -> None:
    document = as_json("doctor", "--db", loaded)
    assert document["database"]["datasets"] == ["own"]
    assert {finding["status"] for finding in document["findings"]} <= {"ok", "warning", "problem"}
    assert not [finding for finding in document["findings"] if finding["status"] == "problem"]
    assert "database" in cli("doctor", "--db", loaded).stdout


def test_a_busy_database_is_named_with_its_holder(process: Callable[..., Any], db: Path) -> None:
    from analysis.store.database import Database

    with Database(db):
        done = process("check", "--db", db, "--json")
    assert done.returncode == 1
    assert "is in use by process" in json.loads(done.stdout)["error"]


def test_import_shows_rejects_and_what_was_decided(cli: Callable[..., Result], as_json: Json, tmp_path: Path) -> None:
    table = tmp_path / "coruns.csv"
    table.write_text(
        "run_id,gpu,mechanism,slot,workload,solo_throughput,corun_throughput,extra\n"
        '1,V100,MPS,0,a,"100,5","50,25",x\n1,V100,MPS,1,b,"80,5","40,25",x\n'
        "2,V100,MPS,0,a,abc,50,x\n2,V100,MPS,1,b,80,-4,x\n"
    )
    shown = cli("import", table, "--db", tmp_path / "a.duckdb").stdout
    assert "line 4, column solo_throughput: rejected" in shown
    assert "Columns not read: extra" in shown
    assert "the comma was read as decimal mark" in shown
    (report,) = as_json("import", table, "--db", tmp_path / "b.duckdb")
    assert [(row["line"], row["column"]) for row in report["rejects"]] == [
        (4, "solo_throughput"),
        (5, "corun_throughput"),
    ]
