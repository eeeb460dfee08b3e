"""How to cut a GPU: shares add up, the best is the best, what sets it is named, and nothing unmeasured is shared."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from analysis.charts.split_lines import split_lines
from analysis.charts.theme import alt_text
from analysis.cli import app
from analysis.errors import NotEnoughDataError, StallScopeError, UsageError
from analysis.ingest.bundle import import_bundle
from analysis.ingest.contract.format import Hints
from analysis.ingest.contract.guesses import suggested_workload
from analysis.interference.ran import Ran, RanSets
from analysis.plan import split
from analysis.plan.problem import Job
from analysis.plan.split import Sweep, sweep
from analysis.settings import asset
from analysis.store.database import Database

GPU = "A100-80GB"
ONE, OTHER, THIRD = "resnet50_bs32_amp_train", "bert-base_bs8_amp_train", "ppo-atari_bs256_fp32_train"
PAIR = (Job("a", ONE, memory_mib=9000.0), Job("b", OTHER, memory_mib=15000.0))


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sample's simulated profiles on one GPU, without a co-run."""
    path = tmp_path_factory.mktemp("split") / "split.duckdb"
    with Database(path) as database:
        import_bundle(
            database,
            asset("data", "samples", f"profiles_{GPU}.zip"),
            lambda inner: Hints(suggested_workload(inner)[0], GPU, "own"),
        )
    return path


@pytest.fixture(scope="module")
def database(file: Path) -> Iterator[Database]:
    with Database(file) as opened:
        yield opened


@pytest.fixture(scope="module")
def mps(database: Database) -> Sweep:
    return sweep(database, "own", GPU, PAIR)


def test_shares_add_up_and_a_larger_one_serves_a_job_better(mps: Sweep) -> None:
    assert {sum(one.parts) for one in mps.splits} == {100.0, 200.0}
    assert mps.splits[-1].setting == "no caps"
    capped = mps.splits[:-1]
    assert [one.parts[0] for one in capped] == list(range(5, 100, 5))
    first = [one.slowdowns[0] for one in capped]
    assert first[0] > first[len(first) // 2] > first[-1] > 1


def test_the_best_split_has_the_smallest_worst_slowdown_and_its_line_is_named(mps: Sweep) -> None:
    assert max(mps.best.slowdowns) == min(max(one.slowdowns) for one in mps.splits)
    assert mps.setter == (ONE, OTHER)[mps.best.slowdowns.index(max(mps.best.slowdowns))]
    assert mps.because
    assert mps.because in mps.sentence()
    assert mps.verdict != "share"  # nothing was measured, and the white box has no interval
    document = mps.to_json()
    assert json.loads(json.dumps(document))["best"]["setting"] == mps.best.setting
    assert not document["best"]["measured"]


def test_a_limit_of_ones_own_moves_the_best_split(database: Database, mps: Sweep) -> None:
    strict = (replace(PAIR[0], limit=1.1), replace(PAIR[1], limit=6.0))
    found = sweep(database, "own", GPU, strict)
    assert found.best.slowdowns[0] < mps.best.slowdowns[0]


def test_mig_instances_fit_the_gpu_and_hold_their_jobs(database: Database) -> None:
    found = sweep(database, "own", GPU, PAIR, "MIG")
    assert {"3g.40gb + 4g.40gb", "4g.40gb + 3g.40gb", "1g.10gb + 1g.10gb"} <= {one.setting for one in found.splits}
    assert all(sum(one.parts) <= 100 for one in found.splits)
    small = [one for one in found.splits if one.setting.endswith("1g.10gb")]
    assert {one.memory for one in small} == {"does_not_fit"}  # 15,000 MiB do not go into 10 GB
    assert found.best.memory == "fits"
    with pytest.raises(UsageError, match="can't be"):
        sweep(database, "own", "V100-32GB", PAIR, "MIG")


def test_three_jobs_and_the_picture_of_them(database: Database, mps: Sweep) -> None:
    three = sweep(database, "own", GPU, (*PAIR, Job("c", THIRD, memory_mib=3000.0)), step=20)
    assert {len(one.slowdowns) for one in three.splits} == {3}
    for found, mode in ((mps, "lines+markers"), (three, "markers")):
        drawn = split_lines(found.lines(), best=found.best.setting, limit=found.limit)
        assert {trace.mode for trace in drawn.data} == {mode}
        assert found.best.setting in alt_text(drawn)


def test_what_ran_under_these_caps_is_the_figure(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    clients = ((ONE, 55.0), (OTHER, 45.0))
    ran = Ran(1, 0, dict(zip(clients, (1.01, 1.02), strict=True)), 1.02, (), simulated=False)
    monkeypatch.setattr(split, "ran_sets", lambda *_: RanSets({tuple(sorted(clients)): ran}, frozenset()))
    found = sweep(database, "own", GPU, PAIR, step=45)
    assert [one.setting for one in found.splits] == ["45 / 55 %", "90 / 10 %", "no caps"]
    found = sweep(database, "own", GPU, PAIR[::-1], step=45)
    assert (found.best.setting, found.best.slowdowns) == ("45 / 55 %", (1.02, 1.01))
    assert (found.best.measured, found.verdict) == (True, "share")


def test_what_makes_no_sense_is_refused_in_a_sentence(database: Database) -> None:
    wrong: list[tuple[type[StallScopeError], str, tuple[object, ...]]] = [
        (UsageError, "cuts no GPU", (PAIR, "time-slicing")),
        (UsageError, "for 1 jobs", (PAIR[:1],)),
        (UsageError, "for 5 jobs", ((*PAIR, *PAIR, PAIR[0]),)),
        (NotEnoughDataError, "nothing says", ((PAIR[0], replace(PAIR[1], memory_mib=90_000.0)),)),
        (NotEnoughDataError, "nothing says", ((PAIR[0], Job("x", "stranger", memory_mib=math.nan)),)),
    ]
    for kind, said, asked in wrong:
        with pytest.raises(kind, match=said) as error:
            sweep(database, "own", GPU, *asked)  # type: ignore[arg-type]
        assert error.value.cure


def test_the_command_says_it(mps: Sweep, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(split, "split_gpu", lambda *_, **__: mps)
    path = tmp_path / "empty.duckdb"
    Database(path).close()
    given = ["split", "--gpu", GPU, "--job", ONE, "--job", OTHER, "--db", str(path)]
    done = CliRunner().invoke(app, [*given, "--json"], prog_name="stallscope")
    assert done.exit_code == 0, done.output
    document = json.loads(done.stdout)
    assert document["best"]["setting"] in document["sentence"]
    told = CliRunner().invoke(app, given, prog_name="stallscope")
    assert "best split" in told.stdout
    assert "no caps" in told.stdout
