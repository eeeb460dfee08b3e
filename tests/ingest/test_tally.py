"""Tally's wide comparison and its jobs alone."""

from __future__ import annotations

import csv
import random
from pathlib import Path

import pytest
from opening import load_into, opened, written

from analysis.ingest.contract.format import Hints
from analysis.ingest.formats.published.tally import TallyCoruns, TallySolo
from analysis.store.database import Database
from analysis.store.loader import remove_source
from analysis.store.queries import coruns, sources

_SERVER, _TRAIN = "onnxruntime_bert_infer_server_load_0.5_1", "pytorch_resnet50_train_128"
_HEADER = (
    ",preemption_latency_limit,use_space_share,high_priority_job,best_effort_job,"
    "best_effort_tally_throughput,best_effort_mps_throughput,best_effort_mps_priority_throughput,"
    "high_priority_tally_throughput,high_priority_mps_throughput,high_priority_mps_priority_throughput,"
    "high_priority_orig_avg_latency,high_priority_tally_avg_latency,high_priority_mps_avg_latency,"
    "high_priority_orig_99th_latency,high_priority_tally_99th_latency,high_priority_mps_99th_latency"
)
_WIDE = f"""{_HEADER}
0,0.1,FALSE,{_SERVER},{_TRAIN},0.5,0.8,0.4,1.0,0.5,0.25,4.0,4.4,8.0,5.0,5.5,20.0
1,0.1,True,{_SERVER},{_TRAIN},0.25,0.8,0.4,1.0,0.5,0.25,4.0,6,8.0,5.0,10,20.0
2,0.2,False,{_SERVER},{_TRAIN},0.25,0.8,0.2,1.0,0.5,0.25,4.0,,8.0,5.0,,20.0
"""
_SOLO = f""",exp_key,workload_type,mem,mem_util,gpu_util,original_avg_latency,original_throughput,tally_naive_throughput
0,{_SERVER},inference-server,1475,11.3,44.2,3.9,1,
1,onnxruntime_bert_infer_single-stream_1,inference-single-stream,1475,22,89,4.0,1,0.99
2,{_TRAIN},training,12685,10.6,99.5,,1,0.96
"""


def test_small_files(database: Database, tmp_path: Path) -> None:
    load_into(database, TallySolo(), written(tmp_path, "solo.csv", _SOLO), Hints(dataset="tally"))
    hints = Hints(dataset="tally", solos=lambda: coruns.solos(database))
    parsed = load_into(database, TallyCoruns(), written(tmp_path, "wide.csv", _WIDE), hints)
    assert (parsed.rows_read, parsed.rows_loaded, parsed.report["repeated_figures"]) == (3, 3, 3)
    members = coruns.members(database)
    runs = members.drop_duplicates("run_id")
    # Three settings of Tally, MPS once, and MPS with priority twice as its figures differ in the third row.
    assert runs["mechanism"].value_counts().to_dict() == {
        "block-level priority (Tally)": 3, "CUDA MPS": 1, "CUDA MPS with priority": 2,
    }  # fmt: skip
    mps = members[members["mechanism"] == "CUDA MPS"]
    assert mps["workload"].tolist() == [_SERVER, _TRAIN]
    assert mps["slowdown"].tolist() == [2.0, 1.25]
    assert mps["priority"].tolist() == ["high", "best effort"]
    assert (mps["p99_solo_ms"].iloc[0], mps["p99_corun_ms"].iloc[0]) == (5.0, 20.0)
    assert mps["p99_solo_ms"].isna().tolist() == [False, True]
    tally = runs[runs["mechanism"].str.startswith("block")]
    assert tally["note"].iloc[1] == "preemption_latency_limit 0.1, use_space_share true"
    assert list(members["flags"].iloc[0]) == ["solo_single_stream"]
    assert any("single-stream" in warning for warning in parsed.warnings)
    latencies = coruns.latencies(database)
    mean = latencies[(latencies["mechanism"] == "CUDA MPS") & (latencies["statistic"] == "mean")]
    assert mean[["solo_ms", "corun_ms"]].values.tolist() == [[4.0, 8.0]]
    assert set(latencies["statistic"]) == {"mean", "p99"}
    solos = coruns.solos(database)
    assert solos.groupby("measure").size().to_dict() == {"latency": 2, "normalised": 3}
    assert sources.workloads(database).set_index("workload").loc[_TRAIN, "phase"] == "training"
    remove_source(database, 2)
    assert database.scalar("SELECT count(*) FROM member_latency") == 0


@pytest.mark.parametrize(
    ("old", "new", "column"),
    [("0.5,0.8", "x,0.8", "best_effort_tally_throughput"), (f"{_SERVER},", ",", "high_priority_job")],
)
def test_wrong_rows(database: Database, tmp_path: Path, old: str, new: str, column: str) -> None:
    parsed = load_into(database, TallyCoruns(), written(tmp_path, "wide.csv", _WIDE.replace(old, new, 1)))
    assert (parsed.rows_read, parsed.rows_rejected) == (3, 1)
    assert sources.rejected_rows(database, 1)[["line", "column"]].values.tolist() == [[2, column]]


def _rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_the_public_files(database: Database, datasets: Path) -> None:
    solo, wide = datasets / "tally_single_job_perf.csv", datasets / "tally_priority_aware_perf.csv"
    alone = load_into(database, TallySolo(), opened(solo), Hints(dataset="tally"))
    hints = Hints(dataset="tally", solos=lambda: coruns.solos(database))
    parsed = load_into(database, TallyCoruns(), opened(wide), hints)
    assert (alone.rows_read, alone.rows_loaded, parsed.rows_read, parsed.rows_loaded) == (10, 10, 36, 36)
    members = coruns.members(database)
    runs = members.drop_duplicates("run_id")
    assert runs["mechanism"].value_counts().to_dict() == {
        "block-level priority (Tally)": 36, "CUDA MPS": 12, "CUDA MPS with priority": 12, "time-slicing": 12, "TGS": 12,
    }  # fmt: skip
    served = members[members["slot"] == 0]
    inflation = (served["p99_corun_ms"] / served["p99_solo_ms"]).groupby(served["mechanism"]).mean().round(2)
    assert inflation["CUDA MPS"] == 3.90
    assert inflation["CUDA MPS with priority"] == 2.96
    assert inflation["time-slicing"] == 2.38
    assert inflation["TGS"] == 2.77
    # The figure of TGS stands in `tgs_95th`; the column `tgs_priority_95th` is empty.
    latencies = coruns.latencies(database)
    tgs = latencies[(latencies["mechanism"] == "TGS") & (latencies["statistic"] == "p95")]
    assert tgs["corun_ms"].notna().all()
    raw = _rows(wide)
    assert sorted(tgs["corun_ms"]) == sorted({float(row["high_priority_tgs_95th_latency"]) for row in raw})
    llama = "onnxruntime_llama-2-7b_infer_server_load_0.5_1"
    assert llama in parsed.report["flagged"]["solo_single_stream"]
    systems = {"tally": "block-level priority (Tally)", "mps": "CUDA MPS", "time_slicing": "time-slicing"}
    for row in random.Random(7).sample(raw, 20):
        for system, mechanism in systems.items():
            here = members[members["mechanism"] == mechanism]
            ids = here.loc[here["workload"] == row["best_effort_job"], "run_id"]
            found = here[here["run_id"].isin(ids) & (here["workload"] == row["high_priority_job"])]
            assert 1 / float(row[f"high_priority_{system}_throughput"]) in found["slowdown"].tolist()
            assert float(row[f"high_priority_{system}_99th_latency"]) in found["p99_corun_ms"].tolist()
    assert coruns.solos(database).groupby("measure").size().to_dict() == {"latency": 4, "normalised": 10}
