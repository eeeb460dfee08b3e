"""`stallscope sources` lists what was loaded and takes files out again, each with exactly what it brought."""

from __future__ import annotations

from pathlib import Path

_TABLE = """run_id,gpu,mechanism,slot,workload,solo_throughput,corun_throughput
1,V100,MPS,0,{0},100,80
1,V100,MPS,1,{1},80,x
2,V100,MPS,0,{0},100,80
2,V100,MPS,1,{1},80,60
"""


def test_sources_are_listed_and_removed(cli, as_json, tmp_path: Path) -> None:
    db = tmp_path / "a.duckdb"
    for name, jobs in (("one.csv", "ab"), ("two.csv", "cd")):
        (tmp_path / name).write_text(_TABLE.format(*jobs))
        assert cli("import", tmp_path / name, "--db", db).exit_code == 0
    newest, oldest = as_json("sources", "list", "--db", db)
    assert [newest["file_name"], oldest["file_name"]] == ["two.csv", "one.csv"]
    assert newest["rows_read"] == 4
    assert newest["rows_read"] == newest["rows_loaded"] + newest["rows_set_aside"] + newest["rows_rejected"]
    assert "two.csv" in cli("sources", "list", "--db", db).stdout
    wrong = cli("sources", "remove", newest["source_id"], 99, "--db", db)
    assert (wrong.exit_code, len(as_json("sources", "list", "--db", db))) == (1, 2)
    assert as_json("sources", "remove", newest["source_id"], "--db", db) == [
        {"source_id": newest["source_id"], "file": "two.csv"}
    ]
    assert as_json("sources", "list", "--db", db) == [oldest]
    assert as_json("sources", "list", "--dataset", "elsewhere", "--db", db) == []
