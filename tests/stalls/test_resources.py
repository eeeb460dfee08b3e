"""Jobs lean on what counters and stall reasons state, and on DRAM only where its throughput was counted."""

from __future__ import annotations

import math

import pytest

from analysis.stalls import beside, resources
from analysis.store.database import Database

ISSUE = "smsp__average_warps_issue_stalled_{}_per_issue_active.ratio"
TOTAL = "smsp__average_warps_active_per_issue_active.ratio"
DRAM = "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed"
SAMPLES = "smsp__pcsamp_warps_issue_stalled_{}"


def _launch(dram: float | None = None, name: str = "k(int)", **reasons: float) -> dict:
    metrics: dict = {ISSUE.format(reason): value for reason, value in reasons.items()}
    if dram is not None:
        metrics[DRAM] = (dram, "%")
    return {"name": name, "duration_ns": 100.0, "metrics": {**metrics, TOTAL: 10.0}}


def _row(frame, **wanted):
    for name, value in wanted.items():
        frame = frame[frame[name] == value]
    assert len(frame) == 1
    return frame.iloc[0]


def test_dram_is_named_where_it_was_counted_and_over_its_peak_said(database: Database, profile) -> None:
    profile([_launch(71.0, long_scoreboard=6.0)], workload="a")
    profile([_launch(55.0, long_scoreboard=5.0)], workload="b", name="b.csv")
    lean = resources.leaning(database)
    row = _row(lean, workload="a", resource="dram")
    assert (row["use"], row["counter"], row["leans"]) == (71.0, "DRAM throughput", True)
    assert math.isnan(row["wait"])  # no stall reason is DRAM's alone
    together = _row(resources.overlap(lean), resource="dram")
    assert (together["asked"], together["state"]) == (126.0, "over")
    text = resources.sentence(lean)
    assert "DRAM (a 71.0 % and b 55.0 % of its peak: together 126 %, more than it has)" in text


def test_a_long_scoreboard_alone_is_global_or_local_memory(database: Database, profile) -> None:
    profile([_launch(long_scoreboard=6.0)], workload="a")
    profile([_launch(long_scoreboard=5.0, math_pipe_throttle=0.2)], workload="b", name="b.csv")
    lean = resources.leaning(database)
    text = resources.sentence(lean)
    assert text.startswith("Both lean on global or local memory (a 60.0 % and b 50.0 % of warp cycles wait for it).")
    assert "Whether that is DRAM or the L2 cache is open" in text
    assert _row(resources.overlap(lean), resource="dram")["state"] == "unknown"
    assert math.isnan(_row(lean, workload="a", resource="math")["wait"])  # not reported is not zero
    assert _row(lean, workload="b", resource="math")["wait"] == pytest.approx(2)


def test_the_busiest_unit_is_not_the_math_pipes(database: Database, profile) -> None:
    top, end = "sm__throughput.avg.pct_of_peak_sustained_elapsed", ".avg.pct_of_peak_sustained_active"

    def launch(**use: float) -> dict:
        names = {"sm": top, "lsu": f"sm__inst_executed_pipe_lsu{end}", "fma": f"sm__pipe_fma_cycles_active{end}"}
        return {"name": "k(int)", "duration_ns": 100.0,
                "metrics": {names[key]: (value, "%") for key, value in use.items()}}  # fmt: skip

    profile([launch(sm=91.0, lsu=91.0, fma=6.0)], workload="a")
    profile([launch(sm=72.0, lsu=72.0, fma=5.0)], workload="b", name="b.csv")
    lean = resources.leaning(database)
    assert _row(resources.overlap(lean), resource="math")["asked"] == pytest.approx(11.0)
    assert not _row(resources.overlap(lean), resource="math")["shared"]
    text = resources.sentence(lean)
    assert "math" not in text
    assert "load/store pipe (a 91.0 % and b 72.0 % of its peak" in text
    assert "busiest" not in text


def test_without_pipes_only_the_busiest_unit_is_named(database: Database, profile) -> None:
    for name, use in (("a", 91.0), ("b", 72.0)):
        metrics = {"sm__throughput.avg.pct_of_peak_sustained_elapsed": (use, "%")}
        profile([{"name": "k(int)", "duration_ns": 100.0, "metrics": metrics}], workload=name, name=f"{name}.csv")
    text = resources.sentence(resources.leaning(database))
    assert "the SM's busiest unit" in text
    assert "math" not in text
    assert "more than it has" not in text


def test_one_that_leans_alone_is_no_overlap(database: Database, profile) -> None:
    profile([_launch(80.0, mio_throttle=4.0)], workload="a")
    profile([_launch(5.0, mio_throttle=0.1)], workload="b", name="b.csv")
    lean = resources.leaning(database)
    assert resources.sentence(lean).startswith("No resource that the profiles state is leaned on by more than one")
    assert dict(resources.overlap(lean)[["resource", "state"]].to_numpy())["mio"] == "one"


def test_waits_of_different_families_are_not_ranked(database: Database, profile) -> None:
    profile([_launch(long_scoreboard=6.0)], workload="a")
    profile([_launch(long_scoreboard=5.0)], workload="b", name="b.csv")
    same = resources.leaning(database)
    assert resources.differently_counted(same) is None
    assert _row(resources.overlap(same), resource="memory")["smallest_wait"] == pytest.approx(50)
    samples = {SAMPLES.format(reason): 50.0 for reason in ("long_scoreboard", "wait")}
    profile([{"name": "k(int)", "metrics": samples}], workload="c", name="c.csv")
    mixed = resources.leaning(database)
    said = resources.differently_counted(mixed)
    assert said is not None
    assert "counted in 2 ways (a, b as warp cycles per issued instruction; c as " in said
    assert math.isnan(_row(resources.overlap(mixed), resource="memory")["smallest_wait"])


def test_samples_beside_others_say_which_waits_grew(database: Database, profile) -> None:
    def sampled(**counts: float) -> dict:
        return {"name": "k(int)", "metrics": {SAMPLES.format(reason): value for reason, value in counts.items()}}

    profile([sampled(long_scoreboard=40.0, mio_throttle=40.0, wait=20.0)], workload="bert")
    profile(
        [sampled(long_scoreboard=140.0, mio_throttle=40.0, wait=20.0)], workload="bert beside vit", name="corun.csv"
    )
    known = beside.coruns(database)
    assert known[["workload", "solo", "beside"]].to_numpy().tolist() == [["bert beside vit", "bert", "vit"]]
    grown = beside.growth(database, "own", "A100-40GB", "bert", "bert beside vit")
    first = grown.rows.iloc[0]
    assert first["title"] == "global or local memory"
    assert (first["share_solo"], first["share_corun"], first["difference"]) == (40.0, 70.0, 30.0)
    assert first["grew"] == 3.5
    assert _row(grown.reasons, reason="mio_throttle")["difference"] == -20.0
    assert "global or local memory: 70.0 % of its samples after 40.0 % alone" in grown.sentence()


def test_counters_beside_others_are_refused_as_evidence(database: Database, profile) -> None:
    profile([_launch(long_scoreboard=4.0)], workload="bert")
    profile([_launch(long_scoreboard=6.0)], workload="bert beside vit", name="corun.csv")
    grown = beside.growth(database, "own", "A100-40GB", "bert", "bert beside vit")
    assert grown.family is None
    assert "add all processes up" in grown.sentence()
