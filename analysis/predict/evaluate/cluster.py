"""Folds on a Dask cluster that runs already: joblib sends them there, nothing of our own in between."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, TypeAlias

import joblib

from analysis.errors import UsageError

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
