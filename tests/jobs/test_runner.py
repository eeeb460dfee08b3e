"""Long work runs beside the caller, can be watched and stopped, and leaves a record."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import numpy as np
import pytest

from analysis.errors import NotEnoughDataError, NotFoundError
from analysis.jobs.runner import JobRunner, Progress
from analysis.store.database import Database
from analysis.store.queries import jobs as records


@pytest.fixture
def runner(database: Database):
    opened = JobRunner(database)
    yield opened
    opened.close()


def test_a_result_is_kept(runner: JobRunner, database: Database) -> None:
    def work(progress: Progress) -> dict:
        progress(0.5, "half")
        return {"n": np.int64(3), "values": np.array([1.5, np.nan])}

    job = runner.submit("evaluate", {"dataset": "kace"}, work)
    status = runner.wait(job, 5)
    assert (status.state, status.fraction, status.result) == ("done", 1.0, {"n": 3, "values": [1.5, None]})
    assert JobRunner(database).status(job).result == status.result
    assert runner.latest("evaluate").job_id == job


def test_the_caller_does_not_wait_and_sees_progress(runner: JobRunner) -> None:
    go = threading.Event()

    def work(progress: Progress) -> dict:
        progress(0.25, "fold 1 of 4")
        go.wait(5)
        return {}

    job = runner.submit("evaluate", {}, work)
    deadline = time.monotonic() + 5
    while runner.status(job).message != "fold 1 of 4" and time.monotonic() < deadline:
        time.sleep(0.01)
    assert (runner.status(job).state, runner.status(job).fraction) == ("running", 0.25)
    go.set()
    assert runner.wait(job, 5).state == "done"


def test_progress_leaves_caches_alone(runner: JobRunner, database: Database) -> None:
    before = database.version
    runner.wait(runner.submit("evaluate", {}, lambda progress: progress(0.5, "x") or {}), 5)
    assert database.version == before


def test_cancel_stops_a_running_job(runner: JobRunner) -> None:
    started = threading.Event()

    def work(progress: Progress) -> dict:
        for step in range(1000):
            progress(step / 1000, "working")
            started.set()
            time.sleep(0.01)
        return {"finished": True}

    job = runner.submit("evaluate", {}, work)
    assert started.wait(5)
    runner.cancel(job)
    status = runner.wait(job, 3)
    assert (status.state, status.result) == ("cancelled", None)


def test_a_queued_job_can_be_cancelled_and_the_next_one_runs(runner: JobRunner) -> None:
    go = threading.Event()
    ran: list[str] = []
    first = runner.submit("a", {}, lambda _: go.wait(5) and {})
    second = runner.submit("b", {}, lambda _: ran.append("b") or {})
    third = runner.submit("c", {}, lambda _: ran.append("c") or {})
    runner.cancel(second)
    assert runner.status(second).state == "cancelled"
    go.set()
    assert runner.wait(third, 5).state == "done"
    assert (runner.status(first).state, ran) == ("done", ["c"])


def test_loading_does_not_wait_for_computing(runner: JobRunner) -> None:
    go = threading.Event()
    slow = runner.submit("evaluate", {}, lambda _: go.wait(5) and {})
    quick = runner.submit("import", {}, lambda _: {"loaded": 1}, lane="load")
    assert runner.wait(quick, 5).result == {"loaded": 1}
    assert not runner.status(slow).finished
    go.set()


def test_a_named_error_is_told_as_its_sentence(runner: JobRunner) -> None:
    def work(_: Progress) -> dict:
        raise NotEnoughDataError("only 4 runs", "Load at least 30.")

    status = runner.wait(runner.submit("evaluate", {}, work), 5)
    assert (status.state, status.message) == ("failed", "only 4 runs. Load at least 30.")


def test_an_unforeseen_error_tells_no_secrets(runner: JobRunner) -> None:
    def work(_: Progress) -> dict:
        raise RuntimeError("internal detail")

    status = runner.wait(runner.submit("evaluate", {}, work), 5)
    assert status.state == "failed"
    assert "internal detail" not in status.message
    assert "log" in status.message


def test_a_restart_marks_what_was_running(tmp_path: Path) -> None:
    with Database(tmp_path / "jobs.duckdb") as database:
        records.insert(database, "old", "evaluate", "{}")
        records.update(database, "old", state="running", fraction=0.4, message="fold 2")
    with Database(tmp_path / "jobs.duckdb") as database:
        runner = JobRunner(database)
        status = runner.status("old")
        assert runner.interrupted == 1
        assert (status.state, status.fraction) == ("failed", 0.4)
        assert "stopped while this was running" in status.message
        assert status.finished_at is not None


def test_unknown_jobs_are_named(runner: JobRunner) -> None:
    with pytest.raises(NotFoundError, match="no job nonsense"):
        runner.status("nonsense")
    assert runner.latest("nothing") is None
