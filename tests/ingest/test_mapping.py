"""Mapping by hand: a table with any names of columns becomes co-runs or profiles, by a saved decision."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError
from typer.testing import CliRunner

from analysis.cli import app
from analysis.errors import NotFoundError, UsageError
from analysis.ingest import mapping
from analysis.ingest.contract.format import Hints
from analysis.ingest.importer import import_file, import_paths, preview
from analysis.ingest.mapping import TableMapping
from analysis.ingest.source.opening import opened_files
from analysis.ingest.text.delimited import header_line
from analysis.store.database import Database

HEADER = ["exp", "job", "x0", "x1", "hardware", "odd, column"]
ROWS = [
    "1;a;100,5;80,4;A100-40GB;x",
    "1;b;10;5;A100-40GB;x",
    "2;a;100,5;100,5;A100-40GB;x",
    "2;b;10;kaputt;A100-40GB;x",
]
COLUMNS = {
    "run_id": "exp",
    "workload": "job",
    "solo_throughput": "x0",
    "corun_throughput": "x1",
    "gpu": "hardware",
}


def table(folder: Path, name: str = "mine.csv", end: str = "\n") -> Path:
    path = folder / name
    path.write_bytes(end.join(['exp;job;x0;x1;hardware;"odd, column"', *ROWS, ""]).encode())
    return path


def made(**changes: object) -> TableMapping:
    known = {
        "name": "mine",
        "kind": "own-coruns",
        "header": HEADER,
        "columns": COLUMNS,
        "constants": {"mechanism": "mps"},
    }
    return TableMapping.model_validate({**known, **changes})


def test_from_unknown_to_loaded(database: Database, tmp_path: Path) -> None:
    path = table(tmp_path)
    seen = preview(path)
    assert seen.columns == HEADER
    assert "no format claims" in str(seen.error)
    assert import_file(database, path).status == "rejected"
    with opened_files(path) as files:
        rows, parsed = mapping.preview_rows(files[0], made(), Hints())
    assert rows["slowdown"].tolist() == pytest.approx([100.5 / 80.4, 2.0])
    assert (parsed.rows_read, parsed.rows_rejected, parsed.rows_set_aside) == (4, 1, 1)
    mapping.save(database, made())
    assert preview(path, mappings=mapping.saved(database)).error is None
    report = import_file(database, path)
    assert (report.format, report.rows_read, report.rows_rejected, report.runs) == ("own-coruns", 4, 1, 1)
    assert report.report["mapping"] == "mine"
    assert "odd, column" in report.warnings[0]
    assert database.scalar("SELECT mechanism FROM run") == "CUDA MPS"
    # Lines are those of the file as it is.
    assert database.scalar("SELECT line FROM rejected_row") == 5


def test_profiles_with_metrics(database: Database, tmp_path: Path) -> None:
    path = tmp_path / "kernels.tsv"
    path.write_text("what\tt\tsome figure\nk1\t2.5\t7\nk2\t3.5\t8\n")
    profiles = TableMapping(
        name="k", kind="own-profiles", header=["what", "t", "some figure"], metrics=["some figure"],
        columns={"kernel": "what", "duration_us": "t"}, constants={"workload": "w", "gpu": "T4"},
    )  # fmt: skip
    mapping.save(database, profiles)
    report = import_paths(database, [path], mapping="k")[0]
    assert (report.launches, report.kernels, report.gpus, report.error) == (2, 2, ["T4"], None)
    assert database.query("SELECT duration_ns FROM kernel ORDER BY line")["duration_ns"].tolist() == [2500, 3500]
    assert database.query("SELECT metric, value FROM kernel_metric ORDER BY line").values.tolist() == [
        ["some figure", 7], ["some figure", 8],
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"columns": {"run_id": "exp"}}, "workload or model"),
        ({"columns": {**COLUMNS, "slowdown": "nowhere"}}, "no column 'nowhere'"),
        ({"constants": {"colour": "red"}}, "no field 'colour'"),
        ({"constants": {"gpu": "T4"}}, "filled twice"),
    ],
)
def test_what_cannot_be_saved(database: Database, changes: dict, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        mapping.save(database, made(**changes))
    assert mapping.saved(database) == []


def test_names(database: Database, tmp_path: Path) -> None:
    with pytest.raises(NotFoundError):
        mapping.named(database, "mine")
    with pytest.raises(ValidationError):
        made(header=[])
    refused = import_paths(database, [table(tmp_path)], mapping="nothing")[0]
    assert "no mapping 'nothing'" in str(refused.error)
    mapping.save(database, made())
    mapping.save(database, made(constants={"mechanism": "MIG"}))
    assert [item.constants for item in mapping.saved(database)] == [{"mechanism": "MIG"}]
    other = tmp_path / "other.csv"
    other.write_text("a;b\n1;2\n")
    assert "for other columns" in str(import_paths(database, [other], mapping="mine")[0].error)


@settings(max_examples=15, deadline=None)
@given(order=st.permutations(HEADER), end=st.sampled_from(["\n", "\r\n"]))
def test_any_order_of_columns(tmp_path_factory: pytest.TempPathFactory, order: list[str], end: str) -> None:
    path = tmp_path_factory.mktemp("m") / "t.csv"
    cells = {"exp": ["1", "1"], "job": ["a", "b"], "x0": ["4", "6"], "x1": ["2", "3"], "hardware": ["T4"] * 2,
             "odd, column": ["", ""]}  # fmt: skip
    lines = [";".join(order), *(";".join(cells[name][row] for name in order) for row in (0, 1))]
    path.write_bytes(end.join(lines).encode())
    with opened_files(path) as files:
        rows, parsed = mapping.preview_rows(files[0], made(header=order), Hints())
    assert rows["slowdown"].tolist() == [2.0, 2.0]
    assert parsed.rows_rejected == 0


def test_by_command(tmp_path: Path) -> None:
    db, path = ["--db", str(tmp_path / "c.duckdb"), "--json"], table(tmp_path)
    run = CliRunner()
    pairs = [part for key, value in COLUMNS.items() for part in ("--field", f"{key}={value}")]
    saved = run.invoke(app, ["mappings", "save", "mine", str(path), *pairs, "--always", "mechanism=MPS", *db])
    assert saved.exit_code == 0, saved.output
    assert json.loads(saved.stdout)["rows_rejected"] == 1
    listed = json.loads(run.invoke(app, ["mappings", "list", *db]).stdout)
    assert [row["name"] for row in listed] == ["mine"]
    loaded = run.invoke(app, ["import", str(path), "--mapping", "mine", *db])
    assert json.loads(loaded.stdout)[0]["runs"] == 1
    assert run.invoke(app, ["mappings", "remove", "mine", *db]).exit_code == 0
    assert json.loads(run.invoke(app, ["mappings", "list", *db]).stdout) == []


@pytest.mark.parametrize("above", ["# results of our campaign, 2024\n", "Campaign of March\n\n", "// a;b\n// c\n"])
def test_comments_and_titles_above_the_header(database: Database, tmp_path: Path, above: str) -> None:
    path = table(tmp_path)
    path.write_text(above + path.read_text())
    assert preview(path).columns == HEADER
    mapping.save(database, made())
    report = import_file(database, path)
    assert (report.status, report.rows_read, report.rows_rejected) == ("loaded", 4, 1)
    assert report.report["lines_skipped"] == sum(bool(line) for line in above.splitlines())
    first_line = 1 + len(above.splitlines())
    assert database.scalar("SELECT min(line) FROM rejected_row") == first_line + 4


def test_a_header_behind_a_hash_stays_a_header(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("#exp;job;alone\n1;a;100,5\n1;b;10\n")
    assert preview(path).columns == ["#exp", "job", "alone"]


def test_a_header_that_begins_with_an_empty_cell_stays_a_header(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text(";job;hardware\na;bert;A100\nb;gpt;A100\n")  # as data frames write their index
    assert preview(path).columns == ["", "job", "hardware"]
    assert header_line(path.read_text().splitlines()) == 0
