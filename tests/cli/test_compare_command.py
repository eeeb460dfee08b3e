"""Comparing two profiles, by name and by file, and the exit code that a build server looks at."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import Result

from tests.pages import files

Json = Callable[..., Any]


def _slower(path: Path, target: Path, factor: float) -> Path:
    """Write a profile again with every duration multiplied."""
    lines = []
    for line in path.read_text().splitlines(keepends=True):
        if '"gpu__time_duration.sum"' in line:
            cells = line.rstrip("\r\n").split('","')
            value = float(cells[-1].rstrip('"').replace(",", ""))
            line = '","'.join([*cells[:-1], f'{value * factor:.3f}"\n'])
        lines.append(line)
    target.parent.mkdir(exist_ok=True)
    target.write_text("".join(lines))
    return target


@pytest.fixture
def pair(tmp_path: Path) -> tuple[Path, Path]:
    """A profile and the same one ten percent slower, under the same file name."""
    base = files.profile(tmp_path / "job.csv", "bert_bs8_amp")
    return base, _slower(base, tmp_path / "later" / "job.csv", 1.1)


def test_two_files_need_no_database(as_json: Json, pair: tuple[Path, Path], db: Path) -> None:
    document = as_json("compare", *pair, "--db", db)
    assert document["slower"] == pytest.approx(10, abs=0.01)
    assert len(document["pairs"]) == 12
    assert document["unmatched"] == []
    assert {row["difference"] for row in document["totals"]} == {0.0}
    assert not db.exists()


@pytest.mark.parametrize(("limit", "code"), [(9, 3), (11, 0)])
def test_a_limit_decides_the_exit_code(as_json: Json, pair: tuple[Path, Path], limit: float, code: int) -> None:
    document = as_json("compare", *pair, "--fail-above", limit, code=code)
    assert document["slower"] == pytest.approx(10, abs=0.01)


def test_faster_never_crosses_a_limit(as_json: Json, pair: tuple[Path, Path]) -> None:
    assert as_json("compare", *pair[::-1], "--fail-above", 0)["slower"] < 0


def test_workloads_are_found_by_name(
    as_json: Json, cli: Callable[..., Result], pair: tuple[Path, Path], db: Path
) -> None:
    as_json("import", pair[0], "--workload", "before", "--gpu", "A100-40GB", "--db", db)
    as_json("import", pair[1], "--workload", "after", "--gpu", "A100-40GB", "--db", db)
    document = as_json("compare", "before", "after@A100", "--db", db)
    assert (document["base"]["workload"], document["other"]["workload"]) == ("before", "after")
    done = cli("compare", "before", "after", "--db", db, "--fail-above", 5)
    assert done.exit_code == 3
    assert "10.0 % slower" in done.stdout


def test_what_cannot_be_compared_is_said(as_json: Json, pair: tuple[Path, Path], tmp_path: Path, db: Path) -> None:
    as_json("import", pair[0], "--workload", "before", "--db", db)
    assert "after" in as_json("compare", "before", "after", "--db", db, code=1)["error"]
    assert "file" in as_json("compare", pair[0], "before", "--db", db, code=2)["error"]
    assert "same bytes" in as_json("compare", pair[0], pair[0], code=2)["error"]
    bad = tmp_path / "bad.csv"
    bad.write_text("nothing here\n")
    assert as_json("compare", pair[0], bad, code=1)["error"]


def test_without_durations_a_limit_cannot_be_judged(as_json: Json, tmp_path: Path) -> None:
    paths = []
    for name, job in (("a.csv", "bert_bs8_amp"), ("b.csv", "gnn_bs1024_fp32")):
        path = files.profile(tmp_path / name, job)
        path.write_text("".join(line for line in path.read_text().splitlines(True) if "gpu__time_duration" not in line))
        paths.append(path)
    assert as_json("compare", *paths)["slower"] is None
    assert "duration" in as_json("compare", *paths, "--fail-above", 5, code=1)["error"]


def test_one_baseline_and_several_others(as_json: Json, pair: tuple[Path, Path], tmp_path: Path) -> None:
    base, slower = pair
    slowest = _slower(base, tmp_path / "last" / "job.csv", 1.3)
    document = as_json("compare", base, slower, slowest)
    assert [one["slower"] for one in document["comparisons"]] == pytest.approx([10, 30], abs=0.01)
    as_json("compare", base, slower, slowest, "--fail-above", 20, code=3)


def test_kernels_by_time_and_what_a_roofline_lacks(as_json: Json, tmp_path: Path, db: Path) -> None:
    as_json("import", files.profile(tmp_path / "job.csv", "bert_bs8_amp"), "--workload", "bert", "--gpu", files.GPU,
            "--db", db)  # fmt: skip
    rows = as_json("kernels", "--db", db)
    assert [row["time_ns"] for row in rows] == sorted((row["time_ns"] for row in rows), reverse=True)
    assert sum(row["time_share"] for row in rows) == pytest.approx(100)
    assert len(as_json("kernels", "--by", "name", "--db", db)) <= len(rows)
    roof = as_json("kernels", "--roofline", "--db", db)
    assert {row["lacks"] for row in roof["missing"]} == {"operations", "DRAM bytes"}


def test_overlap_names_resources_and_asks_for_one_place(as_json: Json, tmp_path: Path, db: Path) -> None:
    for job in files.PROFILED:
        as_json("import", files.profile(tmp_path / f"{job}.csv", job), "--workload", job, "--gpu", files.GPU,
                "--db", db)  # fmt: skip
    document = as_json("overlap", *files.PROFILED, "--db", db)
    assert document["gpu"] == files.GPU
    assert document["sentence"].startswith("Both lean on DRAM (")
    assert {row["origin"] for row in document["slowdowns"]} == {"not known"}
    refused = as_json("overlap", files.PROFILED[0], "no such job", "--db", db, code=1)
    assert "no workload 'no such job'" in refused["error"]
