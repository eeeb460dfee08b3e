"""Runs a campaign: what is not done yet, in order, within its time; everything on disk after every run."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from signal import SIGTERM, Signals, getsignal, signal
from typing import Any, TypeAlias

from analysis.capture import files, machine
from analysis.capture.corun import NO_PROGRESS, Measured, measure
from analysis.capture.guard import Guard
from analysis.capture.journal import Entry, open_journal
from analysis.capture.plan import Plan, Task
from analysis.capture.readings import Reader

Say: TypeAlias = Callable[[str], None]
#: Does one run.
Pick: TypeAlias = Callable[[Plan, Task, Guard, Reader, Mapping[str, str]], Sequence[Measured]]


@dataclass(frozen=True)
class Outcome:
    """What a session of a campaign did.

    Attributes
    ----------
    folder : Path
        Where everything lies.
    files : tuple of Path
        Tables and provenance of all sessions, to import.
    done, left : int
        Runs of the plan that are done, and that are not.
    new : int
        Runs of this session.
    failed : int
        Of those done, the ones in which a job did not run.
    gpu : str
        The GPU's name.
    slowdowns : list of dict
        See `analysis.capture.files.slowdowns`.
    solos : mapping of str to Mean
        Throughput of each job alone.
    provenance : mapping
        See `analysis.capture.machine.provenance`.
    entries : tuple of Entry
        All runs, in the order in which they were done.
    """

    folder: Path
    files: tuple[Path, ...]
    done: int
    left: int
    new: int
    failed: int
    gpu: str
    slowdowns: list[dict[str, Any]] = field(default_factory=list)
    solos: Mapping[str, Any] = field(default_factory=dict)
    provenance: Mapping[str, Any] = field(default_factory=dict)
    entries: tuple[Entry, ...] = ()


def run(
    plan: Plan,
    folder: Path,
    *,
    reader: Reader | None = None,
    gpu: str | None = None,
    device: int | None = None,
    say: Say = lambda _: None,
    pick: Pick | None = None,
) -> Outcome:
    """Measure what is left of a plan.

    Parameters
    ----------
    plan : Plan
        What to measure.
    folder : Path
        Where to; a folder that holds part of the same plan is gone on with.
    reader : Reader, optional
        Asks the driver.
    gpu : str, optional
        Name of the GPU, where the driver can't be asked.
    device : int, optional
        Number of the GPU, for all jobs.
    say : callable
        Told of every run.
    pick : callable, optional
        Does one run in place of `analysis.capture.corun.measure`; for trials of the order and the budget.

    Raises
    ------
    StallScopeError
        If the GPU has no name, MPS does not start, a program can't be started, or the folder is of another plan.
    """
    reader = reader or Reader()
    index = machine.device_index(device)
    first = reader.snapshot()
    name = machine.gpu_name(first, index, gpu)
    known = machine.provenance(first, index)
    journal = open_journal(folder, plan.digest)
    tasks = plan.tasks()
    todo = [task for task in tasks if task.key not in journal.done()]
    environment = {} if device is None else {"CUDA_VISIBLE_DEVICES": str(device), "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
    began = time.monotonic()
    longest = longest_window = plan.timing.warmup + plan.timing.seconds * plan.timing.windows
    new = 0
    try:
        with Guard() as guard, terminated_as_interrupt():
            for number, task in enumerate(todo, start=1):
                if plan.budget is not None and time.monotonic() - began + longest > plan.budget:
                    say(f"The time is used up: {len(todo) - number + 1} of {len(tasks)} runs are left for next time.")
                    break
                say(f"{number} of {len(todo)}: {task.key}")
                at = time.monotonic()
                left = None if plan.budget is None else plan.budget - (at - began) - longest_window
                runs = (pick or partial(_measure, say=say, most=left))(plan, task, guard, reader, environment)
                longest = max(longest, time.monotonic() - at)
                quiet = any(member.note.startswith(NO_PROGRESS) for member in runs[0].members)
                if quiet and number > 1 and left is not None and left < plan.timing.start:
                    say("The time is used up before it showed progress: it is left for next time.")
                    break
                new += 1
                for window, measured in enumerate(runs, start=1):
                    journal.add(task.key if window == 1 else f"{task.key}.{window}", task.names, measured)
                files.write_session(folder, journal.entries, journal.session, name, known)
                for member in runs[0].members:
                    say(f"  {member.workload}: " + (f"{member.rate:.4g} {member.unit}" if member.rate else member.note))
    finally:
        reader.close()
    done = [task for task in tasks if task.key in journal.done()]
    failed = [entry for entry in journal.entries if not entry.measured.ran]
    return Outcome(
        folder=folder,
        files=tuple(files.written(folder)),
        done=len(done),
        left=len(tasks) - len(done),
        new=new,
        failed=len(failed),
        gpu=name,
        slowdowns=files.slowdowns(journal.entries),
        solos=files.solo_means(journal.entries),
        provenance=known,
        entries=tuple(journal.entries),
    )


def _measure(
    plan: Plan,
    task: Task,
    guard: Guard,
    reader: Reader,
    environment: Mapping[str, str],
    *,
    say: Say,
    most: float | None,
) -> Sequence[Measured]:
    """Measure a set; a job that shows no progress is waited for `most` seconds at most, what is left of the time."""
    percents = task.percents or (None,) * len(task.names)
    jobs = [replace(plan.jobs[name], percent=share) for name, share in zip(task.names, percents, strict=True)]
    mechanism = plan.mechanism if len(jobs) > 1 else "exclusive"
    timing = plan.timing
    if most is not None and most < timing.start:
        timing = replace(timing, start=max(1.0, most))
    return measure(
        jobs, mechanism=mechanism, guard=guard, reader=reader, timing=timing, say=say,
        device=int(environment.get("CUDA_VISIBLE_DEVICES", machine.device_index(None))), environment=environment,
    )  # fmt: skip


@contextmanager
def terminated_as_interrupt() -> Iterator[None]:
    """Make a termination signal stop a measurement as Ctrl-C does, with everything cleaned up."""

    def stop(number: int, _: object) -> None:
        raise KeyboardInterrupt(Signals(number).name)

    try:
        before = signal(SIGTERM, stop)
    except ValueError:  # not the main thread, which alone may have handlers
        yield
        return
    try:
        yield
    finally:
        signal(SIGTERM, before if before is not None else getsignal(SIGTERM))
