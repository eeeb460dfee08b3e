"""One baseline beside several others, and what differs first; on real exports where they are."""

from __future__ import annotations

from pathlib import Path

import pytest

from analysis.errors import UsageError
from analysis.ingest.importer import import_paths
from analysis.stalls.compare import compare_all, differing, sentence, table, to_json
from analysis.stalls.kernels import RULES, kernel_table
from analysis.stalls.shares import by_family, stall_shares, unavailable
from analysis.stalls.sides import find
from analysis.store.database import Database

ISSUE = "smsp__average_warps_issue_stalled_{}_per_issue_active.ratio"
TOTAL = "smsp__average_warps_active_per_issue_active.ratio"


def _launch(**reasons: float) -> dict:
    metrics = {ISSUE.format(reason): value for reason, value in reasons.items()}
    return {"name": "k(int)", "grid": "(1, 1, 1)", "block": "(32, 1, 1)", "metrics": {**metrics, TOTAL: 10.0}}


def test_only_what_differs_comes_first(database: Database, profile) -> None:
    profile([_launch(wait=3.0, barrier=1.0, imc_miss=2.0, drain=0.05)], workload="a")
    profile([_launch(wait=5.0, barrier=1.05)], workload="b", name="b.csv", gpu="RTX 5090", cc="12.0")
    profile([{**_launch(), "metrics": {"Duration": 1.0}}], workload="c", name="c.csv")
    found = compare_all(database, find(database, "a"), [find(database, "b"), find(database, "c")])
    totals = table(found, "totals")
    shown = differing(totals)
    # barrier is half a point apart, drain a reason of half a point on one side; c has no stall metrics at all
    assert shown[["other", "reason"]].to_numpy().tolist() == [["b", "wait"], ["b", "imc_miss"]]
    assert shown["state"].tolist() == ["both", "not available on other"]
    assert len(totals) > len(shown)
    assert sentence(found).count("c on A100-40GB") == 1
    document = to_json(found)
    assert [one["other"]["workload"] for one in document["comparisons"]] == ["b", "c"]
    assert to_json(found[:1]) == found[0].to_json()


def test_one_to_five_others_that_are_not_the_baseline(database: Database, profile) -> None:
    profile([_launch(wait=3.0)], workload="a")
    base = find(database, "a")
    with pytest.raises(UsageError, match="baseline and an other"):
        compare_all(database, base, [base])
    with pytest.raises(UsageError, match="6 are given"):
        compare_all(database, base, [base] * 6)


def test_what_a_gpu_cannot_report_follows_its_architecture(database: Database, profile) -> None:
    profile([_launch(wait=3.0)], workload="a")
    profile([_launch(wait=3.0)], workload="b", name="b.csv", gpu="RTX 5090", cc="12.0")
    profile([_launch(wait=3.0)], workload="c", name="c.csv", gpu="some GPU", cc=None)
    assert unavailable(database) == {"A100-40GB": ("gmma",), "RTX 5090": ("gmma", "imc_miss")}


def test_three_real_profiles(database: Database, cases: Path) -> None:
    names = ("polyfhe-a100-stall", "polyfhe-rtx4090-stall-set1", "clima-a100-details-base")
    reports = import_paths(database, [cases / f"{name}.csv" for name in names])
    assert {report.status for report in reports} == {"loaded"}
    base, *others = (find(database, name) for name in names)
    found = compare_all(database, base, others)
    assert found[0].pairs.empty
    assert found[0].unmatched["side"].value_counts().to_dict() == {"other": 26, "base": 8}
    assert differing(table(found, "totals"))["other"].unique().tolist() == ["polyfhe-rtx4090-stall-set1"]
    tops = table(found, "top_reasons")
    assert set(tops["other"]) == {"clima-a100-details-base"}
    slowest = kernel_table(database).iloc[0]
    assert slowest["workload"] == "clima-a100-details-base"
    assert (slowest["reason"], slowest["reason_share"], slowest["reason_from"]) == ("wait", 42.2, RULES)
    kernels = stall_shares(database, by="kernel").drop_duplicates(["workload", "kernel", "grid"])
    low = kernels[kernels["accounted"] < 50]
    assert sorted(low["short_name"]) == ["ModDown_43", "ModDown_44"]


def test_real_nvprof_and_ncu_are_drawn_apart(database: Database, cases: Path) -> None:
    import_paths(database, [cases / "xplacer-v100-ncu2019-spmv.txt", cases / "polyfhe-a100-stall.csv"])
    parts = by_family(stall_shares(database))
    assert {family for family, _ in parts} == {"per_issue_active", "per_warp_active"}
    assert all(part["stall_family"].nunique() == 1 for _, part in parts)
