"""Shares are warp cycles over warp cycles, from one family, with nothing scaled away."""

from __future__ import annotations

import math

import pytest

from analysis.errors import UsageError
from analysis.stalls.shares import COLUMNS, KEYS, stall_shares
from analysis.store.database import Database
from analysis.store.filters import Filter

ISSUE = "smsp__average_warps_issue_stalled_{}_per_issue_active.ratio"
ISSUE_PCT = "smsp__average_warps_issue_stalled_{}_per_issue_active.pct"
ACTIVE = "smsp__warp_issue_stalled_{}_per_warp_active.pct"
LATENCY = "smsp__average_warp_latency_issue_stalled_{}.ratio"
TOTAL = "smsp__average_warps_active_per_issue_active.ratio"
OCCUPANCY = "sm__warps_active.avg.pct_of_peak_sustained_active"


def _cycles(long=8.0, selected=1.0, total=10.0, **more):
    return {
        ISSUE.format("long_scoreboard"): long,
        ISSUE.format("selected"): selected,
        TOTAL: total,
        **{ISSUE.format(reason): value for reason, value in more.items()},
    }


def _row(frame, reason, **where):
    rows = frame[frame["reason"] == reason]
    for column, value in where.items():
        rows = rows[rows[column] == value]
    assert len(rows) == 1, rows
    return rows.iloc[0]


def test_share_is_of_the_stated_total_and_the_rest_stays_open(database: Database, profile) -> None:
    profile([{"name": "k", "metrics": _cycles()}])
    shares = stall_shares(database)
    row = _row(shares, "long_scoreboard")
    assert row["share"] == pytest.approx(80)
    assert row["cycles"] == 8
    assert row["accounted"] == pytest.approx(90)
    assert row["total"] == 10
    assert row["group"] == "global/local memory wait"
    assert shares["share"].sum() == pytest.approx(90)


def test_percent_and_ratio_of_one_reason_count_once(database: Database, profile) -> None:
    metrics = _cycles()
    metrics[ISSUE_PCT.format("long_scoreboard")] = 800.0
    metrics[ISSUE_PCT.format("barrier")] = 50.0  # only .pct printed
    profile([{"name": "k", "metrics": metrics}])
    shares = stall_shares(database)
    assert _row(shares, "long_scoreboard")["cycles"] == 8
    assert _row(shares, "barrier")["cycles"] == pytest.approx(0.5)


def test_families_are_never_mixed(database: Database, profile) -> None:
    metrics = {**_cycles(), LATENCY.format("long_scoreboard"): 900.0, "smsp__average_warp_latency.ratio": 1000.0}
    profile([{"name": "k", "metrics": metrics}])
    shares = stall_shares(database)
    assert set(shares["stall_family"]) == {"per_issue_active"}
    latency = stall_shares(database, family="warp_latency")
    assert _row(latency, "long_scoreboard")["share"] == pytest.approx(90)
    assert math.isnan(_row(latency, "long_scoreboard")["cycles"])


def test_the_family_of_most_launches_is_shown(database: Database, profile) -> None:
    percents = [{"name": f"p{i}", "metrics": {ACTIVE.format("wait"): 60.0}} for i in range(3)]
    profile([{"name": "k", "metrics": _cycles()}, *percents])
    assert set(stall_shares(database)["stall_family"]) == {"per_warp_active"}


def test_without_a_stated_total_nothing_is_called_accounted(database: Database, profile) -> None:
    metrics = _cycles()
    del metrics[TOTAL]
    profile([{"name": "k", "metrics": metrics}])
    row = _row(stall_shares(database), "long_scoreboard")
    assert row["share"] == pytest.approx(100 * 8 / 9)
    assert math.isnan(row["accounted"])
    assert math.isnan(row["total"])


def test_percentages_are_shares_already_and_need_not_sum_to_100(database: Database, profile) -> None:
    profile([{"name": "k", "metrics": {ACTIVE.format("long_scoreboard"): 70.0, ACTIVE.format("wait"): 33.0}}])
    row = _row(stall_shares(database), "wait")
    assert (row["share"], row["accounted"]) == (pytest.approx(33), pytest.approx(103))


def test_instructions_weigh_cycles_per_issue(database: Database, profile) -> None:
    first = {**_cycles(long=8, total=10), "smsp__inst_issued.sum": 300.0}
    second = {**_cycles(long=1, total=4), "smsp__inst_issued.sum": 100.0}
    profile([{"name": "a", "metrics": first}, {"name": "b", "metrics": second}])
    row = _row(stall_shares(database), "long_scoreboard")
    assert row["weight"] == "instructions issued"
    assert row["cycles"] == pytest.approx((300 * 8 + 100 * 1) / 400)
    assert row["share"] == pytest.approx(100 * (300 * 8 + 100 * 1) / (300 * 10 + 100 * 4))
    assert row["total"] == pytest.approx((300 * 10 + 100 * 4) / 400)
    assert (row["launches"], row["kernels"]) == (2, 2)


def test_each_profile_is_weighed_by_what_it_has(database: Database, profile) -> None:
    for workload, metric in (("a", "smsp__issue_active.sum"), ("b", "Executed Instructions")):
        launches = [
            {"name": str(n), "metrics": {**_cycles(long=n, total=10), metric: float(n)}}
            for n in range(1, 2 + len(workload))
        ]
        profile(launches * (2 if workload == "b" else 1), workload=workload, name=f"{workload}.csv")
    shares = stall_shares(database)
    assert set(shares["weight"]) == {"instructions issued"}
    assert _row(shares, "long_scoreboard", workload="a")["cycles"] == pytest.approx((1 * 1 + 2 * 2) / 3)


def test_duration_times_warps_weighs_percentages(database: Database, profile) -> None:
    launches = [
        {"name": "a", "duration_ns": 100.0, "metrics": {ACTIVE.format("wait"): 60.0, OCCUPANCY: (50.0, "%")}},
        {"name": "b", "duration_ns": 300.0, "metrics": {ACTIVE.format("wait"): 20.0, OCCUPANCY: (25.0, "%")}},
    ]
    profile(launches)
    row = _row(stall_shares(database), "wait")
    assert row["weight"] == "duration x warps"
    assert row["share"] == pytest.approx((60 * 100 * 50 + 20 * 300 * 25) / (100 * 50 + 300 * 25))


def test_duration_alone_then_nothing(database: Database, profile) -> None:
    launches = [
        {"name": "a", "duration_ns": 100.0, "metrics": {ACTIVE.format("wait"): 60.0}},
        {"name": "b", "duration_ns": 300.0, "metrics": {ACTIVE.format("wait"): 20.0}},
    ]
    profile(launches)
    profile([{**launch, "duration_ns": None} for launch in launches], workload="gpt", name="second.csv")
    shares = stall_shares(database)
    timed = _row(shares, "wait", workload="bert")
    assert (timed["weight"], timed["share"]) == ("duration", pytest.approx(30))
    plain = _row(shares, "wait", workload="gpt")
    assert (plain["weight"], plain["share"]) == ("unweighted", pytest.approx(40))


def test_invocations_count_as_launches(database: Database, profile) -> None:
    launches = [
        {"name": "a", "duration_ns": 100.0, "invocations": 9, "metrics": {ACTIVE.format("wait"): 60.0}},
        {"name": "b", "duration_ns": 100.0, "metrics": {ACTIVE.format("wait"): 20.0}},
    ]
    profile(launches)
    row = _row(stall_shares(database), "wait")
    assert row["launches"] == 10
    assert row["share"] == pytest.approx(56)


def test_a_time_trace_weighs_the_kernels_and_tells_the_profiled_share(database: Database, profile) -> None:
    profile(
        [
            {"name": "a", "metrics": {ACTIVE.format("wait"): 60.0}},
            {"name": "b", "metrics": {ACTIVE.format("wait"): 20.0}},
            {"name": "b", "metrics": {ACTIVE.format("wait"): 30.0}},
        ]
    )
    trace = [
        {"name": "a", "duration_ns": 100.0, "invocations": 6},
        {"name": "b", "duration_ns": 50.0, "invocations": 4},
        {"name": "never profiled", "duration_ns": 200.0, "invocations": 1},
    ]
    profile(trace, name="trace.csv", format="nsys-kernsum")
    row = _row(stall_shares(database), "wait")
    assert row["weight"] == "GPU time"
    assert row["share"] == pytest.approx((600 * 60 + 100 * 20 + 100 * 30) / 800)
    assert row["profiled"] == pytest.approx(80)
    assert row["launches"] == 3
    by_kernel = stall_shares(database, by="kernel")
    assert _row(by_kernel, "wait", kernel="b")["share"] == pytest.approx(25)
    assert _row(by_kernel, "wait", kernel="a")["profiled"] == pytest.approx(60)


def test_weights_of_two_tools_are_never_mixed(database: Database, profile) -> None:
    """A trace weighs the kernels that it saw; durations of the profiler don't step in for the others."""
    profile(
        [
            {"name": "a", "duration_ns": 1000.0, "metrics": {ACTIVE.format("wait"): 60.0}},
            {"name": "b", "duration_ns": 9000.0, "metrics": {ACTIVE.format("wait"): 20.0}},
            {"name": "b", "grid": "(2, 1, 1)", "metrics": {ACTIVE.format("wait"): 40.0}},
            {"name": "not traced", "duration_ns": 5000.0, "metrics": {ACTIVE.format("wait"): 90.0}},
        ]
    )
    trace = [{"name": "a", "duration_ns": 100.0, "invocations": 2}, {"name": "b", "duration_ns": 300.0}]
    profile(trace, name="trace.csv", format="nsys-kernsum")
    row = _row(stall_shares(database), "wait")
    assert row["weight"] == "GPU time"
    # b's two launches share its 300 ns alike, as the profiler timed one of them only; what was not traced has no part.
    assert row["share"] == pytest.approx((200 * 60 + 150 * 20 + 150 * 40) / 500)


def test_durations_from_another_file_of_the_workload_serve(database: Database, profile) -> None:
    stalls = [
        {"name": "a", "grid": "(1, 1, 1)", "block": "(32, 1, 1)", "metrics": {ACTIVE.format("wait"): 60.0}},
        {"name": "b", "grid": "(1, 1, 1)", "block": "(32, 1, 1)", "metrics": {ACTIVE.format("wait"): 20.0}},
    ]
    times = [
        {**launch, "duration_ns": time, "metrics": {"dram__bytes.sum": 1.0}}
        for launch, time in zip(stalls, (100.0, 300.0), strict=True)
    ]
    profile(stalls)
    profile(times, name="times.csv")
    row = _row(stall_shares(database), "wait")
    assert (row["weight"], row["share"], row["launches"]) == ("duration", pytest.approx(30), 2)


def test_counts_add(database: Database, profile) -> None:
    name = "smsp__pcsamp_warps_issue_stalled_{}"
    launches = [
        {"name": "a", "metrics": {name.format("wait"): 90.0, name.format("selected"): 10.0}},
        {"name": "b", "metrics": {name.format("wait"): 100.0, name.format("selected"): 800.0}},
    ]
    profile(launches)
    row = _row(stall_shares(database), "wait")
    assert (row["weight"], row["share"]) == ("counts", pytest.approx(19))


def test_missing_values_are_not_zero_launches(database: Database, profile) -> None:
    launches = [
        {"name": "a", "metrics": {ACTIVE.format("wait"): 60.0}},
        {"name": "b", "metrics": {ACTIVE.format("wait"): None}},
    ]
    profile(launches)
    row = _row(stall_shares(database), "wait")
    assert (row["share"], row["launches"]) == (pytest.approx(60), 1)


def test_kernels_differ_by_grid_and_launches_by_themselves(database: Database, profile) -> None:
    launches = [
        {"name": "k(int)", "grid": grid, "block": "(32, 1, 1)", "metrics": {ACTIVE.format("wait"): value}}
        for grid, value in (("(1, 1, 1)", 10.0), ("(1, 1, 1)", 20.0), ("(2, 1, 1)", 60.0))
    ]
    profile(launches)
    by_kernel = stall_shares(database, by="kernel")
    assert by_kernel[["kernel", "grid", "launches"]].values.tolist() == [
        ["k(int)", "(1, 1, 1)", 2],
        ["k(int)", "(2, 1, 1)", 1],
    ]
    assert by_kernel["share"].tolist() == pytest.approx([15, 60])
    assert stall_shares(database, by="launch")["share"].tolist() == pytest.approx([10, 20, 60])
    assert set(by_kernel["short_name"]) == {"k"}


def test_data_sets_gpus_and_workloads_stay_apart(database: Database, profile) -> None:
    launch = [{"name": "k", "metrics": {ACTIVE.format("wait"): 60.0}}]
    profile(launch)
    profile(launch, gpu="V100", name="v.csv", simulated=True)
    profile(launch, dataset="other", name="o.csv")
    shares = stall_shares(database)
    assert len(shares) == 3
    assert shares.set_index(["dataset", "gpu"])["simulated"].to_dict() == {
        ("own", "A100-40GB"): False,
        ("own", "V100"): True,
        ("other", "A100-40GB"): False,
    }
    assert set(stall_shares(database, Filter(gpus=("V100",)))["gpu"]) == {"V100"}


def test_nvprof_keeps_its_own_classes(database: Database, profile) -> None:
    profile([{"name": "k", "metrics": {"stall_memory_dependency": 70.0, "stall_exec_dependency": 20.0}}])
    shares = stall_shares(database)
    assert set(shares["reason"]) == {"memory_dependency", "exec_dependency"}
    assert _row(shares, "memory_dependency")["group"] == "global/local memory wait"


def test_no_stalls_is_an_empty_frame_with_its_columns(database: Database, profile) -> None:
    profile([{"name": "k", "metrics": {"dram__bytes.sum": 1.0}}])
    for by in KEYS:
        assert list(stall_shares(database, by=by).columns) == [*KEYS[by], *COLUMNS]
    with pytest.raises(UsageError, match="source"):
        stall_shares(database, by="source")
    with pytest.raises(UsageError, match="nothing"):
        stall_shares(database, family="nothing")


def test_real_v100_launch(database: Database, profile, real) -> None:
    profile(real("xplacer-v100-ncu2019-spmv.txt"), gpu="V100", cc=None)
    launch = stall_shares(database, by="launch")
    launch = launch[launch["kernel_id"] == launch["kernel_id"].min()]
    row = _row(launch, "long_scoreboard")
    assert row["cycles"] == pytest.approx(86.01)
    assert launch["cycles"].sum() == pytest.approx(95.68)
    assert row["total"] == pytest.approx(126.55)
    assert 100 - row["accounted"] == pytest.approx(24, abs=0.5)
    assert row["share"] == pytest.approx(100 * 86.01 / 126.55)


@pytest.mark.parametrize(("file", "weighted"), [("polyfhe-a100-stall.csv", 48), ("polyfhe-rtx4090-stall-set1.csv", 26)])
def test_real_percentages_equal_plain_python(database: Database, profile, real, file: str, weighted: int) -> None:
    launches = real(file)
    profile(launches)
    shares = stall_shares(database)
    assert set(shares["launches"]) == {weighted}
    assert len(shares) == 17
    for _, row in shares.iterrows():
        values = [launch["metrics"][ACTIVE.format(row["reason"])][0] for launch in launches]
        assert row["share"] == pytest.approx(sum(values) / len(values))


def test_real_v100_workload_equals_plain_python(database: Database, profile, real) -> None:
    launches = real("xplacer-v100-ncu2019-spmv.txt")
    profile(launches, gpu="V100", cc=None)
    shares = stall_shares(database)
    issued = [launch["metrics"]["smsp__issue_active.sum"][0] for launch in launches]
    totals = [launch["metrics"][TOTAL][0] for launch in launches]
    for _, row in shares.iterrows():
        values = [launch["metrics"].get(ISSUE.format(row["reason"]), (0.0,))[0] for launch in launches]
        cycles = sum(n * v for n, v in zip(issued, values, strict=True))
        assert row["cycles"] == pytest.approx(cycles / sum(issued))
        assert row["share"] == pytest.approx(100 * cycles / sum(n * t for n, t in zip(issued, totals, strict=True)))


def test_real_kernels_below_half_accounted(database: Database, profile, real) -> None:
    profile(real("polyfhe-rtx4090-stall-set1.csv"), gpu="RTX 4090", cc="8.9")
    accounted = stall_shares(database, by="kernel").groupby("kernel")["accounted"].first()
    assert (accounted < 50).sum() == 2
    assert accounted[accounted < 50].tolist() == pytest.approx([42.6, 42.6], abs=1)
