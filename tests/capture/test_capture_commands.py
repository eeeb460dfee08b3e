"""`stallscope capture` as a user runs it, with Ctrl-C and kill -9 in the middle."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from analysis.capture import mps
from analysis.cli import app
from analysis.predict.advise.measure_next import command as suggested
from analysis.store.database import Database
from tests.capture.stand_ins import command
from tests.capture.test_coruns_measured import left_over

Json = Callable[..., Any]


@pytest.fixture
def as_json(monkeypatch: pytest.MonkeyPatch) -> Json:
    """Run `stallscope capture ... --json` in this process, on the made-up machine."""
    monkeypatch.setenv("STALLSCOPE_NVML", "fake")

    def run(*arguments: object, code: int = 0) -> Any:
        done = CliRunner().invoke(app, ["capture", *map(str, arguments)], prog_name="stallscope")
        assert done.exit_code == code, done.output
        return json.loads(done.stdout)

    return run


def test_the_command_that_is_suggested_works(job: Path, tmp_path: Path, as_json: Json) -> None:
    line = shlex.split(suggested("A", "B b", "CUDA MPS"))
    assert line[:3] == ["stallscope", "capture", "corun"]
    place = line.index("--")
    told = ["--json", "--seconds", 0.4, "--warmup", 0.1, "--no-solo", "--windows", 1, "--out", tmp_path / "out"]
    one, two = command(job, 200, 1.5), command(job, 100, 2)
    done = as_json(*line[2:place], *told, "--db", tmp_path / "a.duckdb", "--", *one, ":::", *two)
    assert [(one["workload"], one["slowdown"], one["repeats"]) for one in done["slowdowns"]] == [
        ("A", None, 1), ("B b", None, 1),
    ]  # fmt: skip
    assert [one["status"] for one in done["loaded"]] == ["loaded", "loaded"]
    with Database(tmp_path / "a.duckdb") as database:
        assert database.scalar("SELECT mechanism FROM run") == "CUDA MPS"


def test_what_did_not_run_is_kept_with_its_reason(job: Path, tmp_path: Path, as_json: Json) -> None:
    options = ["--seconds", 0.3, "--warmup", 0.1, "--no-solo", "--out", tmp_path / "out", "--db", tmp_path / "a.duckdb"]
    names = ["--workload", "big", "--workload", "b"]
    big, other = command(job, 100, 1, "oom"), command(job, 100, 1)
    done = as_json("corun", "--json", *options, *names, "--percent", "60,40", "--", *big, ":::", *other, code=1)
    assert done["did_not_run"] == 1
    with Database(tmp_path / "a.duckdb") as database:
        assert database.scalar("SELECT outcome FROM run") == "did_not_run"
        assert "big: out of memory" in database.scalar("SELECT note FROM run")
        members = database.query("SELECT slowdown, corun_value, thread_percentage FROM member ORDER BY slot")
    assert members["slowdown"].isna().all()
    assert members["thread_percentage"].tolist() == [60, 40]


def test_wrong_lines_are_refused_with_the_cure(job: Path, as_json: Json, tmp_path: Path) -> None:
    for arguments, said in (
        (["corun", "--json", "--", "python", "a.py"], ":::"),
        (["corun", "--json", "--workload", "a", "--", "x", ":::", "y"], "2 commands and 1 names"),
        (["corun", "--json", "--percent", "50", "--", "x", ":::", "y"], "does not fit 2 jobs"),
        (
            ["corun", "--json", "--mechanism", "time-slicing", "--percent", "5,5", "--", "x", ":::", "y"],
            "clients of MPS",
        ),
        (["corun", "--json", "--", "ncu", "x", ":::", "y"], "profiler ncu"),
        (["corun", "--json", "--", "sh", "-c", "exec /opt/bin/nsys profile x", ":::", "y"], "profiler nsys"),
        (["ncu-command", "--json", "--cc", "8.0", "--", "ncu", "x"], "runs under ncu already"),
        (["ncu-command", "--json", "--cc", "99.9", "--", "x"], "no GPU of compute capability"),
        (["telemetry", "--json", "--interval", "5ms"], "5 ms is too short"),
        (["ncu-command", "--json", "--cc", "6.0", "--", "x"], "nvprof"),
    ):
        done = CliRunner().invoke(app, ["capture", *arguments], prog_name="stallscope")
        assert done.exit_code == 2, done.output
        assert said in " ".join(done.output.split()), arguments


def test_the_profilers_line_is_that_of_the_gpu(job: Path, as_json: Json, monkeypatch: pytest.MonkeyPatch) -> None:
    from analysis.capture import ncu
    from analysis.reference.stall_reasons import resolve

    done = as_json("ncu-command", "--json", "--skip", 7, "--count", 9, "--", "python", "a b.py", "--x")
    assert done["compute_capability"] == "9.0"
    assert shlex.split(done["line"]) == done["words"]
    assert done["words"][-3:] == ["python", "a b.py", "--x"]
    assert done["words"][3:7] == ["--launch-skip", "7", "--launch-count", "9"]
    for cc, number in (("7.0", 17), ("8.0", 18), ("9.0", 19), ("12.0", 17)):
        reasons = [found.reason for name in ncu.metrics(cc) if (found := resolve(name)) is not None]
        assert len(reasons) == number
        assert ("gmma" in reasons, "branch_resolving" in reasons) == (cc == "9.0", cc != "7.0")
    theirs = mps.Daemon()
    theirs.start()
    monkeypatch.setenv(mps.PIPE, str(theirs.folder))
    try:
        done = CliRunner().invoke(app, ["capture", "ncu-command", "--", "python", "a.py"])
        assert "counts all its clients together" in done.output
    finally:
        theirs.stop()


def test_ctrl_c_and_kill_leave_nothing_and_the_campaign_goes_on(job: Path, tmp_path: Path, as_json: Json) -> None:
    text = "seconds = 0.4\nwarmup = 0.1\nself_pairs = false\n"
    for name, rate, slowdown in (("a", 200, 1.4), ("b", 150, 1.75)):
        text += f"[jobs.{name}]\ncommand = {json.dumps(command(job, rate, slowdown))}\n"
    file = tmp_path / "c.toml"
    file.write_text(text)
    arguments = ["campaign", str(file), "--json", "--no-load"]

    def until_the_pair(*how: str) -> subprocess.Popen[str]:
        Path(os.environ["FAKE_MPS_LOG"]).unlink(missing_ok=True)
        process = subprocess.Popen(
            [sys.executable, *how], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )  # fmt: skip
        end = time.monotonic() + 60
        while not list(Path(os.environ["TMPDIR"]).glob("stallscope-mps-*/clients")) and time.monotonic() < end:
            assert process.poll() is None, process.communicate()
            time.sleep(0.01)
        return process

    process = until_the_pair("-m", "analysis.cli", "capture", *arguments)
    process.send_signal(signal.SIGINT)
    out, said = process.communicate(timeout=60)
    assert process.returncode == 130, said
    assert "error" in json.loads(out)
    assert left_over(job) == []
    assert Path(os.environ["FAKE_MPS_LOG"]).read_text().splitlines()[-1] == "quit"

    engine = "from analysis.capture import campaign, plan; from pathlib import Path; import sys; "
    engine += "campaign.run(plan.read_plan(Path(sys.argv[1])), Path(sys.argv[2]))"
    process = until_the_pair("-c", engine, str(file), str(file.with_suffix("")))  # the same, without the command line
    process.kill()
    process.communicate(timeout=60)
    end = time.monotonic() + 20
    while left_over(job) and time.monotonic() < end:
        time.sleep(0.05)
    assert left_over(job) == []
    done = as_json(*arguments)
    assert (done["new"], done["left"]) == (1, 0)  # both jobs alone are known from the first time
    assert [one["slowdown"] for one in done["slowdowns"]] == pytest.approx([1.4, 1.75], rel=0.03)
