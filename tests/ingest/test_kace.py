"""KACE's pairs and kernel lengths."""

from __future__ import annotations

import csv
import random
from collections import defaultdict
from pathlib import Path

import pytest
from opening import load_into, opened, written

from analysis.errors import InputRefusedError
from analysis.ingest.contract.format import Hints
from analysis.ingest.formats.published.kace import COUNTERS, LENGTHS, UTILISATION, KaceKernelLengths, KacePairs
from analysis.store.database import Database
from analysis.store.queries import coruns, sources

_HEADER = (
    "workload1,workload2,w1throughput,w2throughput,w1exclusive_throughput,w2exclusive_throughput,"
    "w1_Threads,w2_Threads,w1sm%,w2sm%,w1memcap,w2memcap"
)
_PAIRS = f"""{_HEADER}
vit_h_14_batch2-train,bert-base-cased_batch8-inf,5,40,10,60,1000,200,97,50,14,1.5
bert-base-cased_batch8-inf,bert-base-cased_batch8-inf,30,33,60,60,200,200,50,50,1.5,1.5
"""


def test_pairs_of_a_small_file(database: Database, tmp_path: Path) -> None:
    parsed = load_into(database, KacePairs(), written(tmp_path, "pairs.csv", _PAIRS), Hints(dataset="kace"))
    assert (parsed.rows_read, parsed.rows_loaded, parsed.rows_rejected) == (2, 2, 0)
    members = coruns.members(database)
    assert members["slowdown"].tolist() == pytest.approx([2.0, 1.5, 2.0, 60 / 33])
    assert members["gpu"].unique().tolist() == ["V100-32GB"]
    assert members["mechanism"].unique().tolist() == ["CUDA MPS"]
    assert members["family"].tolist() == ["vit", "bert", "bert", "bert"]
    assert members["phase"].tolist() == ["training", "inference", "inference", "inference"]
    assert members["batch_size"].tolist() == [2, 8, 8, 8]
    solos = coruns.solos(database).set_index("workload")
    assert solos.loc["bert-base-cased_batch8-inf", "value"] == 60
    assert solos.loc["bert-base-cased_batch8-inf", "peak_memory_mib"] == 1536
    features = coruns.features(database)
    assert len(features) == 6
    assert features.set_index(["workload", "name"]).loc[("vit_h_14_batch2-train", "Threads"), "value"] == 1000


def test_a_wrong_row_costs_itself_only(database: Database, tmp_path: Path) -> None:
    text = _PAIRS + "a_batch1-inf,b_batch1-inf,1,1,x,-2,1,1,1,1,1,1\nshort,row\n,c_batch1-inf,1,1,1,1,1,1,1,1,1,1\n\n"
    parsed = load_into(database, KacePairs(), written(tmp_path, "pairs.csv", text))
    assert (parsed.rows_read, parsed.rows_loaded, parsed.rows_rejected) == (5, 2, 3)
    rejected = sources.rejected_rows(database, 1)
    assert rejected["line"].tolist() == [4, 4, 5, 6]
    assert set(rejected["column"].dropna()) == {"w1exclusive_throughput", "w2exclusive_throughput", "workload1"}
    assert rejected["text"].iloc[2] == "short,row"
    assert sources.workloads(database)["workload"].tolist() == ["bert-base-cased_batch8-inf", "vit_h_14_batch2-train"]


def test_a_number_over_two_lines_is_none(database: Database, tmp_path: Path) -> None:
    header = "workload1,workload2,w1throughput,w2throughput,w1exclusive_throughput,w2exclusive_throughput"
    text = f'{header}\na_batch1-inf,b_batch1-inf,"18\n2.5",5,10,10\na_batch1-inf,c_batch1-inf,4,5,10,10\n'
    parsed = load_into(database, KacePairs(), written(tmp_path, "pairs.csv", text))
    assert (parsed.rows_read, parsed.rows_rejected) == (2, 1)
    assert sorted(parsed.frames["member"]["corun_value"]) == [4.0, 5.0]


def test_zero_throughput_did_not_run(database: Database, tmp_path: Path) -> None:
    text = f"{_HEADER}\na_batch1-inf,b_batch1-inf,0,1,2,2,,,,,,\na_batch1-inf,c_batch1-inf,0,0,2,2,,,,,,\n"
    load_into(database, KacePairs(), written(tmp_path, "pairs.csv", text))
    members = coruns.members(database)
    assert members["run_outcome"].tolist() == ["partial", "partial", "did_not_run", "did_not_run"]
    assert members["slowdown"].isna().tolist() == [True, False, True, True]
    assert members["corun_value"].isna().tolist() == [True, False, True, True]


def test_contradictory_solos_are_named(database: Database, tmp_path: Path) -> None:
    text = _PAIRS + "bert-base-cased_batch8-inf,vit_h_14_batch2-train,30,5,90,10,200,1000,50,97,1.5,14\n"
    parsed = load_into(database, KacePairs(), written(tmp_path, "pairs.csv", text))
    assert [w for w in parsed.warnings if "bert-base-cased_batch8-inf has more than one exclusive" in w]
    # Each row keeps the solo value that was measured with it.
    assert sorted(coruns.members(database)["solo_value"].unique()) == [10, 60, 90]


@pytest.mark.parametrize("text", [_HEADER + "\n", _HEADER + ",w1memcap\n1\n"])
def test_refusals(tmp_path: Path, text: str) -> None:
    with pytest.raises(InputRefusedError):
        KacePairs().parse(written(tmp_path, "pairs.csv", text), Hints())


def test_kernel_lengths_of_a_small_file(database: Database, tmp_path: Path) -> None:
    text = (
        "Threads,ave_Kernel_Length,long/short_Ratio,Type\n"
        "10,20.5,0.5,a_batch1-inf\n11,x,0.5,b_batch1-inf\n12,1,1,a_batch1-inf\n"
    )
    parsed = load_into(database, KaceKernelLengths(), written(tmp_path, "lengths.csv", text))
    assert (parsed.rows_read, parsed.rows_rejected) == (3, 2)
    features = coruns.features(database).set_index("name")
    assert features.loc["ave_Kernel_Length", ["value", "unit", "gpu"]].tolist() == [20.5, "us", "V100-32GB"]


def _rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_the_public_pairs(database: Database, datasets: Path) -> None:
    path = datasets / "kace_pairs.csv"
    raw = _rows(path)
    parsed = load_into(database, KacePairs(), opened(path), Hints(dataset="kace"))
    assert (parsed.rows_read, parsed.rows_loaded, parsed.rows_rejected, parsed.warnings) == (181, 181, 0, ())
    members = coruns.members(database)
    assert len(members) == 362
    assert members["workload"].nunique() == 21
    assert set(members["family"]) == {"albert", "bert", "vit", "wav2vec2", "whisper"}
    assert len(coruns.solos(database)) == 21
    assert len(coruns.features(database)) == 21 * (len(COUNTERS) + len(UTILISATION))
    # The five workloads whose own minimum says that the solo value is off.
    least = defaultdict(lambda: 1e9)
    for row in members.itertuples():
        least[row.workload] = min(least[row.workload], row.slowdown)
    off = {name.split("-")[0] + name.rsplit("_", 1)[1] for name, low in least.items() if not 0.95 <= low <= 1.25}
    assert off == {
        "whisperbatch2-inf",
        "whisperbatch8-inf",
        "whisperbatch16-inf",
        "wav2vec2batch2-inf",
        "wav2vec2batch16-inf",
    }
    cells = members.set_index(["line", "slot"])
    for place in random.Random(7).sample(range(181), 20):
        row = raw[place]
        for side in (1, 2):
            got = cells.loc[(place + 2, side - 1)]
            assert got["workload"] == row[f"workload{side}"]
            shared, alone = float(row[f"w{side}throughput"]), float(row[f"w{side}exclusive_throughput"])
            assert got["slowdown"] == alone / shared
            assert (got["solo_value"], got["corun_value"]) == (alone, shared)


def test_the_public_kernel_lengths(database: Database, datasets: Path) -> None:
    path = datasets / "kace_kernel_lengths.csv"
    parsed = load_into(database, KaceKernelLengths(), opened(path), Hints(dataset="kace"))
    assert (parsed.rows_read, parsed.rows_loaded) == (29, 29)
    features = coruns.features(database).set_index(["workload", "name"])["value"]
    assert len(features) == 29 * (len(COUNTERS) + len(LENGTHS))
    for row in random.Random(7).sample(_rows(path), 20):
        assert features[row["Type"], "ave_Kernel_Length"] == float(row["ave_Kernel_Length"])
        assert features[row["Type"], "Threads"] == float(row["Threads"])
