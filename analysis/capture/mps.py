"""An MPS daemon of our own: in a private pipe directory, proven by its client list, gone when we are done.

A daemon that runs already, at the usual place or where the environment points, is looked at and never touched.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from analysis.errors import StallScopeError

CONTROL = "nvidia-cuda-mps-control"
PIPE, LOG, PERCENT = "CUDA_MPS_PIPE_DIRECTORY", "CUDA_MPS_LOG_DIRECTORY", "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"
_USUAL = Path("/tmp/nvidia-mps")  # noqa: S108 - the driver's own default
_SECONDS = 10.0


def running_at(folder: Path | None = None) -> int | None:
    """Return the process of the daemon at a pipe directory, or None.

    Parameters
    ----------
    folder : Path, optional
        By default where the environment points, or the driver's usual place.
    """
    folder = folder or Path(os.environ.get(PIPE) or _USUAL)
    try:
        pid = int((folder / f"{CONTROL}.pid").read_text().split()[0])
    except (OSError, ValueError, IndexError):
        return None
    return pid if Path(f"/proc/{pid}").exists() else None


def private_folder() -> Path:
    """Make an empty folder that only this user can read; short, as socket names are limited to 107 bytes."""
    return Path(tempfile.mkdtemp(prefix="stallscope-mps-"))


@dataclass
class Daemon:
    """A control daemon.

    Attributes
    ----------
    folder : Path
        Its pipe and log directory.
    clients_seen : dict of int to list of int
        Server process -> client processes, as the daemon listed them when last asked.
    """

    folder: Path = field(default_factory=private_folder)
    clients_seen: dict[int, list[int]] = field(default_factory=dict)

    @property
    def environment(self) -> dict[str, str]:
        """What a client, and the control program, need to find this daemon and no other."""
        return {PIPE: str(self.folder), LOG: str(self.folder)}

    def start(self) -> None:
        """Start it.

        Raises
        ------
        StallScopeError
            If there is no control program, or it does not come up.
        """
        program = shutil.which(CONTROL)
        if program is None:
            raise StallScopeError(
                f"there is no {CONTROL} on the PATH",
                "Install the driver's compute utilities, or measure with --mechanism time-slicing.",
            )
        done = subprocess.run(
            [program, "-d"], env={**os.environ, **self.environment}, capture_output=True, text=True, timeout=30,
            stdin=subprocess.DEVNULL, check=False,
        )  # fmt: skip
        end = time.monotonic() + _SECONDS
        while done.returncode == 0 and running_at(self.folder) is None and time.monotonic() < end:
            time.sleep(0.02)
        if running_at(self.folder) is None:
            said = " ".join((done.stderr or done.stdout).split()) or f"it ended with {done.returncode}"
            raise StallScopeError(
                f"the MPS daemon did not start ({said[:200]})",
                "Look whether the GPU is in exclusive use, or measure with --mechanism time-slicing.",
            )

    def ask(self, command: str) -> str:
        """Send the daemon a command and return what it prints; blank where it does not answer."""
        program = shutil.which(CONTROL) or CONTROL
        try:
            done = subprocess.run(
                [program], input=command + "\n", env={**os.environ, **self.environment}, capture_output=True,
                text=True, timeout=_SECONDS, check=False,
            )  # fmt: skip
        except (OSError, subprocess.TimeoutExpired):
            return ""
        return done.stdout

    def clients(self) -> dict[int, list[int]]:
        """Ask for the servers and their clients, and remember the answer."""
        found = {
            server: _numbers(self.ask(f"get_client_list {server}")) for server in _numbers(self.ask("get_server_list"))
        }
        self.clients_seen = found
        return found

    def end_clients(self, processes: Iterable[int]) -> list[int]:
        """End the GPU work of those processes that are clients, and return which were.

        This comes before any signal: killing a client that has work on the GPU can take its siblings with it.
        """
        wanted, ended = set(processes), []
        for server, clients in self.clients().items():
            for client in clients:
                if client in wanted:
                    self.ask(f"terminate_client {server} {client}")
                    ended.append(client)
        return ended

    def stop(self) -> None:
        """End it, whatever state it is in, and remove its folder."""
        pid = running_at(self.folder)
        if pid is not None:
            self.ask("quit -t 5")
            end = time.monotonic() + _SECONDS
            while running_at(self.folder) is not None and time.monotonic() < end:
                time.sleep(0.02)
            pid = running_at(self.folder)
            if pid is not None:
                with contextlib.suppress(OSError):
                    os.kill(pid, 15)
        shutil.rmtree(self.folder, ignore_errors=True)


def no_mps() -> Mapping[str, str]:
    """Return the environment in which a job attaches to no daemon: a pipe directory that does not exist."""
    return {PIPE: str(Path(tempfile.gettempdir()) / f"stallscope-no-mps-{os.getpid()}")}


def proof(clients: Mapping[int, list[int]], jobs: Mapping[str, Iterable[int]]) -> dict[str, Any]:
    """Say which job stands in the daemon's client list.

    Parameters
    ----------
    clients : mapping of int to list of int
        Server -> clients.
    jobs : mapping of str to iterable of int
        Job -> its processes.

    Returns
    -------
    dict
        ``servers`` as given, ``of`` (job -> its clients), ``missing`` (jobs without any).
    """
    listed = {client for some in clients.values() for client in some}
    of = {name: sorted(listed & set(processes)) for name, processes in jobs.items()}
    return {
        "servers": {str(server): list(some) for server, some in clients.items()},
        "of": of,
        "missing": [name for name, found in of.items() if not found],
    }


def _numbers(text: str) -> list[int]:
    return [int(word) for word in text.split() if word.isdigit()]
