"""KACE's triples: solo values come from the pairs."""

from __future__ import annotations

import ast
import csv
import random
from pathlib import Path

import pytest
from opening import load_into, opened, written

from analysis.ingest.contract.format import Hints
from analysis.ingest.formats.published.kace import KacePairs, KaceTriples
from analysis.store.database import Database
from analysis.store.queries import coruns, sources

_HEADER = 'workload1,workload2,workload3,"(w1_100, w2_100, w3_100)","(w1_10, w2_20, w3_70)"\n'
_NONE = '"(None, None, None)"'
_A, _B, _C = "a_batch1-inf", "b_batch1-inf", "c_batch1-inf"
_PAIRS = (
    "workload1,workload2,w1throughput,w2throughput,w1exclusive_throughput,w2exclusive_throughput\n"
    f"{_A},{_B},5,5,12,10\n{_A},{_C},5,5,12,8\n"
)


def _hints(database: Database) -> Hints:
    return Hints(dataset="kace", solos=lambda: coruns.solos(database))


def test_a_small_file(database: Database, tmp_path: Path) -> None:
    load_into(database, KacePairs(), written(tmp_path, "pairs.csv", _PAIRS), Hints(dataset="kace"))
    text = (
        f'{_HEADER}{_A},{_B},{_C},"(6.0, 5.0, 2.0)",{_NONE}\n{_A},{_A},{_B},"(None, 4.0, 5e0)","(1.0, 2.0, 3.0)"\n'
        f"{_A},{_B},{_B},{_NONE},{_NONE}\n"
    )
    file = written(tmp_path, "triples.csv", text)
    assert not KacePairs().sniff(file)
    parsed = load_into(database, KaceTriples(), file, _hints(database))
    assert (parsed.rows_read, parsed.rows_loaded, parsed.warnings) == (3, 3, ())
    assert parsed.report["percentage_cells_not_measured"] == 2
    members = coruns.members(database)
    members = members[members["k"] == 3]
    assert members["slowdown"].fillna(-1).tolist() == [2, 2, 4, -1, 3, 2, 12, 6, 10 / 3, -1, -1, -1]
    assert members["run_outcome"].tolist() == ["ran"] * 3 + ["partial"] * 3 + ["ran"] * 3 + ["did_not_run"] * 3
    assert members["thread_percentage"].tolist() == [100.0] * 6 + [10, 20, 70] + [100.0] * 3
    assert members["line"].tolist() == [2] * 3 + [3] * 6 + [4] * 3


def test_without_the_pairs_there_is_no_slowdown(database: Database, tmp_path: Path) -> None:
    file = written(tmp_path, "triples.csv", f'{_HEADER}{_A},{_B},{_C},"(6.0, 5.0, 2.0)",{_NONE}\n')
    parsed = load_into(database, KaceTriples(), file, _hints(database))
    assert "load kace_pairs.csv" in parsed.warnings[0]
    assert coruns.members(database)["slowdown"].isna().all()


@pytest.mark.parametrize(
    "cell", ["6.0", '"(1.0, 2.0)"', '"(1.0, 2.0, x)"', '"(1.0, -2.0, 3)"', '""', '"(1, 2, 1e999)"']
)
def test_wrong_cells_cost_their_row(database: Database, tmp_path: Path, cell: str) -> None:
    text = f'{_HEADER}{_A},{_B},{_C},{cell},"(1, 1, 1)"\n{_A},{_B},{_C},"(1, 1, 1)",{_NONE}\n'
    parsed = load_into(database, KaceTriples(), written(tmp_path, "triples.csv", text), _hints(database))
    assert (parsed.rows_read, parsed.rows_rejected) == (2, 1)
    assert sources.rejected_rows(database, 1)["column"].tolist() == ["(w1_100, w2_100, w3_100)"]
    assert coruns.members(database)["line"].tolist() == [3, 3, 3]


def test_the_public_file(database: Database, datasets: Path) -> None:
    load_into(database, KacePairs(), opened(datasets / "kace_pairs.csv"), Hints(dataset="kace"))
    path = datasets / "kace_triples_raw.csv"
    parsed = load_into(database, KaceTriples(), opened(path), _hints(database))
    assert (parsed.rows_read, parsed.rows_loaded, parsed.warnings) == (489, 489, ())
    assert parsed.report["outcomes"] == {"ran": 400, "partial": 89}
    members = coruns.members(database)
    solo = dict(zip(*coruns.solos(database)[["workload", "value"]].to_numpy().T, strict=True))
    members = members[members["k"] == 3].set_index(["line", "slot"])
    assert len(members) == 489 * 3
    with path.open(newline="") as file:
        raw = list(csv.DictReader(file))
    for place in random.Random(7).sample(range(489), 20):
        shared = ast.literal_eval(raw[place]["(w1_100, w2_100, w3_100)"])
        for slot in range(3):
            got, job = members.loc[(place + 2, slot)], raw[place][f"workload{slot + 1}"]
            assert got["workload"] == job
            if shared[slot] is None:
                assert got["outcome"] == "did_not_run"
                assert got["slowdown"] != got["slowdown"]
            else:
                assert got["slowdown"] == solo[job] / shared[slot]
    # The published figure of 217 triples with 651 members among workloads whose solo value is sound.
    flagged = {"whisper-large-v2_batch2-inf", "whisper-large-v2_batch8-inf", "whisper-large-v2_batch16-inf"}
    flagged |= {"wav2vec2-base-960h_batch2-inf", "wav2vec2-base-960h_batch16-inf"}
    whole = members[members["run_outcome"] == "ran"]
    sound = whole.groupby("run_id")["workload"].agg(lambda names: not set(names) & flagged)
    assert (int(sound.sum()), int(sound.sum()) * 3) == (217, 651)
