"""A comparison pairs what is the same, lists what is not, and never turns an absence into a zero."""

from __future__ import annotations

import json
import math

import pytest

from analysis.errors import NotFoundError, UsageError
from analysis.stalls.compare import compare
from analysis.stalls.sides import find, side
from analysis.store.database import Database
from analysis.store.filters import Filter

ISSUE = "smsp__average_warps_issue_stalled_{}_per_issue_active.ratio"
TOTAL = "smsp__average_warps_active_per_issue_active.ratio"
ACTIVE = "smsp__warp_issue_stalled_{}_per_warp_active.pct"


def _launch(name="k(int)", grid="(1, 1, 1)", duration=100.0, total=10.0, **reasons):
    metrics = {ISSUE.format(reason): value for reason, value in reasons.items()}
    return {
        "name": name,
        "grid": grid,
        "block": "(32, 1, 1)",
        "duration_ns": duration,
        "metrics": {**metrics, TOTAL: total},
    }


def _row(frame, reason):
    rows = frame[frame["reason"] == reason]
    assert len(rows) == 1
    return rows.iloc[0]


def test_differences_are_in_points_and_in_cycles(database: Database, profile) -> None:
    profile([_launch(long_scoreboard=5.0, wait=3.0)], workload="before")
    profile([_launch(long_scoreboard=8.0, wait=2.0, total=16.0, duration=150.0)], workload="after", name="b.csv")
    found = compare(database, find(database, "before"), find(database, "after"))
    row = _row(found.totals, "wait")
    assert (row["share_base"], row["share_other"]) == (pytest.approx(30), pytest.approx(12.5))
    assert row["difference"] == pytest.approx(-17.5)
    assert row["cycles_difference"] == pytest.approx(-1)
    assert _row(found.totals, "long_scoreboard")["cycles_difference"] == pytest.approx(3)
    assert found.totals["reason"].iloc[0] == "wait"  # the largest difference first
    assert found.slower == pytest.approx(50)
    assert found.sentence().startswith("after on A100-40GB spends 17.5 percentage points less")


def test_kernels_pair_by_name_grid_and_block(database: Database, profile) -> None:
    profile([_launch(wait=3.0), _launch(name="only_base", wait=1.0), _launch(grid="(2, 1, 1)", wait=9.0)], workload="a")
    profile([_launch(wait=4.0, duration=200.0), _launch(grid="(4, 1, 1)", wait=5.0)], workload="b", name="b.csv")
    found = compare(database, find(database, "a"), find(database, "b"))
    assert found.pairs[["kernel", "grid", "slower"]].values.tolist() == [["k(int)", "(1, 1, 1)", pytest.approx(100)]]
    assert found.kernels[["kernel", "grid", "difference"]].values.tolist() == [
        ["k(int)", "(1, 1, 1)", pytest.approx(10)]
    ]
    assert found.unmatched[["side", "kernel", "grid"]].values.tolist() == [
        ["base", "k(int)", "(2, 1, 1)"],
        ["base", "only_base", "(1, 1, 1)"],
        ["other", "k(int)", "(4, 1, 1)"],
    ]
    assert found.slower == pytest.approx(100)  # the unmatched do not count


def test_absent_is_not_available_or_not_reported_but_never_zero(database: Database, profile) -> None:
    profile([_launch(wait=3.0, imc_miss=2.0, barrier=1.0)], workload="a", gpu="A100-40GB", cc="8.0")
    profile([_launch(wait=3.0)], workload="b", gpu="RTX 5090", cc="12.0", name="b.csv")
    totals = compare(database, find(database, "a"), find(database, "b")).totals
    assert _row(totals, "imc_miss")["state"] == "not available on other"
    assert _row(totals, "barrier")["state"] == "not reported by other"
    assert math.isnan(_row(totals, "imc_miss")["difference"])
    assert math.isnan(_row(totals, "imc_miss")["share_other"])


def test_only_a_family_that_both_have_is_compared(database: Database, profile) -> None:
    both = _launch(wait=3.0)
    both["metrics"][ACTIVE.format("wait")] = 44.0
    profile([both], workload="a")
    profile([{**_launch(), "metrics": {ACTIVE.format("wait"): 40.0}}], workload="b", name="b.csv")
    found = compare(database, find(database, "a"), find(database, "b"))
    assert found.families == ("per_warp_active", "per_warp_active")
    assert _row(found.totals, "wait")["difference"] == pytest.approx(-4)


def test_families_that_differ_are_said(database: Database, profile) -> None:
    profile([_launch(wait=3.0)], workload="a")
    profile([{**_launch(), "metrics": {ACTIVE.format("wait"): 40.0}}], workload="b", name="b.csv")
    found = compare(database, find(database, "a"), find(database, "b"))
    assert any("different families" in text for text in found.warnings)


def test_nvprof_meets_ncu_only_in_its_classes(database: Database, profile) -> None:
    old = {"stall_memory_dependency": 50.0, "stall_exec_dependency": 30.0, "stall_sync": 20.0}
    profile([{**_launch(), "metrics": old}], workload="old", gpu="V100", cc=None)
    new = _launch(long_scoreboard=4.0, short_scoreboard=1.0, wait=1.0, selected=2.0, branch_resolving=1.0, barrier=1.0)
    profile([new], workload="new", name="b.csv")
    found = compare(database, find(database, "old"), find(database, "new"))
    assert found.unit == "nvprof classes"
    assert set(found.totals["reason"]) == {"memory_dependency", "exec_dependency", "sync"}
    row = _row(found.totals, "exec_dependency")
    assert row["share_other"] == pytest.approx(100 * 2 / 8)  # of the 8 cycles in which warps did not issue
    assert row["difference"] == pytest.approx(-5)
    assert any("nvprof's classes" in text for text in found.warnings)


def test_top_reasons_of_rule_texts_are_marked_and_never_differences(database: Database, profile) -> None:
    rule = {
        "launch": 0, "line": 3, "section": "WarpStateStats", "rule": "CPIStall", "kind": "INF", "text": "about 31.8%",
        "top_reason": "long_scoreboard", "top_share": 31.8,
    }  # fmt: skip
    profile([{**_launch(), "metrics": {"Duration": 1.0}}], workload="a", rules=[rule])
    profile([_launch(wait=3.0)], workload="b", name="b.csv")
    found = compare(database, find(database, "a"), find(database, "b"))
    assert found.top_reasons[["side", "reason", "share"]].values.tolist() == [["base", "long_scoreboard", 31.8]]
    assert set(found.totals["state"]) == {"not reported by base"}
    assert "holds no stall metrics" in " ".join(found.warnings)
    assert "can be compared" in found.sentence()


def test_clocks_apart_are_said(database: Database, profile) -> None:
    for workload, clock in (("a", 1.0e9), ("b", 1.03e9)):
        launch = _launch(wait=3.0)
        launch["metrics"]["SM Frequency"] = (clock, "hz")
        profile([launch], workload=workload, name=f"{workload}.csv")
    found = compare(database, find(database, "a"), find(database, "b"))
    assert any("SM clocks differ by 3.0 %" in text for text in found.warnings)


def test_json_is_plain(database: Database, profile) -> None:
    profile([_launch(wait=3.0, imc_miss=1.0)], workload="a")
    profile([_launch(wait=4.0)], workload="b", gpu="RTX 5090", cc="12.0", name="b.csv")
    found = compare(database, find(database, "a"), find(database, "b"))
    document = json.loads(json.dumps(found.to_json(), allow_nan=False))
    assert document["base"] == {"workload": "a", "gpu": "A100-40GB", "simulated": False}
    assert next(r for r in document["totals"] if r["reason"] == "imc_miss")["share_other"] is None


def test_sides_are_found_by_workload_gpu_or_file(database: Database, profile) -> None:
    profile([_launch(wait=3.0)], workload="bert", gpu="V100-16GB", name="first.csv")
    profile([_launch(wait=3.0)], workload="bert", gpu="A100-40GB", name="second.csv")
    assert find(database, "bert@V100").gpu == "V100-16GB"
    assert find(database, "second.csv").gpu == "A100-40GB"
    with pytest.raises(UsageError, match="bert@A100-40GB"):
        find(database, "bert")
    with pytest.raises(NotFoundError, match="gpt"):
        find(database, "gpt")
    with pytest.raises(NotFoundError, match="K80"):
        side(database, Filter(gpus=("K80",)))


def test_real_profiles_without_a_common_kernel(database: Database, profile, real) -> None:
    profile(real("polyfhe-a100-stall.csv"), workload="a100")
    profile(real("polyfhe-rtx4090-stall-set1.csv"), workload="set1", gpu="RTX 4090", cc="8.9", name="b.csv")
    found = compare(database, find(database, "a100"), find(database, "set1"))
    assert found.pairs.empty
    assert found.kernels.empty
    assert (found.unmatched["side"] == "other").sum() == 26
    assert found.unmatched.loc[found.unmatched["side"] == "base", "kernel"].nunique() == 8
    assert (found.totals["state"] == "both").all()
    assert len(found.totals) == 17
    assert any("only the workloads" in text for text in found.warnings)
    assert any("In 2 of" in text or "of 26 kernels" in text for text in found.warnings)
    assert math.isnan(found.slower)


def test_families_stand_apart_and_no_difference_is_formed(database: Database, profile) -> None:
    profile([_launch(long_scoreboard=6.8, wait=1.0)], workload="a")
    percents = {ACTIVE.format("long_scoreboard"): 30.0, ACTIVE.format("wait"): 44.0}
    profile([{**_launch(), "metrics": percents}], workload="b", name="b.csv")
    found = compare(database, find(database, "a"), find(database, "b"))
    assert found.apart
    for frame in (found.totals, found.kernels):
        assert frame["difference"].isna().all()
        assert set(frame["state"]) == {"another family of metrics"}
    text = found.sentence()
    assert "percentage points" not in text
    assert "can't be compared" in text
    assert "Profile b on A100-40GB again with `ncu --section WarpStateStats`" in text
    assert "a on A100-40GB long scoreboard, 68.0 %; b on A100-40GB wait, 44.0 %" in text
    assert found.to_json()["command"].startswith("ncu ")
    assert not found.to_json()["comparable"]
