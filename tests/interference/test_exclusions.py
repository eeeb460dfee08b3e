"""What the user leaves out is out of every figure, each figure says so, and taking it back brings all of it back."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from analysis.errors import NotFoundError, UsageError
from analysis.interference.checks import RULES, exclude, keep, run_checks
from analysis.interference.matrix import slowdown_matrix
from analysis.interference.rules.scopes import MEANINGS
from analysis.stalls.counters import counters
from analysis.store.database import Database
from analysis.store.filters import Filter
from analysis.store.loader import SourceInfo, load, remove_source
from analysis.store.merge import merge_workloads
from analysis.store.parsed import Parsed
from analysis.store.queries import coruns as queries
from analysis.store.queries import exclusions, models, profiles, sources

NAMES = "abcdef"


def _runs(slow=lambda i, j: 1.05 + 0.013 * i + 0.0171 * j):
    return [
        {"members": [(a, slow(i, j)), (b, slow(j, i))]}
        for i, a in enumerate(NAMES)
        for j, b in enumerate(NAMES)
        if i < j
    ]


def _cell(database: Database, row: str, column: str) -> tuple[str, float]:
    matrix = slowdown_matrix(database, "own", "V100")
    at = matrix.workloads.index(row), matrix.workloads.index(column)
    return str(matrix.state[at]), float(matrix.slowdown[at])


def test_every_rule_says_what_leaving_out_means() -> None:
    assert list(MEANINGS) == list(RULES)


def test_a_slowdown_left_out_is_not_measured_and_its_partner_stays(database: Database, coruns) -> None:
    coruns(_runs(lambda i, j: 1.0 if i == 0 else 1.05 + 0.013 * i + 0.0171 * j))
    exclude(database, "exactly-one", "own", why="clipped", by="ada")
    assert _cell(database, "a", "b") == ("not_measured", pytest.approx(np.nan, nan_ok=True))
    assert _cell(database, "b", "a") == ("measured", pytest.approx(1.063))
    matrix = slowdown_matrix(database, "own", "V100")
    assert matrix.to_json()["excluded"] == [{"rule": "exactly-one", "scope": "member", "count": 5}]
    assert "Left out by the user: 5 slowdowns (rule exactly-one)." in matrix.notes
    assert RULES["exactly-one"](database, "own") == []
    made = exclusions.decisions(database).iloc[0]
    assert (made["why"], made["decided_by"], made["count"]) == ("clipped", "ada", 5)


def test_a_run_left_out_is_as_if_never_measured(database: Database, coruns) -> None:
    coruns([*_runs(), {"members": [("a", None), ("a", None)], "outcome": "did_not_run"}])
    assert _cell(database, "a", "a")[0] == "did_not_run"
    exclude(database, "did-not-run", "own")
    assert _cell(database, "a", "a")[0] == "not_measured"
    assert sources.counts(database, "own")["runs"] == 15
    assert sources.workloads(database).set_index("workload").loc["a", "runs"] == 5


def test_a_baseline_left_out_takes_its_slowdowns_and_no_others(database: Database, coruns) -> None:
    coruns(_runs(lambda i, j: 0.5 + 0.01 * j if i == 2 else 1.05 + 0.013 * i), solos=dict.fromkeys(NAMES, 10.0))
    exclude(database, "minimum-slowdown", "own")
    matrix = slowdown_matrix(database, "own", "V100")
    assert matrix.workloads == tuple(NAMES)
    assert set(matrix.state[2]) == {"not_measured"}
    assert np.isfinite(matrix.slowdown[[0, 1, 3, 4, 5], 2]).all()
    assert "c" not in set(queries.solos(database)["workload"])
    assert matrix.excluded[0]["count"] == 1


def test_copies_keep_the_first(database: Database, coruns) -> None:
    one = {"members": [("a", 1.5, {"corun_value": 8.0}), ("b", 1.2, {"corun_value": 5.0})]}
    coruns([one, one, one])
    exclude(database, "repeated-measurements", "own")
    assert queries.members(database)["run_id"].nunique() == 1


def test_conditions_choose_rows(database: Database, coruns) -> None:
    coruns([*_runs(lambda i, j: 0.9 if i == 0 else 0.8 if i == 1 else 1.1), {"members": [("a", 0.7), ("f", 1.1)]}])
    exclude(database, "faster-than-alone", "own", where=["workload=A", "slowdown<0.8"])
    assert int(exclusions.left_out(database)["count"].sum()) == 1
    exclude(database, "faster-than-alone", "own", where=["workload~b"])
    assert int(exclusions.left_out(database)["count"].sum()) == 6
    assert exclusions.said(database).startswith("Left out by the user: 6 slowdowns")
    with pytest.raises(NotFoundError, match="no row"):
        exclude(database, "faster-than-alone", "own", where=["workload=zebra"])
    for text in ("workload", "colour=red", "slowdown=slow", "workload<3"):
        with pytest.raises(UsageError):
            exclude(database, "faster-than-alone", "own", where=[text])


def test_what_cannot_be_left_out_says_why(database: Database, coruns) -> None:
    coruns(_runs(), set_aside={"mirrored_cell": 3})
    with pytest.raises(UsageError, match="counts once already"):
        exclude(database, "mirrored-cells", "own")
    with pytest.raises(UsageError, match="no rule"):
        exclude(database, "nonsense", "own")
    with pytest.raises(NotFoundError, match="finds nothing"):
        exclude(database, "zero-values", "own")
    with pytest.raises(NotFoundError, match="nothing is left out"):
        keep(database, "zero-values")


def test_keeping_brings_everything_back(database: Database, coruns) -> None:
    coruns(_runs(lambda i, j: 1.0 if i == 0 else 1.05 + 0.013 * i + 0.0171 * j))
    before = queries.members(database)
    found = [finding.to_dict() for finding in run_checks(database)]
    exclude(database, "exactly-one")
    assert not queries.members(database).equals(before)
    keep(database, "exactly-one")
    pd.testing.assert_frame_equal(queries.members(database), before)
    assert [finding.to_dict() for finding in run_checks(database)] == found
    assert exclusions.decisions(database).empty


def test_removing_a_source_removes_its_exclusions_only(database: Database, coruns) -> None:
    fast = [{"members": [("a", 0.7), ("b", 1.1)]}]
    first = coruns(fast, name="first.csv")
    coruns([{"members": [("a", 0.6), ("c", 1.1)]}], name="second.csv")
    exclude(database, "faster-than-alone")
    assert int(exclusions.left_out(database)["count"].sum()) == 2
    remove_source(database, first)
    assert int(exclusions.left_out(database)["count"].sum()) == 1
    remove_source(database, int(sources.sources(database)["source_id"].iloc[0]))
    assert exclusions.decisions(database).empty
    coruns(fast, name="first.csv")
    assert queries.members(database)["slowdown"].notna().all()


def test_an_exclusion_follows_a_workload_that_becomes_another(database: Database, coruns) -> None:
    coruns(_runs(lambda i, j: 0.5 + 0.01 * j if i == 2 else 1.05 + 0.013 * i))
    exclude(database, "minimum-slowdown", "own")
    merge_workloads(database, "own", {"c": "whisper"})
    assert queries.members(database, Filter(workloads=("whisper",)))["slowdown"].isna().all()


def _profile(database: Database, workload: str, metrics: list[tuple[str, str, float]]) -> None:
    kernel = pd.DataFrame({"launch": [0], "workload": workload, "gpu": "V100", "name": ["k"], "short_name": ["k"]})
    metric = pd.DataFrame(metrics, columns=["metric", "unit", "value"]).assign(launch=0)
    frames = {"kernel": kernel, "kernel_metric": metric}
    load(database, Parsed(format="x", rows_read=1, frames=frames), SourceInfo("own", workload, workload, 1))


def test_a_profile_left_out_is_out_of_stalls_and_counts(database: Database) -> None:
    for workload, clock in (("a", 1.0e9), ("b", 1.5e9)):
        _profile(database, workload, [("SM Frequency", "hz", clock)])
    exclude(database, "clocks-differ", "own", where=["workload=b"])
    assert counters(database)["workload"].tolist() == ["a"]
    assert profiles.kernels(database)["workload"].tolist() == ["a"]
    counts = sources.counts(database, "own")
    assert (counts["profiles"], counts["launches"]) == (1, 1)
    assert exclusions.said(database, about="profiles") == "Left out by the user: 1 profile (rule clocks-differ)."
    assert exclusions.said(database, about="coruns") == ""
    assert exclusions.said(database, Filter(gpus=("A100",))) == ""


def test_a_value_above_its_peak_is_left_out_alone(database: Database) -> None:
    _profile(database, "a", [("DRAM Throughput", "%", 130.0), ("L2 Cache Throughput", "%", 90.0)])
    load(
        database,
        Parsed(
            format="x", rows_read=1,
            frames={
                "feature": pd.DataFrame(
                    {"workload": ["a", "a"], "gpu": "V100", "name": ["l1_throughput", "l2_throughput"], "unit": "%",
                     "value": [140.0, 20.0]}
                ),
                "telemetry": pd.DataFrame({"device": ["0"], "name": ["gpu_util"], "unit": "%", "value": [120.0]}),
            },
        ),
        SourceInfo("own", "f.csv", "f.csv", 1),
    )  # fmt: skip
    exclude(database, "above-peak", "own")
    assert RULES["above-peak"](database, "own") == []
    assert profiles.metrics(database)["metric"].tolist() == ["L2 Cache Throughput"]
    assert queries.features(database)["name"].tolist() == ["l2_throughput"]
    assert set(exclusions.left_out(database)["scope"]) == {"value", "feature", "series"}


def test_a_simulated_file_among_measured_ones(database: Database, coruns) -> None:
    coruns(_runs())
    coruns(_runs(lambda i, j: 1.2 + 0.01 * j), name="sim.csv", simulated=True)
    exclude(database, "mixed-origin", "own")
    assert not queries.members(database)["simulated"].any()
    assert "1 source (rule mixed-origin)" in exclusions.said(database, about="coruns")


def test_remeasured_baselines_leave_the_chosen_data_set(database: Database, coruns) -> None:
    for dataset, solo in (("first", 10.0), ("second", 12.0)):
        pair = [("a", solo / 8, {"solo_value": solo, "corun_value": 8.0}),
                ("b", 1.5, {"solo_value": 30.0, "corun_value": 20.0})]  # fmt: skip
        coruns([{"members": pair}], dataset=dataset)
    exclude(database, "remeasured-baselines", "second")
    left = queries.members(database)
    assert left[left["slowdown"].isna()][["dataset", "workload"]].to_numpy().tolist() == [["second", "a"]]


def test_training_counts_what_was_left_out_by_its_rule(database: Database, coruns) -> None:
    from analysis.predict.frame.features import build

    coruns(
        [*_runs(lambda i, j: 1.0 if i == 0 else 1.05 + 0.013 * i + 0.0171 * j), {"members": [("a", None), ("b", 1.2)]}]
    )
    whole = build(database, "own")
    exclude(database, "exactly-one", "own")
    frame = build(database, "own")
    assert len(whole) - len(frame) == 5
    assert frame.left_out == {"no target": 1, "by the user, rule exactly-one": 5}
    assert frame.runs == whole.runs


def test_a_report_says_what_is_left_out(database: Database, coruns) -> None:
    from analysis.report.build import dataset_report

    coruns(_runs(lambda i, j: 1.0 if i == 0 else 1.05 + 0.013 * i + 0.0171 * j))
    exclude(database, "exactly-one", "own", why="clipped by the scheduler", by="ada")
    document = dataset_report(database, "own")
    assert "Left out by the user: 5 slowdowns (rule exactly-one)." in document.summary
    text = document.model_dump_json()
    assert "clipped by the scheduler" in text
    assert '"ada"' in text
    load, leave_out, *_ = document.reproduce
    assert load.startswith("stallscope import ")
    assert leave_out == "stallscope check --dataset own --exclude exactly-one"


def test_a_stored_comparison_says_that_decisions_changed_since(database: Database, coruns) -> None:
    coruns(_runs(lambda i, j: 1.0 if i == 0 else 1.05 + 0.013 * i + 0.0171 * j))
    empty = pd.DataFrame(columns=list(models.PREDICTION_COLUMNS))
    models.save_evaluation(database, "e1", "own", "unseen-pair", {}, {"left_out": {}, "notes": []}, empty)
    assert models.evaluation(database, "e1")["result"]["notes"] == []
    exclude(database, "exactly-one", "own")
    (note,) = models.evaluation(database, "e1")["result"]["notes"]
    assert "rule exactly-one" in note
    left = {f"{exclusions.REASON}exactly-one": 5}
    models.save_evaluation(database, "e2", "own", "unseen-pair", {}, {"left_out": left}, empty)
    stored = models.evaluations(database).set_index("evaluation_id")["result"]
    assert "notes" not in stored["e2"]
    keep(database, "exactly-one")
    stored = models.evaluations(database).set_index("evaluation_id")["result"]
    assert "kept again" in stored["e2"]["notes"][0]
