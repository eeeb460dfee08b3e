"""The verdict claims what the counters show, and no more."""

from __future__ import annotations

import math

import pandas as pd
import pytest

from analysis.reference import stall_reasons
from analysis.stalls.counters import counters
from analysis.stalls.verdict import verdict, verdicts
from analysis.store.database import Database

ACTIVE = "smsp__warp_issue_stalled_{}_per_warp_active.pct"


def _shares(accounted: float = 100.0, **reasons: float) -> pd.DataFrame:
    rows = [{"reason": r, "group": stall_reasons.group_of(r), "share": s} for r, s in reasons.items()]
    return pd.DataFrame(rows).assign(accounted=accounted)


def test_dram_is_named_only_where_its_throughput_is_known() -> None:
    shares = _shares(long_scoreboard=70, wait=10, selected=20)
    unknown = verdict(shares, {"issue_active": 20})
    assert unknown.kind == "memory-bound"
    assert "DRAM" not in unknown.sentence
    assert "global or local memory" in unknown.sentence
    busy = verdict(shares, {"issue_active": 20, "dram": 85})
    assert busy.kind == "memory-bound"
    assert "DRAM runs at 85 %" in busy.sentence


def test_waiting_on_idle_memory_is_latency() -> None:
    found = verdict(_shares(long_scoreboard=70, selected=20), {"issue_active": 20, "dram": 15, "l2": 22})
    assert found.kind == "latency-bound"
    assert "DRAM runs at only 15 %" in found.sentence
    assert "latency, not bandwidth" in found.sentence
    by_cache = verdict(_shares(long_scoreboard=70, selected=20), {"issue_active": 20, "dram": 15, "l2": 90})
    assert (by_cache.kind, "L2 cache runs at 90 %" in by_cache.sentence) == ("memory-bound", True)


@pytest.mark.parametrize(
    ("reasons", "kind", "reason"),
    [
        ({"math_pipe_throttle": 50, "long_scoreboard": 10, "selected": 40}, "compute-bound", "math_pipe_throttle"),
        ({"barrier": 40, "membar": 20, "long_scoreboard": 30}, "synchronisation-bound", "barrier"),
        ({"wait": 40, "branch_resolving": 20, "long_scoreboard": 30}, "latency-bound", "wait"),
        ({"short_scoreboard": 40, "mio_throttle": 20, "long_scoreboard": 30}, "memory-bound", "short_scoreboard"),
    ],
)
def test_the_largest_class_decides(reasons, kind, reason) -> None:
    found = verdict(_shares(**reasons), {"issue_active": 30})
    assert (found.kind, found.reason) == (kind, reason)
    assert found.sentence.startswith(kind.capitalize())
    assert found.helps
    assert "cost time" in found.sentence


def test_busy_schedulers_hide_stalls() -> None:
    found = verdict(_shares(long_scoreboard=70, selected=20), {"issue_active": 91, "dram": 90})
    assert (found.kind, found.gate) == ("issue-bound", "hidden")
    assert "91 %" in found.sentence
    assert "DRAM" not in found.sentence


def test_without_the_gate_the_sentence_says_so() -> None:
    found = verdict(_shares(barrier=70, selected=20))
    assert found.gate == "unknown"
    assert "does not say how often schedulers issue" in found.sentence
    ready = verdict(_shares(not_selected=60, selected=20, wait=20))
    assert ready.kind == "issue-bound"


def test_open_cycles_are_said_and_too_many_forbid_a_verdict() -> None:
    some = verdict(_shares(accounted=75.6, long_scoreboard=68))
    assert "explain 76 % of the warp cycles; 24 % stay open" in some.sentence
    few = verdict(_shares(accounted=42.6, long_scoreboard=30))
    assert few.kind == "unknown"
    assert "only 43 %" in few.sentence
    assert math.isnan(few.share)


def test_nothing_gives_no_verdict() -> None:
    assert verdict(_shares().iloc[:0].reindex(columns=["reason", "group", "share", "accounted"])).kind == "unknown"


def test_counters_are_percent_whatever_the_tool_prints(database: Database, profile) -> None:
    launches = [
        {
            "name": "a",
            "duration_ns": 100.0,
            "metrics": {
                "Memory Throughput": (5e9, "byte/s"),
                "DRAM Throughput": (80.0, "%"),
                "smsp__issue_active.avg.per_cycle_active": (0.25, "inst/cycle"),
                "SM Frequency": (1.4e9, "hz"),
            },
        },
        {"name": "b", "duration_ns": 300.0, "metrics": {"DRAM Throughput": (40.0, "%")}},
    ]
    profile(launches)
    row = counters(database).iloc[0]
    assert row["dram"] == pytest.approx(50)
    assert row["issue_active"] == pytest.approx(25)
    assert row["sm_clock"] == 1.4e9
    assert math.isnan(row["l2"])
    by_kernel = counters(database, by="kernel").set_index("kernel")
    assert by_kernel.loc["b", "dram"] == 40


def test_a_bandwidth_is_no_percentage(database: Database, profile) -> None:
    profile([{"name": "a", "metrics": {"DRAM Throughput": (9e11, "byte/s")}}])
    assert counters(database).empty


def test_verdicts_join_shares_and_counters(database: Database, profile) -> None:
    metrics = {ACTIVE.format("long_scoreboard"): (70.0, "%"), ACTIVE.format("selected"): (30.0, "%")}
    profile([{"name": "a", "metrics": {**metrics, "DRAM Throughput": (85.0, "%"), "Issue Slots Busy": (20.0, "%")}}])
    found = verdicts(database, by="kernel")
    assert found["kind"].tolist() == ["memory-bound"]
    assert "DRAM runs at 85 %" in found["sentence"][0]
    assert found["dram"].tolist() == [85]


def test_real_profiles_have_verdicts(database: Database, profile, real) -> None:
    profile(real("polyfhe-rtx4090-stall-set1.csv"), gpu="RTX 4090", cc="8.9")
    found = verdicts(database, by="kernel")
    assert len(found) == 26
    assert (found["kind"] == "unknown").sum() == 2
    assert not found["sentence"].str.contains("DRAM").any()  # the file has no throughput


RAW = {
    "smsp__issue_active.sum": 107.0, "smsp__cycles_active.sum": 1000.0,
    "dram__bytes.sum": (675e3, "byte"), "dram__cycles_active.sum": 300.0, "dram__cycles_elapsed.sum": 400.0,
}  # fmt: skip


@pytest.mark.parametrize(
    ("without", "gpu", "dram"),
    [("", "V100", 75), ("dram__cycles_active.sum", "V100", 75), ("dram__cycles_active.sum", "unknown", None)],
)
def test_raw_counters_give_what_no_metric_states(
    database: Database, profile, without: str, gpu: str, dram: float | None
) -> None:
    metrics = {name: value for name, value in RAW.items() if name != without}
    stalls = {ACTIVE.format("long_scoreboard"): 80.0, ACTIVE.format("selected"): 20.0}
    profile([{"name": "k", "duration_ns": 1000.0, "metrics": {**metrics, **stalls}}], gpu=gpu, cc=None)
    row = counters(database).iloc[0]
    assert row["issue_active"] == pytest.approx(10.7)
    assert math.isnan(row["dram"]) if dram is None else row["dram"] == pytest.approx(dram)
    sentence = verdicts(database)["sentence"].iloc[0]
    assert "issue in only 11 %" in sentence
    assert ("DRAM runs at 75 % of its peak" in sentence) == (dram is not None)


def test_a_stated_percentage_comes_before_raw_counters(database: Database, profile) -> None:
    stated = {"smsp__issue_active.avg.per_cycle_active": 0.5, "DRAM Throughput": (60.0, "%")}
    profile([{"name": "k", "duration_ns": 1000.0, "metrics": {**RAW, **stated}}], gpu="V100", cc=None)
    assert counters(database)[["issue_active", "dram"]].iloc[0].tolist() == [50, 60]


def test_real_raw_counters_name_dram(database: Database, profile, real) -> None:
    profile(real("xplacer-v100-ncu2019-spmv.txt"), gpu="V100", cc=None)
    row = counters(database).iloc[0]
    assert row["issue_active"] == pytest.approx(10.7, abs=0.05)
    assert row["dram"] == pytest.approx(75, abs=1)
    assert "DRAM runs at 75 %" in verdicts(database)["sentence"].iloc[0]
