"""The window in which all jobs of a run are at work, and who is to blame where there is none."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from analysis.capture import mps
from analysis.capture.process import Job

_POLL = 0.02

#: How the reason begins why a job that never showed progress did not run.
NO_PROGRESS = "no progress within"

#: Seconds without progress after which it is said what is waited for, and for how long.
_QUIET = 10.0

Say: TypeAlias = Callable[[str], None]
Window: TypeAlias = tuple[float, float]


@dataclass(frozen=True)
class Timing:
    """How long to measure, in seconds.

    Attributes
    ----------
    seconds : float
        Length of a window.
    windows : int
        Windows one after the other in the same start: repeats without the time that a start takes, which do not show
        what differs between starts.
    warmup : float
        From when every job has shown progress to the window's start.
    start : float
        Longest wait for that progress.
    grace : float
        After a job is lost, how long to wait whether it takes others with it.
    """

    seconds: float = 20.0
    warmup: float = 5.0
    start: float = 300.0
    grace: float = 2.0
    windows: int = 1


def find_window(
    running: Sequence[Job], timing: Timing, daemon: mps.Daemon | None, say: Say
) -> tuple[Window | None, dict[str, Any] | None, dict[int, str]]:
    """Wait for the window in which all jobs run; returns it, the proof of MPS, and why jobs were lost, by slot."""
    began = time.monotonic()
    last, told = began + timing.start, began + _QUIET
    while not all(job.marks for job in running):
        if time.monotonic() > told:
            told = float("inf")
            names = " and ".join(job.spec.name for job in running if not job.marks)
            say(f"  no progress of {names} in {_QUIET:g} s; waiting for {timing.start:.0f} s: does it count its steps?")
        if time.monotonic() > last:
            quiet = {
                slot: f"{NO_PROGRESS} {timing.start:.0f} s: check how its throughput is read"
                for slot, job in enumerate(running)
                if not job.marks
            }
            return None, None, {**_stopped(running, quiet, "stopped as another made no progress"), **quiet}
        lost = _ended(running)
        if lost:
            return None, None, _faults(running, timing)
        _pause(running)
    proven = None
    if daemon is not None:
        proven = mps.proof(daemon.clients(), {f"{n} {job.spec.name}": job.processes() for n, job in enumerate(running)})
        if proven["missing"]:
            names = ", ".join(name.partition(" ")[2] for name in proven["missing"])
            why = f"not a client of MPS: {names} does not stand in the daemon's client list"
            return None, proven, dict.fromkeys(range(len(running)), why)
        say(f"MPS is active: {sum(map(len, proven['of'].values()))} clients")
    start = time.monotonic() + timing.warmup
    end = start + timing.seconds * timing.windows
    while (now := time.monotonic()) < end:
        if _ended(running):
            # A job that is through in order ends the window early; whether enough is left is for the count of marks.
            if now > start and not [job for job in running if job.code]:
                ends = [job.ended_at for job in running if job.ended_at is not None]
                return (start, min(ends)), proven, {}
            return None, proven, _faults(running, timing)
        _pause(running)
    return (start, end), proven, {}


def _pause(running: Sequence[Job]) -> None:
    time.sleep(_POLL)
    for job in running:
        job.look()


def _ended(running: Sequence[Job]) -> list[int]:
    return [slot for slot, job in enumerate(running) if job.code is not None]


def _faults(running: Sequence[Job], timing: Timing) -> dict[int, str]:
    """Say why each job is lost, once one has ended too early: the first by its own fault, later ones with it."""
    end = time.monotonic() + timing.grace
    while time.monotonic() < end and len(_ended(running)) < len(running):
        _pause(running)
    order = sorted(_ended(running), key=lambda slot: running[slot].ended_at or 0.0)
    lost: dict[int, str] = {}
    for slot in order:
        job = running[slot]
        code = job.code or 0
        if job.out_of_memory:
            lost[slot] = "out of memory"
        elif code == 0 and not job.marks:
            lost[slot] = "ended without any progress: check how its throughput is read"
        elif code == 0:
            lost[slot] = "ended before the window did: let it run for longer"
        elif lost and any(running[other].code for other in lost):
            lost[slot] = f"lost with {running[order[0]].spec.name} (sibling fault)"
        else:
            lost[slot] = f"crashed ({f'signal {-code}' if code < 0 else f'exit code {code}'})"
    return {**_stopped(running, lost, f"stopped as {running[order[0]].spec.name} did not run"), **lost}


def _stopped(running: Sequence[Job], lost: Mapping[int, str], why: str) -> dict[int, str]:
    return {slot: why for slot in range(len(running)) if slot not in lost}
