"""A job under measurement: in a session of its own, its output read as it comes, ended with all its children."""

from __future__ import annotations

import contextlib
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

from analysis.capture.guard import Guard
from analysis.capture.mps import Daemon
from analysis.capture.rate import Mark, RateBy, of_step_line
from analysis.capture.steps import SWITCH
from analysis.errors import UsageError

_OUT_OF_MEMORY = re.compile(r"out of memory|OutOfMemoryError|CUDA_ERROR_OUT_OF_MEMORY|cudaErrorMemoryAllocation", re.I)
_TAIL = 40
_STOP_SECONDS = 5.0


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
        variables[SWITCH] = str(self._steps)
        variables.setdefault("PYTHONUNBUFFERED", "1")
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

    def stop(self, daemon: Daemon | None = None) -> None:
        """End it with its children: its GPU work first where it is an MPS client, then by signals."""
        if self._process.poll() is None:
            there = self.processes()
            if daemon is not None and there:
                daemon.end_clients(there)
            self._signal(signal.SIGTERM, there)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(_STOP_SECONDS)
        left = self.processes()
        if left:
            self._signal(signal.SIGKILL, left)
        self._process.wait()
        self._guard.tell(f"- {self.pid}")
        self._reader.join(_STOP_SECONDS)
        if self._process.stdout is not None and not self._reader.is_alive():
            self._process.stdout.close()
        self.look()
        self._steps.unlink(missing_ok=True)

    def _signal(self, number: signal.Signals, processes: Sequence[int]) -> None:
        with contextlib.suppress(OSError):
            os.killpg(self.pid, number)
        for process in processes:
            with contextlib.suppress(OSError):
                os.kill(process, number)

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
