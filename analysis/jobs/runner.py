"""Runs long work beside the pages: progress anyone can read, cancel, and a result that outlives the browser tab."""

from __future__ import annotations

import json
import queue
import threading
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, TypeAlias

from pydantic_core import to_json

from analysis.errors import CancelledError, NotFoundError, StallScopeError
from analysis.logs import get_logger
from analysis.store.database import Database
from analysis.store.queries import jobs as records

#: Called by the work with the fraction done (0 to 1) and a short message. Raises `CancelledError` once cancel was asked
#: for, so work that reports often stops soon.
Progress: TypeAlias = Callable[[float, str], None]
Work: TypeAlias = Callable[[Progress], Mapping[str, Any]]

#: Seconds between two writes of a running job's progress; readers in this process see every step anyway.
FLUSH_SECONDS = 1.0

INTERRUPTED = "StallScope was stopped while this was running. Start it again"

_log = get_logger(__name__)


@dataclass(frozen=True)
class JobStatus:
    """How far a job is.

    Attributes
    ----------
    job_id, kind : str
        Its id, and what it does, such as ``evaluate``.
    request : mapping
        What was asked for.
    state : str
        ``queued``, ``running``, ``done``, ``failed`` or ``cancelled``.
    fraction : float
        Share done, 0 to 1.
    message : str
        The present step; for a failed job the sentence that says why.
    result : mapping or None
        What the work returned, once done.
    created_at, finished_at : datetime or None
        When it was submitted and when it ended.
    """

    job_id: str
    kind: str
    request: Mapping[str, Any]
    state: str
    fraction: float = 0.0
    message: str = "waiting"
    result: Mapping[str, Any] | None = None
    created_at: datetime | None = None
    finished_at: datetime | None = None

    @property
    def finished(self) -> bool:
        """Whether nothing will happen to it any more."""
        return self.state in records.FINISHED


@dataclass
class _Entry:
    """A job of this process: its status, its work and the way to stop it."""

    status: JobStatus
    work: Work
    stop: threading.Event = field(default_factory=threading.Event)
    flushed: float = 0.0


class JobRunner:
    """Runs one job at a time in each lane, on threads that no page waits for.

    A lane is a queue with one worker. Computing has one, loading files has another, so that an upload need not wait for
    an evaluation of several minutes.

    Parameters
    ----------
    database : Database
        Where requests, progress and results are recorded. Jobs that an earlier process left unfinished there are marked
        as failed.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._lock = threading.Lock()
        self._entries: dict[str, _Entry] = {}
        self._lanes: dict[str, queue.SimpleQueue[str | None]] = {}
        self._threads: list[threading.Thread] = []
        self._closed = False
        # Of a file that nothing can be written to, another process may be the owner, and its work be running.
        self.interrupted = 0 if database.read_only else records.interrupt_unfinished(database, INTERRUPTED)

    def submit(self, kind: str, request: Mapping[str, Any], work: Work, *, lane: str = "compute") -> str:
        """Queue work and return at once.

        Parameters
        ----------
        kind : str
            What it does; `latest` finds it by this.
        request : mapping
            What was asked for, as plain values.
        work : callable
            Given a `Progress`; returns the result as plain values.
        lane : str
            Queue to stand in.

        Returns
        -------
        str
            The job's id.
        """
        job_id = uuid.uuid4().hex[:12]
        status = JobStatus(job_id, kind, dict(request), "queued", created_at=datetime.now())
        records.insert(self._database, job_id, kind, to_json(dict(request), fallback=_plain).decode())
        with self._lock:
            if self._closed:
                raise StallScopeError("StallScope is shutting down", "Start it again.")
            self._entries[job_id] = _Entry(status, work)
            self._lane(lane).put(job_id)
        return job_id

    def status(self, job_id: str) -> JobStatus:
        """Return how far a job is, also one of an earlier process.

        Raises
        ------
        NotFoundError
            If there is no such job.
        """
        with self._lock:
            entry = self._entries.get(job_id)
        if entry is not None:
            return entry.status
        record = records.get(self._database, job_id)
        if record is None:
            raise NotFoundError(f"there is no job {job_id}", "Start it again.")
        return _status(record)

    def latest(self, kind: str) -> JobStatus | None:
        """Return the newest job of a kind, so that a page opened later finds the work and its result again."""
        record = records.latest(self._database, kind)
        return None if record is None else self.status(str(record["job_id"]))

    def cancel(self, job_id: str) -> None:
        """Ask a job to stop; a queued one never starts, a running one stops at its next report of progress."""
        with self._lock:
            entry = self._entries.get(job_id)
            if entry is None:
                return
            entry.stop.set()
            if entry.status.state == "queued":  # the worker takes a job under the same lock, so it is still nobody's
                self._finish(entry, "cancelled", "cancelled before it started")

    def wait(self, job_id: str, timeout: float | None = None) -> JobStatus:
        """Block until a job has ended or the time is over, and return its status."""
        end = None if timeout is None else time.monotonic() + timeout
        while not (status := self.status(job_id)).finished and (end is None or time.monotonic() < end):
            time.sleep(0.02)
        return status

    def close(self, timeout: float = 3.0) -> None:
        """Cancel everything and wait a moment for the workers to end."""
        with self._lock:
            self._closed = True
            entries = [entry for entry in self._entries.values() if not entry.status.finished]
            for lane in self._lanes.values():
                lane.put(None)
        for entry in entries:
            entry.stop.set()
        end = time.monotonic() + timeout
        for thread in self._threads:
            thread.join(max(end - time.monotonic(), 0.0))

    def _lane(self, name: str) -> queue.SimpleQueue[str | None]:
        if name not in self._lanes:
            lane: queue.SimpleQueue[str | None] = queue.SimpleQueue()
            # A daemon: Ctrl-C must end the server, not wait for an evaluation.
            thread = threading.Thread(target=self._run_lane, args=(lane,), name=f"stallscope-{name}", daemon=True)
            self._lanes[name] = lane
            self._threads.append(thread)
            thread.start()
        return self._lanes[name]

    def _run_lane(self, lane: queue.SimpleQueue[str | None]) -> None:
        while (job_id := lane.get()) is not None:
            with self._lock:
                entry = self._entries[job_id]
                work = entry.work
                if not entry.status.finished:
                    entry.status = replace(entry.status, state="running", message="starting")
            if not entry.status.finished:
                self._run(entry, work)

    def _run(self, entry: _Entry, work: Work) -> None:
        def progress(fraction: float, message: str) -> None:
            if entry.stop.is_set():
                raise CancelledError("the job was cancelled", "Start it again to get a result.")
            self._advance(entry, min(max(float(fraction), 0.0), 1.0), message)

        try:
            progress(0.0, "starting")
            result = json.loads(to_json(dict(work(progress)), fallback=_plain, inf_nan_mode="null"))
        except CancelledError:
            self._finish(entry, "cancelled", "cancelled")
        except StallScopeError as error:
            self._finish(entry, "failed", error.sentence)
        except Exception:
            log_id = uuid.uuid4().hex[:8]
            _log.exception("job failed", job=entry.status.job_id, kind=entry.status.kind, log_id=log_id)
            self._finish(
                entry, "failed", f"This did not work, through no fault of yours. The log says more under {log_id}."
            )
        else:
            self._finish(entry, "done", "done", result)

    def _advance(self, entry: _Entry, fraction: float, message: str) -> None:
        entry.status = replace(entry.status, state="running", fraction=fraction, message=message)
        now = time.monotonic()
        if now - entry.flushed >= FLUSH_SECONDS:
            entry.flushed = now
            self._write(entry)

    def _finish(self, entry: _Entry, state: str, message: str, result: Mapping[str, Any] | None = None) -> None:
        entry.status = replace(
            entry.status,
            state=state,
            fraction=1.0 if state == "done" else entry.status.fraction,
            message=message,
            result=result,
            finished_at=datetime.now(),
        )
        entry.work = _nothing  # frees what the work holds on to
        self._write(entry)

    def _write(self, entry: _Entry) -> None:
        status = entry.status
        result = None if status.result is None else json.dumps(status.result)
        try:
            records.update(
                self._database,
                status.job_id,
                state=status.state,
                fraction=status.fraction,
                message=status.message,
                result=result,
            )
        except Exception:  # the record is a convenience; the job must not die of it
            _log.exception("progress not recorded", job=status.job_id)


def _nothing(_: Progress) -> Mapping[str, Any]:
    return {}


def _plain(value: object) -> object:
    """Turn NumPy scalars and arrays into plain values; anything else into its text."""
    tolist = getattr(value, "tolist", None)
    return tolist() if callable(tolist) else str(value)


def _status(record: Mapping[str, Any]) -> JobStatus:
    result = record["result"]
    return JobStatus(
        job_id=str(record["job_id"]),
        kind=str(record["kind"]),
        request=json.loads(record["request"]),
        state=str(record["state"]),
        fraction=float(record["fraction"]),
        message=str(record["message"] or ""),
        result=None if result is None else json.loads(result),
        created_at=record["created_at"],
        finished_at=record["finished_at"],
    )
