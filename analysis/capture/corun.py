"""One measurement: jobs started together, a window in which all of them run, and what became of each."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

from analysis.capture import mps
from analysis.capture.guard import Guard
from analysis.capture.machine import Seen, Watch
from analysis.capture.ncu import profilers_in
from analysis.capture.process import Job, JobSpec, stop_all
from analysis.capture.rate import LEAST_MARKS, rate
from analysis.capture.readings import Reader
from analysis.errors import UsageError
from analysis.reference.mechanism_names import MPS

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


#: Mechanisms that a co-run can be measured under, and their names in the co-run table.
MECHANISMS = {"mps": MPS, "time-slicing": "time-slicing"}
RAN, DID_NOT_RUN = "ran", "did_not_run"
#: Share of its length from which on a window is taken for whole.
_WHOLE = 0.95


@dataclass(frozen=True)
class Member:
    """What became of one job.

    Attributes
    ----------
    workload : str
        The job.
    outcome : {"ran", "did_not_run"}
        As in the co-run table.
    rate : float or None
        Throughput within the window.
    unit : str
        Its unit.
    note : str
        Why it did not run: out of memory, crashed, lost with another (sibling fault), stopped, too little progress.
    peak_memory_mib : float or None
        Largest GPU memory while it ran.
    memory_kind : str
        ``nvidia-smi`` for the driver's figure, ``reserved`` for PyTorch's own.
    percent : float or None
        Active thread percentage.
    tail : tuple of str
        Its last lines, where it did not run.
    """

    workload: str
    outcome: str
    rate: float | None
    unit: str
    note: str = ""
    peak_memory_mib: float | None = None
    memory_kind: str = ""
    percent: float | None = None
    tail: tuple[str, ...] = ()


@dataclass(frozen=True)
class Measured:
    """One run of one or more jobs.

    Attributes
    ----------
    mechanism : str
        ``exclusive`` for a job alone.
    members : tuple of Member
        In the order of the jobs.
    window : float
        Seconds in which all ran.
    started_at : str
        UTC.
    mps : mapping or None
        The proof that MPS was active, see `analysis.capture.mps.proof`.
    means : mapping of str to float
        Mean clock, power and temperature.
    throttle : tuple of str
        What held the clocks back at any time.
    """

    mechanism: str
    members: tuple[Member, ...]
    window: float
    started_at: str
    mps: Mapping[str, Any] | None = None
    means: Mapping[str, float] = field(default_factory=dict)
    throttle: tuple[str, ...] = ()

    @property
    def ran(self) -> bool:
        """Whether all of it ran."""
        return all(one.outcome == RAN for one in self.members)

    def to_json(self) -> dict[str, Any]:
        """Return it as plain values."""
        return asdict(self)


def refuse_profilers(jobs: Sequence[JobSpec], mechanism: str) -> None:
    """Refuse to run a profiler beside other jobs.

    Raises
    ------
    UsageError
        Counters taken under MPS are those of all clients together, and profiling serialises the kernels.
    """
    for job in jobs:
        found = profilers_in(job.command)
        if found:
            raise UsageError(
                f"{job.name} runs under the profiler {found[0]}, which can't be combined with {mechanism}: "
                "its counters would be those of all jobs together, and kernels would wait for one another",
                "Profile the job alone (`stallscope capture ncu-command`), and measure co-runs without profiler.",
            )


def measure(
    jobs: Sequence[JobSpec],
    *,
    mechanism: str,
    guard: Guard,
    reader: Reader,
    timing: Timing | None = None,
    device: int = 0,
    environment: Mapping[str, str] | None = None,
    say: Say = lambda _: None,
) -> tuple[Measured, ...]:
    """Run jobs together once and measure how fast each is while all run.

    Whatever happens, Ctrl-C included, no process and no daemon of it is left.

    Parameters
    ----------
    jobs : sequence of JobSpec
        One, or several that share the GPU.
    mechanism : {"exclusive", "mps", "time-slicing"}
        How they share it. Under MPS a daemon of its own is started for the run.
    guard : Guard
        Cleans up should this process be killed.
    reader : Reader
        For memory and clocks.
    timing : Timing, optional
        Lengths.
    device : int
        The GPU's number.
    environment : mapping, optional
        What all jobs get.
    say : callable
        Told what happens.

    Returns
    -------
    tuple of Measured
        One a window; a single one where jobs failed.

    Raises
    ------
    UsageError
        If a program can't be started, or is a profiler beside others.
    StallScopeError
        If MPS does not start.
    """
    timing = timing or Timing()
    if len(jobs) > 1:
        refuse_profilers(jobs, MECHANISMS.get(mechanism, mechanism))
    began = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    daemon: mps.Daemon | None = None
    running: list[Job] = []
    watch: Watch | None = None
    with tempfile.TemporaryDirectory(prefix="stallscope-run-") as folder:
        guard.tell(f"folder {folder}")
        try:
            shared = dict(environment or {})
            if mechanism == "mps":
                daemon = mps.Daemon()
                guard.tell(f"mps {daemon.folder}")
                daemon.start()
                shared.update(daemon.environment)
            else:
                shared.update(mps.no_mps())
            for spec in jobs:
                own = {} if daemon is None or spec.percent is None else {mps.PERCENT: f"{spec.percent:g}"}
                running.append(Job(spec, Path(folder), guard, {**shared, **own}))
            watch = Watch(reader, device, [(job.spec.name, job.processes) for job in running])
            watch.start()
            window, proven, lost = find_window(running, timing, daemon, say)
        finally:
            try:
                stop_all(running, daemon)
            finally:
                if daemon is not None:
                    daemon.stop()
                    guard.tell("no-mps")
            seen = watch.stop() if watch is not None else None
    seen = seen or Seen()
    short = _shorter(window, timing, running)
    return tuple(
        Measured(
            MECHANISMS.get(mechanism, mechanism),
            tuple(
                _member(job, part, lost.get(slot), seen.peak_mib.get(str(slot)), short)
                for slot, job in enumerate(running)
            ),
            part[1] - part[0] if part else 0.0,
            began,
            proven,
            seen.means,
            tuple(sorted(seen.throttle)),
        )
        for part in _parts(window, timing.windows)
    )


def _parts(window: Window | None, number: int) -> list[Window | None]:
    if window is None:
        return [None]
    length = (window[1] - window[0]) / number
    return [(window[0] + n * length, window[0] + (n + 1) * length) for n in range(number)]


def _shorter(window: Window | None, timing: Timing, running: Sequence[Job]) -> str:
    """Say that the windows are shorter than they were to be, and through whom; blank where they are not."""
    if window is None:
        return ""
    length = (window[1] - window[0]) / timing.windows
    if length > _WHOLE * timing.seconds:
        return ""
    through = " and ".join(job.spec.name for job in running if job.ended_at is not None and job.ended_at <= window[1])
    return f"window of {length:.2g} s instead of {timing.seconds:g} s: {through} ended"


def _member(job: Job, window: Window | None, lost: str | None, peak: float | None, remark: str = "") -> Member:
    spec = job.spec
    memory, kind = (peak, "nvidia-smi") if peak else (job.reserved_mib or None, "reserved")
    found = rate(job.marks, *window, spec.by.way) if window is not None and lost is None else None
    if lost is None and not found:
        lost = f"too little progress: fewer than {LEAST_MARKS} marks within the window, or none of them larger"
    return Member(
        spec.name, DID_NOT_RUN if lost else RAN, None if lost else found, spec.by.unit, lost or remark,
        round(memory, 1) if memory else None, kind if memory else "", spec.percent,
        tuple(job.tail)[-5:] if lost else (),
    )  # fmt: skip
