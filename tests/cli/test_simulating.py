"""The commands of the simulator."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from analysis.cli import app

runner = CliRunner()
PAIR = ("--job", "resnet50_bs32_amp_train", "--job", "dlrm_bs2048_fp32_train")


def run(*arguments: str) -> tuple[int, object]:
    result = runner.invoke(app, ["simulate", *arguments, "--json"], catch_exceptions=True)
    return result.exit_code, json.loads(result.stdout) if result.stdout.strip() else None


def test_a_pair_under_every_mechanism() -> None:
    code, rows = run("run", "--gpu", "A100", *PAIR, "--mechanism", "all")
    assert code == 0
    assert isinstance(rows, list)
    assert {row["mechanism"] for row in rows} >= {"CUDA MPS", "MIG", "time-slicing", "block-level priority (Tally)"}
    assert all(row["simulated"] and row["slowdown"] >= 1 for row in rows)
    assert {row["gpu"] for row in rows} == {"A100-80GB"}


def test_shares_and_profiles_go_to_the_jobs_in_order() -> None:
    _, rows = run("run", "--gpu", "V100", *PAIR, "--percentage", "30", "--percentage", "70")
    assert [row["setting"] for row in rows] == ["30 %", "70 %"]  # type: ignore[attr-defined]
    _, rows = run("run", "--gpu", "H100", *PAIR, "--mechanism", "mig", "--profile", "3g.40gb", "--profile", "4g.40gb")
    assert [row["setting"] for row in rows] == ["3g.40gb", "4g.40gb"]  # type: ignore[attr-defined]


def test_the_online_variant_says_what_it_is() -> None:
    code, rows = run("online", "--gpu", "V100", *PAIR)
    assert code == 0
    for row in rows:  # type: ignore[attr-defined]
        assert row["label"] == "online: reads co-run stalls"
        assert row["simulated"]
        assert abs(row["online"] / row["slowdown"] - 1) < 0.02
    code, refused = run("online", "--gpu", "V100", PAIR[0], PAIR[1], "--job", "llama-7b-decode_bs1_fp16_infer")
    assert code == 2
    assert "servers" in str(refused) or "all the time" in str(refused)


def test_workloads_are_listed_with_what_fits() -> None:
    _, rows = run("workloads", "--gpu", "RTX 2080 Ti")
    assert len(rows) == 24  # type: ignore[arg-type]
    assert {row["fits"] for row in rows} == {True, False}  # type: ignore[attr-defined]


def test_the_sample_of_one_gpu(tmp_path: Path) -> None:
    code, files = run("sample", "--out", str(tmp_path), "--gpu", "RTX 4090")
    assert code == 0
    assert {Path(one["file"]).name for one in files} == {  # type: ignore[attr-defined]
        "profiles_RTX-4090.zip", "coruns.csv.gz", "jobs.csv.gz",
    }  # fmt: skip
    assert all(Path(one["file"]).stat().st_size == one["bytes"] for one in files)  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "arguments",
    [("--gpu", "Voodoo", *PAIR), ("--gpu", "V100", "--job", "nobody", "--job", "nobody")],
)
def test_unknown_names_are_refused(arguments: tuple[str, ...]) -> None:
    result = runner.invoke(app, ["simulate", "run", *arguments, "--json"])
    assert result.exit_code == 1
    assert "error" in json.loads(result.stdout)


def test_options_that_contradict_are_wrong_usage() -> None:
    result = runner.invoke(
        app, ["simulate", "run", "--gpu", "V100", *PAIR, "--mechanism", "tally", "--percentage", "50"]
    )
    assert result.exit_code == 2


def test_load_and_remove(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from analysis.settings import asset
    from analysis.sharing import sample

    monkeypatch.setattr(sample, "files", lambda: [asset("data", "samples", "jobs.csv.gz")])
    database = ("--db", str(tmp_path / "x.duckdb"))
    code, files = run("load", *database)
    assert code == 0
    assert files[0]["status"] == "loaded"  # type: ignore[index]
    assert run("load", *database)[1][0]["status"] == "duplicate"  # type: ignore[index]
    assert run("remove", *database) == (0, {"removed": 1})
    assert run("remove", *database) == (0, {"removed": 0})
