"""Jobs of known speed, alone and side by side: the slowdown, the proof of MPS, faults, and nothing left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from analysis.capture import mps
from analysis.capture.campaign import run
from analysis.capture.corun import NO_PROGRESS, Measured, Timing, measure
from analysis.capture.fakenvml import moving_machine
from analysis.capture.guard import Guard
from analysis.capture.plan import Plan
from analysis.capture.process import JobSpec, session_processes
from analysis.capture.rate import RateBy
from analysis.capture.readings import Reader
from analysis.errors import StallScopeError, UsageError
from analysis.ingest.account import account
from analysis.ingest.importer import import_paths
from analysis.store.database import Database
from tests.capture.stand_ins import command

QUICK = Timing(seconds=0.6, warmup=0.1, grace=0.6, start=20)


def left_over(job: Path) -> list[str]:
    """Return what still runs of a test's jobs and daemon, and their folders."""
    listed = subprocess.run(["ps", "-eo", "pid,stat,args"], capture_output=True, text=True, check=True).stdout
    running = [line for line in listed.splitlines() if str(job) in line and " Z" not in line]
    return running + [str(path) for path in Path(os.environ["TMPDIR"]).iterdir()]


def together(jobs: list[JobSpec], mechanism: str = "mps", timing: Timing = QUICK) -> Measured:
    with Guard() as guard:
        return measure(jobs, mechanism=mechanism, guard=guard, reader=Reader(moving_machine), timing=timing)[0]


def spec(job: Path, name: str, rate: float, slowdown: float, mode: str = "steps", **more: object) -> JobSpec:
    return JobSpec(name, command(job, rate, slowdown, mode), RateBy(unit="samples/s"), **more)  # type: ignore[arg-type]


def test_the_slowdown_of_jobs_whose_speed_is_known(job: Path, tmp_path: Path, database: Database) -> None:
    jobs = {"a": spec(job, "a", 200, 1.4), "b": spec(job, "b", 150, 1.75)}
    plan = Plan(jobs, (("a", "b"),), timing=Timing(seconds=0.45, warmup=0.1, windows=2))
    done = run(plan, tmp_path / "out", reader=Reader(moving_machine))
    assert [one["slowdown"] for one in done.slowdowns] == pytest.approx([1.4, 1.75], rel=0.03)
    # Two windows of one start are no two measurements.
    assert [(one["repeats"], one["windows"], one["low"], one["high"]) for one in done.slowdowns] == [
        (1, 2, None, None)
    ] * 2
    assert (done.done, done.left, done.failed) == (3, 0, 0)
    assert left_over(job) == []
    # Every client was ended by the daemon while it was alive, and only then the daemon.
    log = [line.split() for line in Path(os.environ["FAKE_MPS_LOG"]).read_text().splitlines()]
    assert [line[0] for line in log] == ["terminate", "terminate", "quit"]
    assert not any(line[2].startswith("Z") for line in log[:2])
    reports = import_paths(database, done.files, dataset="mine")
    assert [(one.format, one.status, one.rows_rejected) for one in reports] == [
        ("own-profiles", "loaded", 0), ("own-coruns", "loaded", 0), ("capture-provenance", "loaded", 0),
    ]  # fmt: skip
    assert reports[1].report["measured_on"] == {
        **reports[1].report["measured_on"], "driver": ["570.86.15"], "cuda": ["12.8"], "ecc": ["on"], "mig": ["off"],
        "mps_clients": ["2"],
    }  # fmt: skip
    told = dict(account(reports[1].model_dump()))
    assert told["Measured on"].startswith(
        "driver 570.86.15, CUDA 12.8, ECC on, MIG off, clients of MPS 2, SM clock in MHz"
    )
    assert dict(account(reports[2].model_dump()))["Measured on"].startswith("driver 570.86.15, CUDA 12.8")
    (listed,) = {str(run["mps"]["of"]) for run in reports[2].report["runs"] if run["mps"]}
    assert "0 a" in listed
    assert "1 b" in listed
    held = database.query(
        """SELECT w.name, avg(m.slowdown) AS s, any_value(r.mechanism) AS how, any_value(r.gpu) AS gpu, count(*) AS n
           FROM member m JOIN run r USING (run_id) JOIN workload w USING (workload_id)
           GROUP BY w.name ORDER BY w.name"""
    )
    assert held["s"].tolist() == pytest.approx([1.4, 1.75], rel=0.03)
    assert held[["how", "gpu", "n"]].drop_duplicates().to_numpy().tolist() == [["CUDA MPS", "NVIDIA H200 (made up)", 2]]
    # The same again does nothing: all of it is done.
    assert run(plan, tmp_path / "out", reader=Reader(moving_machine)).new == 0


def test_throughput_from_lines_and_from_what_is_printed(job: Path) -> None:
    jobs = [
        JobSpec("lines", command(job, 100, 1.25, "lines"), RateBy("lines", "^step", per_line=8, unit="samples/s")),
        JobSpec("printed", command(job, 200, 2.0, "regex"), RateBy("regex", r"([\d.]+) samples/s", unit="samples/s")),
    ]
    done = together(jobs, "time-slicing")
    assert done.members[1].rate == pytest.approx(100, rel=0.03)
    assert done.members[0].rate == pytest.approx(640, rel=0.08)  # lines count when they come, also on a busy machine
    assert (done.mechanism, done.mps) == ("time-slicing", None)
    assert left_over(job) == []


def test_out_of_memory_crash_and_sibling_fault(job: Path) -> None:
    done = together([spec(job, "big", 100, 1, "oom"), spec(job, "fine", 100, 1)])
    assert [one.note for one in done.members] == ["out of memory", "stopped as big did not run"]
    assert "CUDA out of memory" in done.members[0].tail[-1]
    done = together([spec(job, "twin", 100, 1, "sibling"), spec(job, "bad", 100, 1, "crash")])
    assert [one.note for one in done.members] == ["lost with bad (sibling fault)", "crashed (exit code 7)"]
    assert {one.outcome for one in done.members} == {"did_not_run"}
    assert left_over(job) == []


def test_a_job_that_is_no_client_is_not_called_mps(job: Path) -> None:
    done = together([spec(job, "a", 100, 1), spec(job, "outside", 100, 1, "stranger")])
    assert not done.ran
    assert "not a client of MPS: outside" in done.members[0].note
    assert left_over(job) == []


def test_a_daemon_that_does_not_start_is_said(job: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_MPS_REFUSES", "1")
    with pytest.raises(StallScopeError, match="mode is exclusive"):
        together([spec(job, "a", 100, 1), spec(job, "b", 100, 1)])
    assert left_over(job) == []


def test_profilers_are_refused_beside_other_jobs(job: Path) -> None:
    profiled = JobSpec("p", ("/opt/nvidia/ncu", *command(job, 100, 1)))
    with pytest.raises(UsageError, match="ncu, which can't be combined with CUDA MPS"):
        together([profiled, spec(job, "b", 100, 1)])


def test_a_daemon_that_runs_is_not_touched(job: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = tmp_path / "theirs"
    other.mkdir()
    theirs = mps.Daemon(other)
    theirs.start()
    try:
        monkeypatch.setenv(mps.PIPE, str(other))
        before = mps.running_at()
        printing = "import os, time\nwhile True: print('v', os.environ['CUDA_MPS_PIPE_DIRECTORY']); time.sleep(0.02)"
        alone = JobSpec("a", (command(job, 1, 1)[0], "-c", printing), RateBy("lines", "^v (?!.*theirs)"))
        assert together([alone], "exclusive").ran  # it does not even see it
        assert together([spec(job, "a", 100, 1, percent=60.0), spec(job, "b", 100, 1)]).ran
        assert mps.running_at() == before
        assert not (other / "clients").exists()
    finally:
        theirs.stop()


def test_the_guard_ends_what_a_killed_measurement_leaves(job: Path, tmp_path: Path) -> None:
    daemon = mps.Daemon()
    daemon.start()
    guard = Guard().__enter__()
    environment = {**os.environ, **daemon.environment, "STALLSCOPE_STEPS": str(tmp_path / "steps")}
    (tmp_path / "steps").touch()
    left = subprocess.Popen(command(job, 100, 1), env=environment, start_new_session=True)
    guard.tell(f"mps {daemon.folder}")
    guard.tell(f"+ {left.pid}")
    while not session_processes(left.pid) or not (daemon.folder / "clients").exists():
        pass
    process = guard._process
    assert process is not None
    assert process.stdin is not None
    process.stdin.close()  # as when the measuring process is killed
    assert process.wait(10) == 0
    assert left.wait(10) == -15
    log = Path(os.environ["FAKE_MPS_LOG"]).read_text()
    assert log.startswith(f"terminate {left.pid}")
    assert left_over(job) == []


#: A job that will not end when asked, its child neither; another child makes a session of its own.
STUBBORN = """import os, signal, subprocess, sys, time
for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
    signal.signal(number, signal.SIG_IGN)
for apart in (False, True):
    subprocess.Popen([sys.executable, "-ISc", "import time; time.sleep(99)", sys.argv[1]], start_new_session=apart)
while True:
    print("step 1", flush=True)
    time.sleep(0.02)
"""


def _there(word: str) -> list[str]:
    """Return the live processes that have a word on their command line."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            with suppress(OSError):
                state = (entry / "stat").read_text().rpartition(")")[2].split()[0]
                if state not in "ZX" and word.encode() in (entry / "cmdline").read_bytes():
                    found.append(entry.name)
    return found


_MEASURING = """
import sys
from pathlib import Path
from analysis.capture import campaign, corun, plan, process, rate
if sys.argv[2] == "run":
    process.complete((sys.executable, "-uISc", sys.argv[3], sys.argv[1]), seconds=60)
spec = process.JobSpec(sys.argv[1], (sys.executable, "-uISc", sys.argv[3], sys.argv[1]), rate.RateBy("lines"))
campaign.run(plan.Plan({spec.name: spec}, (), timing=corun.Timing(60, 0.1)), Path(sys.argv[4]), gpu="V100")
"""


@pytest.mark.parametrize(
    ("how", "signals"),
    [("job", [signal.SIGKILL]), ("run", [signal.SIGKILL]), ("job", [signal.SIGINT] * 2), ("run", [signal.SIGINT])],
)
def test_nothing_stays_of_a_job_that_will_not_end(how: str, signals: list[signal.Signals], tmp_path: Path) -> None:
    word = f"stubborn-{os.urandom(6).hex()}"
    measuring = subprocess.Popen(
        [sys.executable, "-c", _MEASURING, word, how, STUBBORN, str(tmp_path / "out")],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    until = time.monotonic() + 60
    # Itself, the job, and its two children.
    while len(_there(word)) < 4:
        assert measuring.poll() is None
        assert time.monotonic() < until
        time.sleep(0.05)
    for number in signals:
        measuring.send_signal(number)
        time.sleep(0.4)
    measuring.wait(60)
    until = time.monotonic() + 20
    while _there(word):
        assert time.monotonic() < until, "something of it is left"
        time.sleep(0.05)


def test_a_job_without_progress_does_not_outlast_the_time(tmp_path: Path) -> None:
    quiet = JobSpec("quiet", (sys.executable, "-uISc", "import time; time.sleep(60)"), RateBy("lines"))
    through = JobSpec("through", (sys.executable, "-uISc", "import time; time.sleep(0.1)"), RateBy("lines"))
    said: list[str] = []
    plan = Plan({"quiet": quiet}, (), timing=Timing(seconds=0.2, warmup=0), budget=2.0)
    began = time.monotonic()
    done = run(plan, tmp_path / "a", reader=Reader(moving_machine), say=said.append)
    assert time.monotonic() - began < 15
    assert done.entries[0].measured.members[0].note.startswith(NO_PROGRESS)
    done = run(Plan({"through": through}, ()), tmp_path / "b", reader=Reader(moving_machine))
    assert "ended without any progress" in done.entries[0].measured.members[0].note


def test_a_window_cut_short_is_said(tmp_path: Path) -> None:
    steps = "import time\nfor _ in range(60): print(1, flush=True); time.sleep(0.01)"
    job = JobSpec("a", (sys.executable, "-uISc", steps), RateBy("lines"))
    plan = Plan({"a": job}, (), timing=Timing(seconds=5, warmup=0.05))
    member = run(plan, tmp_path, reader=Reader(moving_machine)).entries[0].measured.members[0]
    assert member.rate
    assert "instead of 5 s: a ended" in member.note
