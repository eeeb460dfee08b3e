"""The same measurement in two files is found and said, and removing a file removes exactly what it brought."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd

from analysis.ingest.account import account
from analysis.ingest.importer import import_paths, preview
from analysis.interference.checks import RULES, exclude
from analysis.store.database import Database
from analysis.store.loader import remove_source
from analysis.store.queries import coruns, profiles

_HEAD = "run_id,gpu,mechanism,slot,workload,solo_throughput,corun_throughput\n"
_ONE = "1,V100,MPS,0,a,100,50\n1,V100,MPS,1,b,80,40\n"
_TWO = "2,V100,MPS,0,a,100,60\n2,V100,MPS,1,c,80,30\n"

_NCU = '"ID","Process ID","Kernel Name","Section Name","Metric Name","Metric Unit","Metric Value"\n'
_METRICS = {
    "gpu__time_duration.sum": ("nsecond", "1000"),
    "sm__warps_active.avg.pct_of_peak_sustained_active": ("%", "40"),
}


def _ncu(path: Path, metrics: dict[str, tuple[str, str]], launches: int = 3) -> Path:
    rows = [
        f'"{launch}","7","kernel","Command line profiler metrics","{name}","{unit}","{value}"'
        for launch in range(launches)
        for name, (unit, value) in metrics.items()
    ]
    path.write_text(_NCU + "\n".join(rows) + "\n")
    return path


def _tables(database: Database) -> dict[str, list[tuple]]:
    names = ("dataset", "source", "workload", "profile", "kernel", "kernel_metric", "run", "member", "solo", "feature")
    found = {}
    for name in names:
        table = database.query(f"SELECT * FROM {name}").drop(columns=["loaded_at", "created_at"], errors="ignore")
        found[name] = sorted(tuple(map(str, row)) for row in table.itertuples(index=False))
    return found


def test_coruns_that_stand_in_another_file_are_said(database: Database, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(_HEAD + _ONE)
    (tmp_path / "b.csv").write_text(_HEAD + _ONE + _TWO)
    (first,) = import_paths(database, [tmp_path / "a.csv"])
    (second,) = import_paths(database, [tmp_path / "b.csv"])
    assert not any("copies" in text for text in first.warnings)
    assert any(text.startswith("1 co-run stands in a.csv too") for text in second.warnings)
    (other,) = import_paths(database, [_edited(tmp_path / "a.csv")], dataset="another")
    assert not any("copies" in text for text in other.warnings)  # data sets stay apart


def _edited(path: Path) -> Path:
    copy = path.with_name("c.csv")
    copy.write_text(path.read_text() + "\n")
    return copy


def test_launches_exported_twice_are_said_and_found(database: Database, tmp_path: Path) -> None:
    few = dict(list(_METRICS.items())[:1])
    import_paths(database, [_ncu(tmp_path / "few.csv", few)], workload="w", gpu="V100")
    (again,) = import_paths(database, [_ncu(tmp_path / "all.csv", _METRICS)], workload="w", gpu="V100")
    assert any(text.startswith("All 3 launches of w on V100 stand in few.csv too") for text in again.warnings)
    (finding,) = RULES["repeated-exports"](database, "own")
    assert finding.rows["file_name"].tolist() == ["all.csv"]
    exclude(database, "repeated-exports", "own")
    assert len(profiles.kernels(database)) == 3
    slower = {"gpu__time_duration.sum": ("nsecond", "1100")}
    (other,) = import_paths(database, [_ncu(tmp_path / "slow.csv", slower)], workload="w", gpu="V100")
    assert not any("exported twice" in text for text in other.warnings)


def test_exports_named_after_their_files_are_one_measurement(database: Database, tmp_path: Path) -> None:
    """The default of the command line calls each workload after its file: the launches tell all the same."""
    broken = {**_METRICS, "sm__warps_active.avg.pct_of_peak_sustained_active": ("%", "40.5")}
    first = _ncu(tmp_path / "first.csv", broken)
    (tmp_path / "second.csv").write_bytes(first.read_bytes().replace(b"\n", b"\r\n"))
    more = _ncu(tmp_path / "more.csv", broken, launches=5)
    alike = _ncu(tmp_path / "alike.csv", {"launch__registers_per_thread": ("register/thread", "40")})
    told = [import_paths(database, [path])[0] for path in (first, tmp_path / "second.csv", more, alike)]
    said = [[text for text in report.warnings if "exported twice" in text] for report in told]
    assert [len(texts) for texts in said] == [0, 1, 2, 0]
    assert said[1][0].startswith("All 3 launches of second on unknown stand in first.csv too")
    assert "there as first on unknown" in said[1][0]
    assert "of first on unknown in first.csv stand in more.csv too" in said[2][0]
    (finding,) = RULES["repeated-exports"](database, "own")
    assert set(finding.rows["file_name"]) == {"first.csv", "second.csv"}
    exclude(database, "repeated-exports", "own")
    assert len(profiles.kernels(database)) == 5 + 3


def _answer(path: Path, begin: int, end: int, device: str = "0", add: int = 0) -> Path:
    values = [[1709290000 + 15 * step, str(50 + step % 7 + add)] for step in range(begin, end)]
    series = {"metric": {"__name__": "DCGM_FI_DEV_GPU_UTIL", "gpu": device, "pod": "bert"}, "values": values}
    path.write_text(json.dumps({"status": "success", "data": {"resultType": "matrix", "result": [series]}}))
    return path


def test_telemetry_that_overlaps_is_found(database: Database, tmp_path: Path) -> None:
    files = [
        _answer(tmp_path / "a.json", 0, 40), _answer(tmp_path / "b.json", 30, 60),
        _answer(tmp_path / "c.json", 0, 40, device="1"), _answer(tmp_path / "d.json", 0, 60, add=1),
    ]  # fmt: skip
    told = [import_paths(database, [path])[0] for path in files]
    said = [[text for text in report.warnings if "exported twice" in text] for report in told]
    assert [len(texts) for texts in said] == [0, 1, 0, 0]
    assert said[1][0].startswith("10 of its 30 samples stand in a.json too")
    (finding,) = RULES["repeated-exports"](database, "own")
    assert finding.rows[["file_name", "samples", "of"]].values.tolist() == [["b.json", 10, 30]]
    exclude(database, "repeated-exports", "own")
    assert RULES["repeated-exports"](database, "own") == []


def test_accounts_written_twice_are_found(database: Database, tmp_path: Path) -> None:
    """`sacct -p` and `sacct -P` differ in a sign at the end of a line; without the end of a job its number tells."""
    rows = [
        "JobID|JobName|TRESUsageInAve",
        *(f"{job}|bert|gres/gpuutil={job % 90},mem={job}K" for job in range(100, 120)),
    ]
    (tmp_path / "a.txt").write_text("\n".join(rows) + "\n")
    (tmp_path / "b.txt").write_text("\n".join(f"{row}|" for row in rows) + "\n")
    import_paths(database, [tmp_path / "a.txt"])
    (again,) = import_paths(database, [tmp_path / "b.txt"])
    assert any(text.startswith("All 40 samples stand in a.txt too") for text in again.warnings)


def test_baselines_measured_again_are_no_copies(database: Database, tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text(_HEAD + _ONE + _TWO)
    (tmp_path / "y.csv").write_text(_HEAD + (_ONE + _TWO).replace(",100,", ",130,").replace(",80,", ",104,"))
    import_paths(database, [tmp_path / "x.csv"])
    (again,) = import_paths(database, [tmp_path / "y.csv"])
    assert not any("copies" in text for text in again.warnings)
    assert any(text.startswith("2 co-runs have the values of x.csv") for text in again.warnings)
    assert RULES["repeated-measurements"](database, "own") == []
    (finding,) = RULES["remeasured-baselines"](database, "own")
    assert (finding.count, finding.where) == (4, "own, V100")
    assert "x.csv, y.csv" in finding.sentence


def test_removing_a_file_removes_exactly_what_it_brought(database: Database, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(_HEAD + _ONE)
    (tmp_path / "b.csv").write_text(_HEAD + _TWO)
    kept = [tmp_path / "a.csv", _ncu(tmp_path / "a-profile.csv", _METRICS)]
    for path in kept:
        import_paths(database, [path], workload="a", gpu="V100")
    before = _tables(database)
    shared = [tmp_path / "b.csv", _ncu(tmp_path / "b-profile.csv", {"dram__bytes.sum": ("byte", "5")}, launches=2)]
    reports = [import_paths(database, [path], workload="a", gpu="V100")[0] for path in shared]
    assert len(coruns.members(database)) == 4
    for report in reports:
        remove_source(database, int(report.source_id or 0))
    assert _tables(database) == before


def test_the_preview_shows_what_would_be_rejected(tmp_path: Path) -> None:
    path = tmp_path / "coruns.csv"
    path.write_text(_HEAD.replace("\n", ",extra\n") + '1,V100,MPS,0,a,"100,5",abc,x\n1,V100,MPS,1,b,"80,5","40,5",x\n'
                    + '2,V100,MPS,0,a,"100,5","60,5",x\n2,V100,MPS,1,b,"80,5","40,5",x\n')  # fmt: skip
    seen = preview(path)
    assert seen.rejected_count == 1
    assert (seen.rejected[0]["line"], seen.rejected[0]["column"]) == (2, "corun_throughput")
    lines = dict(seen.account)
    assert "the comma was read as decimal mark" in lines["Separators"]
    assert lines["Columns not read"] == "extra"
    assert "4 read = 2 loaded + 1 set aside by rule + 1 rejected" in lines["Rows"]


def test_the_report_says_how_the_workload_got_its_name(database: Database, tmp_path: Path) -> None:
    (guessed,) = import_paths(database, [_ncu(tmp_path / "bert-v100.csv", _METRICS)])
    assert dict(account(guessed.model_dump()))["Workload"] == "bert-v100, named after the file"
    (given,) = import_paths(database, [_ncu(tmp_path / "x.csv", _METRICS, launches=2)], workload="bert")
    assert dict(account(given.model_dump()))["Workload"] == "bert, named by you"
    told = pd.Series(dict(account(given.model_dump())))
    assert "ncu --csv" in told["Get it with"]
