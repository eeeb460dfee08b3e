"""Lucid's pairs and jobs alone."""

from __future__ import annotations

import csv
import random
from pathlib import Path

import pytest
from opening import load_into, opened, written

from analysis.ingest.contract.format import Hints
from analysis.ingest.formats.published.lucid import LucidPairs, LucidSolo
from analysis.store.database import Database
from analysis.store.queries import coruns, sources

_SIDE = "model{0},dataset{0},gpu_num{0},batchsize{0},amp{0},speed{0}"
_PAIRS = f""",{_SIDE.format(1)},{_SIDE.format(2)},gpu_util,gmem_util,gmem
0,VGG,CIFAR-10,1,32,0,0.8,ResNet18,CIFAR-10,1,64,1,0.5,64.789,29.461,5106
1,PPO,LunarLander,1,32,0,1.0,VGG,CIFAR-10,1,32,0,1.25,90,10,3000
"""
_SOLO = """model,dataset,batchsize,amp,speed,gpu_util,gmem_util,gmem,label
VGG,CIFAR-10,32,0,2998.72,44.0,23.0,3386.0,0
ResNet18,CIFAR-10,64,1,4038.576,62.0,34.0,3642.0,2
"""


def test_small_files(database: Database, tmp_path: Path) -> None:
    pairs, solo = written(tmp_path, "pairs.csv", _PAIRS), written(tmp_path, "solo.csv", _SOLO)
    assert not LucidSolo().sniff(pairs)
    assert not LucidPairs().sniff(solo)
    parsed = load_into(database, LucidPairs(), pairs, Hints(dataset="lucid"))
    load_into(database, LucidSolo(), solo, Hints(dataset="lucid"))
    assert (parsed.rows_read, parsed.rows_loaded) == (2, 2)
    assert parsed.report["measured_during_corun"] == ["gpu_util", "gmem_util", "gmem"]
    members = coruns.members(database)
    assert members["workload"].tolist()[:2] == ["VGG/CIFAR-10/32/0", "ResNet18/CIFAR-10/64/1"]
    assert members["slowdown"].fillna(-1).tolist() == [1.25, 2.0, -1, 0.8]
    assert [list(flags) for flags in members["flags"]] == [[], [], ["hard_coded"], []]
    assert set(members["mechanism"]) == {"time-slicing"}
    assert set(members["gpu"]) == {"RTX 3090"}
    assert members["precision"].tolist() == ["fp32", "amp", "fp32", "fp32"]
    assert members["note"].iloc[0] == "measured during the co-run: gpu_util 64.789 %, gmem_util 29.461 %, gmem 5106 MiB"
    # What was measured during the co-run is no feature; what was measured alone is.
    features = coruns.features(database).set_index(["workload", "name"])["value"]
    assert features["VGG/CIFAR-10/32/0", "gpu_util"] == 44
    assert len(features) == 8
    solos = coruns.solos(database).set_index("workload")
    assert solos.loc["VGG/CIFAR-10/32/0", ["value", "peak_memory_mib"]].tolist() == [2998.72, 3386.0]


@pytest.mark.parametrize(
    ("row", "column"),
    [
        ("2,VGG,CIFAR-10,1,32,2,0.8,VGG,CIFAR-10,1,64,1,0.5,1,1,1", "amp1"),
        ("2,VGG,CIFAR-10,1,x,0,0.8,VGG,CIFAR-10,1,64,1,0.5,1,1,1", "batchsize1"),
        ("2,VGG,CIFAR-10,1,32,0,-0.8,VGG,CIFAR-10,1,64,1,0.5,1,1,1", "speed1"),
        ("2,VGG,CIFAR-10,1,32,0,0.8,,CIFAR-10,1,64,1,0.5,1,1,1", "model2"),
        ("2,VGG,CIFAR-10,2,32,0,0.8,VGG,CIFAR-10,1,64,1,0.5,1,1,1", "gpu_num1"),
    ],
)
def test_wrong_pairs_are_rejected(database: Database, tmp_path: Path, row: str, column: str) -> None:
    parsed = load_into(database, LucidPairs(), written(tmp_path, "pairs.csv", _PAIRS + row + "\n"))
    assert (parsed.rows_read, parsed.rows_rejected) == (3, 1)
    assert sources.rejected_rows(database, 1)[["line", "column"]].values.tolist() == [[4, column]]
    assert len(coruns.members(database)) == 4


def test_a_configuration_stands_once(tmp_path: Path) -> None:
    parsed = LucidSolo().parse(written(tmp_path, "solo.csv", _SOLO + "VGG,CIFAR-10,32,0,1,1,1,1,0\n"), Hints())
    assert (parsed.rows_read, parsed.rows_rejected) == (3, 1)
    assert len(parsed.frames["solo"]) == 2


def _rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_the_public_files(database: Database, datasets: Path) -> None:
    pairs, solo = datasets / "lucid_colocate_info.csv", datasets / "lucid_single_data.csv"
    parsed = load_into(database, LucidPairs(), opened(pairs), Hints(dataset="lucid"))
    alone = load_into(database, LucidSolo(), opened(solo), Hints(dataset="lucid"))
    assert (parsed.rows_read, parsed.rows_loaded, alone.rows_read, alone.rows_loaded) == (1388, 1388, 66, 66)
    members = coruns.members(database)
    assert members["run_id"].nunique() == 1388
    assert members["workload"].nunique() == 56
    assert members["family"].nunique() == 11
    assert members.loc[members["slowdown"].notna(), "family"].nunique() == 9
    invented = members[[("hard_coded" in flags) for flags in members["flags"]]]
    assert (len(invented), invented["run_id"].nunique()) == (318, 297)
    targets = members["slowdown"].dropna()
    assert len(targets) == 2458
    assert round(100 * (targets < 0.98).mean(), 1) == 17.5
    assert round(100 * (targets < 1).mean(), 1) == 23.3
    raw = _rows(pairs)
    cells = members.set_index(["line", "slot"])
    for place in random.Random(7).sample(range(1388), 20):
        for side in "12":
            got, row = cells.loc[(place + 2, int(side) - 1)], raw[place]
            assert got["workload"] == "/".join(row[name + side] for name in ("model", "dataset", "batchsize", "amp"))
            if row["model" + side] in ("PPO", "TD3"):
                assert got["slowdown"] != got["slowdown"]
            else:
                assert got["slowdown"] == 1 / float(row["speed" + side])
    features = coruns.features(database).set_index(["workload", "name"])["value"]
    assert len(features) == 66 * 4
    for row in random.Random(7).sample(_rows(solo), 20):
        name = "/".join(row[part] for part in ("model", "dataset", "batchsize", "amp"))
        assert features[name, "gpu_util"] == float(row["gpu_util"])
    # Every co-located configuration has its solo features.
    assert set(members["workload"]) <= set(coruns.solos(database)["workload"])
