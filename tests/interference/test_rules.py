"""Each rule finds what it is for, and stays silent on sound data."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from pathlib import Path

import pandas as pd
import pytest

from analysis.errors import NotFoundError
from analysis.ingest.importer import import_paths
from analysis.interference.checks import RULES, run_checks
from analysis.store.database import Database
from analysis.store.loader import SourceInfo, load
from analysis.store.parsed import Parsed


def _pairs(names, slowdown, **extra):
    return [
        {"members": [(a, slowdown(i, j)), (b, slowdown(j, i))], **extra}
        for i, a in enumerate(names)
        for j, b in enumerate(names)
        if i < j
    ]


def _sound(i: int, j: int) -> float:
    return 1.05 + 0.013 * i + 0.0171 * j


def _only(database: Database, rule: str):
    found = RULES[rule](database, None)
    assert {finding.rule for finding in found} <= {rule}
    return found


def _telemetry(database: Database, frame: pd.DataFrame, name: str = "t.csv") -> None:
    load(
        database,
        Parsed(format="x", rows_read=len(frame), frames={"telemetry": frame}),
        SourceInfo("own", name, name, 1),
    )


def test_sound_data_has_no_findings(database: Database, coruns) -> None:
    coruns(_pairs("abcdef", _sound), solos=dict.fromkeys("abcdef", 10.0))
    assert run_checks(database, "own") == []


def test_an_unknown_data_set_is_refused(database: Database) -> None:
    with pytest.raises(NotFoundError):
        run_checks(database, "nowhere")


def test_the_gravest_comes_first(database: Database, coruns) -> None:
    failed = {"members": [("a", None), ("f", None)], "outcome": "did_not_run"}
    coruns([failed, *_pairs("abcdef", lambda i, j: 0.5 if i == 0 else _sound(i, j))])
    severities = [finding.severity for finding in run_checks(database)]
    assert severities == sorted(severities, key=["error", "warning", "info"].index)
    assert {"error", "warning", "info"} <= set(severities)


def test_findings_print_without_their_rows(database: Database, coruns) -> None:
    coruns(_pairs("abcdef", lambda i, j: 0.5 if i == 0 else _sound(i, j)))
    document = json.loads(json.dumps([finding.to_dict() for finding in run_checks(database)]))
    assert set(document[0]) == {"rule", "severity", "where", "count", "sentence"}


def test_faster_than_alone_has_a_limit_and_a_share(database: Database, coruns) -> None:
    coruns([{"members": [("a", 0.979), ("b", 0.98)]}, {"members": [("a", 1.2), ("c", 1.1)]}])
    (finding,) = _only(database, "faster-than-alone")
    assert finding.count == 1
    assert "1 of 4 members" in finding.sentence
    assert "25.0 %" in finding.sentence


def test_exactly_one_needs_a_cluster(database: Database, coruns) -> None:
    coruns(_pairs("abcdef", lambda i, j: 1.0 if i == 0 else _sound(i, j)))
    (finding,) = _only(database, "exactly-one")
    assert finding.count == 5


def test_ones_among_rounded_values_are_no_cluster(database: Database, coruns) -> None:
    coruns(_pairs("abcdef", lambda i, j: round(1.0 + 0.1 * ((i + j) % 3), 1)))
    assert _only(database, "exactly-one") == []


def test_hard_coded_members_are_counted_with_their_runs(database: Database, coruns) -> None:
    flag = {"flags": ["hard_coded"]}
    coruns(
        [{"members": [("PPO/x", None, flag), ("PPO/x", None, flag)]}, {"members": [("PPO/y", None, flag), ("a", 1.1)]}]
    )
    (finding,) = _only(database, "hard-coded")
    assert finding.count == 3
    assert "in 2 runs" in finding.sentence
    assert "(PPO)" in finding.sentence


def test_a_solo_of_another_load_is_told(database: Database, coruns) -> None:
    flag = {"flags": ["solo_single_stream"]}
    coruns([{"members": [("llama", 1.2, flag), ("a", 1.1)]}], report={"repeated_figures": 4})
    (finding,) = _only(database, "other-solo")
    assert (finding.count, finding.rows["workload"].tolist()) == (1, ["llama"])
    (aside,) = _only(database, "set-aside")
    assert "4 figures of coruns.csv were understood and set aside" in aside.sentence


def test_averaged_self_pairs_only_when_all_are(database: Database, coruns) -> None:
    same = [{"members": [(name, s), (name, s)]} for name, s in (("a", 1.2), ("b", 1.3), ("c", 1.4))]
    coruns(same)
    (finding,) = _only(database, "averaged-self-pairs")
    assert finding.count == 3
    coruns([{"members": [("d", 1.2), ("d", 1.21)]}], name="more.csv")  # another campaign, that measured both
    (finding,) = _only(database, "averaged-self-pairs")
    assert finding.count == 3
    assert "of a workload with itself of coruns.csv both members" in finding.sentence
    coruns([*same, {"members": [("d", 1.2), ("d", 1.21)]}], dataset="other", name="all.csv")
    assert [one.where for one in _only(database, "averaged-self-pairs")] == ["own, V100"]


def test_two_campaigns_in_one_data_set(database: Database, coruns) -> None:
    coruns(_pairs("abc", _sound), solos={"a": 10.0, "b": 20.0, "c": 30.0})
    coruns(_pairs("abc", lambda i, j: _sound(i, j) + 0.01), solos={"a": 10.1, "b": 25.0, "c": 30.0}, name="second.csv")
    (finding,) = _only(database, "pooled-campaigns")
    assert finding.rows["workload"].tolist() == ["b"]  # 1 % apart is a repeat, 25 % another campaign
    assert finding.severity == "error"


def test_same_coruns_other_baseline(database: Database, coruns) -> None:
    def runs(solo):
        return [{"members": [("a", solo / 8, {"solo_value": solo, "corun_value": 8.0}),
                             ("b", 1.5, {"solo_value": 30.0, "corun_value": 20.0})]}]  # fmt: skip

    coruns(runs(10.0), dataset="first")
    coruns(runs(12.0), dataset="second")
    (finding,) = _only(database, "remeasured-baselines")
    assert finding.count == 1
    assert finding.rows["workload"].tolist() == ["a"]
    assert "first and second" in finding.where


def test_copies_are_not_repeats(database: Database, coruns) -> None:
    one = {"members": [("a", 1.5, {"corun_value": 8.0}), ("b", 1.2, {"corun_value": 5.0})]}
    other_way = {"members": [("b", 1.2, {"corun_value": 5.0}), ("a", 1.5, {"corun_value": 8.0})]}
    repeat = {"members": [("a", 1.5, {"corun_value": 8.01}), ("b", 1.2, {"corun_value": 5.0})]}
    coruns([one, other_way, repeat])
    (finding,) = _only(database, "repeated-measurements")
    assert finding.count == 1
    assert finding.rows["copies"].tolist() == [2]


def test_the_same_figures_under_other_caps_are_no_copy(database: Database, coruns) -> None:
    def run(percentage):
        member = {"corun_value": 8.0, "thread_percentage": percentage}
        return {"members": [("a", 1.5, member), ("b", 1.2, {"corun_value": 5.0})]}

    coruns([run(50.0), run(60.0)])
    assert _only(database, "repeated-measurements") == []


def test_simulated_beside_measured(database: Database, coruns) -> None:
    coruns(_pairs("abc", _sound))
    assert _only(database, "mixed-origin") == []
    coruns(_pairs("abc", lambda i, j: _sound(i, j) + 0.01), name="sim.csv", simulated=True)
    (finding,) = _only(database, "mixed-origin")
    assert finding.rows["file_name"].tolist() == ["sim.csv"]


def test_did_not_run_and_zeros(database: Database, coruns) -> None:
    runs = [
        {"members": [("a", None), ("b", None)], "outcome": "did_not_run"},
        {"members": [("a", 1.2), ("c", None, {"outcome": "did_not_run"})], "outcome": "partial"},
        {"members": [("a", 1.2), ("d", 1.1)]},
        {"members": [("b", None, {"corun_value": 0.0}), ("d", 1.1)]},
    ]
    coruns(runs)
    (finding,) = _only(database, "did-not-run")
    assert finding.count == 2
    assert "2 of 4 sets" in finding.sentence
    assert finding.rows["workloads"].tolist() == ["a + b", "a + c"]
    (zero,) = _only(database, "zero-values")
    assert zero.count == 1
    assert "counts as run" in zero.sentence


def test_what_the_importer_set_aside_is_told(database: Database, coruns) -> None:
    coruns(
        _pairs("abc", _sound),
        set_aside={"mirrored_cell": 3, "scale_above_1": 7},
        report={"measured_during_corun": ["gpu_util"]},
    )
    (mirrored,) = _only(database, "mirrored-cells")
    assert mirrored.count == 3
    (aside,) = _only(database, "set-aside")
    assert aside.count == 7
    assert "jobs on several GPUs" in aside.sentence
    (during,) = _only(database, "measured-during-corun")
    assert "gpu_util of coruns.csv was measured during the co-run" in during.sentence


def test_caps_beside_no_caps(database: Database, coruns) -> None:
    third = {"thread_percentage": 33.0}
    capped = {"members": [("a", 2.0, third), ("b", 2.1, third), ("c", 2.2, third)]}
    coruns(_pairs("abc", _sound))
    assert _only(database, "client-caps") == []
    coruns([capped], name="capped.csv")
    (finding,) = _only(database, "client-caps")
    assert finding.count == 3
    assert "3 pairs ran without client caps and 1 run with" in finding.sentence


def test_counters_above_their_peak(database: Database) -> None:
    kernel = pd.DataFrame({"launch": [0], "workload": "a", "gpu": "V100", "name": ["k"], "short_name": ["k"]})
    metric = pd.DataFrame(
        {
            "launch": 0,
            "metric": ["DRAM Throughput", "L2 Cache Throughput", "Est. Speedup", "DRAM Throughput"],
            "unit": ["%", "%", "%", "byte/s"],
            "value": [130.0, 100.4, 450.0, 9e11],
        }
    )
    frames = {"kernel": kernel, "kernel_metric": metric}
    load(database, Parsed(format="x", rows_read=4, frames=frames), SourceInfo("own", "p.csv", "p.csv", 1))
    (finding,) = _only(database, "above-peak")
    assert finding.rows["value"].tolist() == [130.0]


@pytest.mark.parametrize(("second", "found"), [(1.01e9, 0), (1.03e9, 1)])
def test_clocks_that_differ(database: Database, second: float, found: int) -> None:
    for workload, clock in (("a", 1.0e9), ("b", second)):
        kernel = pd.DataFrame({"launch": [0], "workload": workload, "gpu": "V100", "name": ["k"], "short_name": ["k"]})
        metric = pd.DataFrame({"launch": [0], "metric": ["SM Frequency"], "unit": ["hz"], "value": [clock]})
        frames = {"kernel": kernel, "kernel_metric": metric}
        load(database, Parsed(format="x", rows_read=1, frames=frames), SourceInfo("own", workload, workload, 1))
    assert len(_only(database, "clocks-differ")) == found


def test_idle_counters_on_a_busy_gpu(database: Database) -> None:
    rows = [("DCGM_FI_DEV_GPU_UTIL", 99.0), ("DCGM_FI_PROF_GR_ENGINE_ACTIVE", 0.0), ("DCGM_FI_PROF_DRAM_ACTIVE", 0.4)]
    frame = pd.DataFrame([{"device": "0", "name": name, "value": value} for name, value in rows for _ in range(3)])
    _telemetry(database, frame)
    (finding,) = _only(database, "idle-counters")
    assert finding.rows["name"].tolist() == ["DCGM_FI_PROF_GR_ENGINE_ACTIVE"]


def test_idle_counters_on_an_idle_gpu_are_fine(database: Database) -> None:
    rows = [("DCGM_FI_DEV_GPU_UTIL", 3.0), ("DCGM_FI_PROF_GR_ENGINE_ACTIVE", 0.0)]
    _telemetry(database, pd.DataFrame([{"device": "0", "name": name, "value": value} for name, value in rows]))
    assert _only(database, "idle-counters") == []


def test_one_series_for_several_pods(database: Database) -> None:
    start = datetime(2026, 1, 1)
    frame = pd.DataFrame(
        [
            {"device": "0", "entity": pod, "measured_at": start + timedelta(seconds=s), "name": "DCGM_FI_DEV_GPU_UTIL",
             "value": 50.0 + s + (7 if pod == "c" else 0)}
            for pod in "abc" for s in range(6)
        ]
    )  # fmt: skip
    _telemetry(database, frame)
    (finding,) = _only(database, "identical-series")
    assert list(finding.rows["entities"][0]) == ["a", "b"]
    assert "2 clients" in finding.sentence


def test_a_constant_series_says_nothing(database: Database) -> None:
    start = datetime(2026, 1, 1)
    frame = pd.DataFrame(
        [
            {"device": "0", "entity": pod, "measured_at": start + timedelta(seconds=s), "name": "x", "value": 100.0}
            for pod in "ab"
            for s in range(6)
        ]
    )
    _telemetry(database, frame)
    assert _only(database, "identical-series") == []


def _counts(database: Database, dataset: str) -> dict[tuple[str, str], int]:
    return {(f.rule, f.where.removeprefix(f"{dataset}, ")): f.count for f in run_checks(database, dataset)}


def test_public_campaigns_show_their_known_faults(database: Database, datasets: Path) -> None:
    import_paths(database, [datasets / "gavel_simulation_throughputs.json"], dataset="gavel-sim")
    import_paths(database, [datasets / "gavel_oracle_throughputs.json"], dataset="gavel-oracle")
    simulation, oracle = _counts(database, "gavel-sim"), _counts(database, "gavel-oracle")
    assert simulation["exactly-one", "V100"] == 83
    assert oracle["exactly-one", "P100"] == 126
    for gpu, first, second in (("K80", 45, 53), ("P100", 11, 14), ("V100", 21, 23)):
        assert simulation["did-not-run", f"{gpu}, CUDA MPS"] == first
        assert oracle["did-not-run", f"{gpu}, CUDA MPS"] == second
        assert ("averaged-self-pairs", gpu) in simulation
        assert ("averaged-self-pairs", gpu) not in oracle
    assert simulation["mirrored-cells", "gavel_simulation_throughputs.json"] == 975
    assert simulation["set-aside", "gavel_simulation_throughputs.json"] == 3420 + 5304


def test_public_time_slicing_shows_its_known_faults(database: Database, datasets: Path) -> None:
    import_paths(
        database, [datasets / name for name in ("lucid_single_data.csv", "lucid_colocate_info.csv")], dataset="lucid"
    )
    counts = _counts(database, "lucid")
    assert counts["hard-coded", "RTX 3090"] == 318
    assert counts["faster-than-alone", "RTX 3090"] == 431
    assert counts["measured-during-corun", "lucid_colocate_info.csv"] == 3
    (finding,) = RULES["faster-than-alone"](database, "lucid")
    assert "of 2,458 members" in finding.sentence
    assert "17.5 %" in finding.sentence
    assert "23.3 % are below 1" in finding.sentence
    assert ("exactly-one", "RTX 3090") not in counts  # three decimals: 1.000 is no more frequent than its neighbours


def test_the_public_serving_set_shows_its_known_faults(database: Database, datasets: Path) -> None:
    names = ("tally_single_job_perf.csv", "tally_priority_aware_perf.csv")
    import_paths(database, [datasets / name for name in names], dataset="tally")
    counts = _counts(database, "tally")
    assert counts["set-aside", "tally_priority_aware_perf.csv"] == 96
    members = RULES["other-solo"](database, "tally")[0].rows
    assert {"llama" in name or "bert" in name for name in members["workload"]} == {True}
