"""What every stall query asks first and only a write can change: looked up once after each write."""

from __future__ import annotations

from dataclasses import dataclass
from weakref import WeakKeyDictionary

import pandas as pd

from analysis.store.database import Database
from analysis.store.queries import launches as queries


@dataclass(frozen=True, eq=False)
class _Known:
    version: int
    metrics: pd.DataFrame
    timing: tuple[int, ...]


_KNOWN: WeakKeyDictionary[Database, _Known] = WeakKeyDictionary()


def stall_metrics(database: Database) -> pd.DataFrame:
    """Return the stall metrics that any launch has: metric, family, reason."""
    return _look_up(database).metrics


def timing_sources(database: Database) -> tuple[int, ...]:
    """Return the sources that only measure time, see `analysis.store.queries.launches.timing_sources`."""
    return _look_up(database).timing


def _look_up(database: Database) -> _Known:
    found = _KNOWN.get(database)
    if found is None or found.version != database.version:
        # The version first: a write in between makes the next call look again.
        version = database.version
        found = _Known(version, queries.stall_metric_names(database), tuple(queries.timing_sources(database)))
        _KNOWN[database] = found
    return found
