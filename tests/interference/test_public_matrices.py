"""Cells of the public matrices equal what plain Python computes from the raw files; a small file has the same form."""

from __future__ import annotations

import ast
import csv
import json
import random
import statistics
from collections import defaultdict
from pathlib import Path

import pytest

from analysis.ingest.importer import import_paths
from analysis.interference.matrix import slowdown_matrix
from analysis.interference.partners import did_not_run_pairs
from analysis.store.database import Database

Cells = dict[tuple[str, str], float]


def gavel_cells(table: dict, *, scaled: bool) -> tuple[Cells, set[frozenset[str]]]:
    """Slowdowns and pairs that did not run of one GPU, from the file's own JSON."""
    cells, failed = {}, set()
    names = {key: ast.literal_eval(key)[0] if scaled else key for key in table}
    single = [key for key in table if not scaled or ast.literal_eval(key)[1] == 1]
    for a in single:
        for b, pair in table[a].items():
            if b not in single:
                continue
            if pair[0] == 0:
                failed.add(frozenset({names[a], names[b]}))
            elif a == b:
                alone = table[a]["null"]
                cells[names[a], names[a]] = (alone / pair[0] + alone / pair[1]) / 2
            else:
                cells[names[a], names[b]] = table[a]["null"] / pair[0]
    return cells, failed


def assert_equal(database: Database, dataset: str, gpu: str, cells: Cells, seed: int) -> None:
    matrix = slowdown_matrix(database, dataset, gpu)
    place = {name: i for i, name in enumerate(matrix.workloads)}
    for victim, aggressor in random.Random(seed).sample(sorted(cells), min(20, len(cells))):
        found = matrix.slowdown[place[victim], place[aggressor]]
        assert found == pytest.approx(cells[victim, aggressor], rel=1e-9), (victim, aggressor)


@pytest.mark.parametrize(
    ("file", "dataset", "scaled", "failures"),
    [
        ("gavel_simulation_throughputs.json", "gavel-sim", True, {"K80": 45, "P100": 11, "V100": 21}),
        ("gavel_oracle_throughputs.json", "gavel-oracle", False, {"K80": 53, "P100": 14, "V100": 23}),
    ],
)
def test_gavel(
    database: Database, datasets: Path, file: str, dataset: str, scaled: bool, failures: dict[str, int]
) -> None:
    raw = json.loads((datasets / file).read_text())
    import_paths(database, [datasets / file], dataset=dataset)
    for gpu, count in failures.items():
        table = next(part for name, part in raw.items() if name.casefold() == gpu.casefold())
        cells, failed = gavel_cells(table, scaled=scaled)
        assert_equal(database, dataset, gpu, cells, seed=11)
        matrix = slowdown_matrix(database, dataset, gpu)
        found = {frozenset(pair) for pair in did_not_run_pairs(matrix).itertuples(index=False)}
        assert len(found) == count
        assert found == failed
        assert matrix.n == 351  # every cell stands twice in the file, and counts once
        assert matrix.runs.max() == 1


def test_lucid(database: Database, datasets: Path) -> None:
    import_paths(database, [datasets / "lucid_single_data.csv", datasets / "lucid_colocate_info.csv"], dataset="lucid")
    seen: dict[tuple[str, str], list[float]] = defaultdict(list)
    with (datasets / "lucid_colocate_info.csv").open() as file:
        for row in csv.DictReader(file):
            names = [
                "/".join(row[f"{field}{side}"].strip() for field in ("model", "dataset", "batchsize", "amp"))
                for side in ("1", "2")
            ]
            if {row["model1"].strip(), row["model2"].strip()} & {"PPO", "TD3"} or names[0] == names[1]:
                continue
            seen[names[0], names[1]].append(1 / float(row["speed1"]))
            seen[names[1], names[0]].append(1 / float(row["speed2"]))
    assert_equal(database, "lucid", "RTX 3090", {pair: statistics.median(all_) for pair, all_ in seen.items()}, seed=5)


def test_a_small_file_of_the_same_form(database: Database, tmp_path: Path) -> None:
    """Three workloads, one pair that did not run, mirrored cells, a self pair."""
    a, b, c = (f"('Job {letter} (batch size 8)', 1)" for letter in "ABC")
    table = {
        a: {"null": 10.0, a: [6.0, 6.0], b: [8.0, 15.0], c: [0, 0]},
        b: {"null": 20.0, a: [15.0, 8.0], b: [10.0, 10.0], c: [16.0, 24.0]},
        c: {"null": 30.0, a: [0, 0], b: [24.0, 16.0], c: [0, 0]},
    }
    path = tmp_path / "throughputs.json"
    path.write_text(json.dumps({"v100": table}))
    assert import_paths(database, [path], dataset="small")[0].status == "loaded"
    cells, failed = gavel_cells(table, scaled=True)
    assert len(cells) == 6
    assert_equal(database, "small", "V100", cells, seed=1)
    matrix = slowdown_matrix(database, "small", "V100")
    assert {frozenset(pair) for pair in did_not_run_pairs(matrix).itertuples(index=False)} == failed
    assert len(failed) == 2
    assert matrix.n == 6
