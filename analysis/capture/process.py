"""A job under measurement: in a session of its own, its output read as it comes, ended with all its children."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import threading
import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from analysis.capture.guard import Guard, end, members
from analysis.capture.mps import Daemon
from analysis.capture.rate import Mark, RateBy, of_step_line
from analysis.capture.steps import SWITCH
from analysis.errors import UsageError

_OUT_OF_MEMORY = re.compile(r"out of memory|OutOfMemoryError|CUDA_ERROR_OUT_OF_MEMORY|cudaErrorMemoryAllocation", re.I)
_TAIL = 40
_STOP_SECONDS = 5.0
#: In the environment of a program that is run to its end.
_MARK = "STALLSCOPE_RUN"


@dataclass(frozen=True)
class JobSpec:
    """A job as the user names it.

    Attributes
    ----------
    name : str
        The workload.
    command : tuple of str
        Program and arguments.
    by : RateBy
        How it says how fast it is.
    percent : float or None
        Active thread percentage as an MPS client.
    environment : mapping
        More environment.
    """

    name: str
    command: tuple[str, ...]
    by: RateBy = field(default_factory=RateBy)
    percent: float | None = None
    environment: Mapping[str, str] = field(default_factory=dict)


class Job:
    """A running job.

    Parameters
    ----------
    spec : JobSpec
        What to run.
    folder : Path
        Where its count of steps goes; exists.
    guard : Guard
        Told of the process.
    environment : mapping
        What the measurement adds: the pipe directory, the device.
    """

    def __init__(self, spec: JobSpec, folder: Path, guard: Guard, environment: Mapping[str, str]) -> None:
        self.spec = spec
        self.marks: list[Mark] = []
        self.reserved_mib = 0.0
        self.tail: deque[str] = deque(maxlen=_TAIL)
        self.ended_at: float | None = None
        self._steps = folder / f"steps-{os.urandom(4).hex()}"
        self._steps.touch()
        self._read = 0
        self._rest = ""
        variables = {**os.environ, **spec.environment, **environment}
        # Whoever starts with this in the environment belongs to the job, whatever session it makes for itself.
        self._mark = str(self._steps)
        variables[SWITCH] = self._mark
        variables.setdefault("PYTHONUNBUFFERED", "1")
        guard.tell(f"mark {self._mark}")
        try:
            self._process = subprocess.Popen(
                list(spec.command), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                env=variables, start_new_session=True,
            )  # fmt: skip
        except OSError as error:
            raise UsageError(
                f"{spec.name}: {spec.command[0]} can't be started ({error.strerror or error})",
                "Give the program as you would on a shell, after --.",
            ) from error
        guard.tell(f"+ {self.pid}")
        self._guard = guard
        self._reader = threading.Thread(target=self._follow, name=f"output of {spec.name}", daemon=True)
        self._reader.start()

    @property
    def pid(self) -> int:
        """Number of its first process, which is also that of its session."""
        return self._process.pid

    @property
    def code(self) -> int | None:
        """Exit code; None while it runs."""
        code = self._process.poll()
        if code is not None and self.ended_at is None:
            self.ended_at = time.monotonic()
        return code

    @property
    def out_of_memory(self) -> bool:
        """Whether it says so in its last lines."""
        return any(_OUT_OF_MEMORY.search(line) for line in self.tail)

    def look(self) -> None:
        """Take in the steps counted since the last look."""
        with self._steps.open("rb") as file:
            file.seek(self._read)
            data = file.read()
        self._read += len(data)
        lines = (self._rest + data.decode("utf-8", "replace")).split("\n")
        self._rest = lines.pop()
        for line in lines:
            found = of_step_line(line)
            if found is not None and self.spec.by.way == "steps":
                self.marks.append(found[0])
            if found is not None:
                self.reserved_mib = max(self.reserved_mib, found[1])

    def processes(self) -> list[int]:
        """Return all processes of its session that are alive."""
        return session_processes(self.pid)

    def stop(self, daemon: Daemon | None = None, *, at_once: bool = False) -> None:
        """End it with its children: its GPU work first where it is an MPS client, then by signals.

        Parameters
        ----------
        daemon : Daemon, optional
            Of the run.
        at_once : bool
            Whether to leave it no time to end by itself. An interrupt meanwhile does the same, and is passed on.
        """
        try:
            there = self._members()
            if daemon is not None and there:
                daemon.end_clients(there)
            if not at_once:
                end(self._members, signal.SIGTERM, _STOP_SECONDS)
        finally:
            end(self._members, signal.SIGKILL, _STOP_SECONDS)
            self._process.wait()
            self._guard.tell(f"- {self.pid}")
            self._guard.tell(f"unmark {self._mark}")
        self._reader.join(_STOP_SECONDS)
        if self._process.stdout is not None and not self._reader.is_alive():
            self._process.stdout.close()
        self.look()
        self._steps.unlink(missing_ok=True)

    def _members(self) -> list[int]:
        self._process.poll()  # one that has ended is no member
        return members(self.pid, self._mark)

    def _follow(self) -> None:
        """Read the output; progress bars end their lines with a carriage return."""
        out = self._process.stdout
        if out is None:
            return
        rest = b""
        work = 0.0
        while data := os.read(out.fileno(), 65536):
            at = time.monotonic()
            *lines, rest = re.split(rb"[\r\n]", rest + data)
            rest = rest[-65536:]
            for raw in lines:
                line = raw.decode("utf-8", "replace")
                if not line.strip():
                    continue
                self.tail.append(line[:500])
                mark = self.spec.by.mark(line, at, work)
                if mark is not None:
                    work = mark.work
                    self.marks.append(mark)
        if rest.strip():
            self.tail.append(rest.decode("utf-8", "replace")[:500])


def stop_all(jobs: Sequence[Job], daemon: Daemon | None) -> None:
    """End jobs, every one of them: an interrupt takes from the rest the time to end by themselves, and is passed on."""
    interrupted: BaseException | None = None
    for job in jobs:
        try:
            job.stop(daemon, at_once=interrupted is not None)
        except BaseException as error:
            interrupted = error
    if interrupted is not None:
        raise interrupted


def complete(command: Sequence[str], *, seconds: float) -> subprocess.CompletedProcess[str]:
    """Run a program to its end; should this process be killed or interrupted, it ends with all its children.

    Raises
    ------
    subprocess.TimeoutExpired
        If it takes longer.
    """
    mark = f"stallscope-{os.urandom(8).hex()}"
    with Guard() as guard:
        guard.tell(f"mark {mark}")
        with subprocess.Popen(
            list(command), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            errors="replace", env={**os.environ, _MARK: mark}, start_new_session=True,
        ) as process:  # fmt: skip
            guard.tell(f"+ {process.pid}")
            try:
                out, err = process.communicate(timeout=seconds)
            finally:
                end(lambda: _left(process, mark), signal.SIGKILL, _STOP_SECONDS)
        guard.tell(f"- {process.pid}")
        guard.tell(f"unmark {mark}")
    return subprocess.CompletedProcess(list(command), process.returncode, out, err)


def _left(process: subprocess.Popen[str], mark: str) -> list[int]:
    process.poll()
    return members(process.pid, mark)


def session_processes(session: int) -> list[int]:
    """Return the live processes of a session, zombies left out."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            parts = (entry / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if parts[3] == str(session) and parts[0] not in "ZX":
            found.append(int(entry.name))
    return found
