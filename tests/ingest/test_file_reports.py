"""What the report of a file says is true of every file: lines, separators, units, names, and the command that helps."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ncu_files import Row, long_form

from analysis.ingest.account import account
from analysis.ingest.contract.reports import ImportReport
from analysis.ingest.importer import import_paths
from analysis.ingest.source.opening import opened_files
from analysis.interference.checks import RULES
from analysis.store.database import Database
from analysis.store.queries.sources import rejected_rows


def _imported(database: Database, path: Path, text: str | bytes) -> tuple[ImportReport, dict[str, Any]]:
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    (report,) = import_paths(database, [path])
    return report, dict(account(report.model_dump()))


def test_lines_of_a_log_without_header(database: Database, tmp_path: Path) -> None:
    rows = "".join(f"2024/03/01 12:00:0{n}.1, NVIDIA L4, {n} %, 10 MiB\n" for n in range(5))
    _, lines = _imported(database, tmp_path / "a.csv", rows)
    assert "Lines skipped" not in lines
    report, lines = _imported(
        database, tmp_path / "b.csv",
        "timestamp, index, utilization.gpu [%], memory.used [MiB], temperature.gpu [C]\n"
        "2024/03/01 12:00:00.1, 0, 4 %, 5 MiB, -3\nUnable to determine the device handle: GPU is lost\n"
        "2024/03/01 12:00:01.1, 0, 4 %, -5 MiB, 20\n",
    )  # fmt: skip
    assert "Unable to determine the device handle" in lines["Lines skipped"]
    assert lines["Rows"] == "2 read = 1 loaded + 1 rejected"
    rejected = rejected_rows(database, int(report.source_id or 0))
    assert rejected[["line", "column"]].to_numpy().tolist() == [[4, "memory.used [MiB]"]]


def test_a_fault_of_a_whole_row_has_no_column(database: Database, tmp_path: Path) -> None:
    head = "run_id,gpu,mechanism,workload,solo_throughput,corun_throughput\n"
    report, _ = _imported(
        database, tmp_path / "a.csv", f"{head}1,T4,MPS,a,10,8\n1,T4,MPS,b,10,8\n2,T4,MPS,a\n3,T4,MPS,a,10,x\n"
    )
    rejected = rejected_rows(database, int(report.source_id or 0))
    assert rejected["column"].tolist()[0] is None
    assert {type(name) for name in rejected["column"][1:]} == {str}


def test_separators_of_every_table_of_a_tool(database: Database, tmp_path: Path) -> None:
    _, lines = _imported(
        database, tmp_path / "a.csv",
        "Time (%);Total Time (ns);Instances;Avg (ns);Med (ns);Min (ns);Max (ns);StdDev (ns);Name\n"
        "100,0;1000;10;100,5;100,5;90;110;5,0;k\n",
    )  # fmt: skip
    assert "the comma separates decimals" in lines["Separators"]


def test_clocks_of_an_own_table_are_in_hertz(database: Database, tmp_path: Path) -> None:
    head = "workload,gpu,kernel,duration_us,smsp__cycles_elapsed.avg.per_second [Ghz],stall_wait\n"
    for name, clock in (("a", "1.41"), ("b", "1.10")):
        (tmp_path / f"{name}.csv").write_text(f"{head}{name},A100-40GB,k,10,{clock},30\n")
    import_paths(database, [tmp_path / "a.csv", tmp_path / "b.csv"])
    (finding,) = RULES["clocks-differ"](database, "own")
    assert "28.2 % (1100 to 1410 MHz)" in finding.sentence


def test_names_that_lost_letters_are_completed(database: Database, tmp_path: Path) -> None:
    rows = [
        Row(0, "smsp__inst_issued.sum", "7", "inst"), Row(0, "lts__t_sectors_srcunit_tex.sum", "5", "sector"),
        Row(0, "msp__issue_inst0.sum", "n/a", ""), Row(0, "ectors_srcunit_tex_op_atom.sum", "n/a", ""),
        Row(0, "sm__made_up.sum", "n/a", ""),
    ]  # fmt: skip
    _, lines = _imported(database, tmp_path / "a.csv", long_form(rows))
    assert "msp__issue_inst0.sum (the valid name is smsp__issue_inst0.sum)" in lines["Without a value"]
    assert "(the valid name is lts__t_sectors_srcunit_tex_op_atom.sum)" in lines["Without a value"]
    assert "sm__made_up.sum;" in lines["Without a value"] + ";"


def test_gpus_before_volta_are_profiled_with_nvprof(database: Database, tmp_path: Path) -> None:
    head = '"Type","Time(%)","Time","Calls","Avg","Min","Max","Name"\n,%,ms,,us,us,us,\n'
    row = '"GPU activities",100.0,1.0,10,100.0,90.0,110.0,"k(float*)"\n'
    _, old = _imported(database, tmp_path / "x-p100.csv", f"==9== Profiling result:\n{head}{row}")
    _, new = _imported(database, tmp_path / "x-a100.csv", f"==8== Profiling result:\n{head}{row}")
    assert old["Get it with"].startswith("`nvprof --csv")
    assert new["Get it with"].startswith("`ncu --csv")


def test_bytes_of_a_database_are_not_told_as_text(tmp_path: Path) -> None:
    path = tmp_path / "a.sqlite"
    path.write_bytes(b"SQLite format 3\0" + b"\x1b[31m, a text\n" * 4000 + bytes(500))
    with opened_files(path, spool=tmp_path / "spool") as files:
        assert (files[0].encoding, files[0].oddities, files[0].head) == ("binary", (), "")
