"""Files as people have them: words under units, GPUs that no table knows, graphs, repeats, other vendors' tools."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from ncu_files import stall, wide_form

from analysis.ingest.contract.names import parse_workload
from analysis.ingest.importer import import_file, import_paths
from analysis.reference import gpus, mig
from analysis.stalls.kernels import kernel_table, parts_of_time, pooled
from analysis.store.database import Database


def _wide(path: Path, columns: dict, old: str = "", new: str = "") -> Path:
    path.write_bytes(wide_form(columns).replace(old.encode(), new.encode()) if old else wide_form(columns))
    return path


def test_words_under_a_unit_are_a_text(database: Database, tmp_path: Path) -> None:
    words = "dram__a.sum.pct,lts__b.sum.pct"
    path = _wide(tmp_path / "r.csv", {"gpu__time_duration.sum": ("us", ["2", "4"]), stall("wait"): ("inst", ["1", "3"]),
                                      "breakdown:dram__x.avg.pct": ("%", [words, words])})  # fmt: skip
    report = import_file(database, path)
    assert (report.rows_read, report.rows_rejected, report.launches) == (2, 0, 2)
    assert any("breakdown:dram__x.avg.pct" in text for text in report.warnings)
    kept = database.query("SELECT text, value FROM kernel_metric WHERE metric LIKE 'breakdown%'")
    assert kept["text"].tolist() == [words, words]
    assert kept["value"].isna().all()


def test_sizes_that_went_through_floating_point(database: Database, tmp_path: Path) -> None:
    plain = {"gpu__time_active.avg": ("us", ["2"])}
    text = wide_form(plain).decode()
    block = next(part for part in text.split('"') if part.startswith("("))
    doubled = block.replace(",", ".0,").replace(")", ".0)")
    path = tmp_path / "doubles.csv"
    path.write_text(text.replace(block, doubled))
    report = import_paths(database, [path, _wide(tmp_path / "whole.csv", plain)])
    assert [item.error for item in report] == [None, None]
    rows = database.query("SELECT DISTINCT block, duration_ns FROM kernel").values.tolist()
    assert rows == [[block, 2000.0]]


def test_a_gpu_that_no_table_knows_keeps_its_name(database: Database, tmp_path: Path) -> None:
    def columns(name: str, wait: str) -> dict:
        return {"device__attribute_display_name": ("", [name]), "gpu__time_duration.sum": ("us", ["1"]),
                stall("wait"): ("inst", [wait]), stall("barrier"): ("inst", ["1"])}  # fmt: skip

    files = [
        _wide(tmp_path / "a.csv", columns("NVIDIA Z900", "9")),
        _wide(tmp_path / "b.csv", columns("Quadro K1", "1")),
    ]
    reports = import_paths(database, files, workload="same")
    assert [report.gpus for report in reports] == [["NVIDIA Z900"], ["Quadro K1"]]
    assert not any("fits" in text for report in reports for text in report.warnings)


@pytest.mark.parametrize(
    ("line", "gpu"),
    [
        ("step 3 on NVIDIA GeForce RTX 3080 Ti Laptop GPU, 16 GB", "NVIDIA GeForce RTX 3080 Ti Laptop GPU"),
        ("device 0: NVIDIA GeForce GTX 1070", "NVIDIA GeForce GTX 1070"),
        ("using NVIDIA GeForce RTX 4070 SUPER", "RTX 4070 SUPER"),
    ],
)
def test_a_gpu_in_the_programs_output(database: Database, tmp_path: Path, line: str, gpu: str) -> None:
    path = tmp_path / "out.csv"
    path.write_bytes(
        f"{line}\n".encode() + wide_form({"gpu__time_duration.sum": ("us", ["1"])}).replace(b'"8.0"', b'""')
    )
    assert import_file(database, path).gpus == [gpu]


def test_no_card_is_taken_for_another() -> None:
    for name in ("GeForce RTX 4090 D", "NVIDIA GeForce RTX 4080 Laptop GPU", "GeForce RTX 3050 Ti"):
        assert gpus.canonical(name) == name
        assert gpus.locate(f"run_{name}") is None
    assert gpus.canonical("NVIDIA GeForce RTX 2070 SUPER") == "RTX 2070 SUPER"
    assert gpus.load().loc["GB10", "cc"] == "12.1"


def test_instances_have_the_sms_of_their_board() -> None:
    table = mig.load().set_index(["gpu", "profile"])["sm_count"]
    assert [table["H200", name] for name in ("1g.18gb", "2g.35gb", "3g.71gb", "4g.71gb")] == [16, 32, 60, 64]
    assert table["B200", "1g.23gb"] == 18
    assert table["A100-40GB", "3g.20gb"] == 42
    wide = {"H100-SXM": "1g.20gb", "H200": "1g.35gb", "B200": "1g.45gb"}
    assert [table[board] for board in wide.items()] == [26, 26, 30]
    # What no public listing states is a range: whole slices at least, a share of the GPU at most.
    open_ = mig.load().set_index(["gpu", "profile"]).loc[("B200", "3g.90gb")]
    assert (int(open_["sm_count"]), int(open_["sm_count_most"])) == (54, 74)


@pytest.mark.parametrize(
    ("name", "model", "batch"),
    [("deit_b16_bs128", "deit_b16", 128), ("vit_b_16_batch4", "vit_b_16", 4), ("clip-b32", "clip-b32", None),
     ("ssd_b24", "ssd", 24), ("vit_b16_b8", "vit_b16", 8)],
)  # fmt: skip
def test_the_models_number_stays_with_the_model(name: str, model: str, batch: int | None) -> None:
    parts = parse_workload(name)
    assert (parts.model, parts.batch_size) == (model, batch)


def _nsys(path: Path, kernels: list[tuple[int, int]], graphs: list[tuple[int, int]], view: bool = False) -> Path:
    with closing(sqlite3.connect(path)) as file, file:
        file.execute("CREATE TABLE META_DATA_EXPORT (name TEXT, value TEXT)")
        strings = "WITH RECURSIVE n(id) AS (SELECT 1 UNION ALL SELECT id + 1 FROM n) SELECT id, 'x' AS value FROM n"
        file.execute(f"CREATE VIEW StringIds AS {strings}" if view else "CREATE TABLE StringIds (id INT, value TEXT)")
        if not view:
            file.execute("INSERT INTO StringIds VALUES (1, 'axpy(int)')")
        table = "(start INT, end INT, deviceId INT, correlationId INT, {})"
        if kernels:
            file.execute(f"CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL {table.format('demangledName INT')}")
            file.executemany("INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (?, ?, 0, 1, 1)", kernels)
        if graphs:
            file.execute(f"CREATE TABLE CUPTI_ACTIVITY_KIND_GRAPH_TRACE {table.format('graphId INT')}")
            file.executemany("INSERT INTO CUPTI_ACTIVITY_KIND_GRAPH_TRACE VALUES (?, ?, 0, 2, 9)", graphs)
    return path


def test_graphs_that_were_traced_whole_are_time(database: Database, tmp_path: Path) -> None:
    graphs = [(1_000, 31_000), (40_000, 100_000)]
    both = import_file(database, _nsys(tmp_path / "both.sqlite", [(0, 10_000)], graphs))
    only = import_file(database, _nsys(tmp_path / "only.sqlite", [], graphs))
    for report, launches, share in ((both, 3, "90.00 %"), (only, 2, "100.00 %")):
        assert (report.error, report.launches, report.rows_read) == (None, launches, launches)
        assert any(share in text and "--cuda-graph-trace=node" in text for text in report.warnings)


def test_copies_are_no_kernels(database: Database, tmp_path: Path) -> None:
    path = _nsys(tmp_path / "copies.sqlite", [(0, 10_000)], [])
    with closing(sqlite3.connect(path)) as file, file:
        file.execute("CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY (start INT, end INT, bytes INT)")
        file.executemany("INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY VALUES (?, ?, 1000000)", [(0, 250_000), (5, 250_005)])
        file.execute("CREATE TABLE CUPTI_ACTIVITY_KIND_MEMSET (start INT, end INT)")
        file.execute("INSERT INTO CUPTI_ACTIVITY_KIND_MEMSET VALUES (0, 1000)")
    report = import_file(database, path)
    assert report.launches == 1
    assert any("2 copies of memory took 0.5 ms for 2 MB" in text for text in report.warnings)
    assert any("1 fill of memory took 0.001 ms" in text for text in report.warnings)
    assert kernel_table(database)["time_ns"].tolist() == [10_000]


def test_shares_of_a_part_of_the_time_say_so(database: Database, tmp_path: Path) -> None:
    columns = {"gpu__time_duration.sum": ("ns", ["1000"]), stall("wait"): ("inst", ["3"]),
               stall("barrier"): ("inst", ["1"]), "device__attribute_display_name": ("", ["Tesla T4"])}  # fmt: skip
    profile = wide_form(columns)
    (tmp_path / "p.csv").write_bytes(profile)
    assert import_paths(database, [tmp_path / "p.csv"], workload="job")[0].launches == 1
    assert parts_of_time(database) == []
    kernel = database.query("SELECT name FROM kernel")["name"][0]
    trace = _trace(tmp_path / "t.json", [(kernel, 0, 1, 0, 3), ("the rest", 5, 9, 0, 3)])
    assert import_paths(database, [trace], workload="job")[0].launches == 2
    (told,) = parts_of_time(database)
    assert "10.0 % of the job's GPU time" in told


def test_several_gpus_are_told_apart(database: Database, tmp_path: Path) -> None:
    events = [("a", 0, 300, 0, 3), ("a", 0, 450, 1, 3), ("b", 500, 550, 1, 3)]
    import_file(database, _trace(tmp_path / "two.json", events))
    import_file(database, _trace(tmp_path / "one.json", [("c", 0, 10, 0, 3)]))
    import_file(database, _nsys(tmp_path / "graph.sqlite", [], [(0, 10)]))
    table = kernel_table(database)
    assert dict(zip(table["workload"], table["devices"], strict=True)) == {"two": 2, "one": 1, "graph": 0}
    assert "two ran on 2 GPUs" in pooled(table)
    assert pooled(table[table["workload"] != "two"]) == ""
    assert table.loc[table["workload"] == "graph", "short_name"].tolist() == ["CUDA graph, traced whole: 9"]


@pytest.mark.parametrize(
    "content",
    ['{"request_throughput": 5.2, "mean_ttft_ms": 81.5}',
     "Running 30s test @ http://x\n  2 threads\nRequests/sec:  52.1\n",
     '"Type","Name","Request Count","Failure Count","Median Response Time"\n"GET","/",5,0,12\n'],
)  # fmt: skip
def test_load_tests_are_named(database: Database, tmp_path: Path, content: str) -> None:
    path = tmp_path / "load.txt"
    path.write_text(content)
    report = import_file(database, path)
    assert "load test" in str(report.error)
    assert "table of co-runs" in str(report.error)


def test_a_view_in_place_of_a_table_is_refused(database: Database, tmp_path: Path) -> None:
    report = import_file(database, _nsys(tmp_path / "view.sqlite", [(0, 10)], [], view=True))
    assert "StringIds is a view" in str(report.error)


def _trace(path: Path, events: list[tuple[str, float, float, int, int]]) -> Path:
    gpus_there = [{"id": number, "name": "Tesla T4"} for number in range(2)]
    path.write_text(json.dumps({"deviceProperties": gpus_there, "traceEvents": [
        {"ph": "X", "cat": "kernel", "name": name, "pid": device, "tid": stream, "ts": at, "dur": lasts,
         "args": {"device": device, "stream": stream, "correlation": number}}
        for number, (name, at, lasts, device, stream) in enumerate(events)
    ]}))  # fmt: skip
    return path


def test_kernels_of_a_stream_do_not_overlap(database: Database, tmp_path: Path) -> None:
    events = [("a", 0, 10, 0, 3), ("long", 20, 5_000, 0, 3), ("b", 60, 10, 0, 3), ("beside", 30, 500, 0, 4)]
    report = import_file(database, _trace(tmp_path / "t.json", events))
    assert any("long" in text and "stream" in text for text in report.warnings)
    rows = dict(database.query("SELECT name, duration_ns FROM kernel").values.tolist())
    assert rows == {"a": 10_000, "long": 40_000, "b": 10_000, "beside": 500_000}


def test_several_gpus_are_not_one(database: Database, tmp_path: Path) -> None:
    report = import_file(database, _trace(tmp_path / "two.json", [("a", 0, 10, 0, 3), ("a", 0, 20, 1, 3)]))
    assert any("2 GPUs" in text and "pool" in text for text in report.warnings)


@pytest.mark.parametrize("label", ["pod", "exported_pod", "vgpu"])
def test_figures_of_a_device_under_each_pod(database: Database, tmp_path: Path, label: str) -> None:
    base = 'gpu="1",UUID="GPU-x",Hostname="h"'
    lines = [f'DCGM_FI_DEV_FB_USED{{{base},{label}="{pod}"}} 700' for pod in "ab"]
    lines += [f'DCGM_FI_PROF_SM_ACTIVE{{{base},{label}="{pod}"}} {value}' for pod, value in (("a", 0.25), ("b", 0.5))]
    path = tmp_path / "scrape.prom"
    path.write_text("\n".join(lines) + "\n")
    report = import_file(database, path)
    assert (report.rows_read, report.rows_loaded, report.set_aside) == (4, 4, {"repeated_figures": 1})
    assert any("the GPU's and no pod's" in text for text in report.warnings)
    assert database.scalar("SELECT count(*) FROM telemetry WHERE name LIKE '%SM_ACTIVE'") == 2


def test_logs_of_several_gpus_without_header_or_with_two_numbers(database: Database, tmp_path: Path) -> None:
    bare = tmp_path / "bare.csv"
    bare.write_text("".join(f"2025/01/02 03:04:0{s}.000, {i}, Tesla T4, {10 * i + 5} %, 33.00 W\n"
                            for s in range(3) for i in range(3)))  # fmt: skip
    both = tmp_path / "both.csv"
    both.write_text("timestamp,index,gpu,power.draw\n" + "".join(f"2025-01-02T03:04:0{s},0,{i},{i + 40}\n"
                                                                  for s in range(2) for i in range(2)))  # fmt: skip
    first, second = import_file(database, bare), import_file(database, both)
    assert first.report["devices"] == ["0", "1", "2"]
    assert second.report["devices"] == ["0", "1"]
    assert any("'index' and 'gpu'" in text for text in second.warnings)


def test_times_out_of_range_cost_their_rows(database: Database, tmp_path: Path) -> None:
    path = tmp_path / "times.csv"
    path.write_text("timestamp,index,power.draw [W]\n2025-01-02T03:04:05,0,40\n0002-01-01T00:00:00,0,41\n"
                    "9998-01-01T00:00:00,0,42\n")  # fmt: skip
    report = import_file(database, path)
    assert (report.rows_read, report.rows_loaded, report.rows_rejected) == (3, 1, 2)


def test_a_summary_of_nvprof_without_types(database: Database, tmp_path: Path) -> None:
    path = tmp_path / "old.csv"
    path.write_text('"Time(%)","Time","Calls","Avg","Min","Max","Name"\n%,us,,us,us,us,\n'
                    '60.0,12.0,3,4.0,3.0,5.0,"relax(int)"\n30,6.0,2,3.0,3.0,3.0,"[CUDA memset]"\n'
                    '10,2.0,1,2.0,2.0,2.0,"cudaMalloc"\n')  # fmt: skip
    report = import_file(database, path)
    assert (report.format, report.set_aside) == ("nvprof-summary", {"not_a_kernel": 2})
    assert database.query("SELECT name, invocations, duration_ns FROM kernel").values.tolist() == [
        ["relax(int)", 3, 4000]
    ]


@pytest.mark.parametrize(
    "text",
    [
        '"Name","Calls","TotalDurationNs","AverageNs","Percentage"\n"fill(int) [clone .kd]",4,800,200,100\n',
        '"Kind","Kernel_Name","Start_Timestamp","End_Timestamp"\n' + '"KERNEL_DISPATCH","fill(int)",100,300\n' * 4,
        json.dumps({"traceEvents": [{"ph": "X", "name": "fill(int)", "ts": "1", "dur": "0",
                                     "args": {"BeginNs": f"{n}000", "EndNs": f"{n}200", "DurationNs": "200"}}
                                    for n in range(1, 5)]}),
    ],
)  # fmt: skip
def test_rocprof(database: Database, tmp_path: Path, text: str) -> None:
    path = tmp_path / "amd.txt"
    path.write_text(text)
    report = import_file(database, path)
    assert (report.error, report.gpus, report.kernels) == (None, ["AMD GPU"], 1)
    assert any("no stall reasons" in warning for warning in report.warnings)
    total = database.query("SELECT name, sum(invocations) AS n, max(duration_ns) AS d FROM kernel GROUP BY name")
    assert total.values.tolist() == [["fill(int)", 4, 200]]


def test_numbers_that_no_measurement_has(database: Database, tmp_path: Path) -> None:
    path = tmp_path / "own.csv"
    path.write_text("run_id,gpu,mechanism,workload,solo_time,corun_time\nq,T4,MPS,m,1e-200,1e200\nq,T4,MPS,n,1,2\n"
                    "r,T4,MPS,m,1,2\nr,T4,MPS,n,5,10\n")  # fmt: skip
    report = import_file(database, path)
    assert (report.rows_rejected, report.set_aside, report.runs) == (1, {"partner_rejected": 1}, 1)
    # Both exactly twice as slow, under MPS: that is how jobs take turns.
    assert any("take turns" in text for text in report.warnings)
