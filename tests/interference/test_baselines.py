"""The minimum-S rule finds doubtful solo baselines, and does not choose test sets by their target."""

from __future__ import annotations

import pytest

from analysis.interference.checks import exclude, flagged_workloads, run_checks
from analysis.interference.rules.baselines import minimum_slowdowns
from analysis.store.database import Database


def _all_pairs(names, slowdown):
    return [
        {"members": [(a, slowdown(a, b)), (b, slowdown(b, a))]} for i, a in enumerate(names) for b in names[i + 1 :]
    ]


def test_one_wrong_baseline_among_many_is_flagged(database: Database, coruns) -> None:
    coruns(_all_pairs(list("abcdefgh"), lambda own, other: 0.6 if own == "c" else 1.1))
    assert flagged_workloads(database, "own") == {("V100", "c")}
    finding = next(f for f in run_checks(database, "own") if f.rule == "minimum-slowdown")
    assert (finding.severity, finding.count, finding.where) == ("error", 1, "own, V100")
    assert "c." in finding.sentence
    assert finding.rows["minimum"].tolist() == [0.6]


@pytest.mark.parametrize(("value", "flagged"), [(0.949, True), (0.95, False), (1.25, False), (1.251, True)])
def test_limits_belong_to_the_band(database: Database, coruns, value: float, flagged: bool) -> None:
    coruns(_all_pairs(list("abcdefgh"), lambda own, other: value if own == "c" else 1.1))
    assert (("V100", "c") in flagged_workloads(database, "own")) is flagged


def test_a_high_minimum_needs_three_partners(database: Database, coruns) -> None:
    runs = [{"members": [("a", 2.0), (other, 1.0)]} for other in "bc"]
    coruns([*runs, *_all_pairs(list("bcdefgh"), lambda own, other: 1.0)])
    assert flagged_workloads(database, "own") == set()


def test_a_majority_outside_is_reported_but_not_excluded(database: Database, coruns) -> None:
    coruns(_all_pairs(list("abcd"), lambda own, other: 0.8 if own in "ab" else 1.1))
    assert flagged_workloads(database, "own") == set()
    finding = next(f for f in run_checks(database) if f.rule == "minimum-slowdown")
    assert finding.severity == "warning"
    assert finding.count == 2


def test_capped_clients_say_nothing_about_the_baseline(database: Database, coruns) -> None:
    capped = [
        {"members": [("x", 3.0, {"thread_percentage": 30.0}), (other, 1.0, {"thread_percentage": 70.0})]}
        for other in "abc"
    ]
    coruns([*capped, *_all_pairs(list("abcd"), lambda own, other: 1.1)])
    assert flagged_workloads(database, "own") == set()


def test_repeats_count_as_their_median(database: Database, coruns) -> None:
    once = _all_pairs(list("abcdef"), lambda own, other: 1.1)
    outlier = [{"members": [("a", s), ("b", 1.1)]} for s in (0.5, 1.05, 1.1)]
    coruns([*outlier, *once])
    found = minimum_slowdowns(database, "own").set_index("workload")
    assert found.loc["a", "minimum"] == pytest.approx(1.075)  # median of 0.5, 1.05, 1.1, 1.1


def test_workloads_of_another_gpu_are_not_mixed(database: Database, coruns) -> None:
    coruns(_all_pairs(list("abcdefgh"), lambda own, other: 0.6 if own == "c" else 1.1))
    coruns(_all_pairs(list("abcdefgh"), lambda own, other: 1.1), gpu="K80", name="k80.csv")
    assert flagged_workloads(database, "own", "K80") == set()
    assert flagged_workloads(database, "own", "V100") == {("V100", "c")}


def test_public_v100_pairs(database: Database, coruns, kace_pairs) -> None:
    coruns(kace_pairs, dataset="kace")
    assert {workload for _, workload in flagged_workloads(database, "kace")} == {
        "whisper-large-v2_batch2-inf",
        "whisper-large-v2_batch8-inf",
        "whisper-large-v2_batch16-inf",
        "wav2vec2-base-960h_batch2-inf",
        "wav2vec2-base-960h_batch16-inf",
    }


def test_leaving_out_what_shows_a_wrong_baseline_does_not_make_it_sound(database: Database, coruns) -> None:
    coruns(_all_pairs(list("abcdefgh"), lambda own, other: (0.6 if other < "f" else 1.1) if own == "c" else 1.1))
    assert exclude(database, "faster-than-alone", "own")
    assert flagged_workloads(database, "own") == {("V100", "c")}


def test_rows_that_were_chosen_to_be_left_out_do_not_count(database: Database, coruns) -> None:
    coruns(_all_pairs(list("abcdefgh"), lambda own, other: 0.6 if (own, other) == ("c", "d") else 1.1))
    assert exclude(database, "faster-than-alone", "own", where=["workload=c"])
    assert flagged_workloads(database, "own") == set()
