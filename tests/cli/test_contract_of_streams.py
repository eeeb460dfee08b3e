"""Exit codes, one JSON document on standard output, everything else on standard error."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import Result

from analysis.cli import running
from analysis.errors import CancelledError, NotFoundError, UsageError
from analysis.store.database import Database

Run = Callable[..., Result]
Process = Callable[..., "subprocess.CompletedProcess[str]"]


def _raising(error: BaseException) -> Callable[..., Any]:
    def raise_it(*_: object, **__: object) -> Any:
        raise error

    return raise_it


@pytest.mark.parametrize(
    "arguments",
    [
        ["nonsense", "--json"],
        ["stalls", "--bogus", "--json"],
        ["stalls", "--by", "colour", "--json"],
        ["matrix", "--json"],
        ["import", "--json"],
        ["serve", "--port", "notaport", "--json"],
    ],
)
def test_wrong_usage_is_2_and_still_one_document(cli: Run, arguments: list[str]) -> None:
    done = cli(*arguments)
    assert done.exit_code == 2
    assert set(json.loads(done.stdout)) == {"error"}
    assert "Usage" in done.stderr


def test_wrong_usage_without_json_leaves_standard_output_empty(cli: Run) -> None:
    done = cli("stalls", "--bogus")
    assert (done.exit_code, done.stdout) == (2, "")
    assert "--bogus" in done.stderr


def test_json_after_a_double_dash_is_a_file_name() -> None:
    assert running._wants_json(["import", "--json"])
    assert not running._wants_json(["import", "--", "--json"])


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (NotFoundError("there is no x", "Look."), 1),
        (UsageError("a and b exclude each other", "Give one."), 2),
        (CancelledError("stopped", ""), 1),
        (ZeroDivisionError("oops"), 1),
        (KeyboardInterrupt(), 130),
    ],
)
def test_every_error_has_a_code_and_a_sentence(
    cli: Run, monkeypatch: pytest.MonkeyPatch, error: BaseException, code: int
) -> None:
    monkeypatch.setattr("analysis.cli.doctor.examine", _raising(error))
    done = cli("doctor", "--json")
    assert done.exit_code == code
    document = json.loads(done.stdout)
    assert set(document) == {"error"}
    assert "\n" not in document["error"]
    assert ("Traceback" in done.stderr) == isinstance(error, ZeroDivisionError)


def test_an_error_without_json_is_one_line_on_standard_error(cli: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("analysis.cli.doctor.examine", _raising(NotFoundError("there is no x", "Look.")))
    done = cli("doctor")
    assert (done.exit_code, done.stdout, done.stderr) == (1, "", "Error: there is no x. Look.\n")


def test_what_libraries_print_never_reaches_standard_output(cli: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def chatty(*_: object, **__: object) -> dict[str, Any]:
        print("loading ...")
        return {"findings": []}

    monkeypatch.setattr("analysis.cli.doctor.examine", chatty)
    done = cli("doctor", "--json")
    assert json.loads(done.stdout) == {"findings": []}
    assert "loading ..." in done.stderr


def test_a_missing_database_is_named_and_not_made(as_json: Callable[..., Any], db: Path) -> None:
    for command in (["check"], ["stalls"], ["models"], ["matrix", "--dataset", "own", "--gpu", "V100"]):
        document = as_json(*command, "--db", db, code=1)
        assert str(db) in document["error"]
    assert not db.exists()


def test_a_database_that_cannot_be_made_or_read_is_a_sentence(as_json: Callable[..., Any], tmp_path: Path) -> None:
    broken = tmp_path / "broken.duckdb"
    broken.write_text("no database")
    assert "is no DuckDB database" in as_json("check", "--db", broken, code=1)["error"]
    (tmp_path / "file").touch()
    assert "can't be made" in as_json("import", broken, "--db", tmp_path / "file" / "x.duckdb", code=1)["error"]


def test_a_process_keeps_its_streams_apart(process: Process, db: Path) -> None:
    done = process("check", "--db", db, "--json")
    assert done.returncode == 1
    assert "no database" in json.loads(done.stdout)["error"]
    assert done.stderr.startswith("Error: ")
    done = process("doctor", "--db", db, "--json")
    assert done.returncode == 0
    assert done.stderr == ""
    assert json.loads(done.stdout)["database"] == {
        "path": str(db),
        "exists": False,
        "bytes": None,
        "datasets": [],
        "error": None,
    }
    done = process("--bogus", "--json")
    assert done.returncode == 2
    assert "--bogus" in json.loads(done.stdout)["error"]


def test_help_and_version_end_with_0(cli: Run) -> None:
    assert cli("--help").exit_code == 0
    assert cli("stalls", "-h").exit_code == 0
    assert cli("--version").stdout.startswith("stallscope ")


def test_help_does_not_load_the_engines(process: Process) -> None:
    """Printing help must not wait for pandas, scikit-learn or Streamlit."""
    code = (
        "import sys; from analysis.cli import app\n"
        "try: app(['--help'])\nexcept SystemExit: pass\n"
        "heavy = ('pandas', 'numpy', 'duckdb', 'sklearn', 'streamlit', 'shap', 'plotly')\n"
        "print([name for name in heavy if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
    )
    assert done.stdout.strip().endswith("[]"), done.stdout[-300:] + done.stderr


def test_tables_that_are_not_those_of_their_schema_are_said_in_a_sentence(cli: Run, tmp_path: Path) -> None:
    path = tmp_path / "a.duckdb"
    with Database(path) as database, database.write() as cursor:
        cursor.execute("DROP TABLE excluded")
        cursor.execute("DROP TABLE source")
    done = cli("datasets", "list", "--json", "--db", path)
    assert done.exit_code == 1
    assert "not those of the schema" in json.loads(done.stdout)["error"]
    assert "Traceback" not in done.stderr


def test_nothing_recorded_leaves_nothing(cli: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("STALLSCOPE_NVML", raising=False)
    done = cli("capture", "telemetry", "--seconds", "0.1", "--db", tmp_path / "a.duckdb")
    if done.exit_code == 0:
        pytest.skip("a GPU answers here")
    assert "Nothing was recorded" in done.stdout
    assert not list((tmp_path / "captures").iterdir())


def test_help_says_the_section_for_signing_in(cli: Run) -> None:
    assert "section `auth`" in " ".join(cli("serve", "--help").stdout.replace("│", " ").split())
