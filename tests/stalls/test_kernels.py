"""Kernels by time without counting it twice, and under the roofs of their GPU."""

from __future__ import annotations

import math

import pytest

from analysis.stalls.kernels import METRICS, RULES, kernel_table, longest_first
from analysis.stalls.roofline import roofline
from analysis.stalls.shares import stall_shares
from analysis.store.database import Database
from analysis.store.queries import kernels as queries

ISSUE = "smsp__average_warps_issue_stalled_{}_per_issue_active.ratio"
OP = "smsp__sass_thread_inst_executed_op_{}_pred_on.sum"


def _launch(name: str, duration: float | None, grid: str = "(1, 1, 1)", metrics: dict | None = None, **more) -> dict:
    return {
        "name": name,
        "grid": grid,
        "block": "(32, 1, 1)",
        "duration_ns": duration,
        "metrics": metrics or {},
        **more,
    }


def test_files_of_one_job_do_not_add_up(database: Database, profile) -> None:
    stalls = {ISSUE.format("wait"): 3.0, ISSUE.format("selected"): 1.0}
    profile([_launch("a(int)", 100.0, metrics=stalls), _launch("a(int)", 140.0, metrics=stalls)], name="stalls.csv")
    profile([_launch("a(int)", 110.0, metrics={"dram__bytes.sum": 1.0})], name="memory.csv")
    profile([_launch("b(int)", 50.0, metrics=stalls)], name="other.csv")
    table = kernel_table(database)
    first = table.iloc[0]
    assert (first["short_name"], first["launches"], first["time_ns"], first["mean_ns"]) == ("a", 2, 240.0, 120.0)
    assert first["files"] == 2
    assert first["time_share"] == pytest.approx(100 * 240 / 290)
    assert (first["reason"], first["reason_share"], first["reason_from"]) == ("wait", 75.0, METRICS)


def test_a_trace_counts_before_a_profile(database: Database, profile) -> None:
    profile([_launch("a(int)", 100.0, metrics={ISSUE.format("wait"): 3.0})], name="stalls.csv")
    profile([_launch("a(int)", 80.0, grid=None, invocations=10)], name="trace.csv", format="nsys-kern-sum")
    table = kernel_table(database, by="name")
    assert table["time_ns"].tolist() == [800.0]
    assert table["reason"].tolist() == ["wait"]


def test_a_summary_without_sizes_times_the_sizes_of_the_profile(database: Database, profile) -> None:
    stalls = {ISSUE.format("wait"): 3.0}
    sizes = [_launch("a(int)", time, grid, stalls) for time, grid in ((10.0, "(1, 1, 1)"), (30.0, "(2, 1, 1)"))]
    profile([*sizes, _launch("b(int)", 5.0, metrics=stalls)], name="stalls.csv")
    spread = {"time.max": 90.0, "time.total": 800.0}
    trace = [_launch(f"{n}(int)", t, None, spread, invocations=10) for n, t in zip("abc", (80, 80, 70), strict=True)]
    for one in trace:
        one["block"] = None
    profile(trace, name="trace.csv", format="nsys-kern-sum")
    table = kernel_table(database)
    assert table[["kernel", "grid", "time_ns", "launches"]].to_numpy().tolist() == [
        ["b(int)", "(1, 1, 1)", 800.0, 10],
        ["c(int)", "", 700.0, 10],
        ["a(int)", "(2, 1, 1)", 600.0, 1],
        ["a(int)", "(1, 1, 1)", 200.0, 1],
    ]
    assert table["reason"].tolist() == ["wait", None, "wait", "wait"]


def test_the_sizes_of_a_trace_come_together_where_the_profile_knows_none(database: Database, profile) -> None:
    profile([{"name": "a(int)", "metrics": {ISSUE.format("wait"): 3.0}}], name="old.csv")
    trace = [_launch("a(int)", time, f"({time:g}, 1, 1)") for time in (1.0, 2.0, 3.0)]
    profile(trace, name="trace.csv", format="nsys-gpu-trace")
    table = kernel_table(database)
    assert table[["grid", "time_ns", "launches", "reason"]].to_numpy().tolist() == [["", 6.0, 3, "wait"]]


def test_names_bring_sizes_together_and_shares_follow(database: Database, profile) -> None:
    launches = [
        _launch("void ns::gemm<4>(int)", 10.0, "(1, 1, 1)", {ISSUE.format("wait"): 1.0}, short_name="gemm"),
        _launch("void ns::gemm<8>(int)", 70.0, "(2, 1, 1)", {ISSUE.format("wait"): 3.0}, short_name="gemm"),
        _launch("void ns::copy(int)", 30.0, "(1, 1, 1)", {ISSUE.format("drain"): 2.0}, short_name="copy"),
    ]
    profile(launches)
    assert kernel_table(database, by="name")["short_name"].tolist() == ["gemm", "copy"]
    assert len(kernel_table(database)) == 3
    shares = stall_shares(database, by="name").set_index("short_name")
    assert shares.loc["gemm", "launches"] == 2
    ordered = longest_first(database, None, stall_shares(database, by="kernel"), "kernel")
    assert ordered["kernel"].drop_duplicates().tolist()[0] == "void ns::gemm<8>(int)"


def test_a_rule_text_stands_in_marked(database: Database, profile) -> None:
    rule = {"launch": 0, "line": 7, "section": "WarpStateStats", "rule": "CPIStall", "kind": "INF", "text": "42.2%",
            "top_reason": "wait", "top_share": 42.2}  # fmt: skip
    profile([_launch("a(int)", 9.0, metrics={"Duration": 9.0})], rules=[rule])
    row = kernel_table(database).iloc[0]
    assert (row["reason"], row["reason_share"], row["reason_from"]) == ("wait", 42.2, RULES)
    assert row["kind"] is None


def test_a_launch_goes_back_to_its_rows(database: Database, profile) -> None:
    profile([_launch("a(int)", 5.0, metrics={"x": (1.5, "byte"), "y": (None, None)})], name="file.csv")
    (number,) = queries.launches(database, _all(), "a(int)", "(1, 1, 1)", "(32, 1, 1)")["kernel_id"]
    assert queries.launch(database, int(number))["file_name"] == "file.csv"
    rows = queries.rows(database, int(number))
    assert rows[["file_name", "line", "metric"]].to_numpy().tolist() == [["file.csv", 2, "x"], ["file.csv", 3, "y"]]
    assert rows["value"].iloc[0] == 1.5
    assert math.isnan(rows["value"].iloc[1])


def test_the_roofline_is_arithmetic_over_bytes(database: Database, profile) -> None:
    metrics = {
        OP.format("fadd"): 1e6, OP.format("fmul"): 2e6, OP.format("ffma"): 4e6, "dram__bytes_read.sum": 6e6,
        "dram__bytes_write.sum": 5e6,
    }  # fmt: skip
    profile([_launch("a(int)", 1e4, metrics=metrics), _launch("b(int)", 1e4, metrics={"dram__bytes.sum": 1e6})])
    found = roofline(database)
    assert len(found.points) == 1
    point = found.points.iloc[0]
    assert point["intensity"] == pytest.approx(11e6 / 11e6)  # a fused multiply-add is two operations
    assert point["gflops"] == pytest.approx(1100)
    assert point["gbps"] == pytest.approx(1100)
    assert point["bound"] == "memory"
    assert found.peaks.loc["A100-40GB", "gflops"] == pytest.approx(2 * 108 * 64 * 1.41, rel=1e-6)
    assert found.missing.to_numpy().tolist() == [["operations", 1]]
    assert "1 of 2 kernels" in found.sentence()


def test_without_counters_the_roofline_says_what_is_missing(database: Database, profile) -> None:
    profile([_launch("a(int)", None, metrics={"x": 1.0})], gpu="unheard of", cc=None)
    found = roofline(database)
    assert found.points.empty
    assert found.sentence().startswith("No kernel has a place on a roofline: missing are operations in 1 of 1")


def _all():
    from analysis.store.filters import Filter

    return Filter()
