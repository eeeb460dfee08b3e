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


def test_every_setting_of_a_mechanism_is_an_option() -> None:
    def slowdowns(*options: str) -> list[float]:
        code, rows = run("run", "--gpu", "A100-80GB", *PAIR, *options)
        assert code == 0, rows
        return [row["slowdown"] for row in rows]  # type: ignore[attr-defined]

    slices = ("--mechanism", "time-slicing")
    assert (
        slowdowns(*slices, "--quantum-ms", "0.5")[0] > slowdowns(*slices)[0] > slowdowns(*slices, "--switch-ms", "0")[0]
    )
    tally = ("--mechanism", "tally", "--turnaround-us")
    assert slowdowns(*tally, "5000")[0] > slowdowns(*tally, "10")[0]
    mig = ("--mechanism", "mig", "--profile")
    apart = slowdowns(*mig, "1c.3g.40gb", "--profile", "2c.3g.40gb")
    assert apart[0] > slowdowns(*mig, "2c.3g.40gb", "--profile", "1c.3g.40gb")[0]
    inside = ("--mechanism", "mps-in-mig", "--profile", "3g.40gb", "--profile", "3g.40gb")
    assert slowdowns(*inside)[0] > slowdowns(*inside, "--instance", "0", "--instance", "1")[0]
    assert slowdowns("--noise") != slowdowns() != slowdowns("--solo-bias")
    assert slowdowns("--noise", "--seed", "1") != slowdowns("--noise", "--seed", "2")
    _, rows = run("run", "--gpu", "A100-80GB", *PAIR, "--memory-cap", "1000", "--memory-cap", "40000")
    assert {row["outcome"] for row in rows} == {"did_not_run"}  # type: ignore[attr-defined]
    for wrong in (("--quantum-ms", "1"), (*slices, "--profile", "3g.40gb"), (*slices, "--quantum-ms", "0")):
        assert run("run", "--gpu", "A100-80GB", *PAIR, *wrong)[0] == 2


def test_a_server_that_can_not_keep_up_and_who_goes_first_are_said() -> None:
    jobs = ("--job", "dcgan_bs64_fp32_train", "--job", "llama-7b-prefill_bs1_fp16_infer")
    _, rows = run(
        "run", "--gpu", "A100-80GB", *jobs, "--mechanism", "static", "--percentage", "95", "--percentage", "5"
    )
    assert rows[1]["outcome"] == "can't keep up"  # type: ignore[index]
    assert rows[1]["p99_ms"] is None  # type: ignore[index]
    assert rows[1]["utilisation"] >= 1  # type: ignore[index]
    for mechanism in ("mps-priority", "all"):
        _, rows = run("run", "--gpu", "A100-80GB", *jobs, "--mechanism", mechanism)
        assert {row["workload"] for row in rows if row["first"]} == {"dcgan_bs64_fp32_train"}  # type: ignore[attr-defined]
    result = runner.invoke(app, ["simulate", "run", "--gpu", "A100-80GB", *jobs, "--mechanism", "all"])
    for words in ("p50 shared", "p99 of a step", "TTFT", "The first --job goes first", "50 % of the SMs each"):
        assert words in " ".join(result.stdout.split()), words


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
