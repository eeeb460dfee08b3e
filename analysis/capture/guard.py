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
from collections.abc import Iterable

CONTROL = "nvidia-cuda-mps-control"


class Guard:
    """The measuring side.

    Use it as a context manager; leaving it orderly tells the other process that there is nothing to do.
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

    def __exit__(self, *_: object) -> None:
        self.tell("close")
        process, self._process = self._process, None
        if process is not None:
            with contextlib.suppress(OSError):
                process.stdin.close()  # type: ignore[union-attr]
            process.wait(30)

    def tell(self, line: str) -> None:
        """Say something: ``+ PID``, ``- PID``, ``mps FOLDER``, ``no-mps``, ``folder FOLDER`` or ``close``."""
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
    folder = temporary = ""
    for line in lines:
        word, _, rest = line.strip().partition(" ")
        if word == "close":
            return
        if word == "+":
            jobs[int(rest)] = _started(int(rest))
        elif word == "-":
            jobs.pop(int(rest), None)
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
    for number in (signal.SIGTERM, signal.SIGKILL):
        alive = [pid for pid, began in jobs.items() if began and _started(pid) == began]
        for pid in alive:
            with contextlib.suppress(OSError):
                os.killpg(pid, number)
        end = time.monotonic() + 3
        while alive and time.monotonic() < end and any(_started(pid) == jobs[pid] for pid in alive):
            time.sleep(0.05)
    if folder:
        _control(folder, "quit -t 5")
        shutil.rmtree(folder, ignore_errors=True)
    if temporary:
        shutil.rmtree(temporary, ignore_errors=True)


if __name__ == "__main__":
    watch(sys.stdin)
