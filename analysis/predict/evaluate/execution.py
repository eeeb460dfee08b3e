"""Runs many small fits beside the caller, so that progress keeps moving and a cancel is heard at once."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, TypeAlias, TypeVar

import joblib
from threadpoolctl import threadpool_limits

from analysis.errors import UsageError

Progress: TypeAlias = Callable[[float, str], None]
Task = TypeVar("Task")
Result = TypeVar("Result")

#: Seconds between two reports while nothing finishes.
HEARTBEAT = 0.4


def nothing(_: float, __: str) -> None:
    """Report to nobody."""


def run(
    work: Callable[[Task], Result],
    tasks: Sequence[Task],
    progress: Progress | None = None,
    *,
    describe: Callable[[Task], str] = str,
    n_jobs: int = 1,
    backend: Callable[[], AbstractContextManager[Any]] | None = None,
) -> Iterator[tuple[int, Result]]:
    """Do every task and yield its number and result as they finish, in any order.

    Parameters
    ----------
    work : callable
        Does one task.
    tasks : sequence
        The tasks.
    progress : callable, optional
        Called with the fraction done and a message at least twice a second. What it raises (a cancel) stops the run:
        tasks that have not started are dropped, a running one is left behind.
    describe : callable
        Says a task in words.
    n_jobs : int
        Tasks at a time.
    backend : callable, optional
        Returns a joblib backend context, such as that of a Dask cluster; threads of this process by default.

    Yields
    ------
    tuple of int and Result
        The task's number and what `work` returned.
    """
    report = progress or nothing
    if not tasks:
        return
    stop = threading.Event()
    outcomes: queue.SimpleQueue[tuple[str, Any]] = queue.SimpleQueue()

    def one(number: int) -> tuple[int, Result | None]:
        return number, None if stop.is_set() else work(tasks[number])

    def drive() -> None:
        try:
            context = backend() if backend is not None else joblib.parallel_config("threading")
            with context or nullcontext(), threadpool_limits(1):
                parallel = joblib.Parallel(n_jobs=n_jobs, return_as="generator_unordered", batch_size=1)
                for outcome in parallel(joblib.delayed(one if backend is None else work_numbered)(*arguments(number))
                                        for number in range(len(tasks))):  # fmt: skip
                    outcomes.put(("done", outcome))
                    if stop.is_set():
                        break
            outcomes.put(("end", None))
        except BaseException as error:
            outcomes.put(("error", error))

    def arguments(number: int) -> tuple[Any, ...]:
        return (number,) if backend is None else (work, number, tasks[number])

    driver = threading.Thread(target=drive, daemon=True, name="stallscope-fits")
    driver.start()
    finished = 0
    try:
        report(0.0, describe(tasks[0]))
        while True:
            try:
                kind, value = outcomes.get(timeout=HEARTBEAT)
            except queue.Empty:
                report(finished / len(tasks), describe(tasks[min(finished, len(tasks) - 1)]))
                continue
            if kind == "error":
                raise value
            if kind == "end":
                return
            finished += 1
            report(finished / len(tasks), describe(tasks[value[0]]))
            yield value
    finally:
        stop.set()


def work_numbered(work: Callable[[Task], Result], number: int, task: Task) -> tuple[int, Result]:
    """Do one task of `run` on another machine."""
    return number, work(task)


Backend: TypeAlias = Callable[[], AbstractContextManager[Any]]

#: Seconds until a scheduler that doesn't answer counts as absent.
TIMEOUT = 10.0


@contextmanager
def connected(address: str | None) -> Iterator[Backend | None]:
    """Connect to a scheduler for as long as the context lasts.

    Parameters
    ----------
    address : str or None
        ``tcp://host:port``; with None nothing is connected.

    Yields
    ------
    callable or None
        What `execution.run` and `evaluate.evaluate` take as their backend.

    Raises
    ------
    UsageError
        If dask.distributed is not installed or the scheduler doesn't answer.
    """
    if address is None:
        yield None
        return
    try:
        from distributed import Client
    except ImportError as error:
        raise UsageError(
            "the option --cluster needs dask.distributed", "Install it with: pip install 'stallscope[cluster]'"
        ) from error
    try:
        client: Any = Client(address, timeout=TIMEOUT, set_as_default=False)  # type: ignore[no-untyped-call]
    except (OSError, ValueError) as error:
        raise UsageError(
            f"no Dask scheduler answers at {address}", "Start one with `dask scheduler`, and give its tcp:// address."
        ) from error
    try:
        yield lambda: joblib.parallel_config("dask", client=client)
    finally:
        client.close()
