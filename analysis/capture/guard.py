"""A second process that cleans up when the measuring one dies: also after ``kill -9`` no job and no daemon stays.

It is told of every job and of the daemon through a pipe, and waits for the pipe to end. The text of this module is the
program of that process, so it uses nothing but the standard library and no other module of ours.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable

CONTROL = "nvidia-cuda-mps-control"


class Guard:
    """The measuring side.

    Use it as a context manager; leaving it orderly tells the other process that there is nothing to do. Left by an
    exception, the other process ends what is still there: a second Ctrl-C may have cut short what should have.
    """

    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None

    def __enter__(self) -> Guard:
        loader = __spec__.loader if __spec__ is not None else None
        source = getattr(loader, "get_source")(__name__)  # noqa: B009 - loaders from a zip file have it too
        self._process = subprocess.Popen(
            [sys.executable, "-c", source], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL, text=True, start_new_session=True, close_fds=True,
        )  # fmt: skip
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is None:
            self.tell("close")
        process, self._process = self._process, None
        if process is not None:
            with contextlib.suppress(OSError):
                process.stdin.close()  # type: ignore[union-attr]
            process.wait(30)

    def tell(self, line: str) -> None:
        """Say something.

        ``mark MARK`` before a job is started that carries it in its environment, ``+ PID`` once it runs as the first of
        its session, ``- PID`` and ``unmark MARK`` when it has ended; ``mps FOLDER``, ``no-mps``, ``folder FOLDER``,
        ``close``.
        """
        if self._process is not None and self._process.stdin is not None:
            with contextlib.suppress(OSError):
                self._process.stdin.write(line + "\n")
                self._process.stdin.flush()


def _started(pid: int) -> str:
    """When a live process began, in ticks since the machine did: tells it from a later one with the same number."""
    try:
        with open(f"/proc/{pid}/stat") as file:  # noqa: PTH123
            parts = file.read().rpartition(")")[2].split()
        return "" if parts[0] in "ZX" else parts[19]
    except (OSError, IndexError):
        return ""


def members(session: int, mark: str = "") -> list[int]:
    """Return the live processes of a job: of its session and its group, and whoever inherited its mark.

    Parameters
    ----------
    session : int
        Number of its first process; 0 where that is not known.
    mark : str
        What stands in its environment and in no other's. A child that made a session of its own still has it.
    """
    found, needle = [], mark.encode()
    for entry in os.listdir("/proc"):  # noqa: PTH208
        if not entry.isdigit() or int(entry) == os.getpid():
            continue
        try:
            with open(f"/proc/{entry}/stat") as file:  # noqa: PTH123
                parts = file.read().rpartition(")")[2].split()
            if parts[0] in "ZX":
                continue
            if session and str(session) in (entry, parts[2], parts[3]):
                found.append(int(entry))
            elif needle:
                with open(f"/proc/{entry}/environ", "rb") as file:  # noqa: PTH123
                    if needle in file.read():
                        found.append(int(entry))
        except (OSError, IndexError):
            continue
    return found


def end(who: Callable[[], list[int]], number: int, seconds: float) -> bool:
    """Send a signal to all processes of a job, those that come meanwhile too, and say whether all are gone in time."""
    told: set[int] = set()
    until = time.monotonic() + seconds
    while alive := who():
        for pid in alive:
            if pid not in told or number == signal.SIGKILL:
                with contextlib.suppress(OSError):
                    os.kill(pid, number)
        told.update(alive)
        if time.monotonic() > until:
            return False
        time.sleep(0.05)
    return True


def _control(folder: str, command: str) -> str:
    environment = {**os.environ, "CUDA_MPS_PIPE_DIRECTORY": folder, "CUDA_MPS_LOG_DIRECTORY": folder}
    program = shutil.which(CONTROL)
    if program is None:
        return ""
    try:
        done = subprocess.run(
            [program], input=command + "\n", env=environment, capture_output=True, text=True, timeout=10, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout


def _numbers(text: str) -> list[str]:
    return [word for word in text.split() if word.isdigit()]


def watch(lines: Iterable[str]) -> None:
    """Follow what is told until the pipe ends; unless it was closed in order, end what is left."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    jobs: dict[int, str] = {}
    marks: list[str] = []
    folder = temporary = ""
    for line in lines:
        word, _, rest = line.strip().partition(" ")
        if word == "close":
            return
        if word == "+":
            jobs[int(rest)] = _started(int(rest))
        elif word == "-":
            jobs.pop(int(rest), None)
        elif word == "mark":
            marks.append(rest)
        elif word == "unmark" and rest in marks:
            marks.remove(rest)
        elif word == "mps":
            folder = rest
        elif word == "no-mps":
            folder = ""
        elif word == "folder":
            temporary = rest
    if folder:
        # Ending a client's work first: killing one with work on the GPU can take its siblings with it.
        for server in _numbers(_control(folder, "get_server_list")):
            for client in _numbers(_control(folder, f"get_client_list {server}")):
                _control(folder, f"terminate_client {server} {client}")

    def left() -> list[int]:
        # A number whose process is not the one that was told belongs to somebody else by now. One whose process is gone
        # belongs to nobody else as long as any of its session lives.
        own = [pid for pid, began in jobs.items() if _started(pid) in ("", began)]
        return sorted(
            {one for pid in own for one in members(pid)} | {one for mark in marks for one in members(0, mark)}
        )

    end(left, signal.SIGTERM, 3.0)
    end(left, signal.SIGKILL, 3.0)
    if folder:
        _control(folder, "quit -t 5")
        shutil.rmtree(folder, ignore_errors=True)
    if temporary:
        shutil.rmtree(temporary, ignore_errors=True)


if __name__ == "__main__":
    watch(sys.stdin)
