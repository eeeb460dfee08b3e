"""Every spelling of every stall reason is understood, and misspelt ones lead to the right one."""

from __future__ import annotations

import pytest

from analysis.reference import stall_reasons as stalls
from analysis.reference.stall_reasons import nearest

PER_ISSUE = "smsp__average_warps_issue_stalled_{}_per_issue_active"
PER_WARP = "smsp__warp_issue_stalled_{}_per_warp_active"

COMMON = {
    "long_scoreboard", "lg_throttle", "tex_throttle", "drain", "short_scoreboard", "mio_throttle",
    "math_pipe_throttle", "dispatch_stall", "barrier", "membar", "sleeping", "wait", "no_instruction", "selected",
    "not_selected", "misc",
}  # fmt: skip


def test_table_is_complete() -> None:
    table = stalls.load()
    assert set(table.index) == COMMON | {"gmma", "branch_resolving", "imc_miss"}
    assert not table["meaning"].str.len().lt(20).any()
    assert table["meaning"].str.endswith(".").all()
    assert table["helps"].ne("").all()
    assert table["source"].ne("").all()
    assert set(table["group"]) == {group.name for group in stalls.groups()} - {"unaccounted"}


def test_groups_hold_every_reason_once_in_the_order_of_the_charts() -> None:
    reasons = [reason for group in stalls.groups() for reason in group.reasons]
    assert sorted(reasons) == sorted(stalls.load().index)
    assert [group.name for group in stalls.groups()] == [
        "global/local memory wait", "memory pipe", "shared memory and MIO", "compute pipe", "synchronisation",
        "fixed latency", "front end", "issue", "other", "unaccounted",
    ]  # fmt: skip
    assert len({group.colour for group in stalls.groups()}) == 10
    assert stalls.groups()[-1].hatched
    assert stalls.group_of("imc_miss") == "front end"
    assert stalls.group_of("dispatch_stall") == "compute pipe"


@pytest.mark.parametrize(
    ("name", "family", "reason", "suffix"),
    [
        (PER_ISSUE.format("long_scoreboard") + ".ratio", "per_issue_active", "long_scoreboard", "ratio"),
        (PER_ISSUE.format("wait") + ".pct", "per_issue_active", "wait", "pct"),
        (PER_ISSUE.format("barrier") + ".max_rate", "per_issue_active", "barrier", "max_rate"),
        (PER_WARP.format("lg_throttle") + ".pct", "per_warp_active", "lg_throttle", "pct"),
        ("smsp__average_warp_latency_issue_stalled_selected.ratio", "warp_latency", "selected", "ratio"),
        ("smsp__warps_issue_stalled_membar.sum", "warps_cumulative", "membar", "sum"),
        ("smsp__warps_issue_stalled_membar.avg", "warps_cumulative", "membar", "avg"),
        ("pmsampling:smsp__warps_issue_stalled_wait.avg", "pmsampling", "wait", "avg"),
        ("smsp__pcsamp_warps_issue_stalled_no_instructions", "pcsamp", "no_instruction", ""),
        ("warpsampling:smsp__pcsamp_warps_issue_stalled_wait", "pcsamp", "wait", ""),
        ("smsp__pcsamp_warps_issue_stalled_warpgroup_arrive_not_issued", "pcsamp_not_issued", "gmma", ""),
        (PER_ISSUE.format("gmma") + ".ratio", "per_issue_active", "gmma", "ratio"),
        ("smsp__warp_cycles_per_issue_stall_short_scoreboard", "pascal", "short_scoreboard", ""),
        ("smsp__warp_stall_long_scoreboard_pct", "pascal_pct", "long_scoreboard", ""),
        ("stall_long_sb", "source_page", "long_scoreboard", ""),
        ("stall_long_sb (Not Issued)", "source_page_not_issued", "long_scoreboard", ""),
        ("stall_memory_dependency", "nvprof", "memory_dependency", ""),
        ("Stall Long Scoreboard", "per_issue_active", "long_scoreboard", "ratio"),
        ("Selected", "per_issue_active", "selected", "ratio"),
    ],
)  # fmt: skip
def test_resolve(name: str, family: str, reason: str, suffix: str) -> None:
    assert stalls.resolve(name) == stalls.StallMetric(family, reason, suffix)


@pytest.mark.parametrize(
    "name",
    [
        "dram__bytes_read.sum",
        PER_WARP.format("long_scoreboard") + ".avg",  # a percentage has no average
        PER_ISSUE.format("long_scoreboard_pipe_l1tex") + ".ratio",
        PER_ISSUE.format("mio_throttle_pipe_mio") + ".ratio",
        "smsp__average_warps_active_per_issue_active.ratio",
        "group:smsp__pcsamp_warp_stall_reasons",
        "ectors_srcunit_tex.avg",
        "",
        "stall_long_sb.sum",
    ],
)
def test_what_is_no_reason_is_not_resolved(name: str) -> None:
    assert stalls.resolve(name) is None


def test_suffixes_carry_their_scale() -> None:
    ratio, percent, limit = (
        stalls.resolve(f"{PER_ISSUE.format('wait')}.{suffix}") for suffix in ("ratio", "pct", "max_rate")
    )
    assert ratio is not None
    assert percent is not None
    assert limit is not None
    assert (ratio.rank, percent.rank, limit.rank) == (0, 1, None)
    assert (ratio.scale, percent.scale, limit.scale) == (1.0, 0.01, 0.0)


@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        (PER_WARP.format("math_throttle") + ".avg", PER_WARP.format("math_pipe_throttle") + ".pct"),
        (PER_WARP.format("long_scoreboard") + ".avg", PER_WARP.format("long_scoreboard") + ".pct"),
        (PER_ISSUE.format("member") + ".ratio", PER_ISSUE.format("membar") + ".ratio"),
        (PER_ISSUE.format("lg") + ".ratio", PER_ISSUE.format("lg_throttle") + ".ratio"),
        ("smsp__average_warp_issue_stalled_barrier_per_issue_active.ratio", PER_ISSUE.format("barrier") + ".ratio"),
        (PER_WARP.format("warpgroup_arrive") + ".pct", PER_WARP.format("gmma") + ".pct"),
    ],
)  # fmt: skip
def test_nearest_names_the_valid_metric(wrong: str, right: str) -> None:
    assert nearest(wrong) == right
    assert stalls.resolve(right) is not None


@pytest.mark.parametrize("name", ["flop_count_sp.sum", "dram__bytes.sum", ""])
def test_nearest_does_not_guess_for_other_metrics(name: str) -> None:
    assert nearest(name) is None


def test_architectures_differ() -> None:
    assert "branch_resolving" not in stalls.available(7.0)
    assert len(stalls.available(7.0)) == 17
    assert len(stalls.available("8.6")) == 18
    assert set(stalls.available(9.0)) - set(stalls.available(8.9)) == {"gmma"}
    assert len(stalls.available(12.0)) == 17
    assert not {"imc_miss", "gmma"} & set(stalls.available(10.0))


def test_nvprof_classes_are_many_to_one() -> None:
    classes = stalls.nvprof_classes()
    assert classes["exec_dependency"] == ("short_scoreboard", "wait")
    assert classes["memory_throttle"] == ("lg_throttle", "drain")
    assert stalls.group_of("memory_throttle") == "memory pipe"
    assert stalls.group_of("sync") == "synchronisation"
    assert stalls.group_of("exec_dependency") == "other"
    assert stalls.resolve("stall_sync") == stalls.StallMetric("nvprof", "sync", "")


def test_every_spelling_in_the_table_resolves_to_its_own_row() -> None:
    table = stalls.load()
    for column in (
        "per_issue_active",
        "per_warp_active",
        "warp_latency",
        "pcsamp",
        "pcsamp_not_issued",
        "source_page",
        "pascal",
    ):
        for reason, name in table[column].items():
            if name:
                suffix = stalls.family(column).suffixes[0]
                found = stalls.resolve(f"{name}.{suffix}" if suffix else name)
                assert found is not None, name
                assert (found.family, found.reason) == (column, reason)
