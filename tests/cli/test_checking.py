"""`stallscope check` leaves out, lists and keeps, and other commands say so."""

from __future__ import annotations

from pathlib import Path

import pytest

_TABLE = """run_id,gpu,mechanism,slot,workload,solo_throughput,corun_throughput
1,V100,MPS,0,a,100,125
1,V100,MPS,1,b,80,40
2,V100,MPS,0,a,100,105
2,V100,MPS,1,c,80,30
"""


@pytest.fixture
def db(cli, tmp_path: Path) -> Path:
    (tmp_path / "coruns.csv").write_text(_TABLE)
    path = tmp_path / "a.duckdb"
    assert cli("import", tmp_path / "coruns.csv", "--db", path).exit_code == 0
    return path


def test_exclude_list_and_keep(cli, as_json, db: Path) -> None:
    (made,) = as_json(
        "check", "--exclude", "faster-than-alone", "--where", "slowdown<0.9", "--why", "warm cache", "--db", db
    )
    assert (made["count"], made["scope"], made["condition"], made["why"]) == (1, "member", "slowdown<0.9", "warm cache")
    assert as_json("check", "--excluded", "--db", db) == [made]
    shown = cli("check", "--db", db).stdout
    assert "warm cache" in shown
    asked = cli("matrix", "--dataset", "own", "--gpu", "V100", "--json", "--db", db)
    assert "Left out by the user: 1 slowdown (rule faster-than-alone)." in asked.stderr
    matrix = as_json("matrix", "--dataset", "own", "--gpu", "V100", "--db", db)
    assert matrix["excluded"] == [{"rule": "faster-than-alone", "scope": "member", "count": 1}]
    assert matrix["state"][0] == ["not_measured", "not_measured", "measured"]
    assert matrix["state"][1][0] == "measured"
    assert as_json("check", "--keep", "faster-than-alone", "--db", db) == [made]
    assert as_json("check", "--excluded", "--db", db) == []
    assert "Left out" not in cli("matrix", "--dataset", "own", "--gpu", "V100", "--json", "--db", db).stderr


@pytest.mark.parametrize(
    ("options", "code", "words"),
    [
        (["--exclude", "nonsense"], 2, "no rule"),
        (["--exclude", "faster-than-alone", "--keep", "faster-than-alone"], 2, "Give one of them"),
        (["--where", "slowdown<1"], 2, "--exclude RULE"),
        (["--exclude", "zero-values"], 1, "finds nothing"),
        (["--keep", "zero-values"], 1, "nothing is left out"),
    ],
)
def test_refusals(cli, db: Path, options: list[str], code: int, words: str) -> None:
    result = cli("check", *options, "--db", db)
    assert result.exit_code == code
    assert words in result.stderr


def test_every_finding_has_its_rows(cli, as_json, db: Path) -> None:
    (made,) = as_json("check", "--rule", "faster-than-alone", "--db", db)
    assert [(row["workload"], row["line"]) for row in made["rows"]] == [("a", 2), ("a", 4)]
    assert made["rows_not_listed"] == 0
    assert "rows" not in cli("check", "--rule", "exactly-one", "--rows", "--db", db).stdout
    shown = cli("check", "--rows", "--db", db).stdout
    assert "coruns.csv" in shown.split("faster-than-alone, own, V100", 1)[1]
    for entry in as_json("check", "--db", db):
        assert len(entry["rows"]) + entry["rows_not_listed"] > 0, entry["rule"]
    assert cli("check", "--rule", "nonsense", "--db", db).exit_code == 2
    assert cli("check", "--rows", "--keep", "faster-than-alone", "--db", db).exit_code == 2


def test_rows_set_aside_can_be_looked_at(cli, as_json, tmp_path: Path) -> None:
    """In words read = loaded + set aside + rejected, and the rows themselves are listed; removing takes them out."""
    path, db = tmp_path / "bad.csv", tmp_path / "b.duckdb"
    path.write_text(_TABLE.replace("80,40", "80,x"))
    (report,) = as_json("import", path, "--db", db)
    assert [(row["rule"], row["line"], row["text"]) for row in report["set_aside_rows"]] == [
        ("partner_rejected", 2, "1,V100,MPS,0,a,100,125")
    ]
    assert report["report"]["account"]["Rows"] == "4 read = 2 loaded + 1 set aside by rule + 1 rejected"
    (finding,) = as_json("check", "--rule", "set-aside", "--db", db)
    assert (finding["count"], finding["rows"][0]["text"]) == (1, "1,V100,MPS,0,a,100,125")
