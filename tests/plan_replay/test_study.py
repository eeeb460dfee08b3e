"""Many replays side by side, from a database: policies, beliefs, figures, cancel, and the command."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from analysis.cli import app
from analysis.errors import CancelledError, NotEnoughDataError, NotFoundError, UsageError
from analysis.ingest.importer import import_paths
from analysis.plan.replay import beliefs, pairtable, study
from analysis.plan.replay.figures import FIGURES, over_seeds
from analysis.plan.replay.study import Request
from analysis.store.database import Database

JOBS = {name: 0.2 + 0.1 * place for place, name in enumerate("abcdefgh")}


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Eight jobs on one GPU, all 36 pairs; a pair pays for what it asks for together beyond the GPU."""
    folder = tmp_path_factory.mktemp("replay")
    lines = ["run_id,gpu,mechanism,workload,slowdown"]
    for run, (one, other) in enumerate(itertools.combinations_with_replacement(JOBS, 2)):
        for own, beside in ((one, other), (other, one)):
            lines.append(f"{run},V100-16GB,CUDA MPS,{own},{1 + max(JOBS[own] + JOBS[beside] - 0.9, 0) * 0.9:.3f}")
    table = folder / "coruns.csv"
    table.write_text("\n".join(lines) + "\n", encoding="utf-8")
    path = folder / "replay.duckdb"
    with Database(path) as opened:
        reports = import_paths(opened, [table], dataset="own")
        assert [report.status for report in reports] == ["loaded"], reports
    return path


@pytest.fixture(scope="module")
def filled(file: Path) -> Iterator[Database]:
    with Database(file) as opened:
        yield opened


SMALL = {"predictor": "effects", "jobs": 40, "seeds": 2, "counts": {"V100": 2}}


def test_the_truth_is_what_was_measured(filled: Database) -> None:
    truth = pairtable.measured(filled, "own")
    assert truth.gpus == ("V100-16GB",)
    assert truth.workloads == tuple(JOBS)
    assert truth.slowdown[0, 7, 6] == pytest.approx(1 + (0.9 + 0.8 - 0.9) * 0.9, abs=1e-3)
    assert truth.slowdowns(0, (0, 1, 2)) == tuple(
        pytest.approx(np.prod([truth.slowdown[0, i, j] for j in (0, 1, 2) if j != i])) for i in (0, 1, 2)
    )
    with pytest.raises(NotFoundError):
        pairtable.measured(filled, "nothing")
    with pytest.raises(NotEnoughDataError):
        pairtable.measured(filled, "own", ["H100"])


def test_beliefs_never_saw_the_pair(filled: Database) -> None:
    truth = pairtable.measured(filled, "own")
    believed = beliefs.out_of_fold(filled, truth, "effects", limit=1.2)
    assert not np.isnan(believed.slowdown).any()
    assert np.abs(np.log(believed.slowdown / truth.slowdown)).mean() < 0.15
    assert not np.allclose(believed.slowdown, truth.slowdown)
    assert believed.within is not None
    assert ((believed.within >= 0) & (believed.within <= 1)).all()
    assert np.allclose(believed.within, np.swapaxes(believed.within, 1, 2))
    both = np.maximum(truth.slowdown, np.swapaxes(truth.slowdown, 1, 2)) <= 1.2
    assert believed.within[both].mean() > believed.within[~both].mean() + 0.3


def test_policies_side_by_side(filled: Database) -> None:
    said: list[float] = []
    found = study.run(filled, Request("own", **SMALL), lambda fraction, _: said.append(fraction))
    table = found.summary().set_index("policy")
    # Nothing tells the jobs' utilisation, so the rule that needs it is left out with a sentence.
    assert set(table.index) == {"fifo", "fifo-best", "sjf", "random", "prediction", "prediction-risk", "oracle"}
    assert any("Utilisation rule is left out" in note for note in found.notes)
    assert set(FIGURES) <= set(table.columns)
    assert (table["seeds"] == 2).all()
    assert table.loc["fifo-best", "mean_slowdown"] == pytest.approx(1.0)
    assert table.loc["oracle", "violations"] == 0.0
    assert table.loc["oracle", "mean_jct_h"] < table.loc["fifo-best", "mean_jct_h"]
    assert table.loc["oracle", "gpu_hours"] < table.loc["fifo-best", "gpu_hours"]
    assert table.loc["random", "violations"] > 0.0
    assert said[-1] <= 1.0
    assert said == sorted(said)
    assert "against" in study.sentence(found)
    assert not found.cancelled
    assert set(found.segments["policy"]) == set(table.index)
    json.dumps(found.to_json())


def test_a_cancel_keeps_what_is_done(filled: Database) -> None:
    def stop(fraction: float, message: str) -> None:
        if fraction > 0.5:
            raise CancelledError("stopped", "Start again.")

    request = Request("own", policies=("fifo", "oracle"), **{**SMALL, "seeds": 8})
    found = study.run(filled, request, stop, stop=(CancelledError,))
    assert found.cancelled
    assert 0 < len(found.runs) < found.planned == 16
    with pytest.raises(CancelledError):
        study.run(filled, request, stop)


def test_what_contradicts_itself(filled: Database) -> None:
    with pytest.raises(UsageError, match="SM utilisation"):
        study.run(filled, Request("own", policies=("utilisation",), **SMALL))
    with pytest.raises(UsageError, match="0 seeds"):
        study.run(filled, Request("own", policies=("fifo",), seeds=0))


def test_intervals_need_two_seeds() -> None:
    assert over_seeds([4.0]) == (4.0, None, None)
    mean, low, high = over_seeds([1.0, 3.0, math.nan])
    assert (mean, low, high) == (2.0, pytest.approx(2 - 12.706, abs=1e-3), pytest.approx(2 + 12.706, abs=1e-3))


def command(*arguments: object) -> tuple[int, str]:
    done = CliRunner().invoke(app, [str(one) for one in arguments], prog_name="stallscope")
    return done.exit_code, done.stdout


def test_the_command(file: Path, filled: Database, tmp_path: Path) -> None:
    filled.close()
    ask = ("replay", "--dataset", "own", "--gpu", "V100=2", "--policy", "fifo-best", "--policy", "oracle", "--db", file)
    code, out = command(*ask, "--arrivals", "bursts", "--jobs", 30, "--seeds", 2, "--load", 1.5, "--json")
    document = json.loads(out)
    assert code == 0
    assert [row["policy"] for row in document["policies"]] == ["fifo-best", "oracle"]
    assert document["gpus"] == {"V100-16GB": 2}
    assert len(document["runs"]) == 4
    trace = tmp_path / "trace.csv"
    trace.write_text("workload,arrival_s,length_s\na,0,100\nb,0,100\nc,50,100\n", encoding="utf-8")
    code, out = command(*ask, "--trace", trace, "--seeds", 1, "--json")
    assert code == 0
    assert json.loads(out)["runs"][0]["mean_jct_h"] * 3600 == pytest.approx((100 + 100 + 150) / 3)
    assert command(*ask, "--trace", trace, "--seeds", 1)[0] == 0
    for wrong in ((), ("--trace", trace, "--load", 1), ("--arrivals", "poisson", "--load", 1, "--per-hour", 2),
                  ("--arrivals", "poisson", "--load", -1), ("--arrivals", "poisson", "--gpu", "V100"),
                  ("--arrivals", "poisson", "--policy", "best")):  # fmt: skip
        assert command(*ask, *wrong, "--json")[0] != 0
