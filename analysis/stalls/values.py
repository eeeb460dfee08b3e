"""Values of several metrics of many launches, fetched in one pass."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

from analysis.store.database import Database
from analysis.store.filters import Filter
from analysis.store.queries import launches as queries

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Values:
    """At most one value a launch and metric.

    Attributes
    ----------
    launches : pd.DataFrame
        As `analysis.store.queries.launches.launches`; the index is the launch's position.
    names : tuple of str
        The metrics.
    position, code, value : ndarray
        One item a value: the launch, the metric, and its value in base units.
    percent : ndarray of bool
        Whether the value's unit is ``%``; None where that was not asked for.
    """

    launches: pd.DataFrame
    names: tuple[str, ...]
    position: Ints
    code: Ints
    value: Floats
    percent: npt.NDArray[np.bool_] | None = None

    def of(self, names: Sequence[str]) -> Values:
        """Keep some of the metrics, in the order given; codes become their positions in it."""
        new = np.full(len(self.names), -1, dtype=np.int64)
        for place, name in enumerate(names):
            if name in self.names:
                new[self.names.index(name)] = place
        code = new[self.code]
        kept = code >= 0
        if kept.all():
            return Values(self.launches, tuple(names), self.position, code, self.value, self.percent)
        percent = None if self.percent is None else self.percent[kept]
        return Values(self.launches, tuple(names), self.position[kept], code[kept], self.value[kept], percent)

    def split(self, count: int) -> tuple[Values, Values]:
        """Part the first metrics from the rest, so that the many are not searched again for the few."""
        first = self.code < count
        parts = []
        for kept, names, start in ((first, self.names[:count], 0), (~first, self.names[count:], count)):
            percent = None if self.percent is None else self.percent[kept]
            parts.append(
                Values(self.launches, names, self.position[kept], self.code[kept] - start, self.value[kept], percent)
            )
        return parts[0], parts[1]

    def table(self) -> Floats:
        """Return the values as launches x metrics, NaN where there is none."""
        wide: Floats = np.full((len(self.launches), len(self.names)), np.nan)
        wide[self.position, self.code] = self.value
        return wide


def fetch(
    database: Database, chosen: Filter, launches: pd.DataFrame, names: Sequence[str], *, units: bool = False
) -> Values:
    """Fetch metrics of launches; where a launch prints one several times its first line counts.

    Parameters
    ----------
    database, chosen
        What ``launches`` was queried with.
    launches : pd.DataFrame
        As `analysis.store.queries.launches.launches`.
    names : sequence of str
        Metrics, each once.
    units : bool
        Whether to say which values are in percent.
    """
    found = queries.values(database, chosen, names, ordered=False, units=units)
    position, code = _positions(launches, found["kernel_id"]), found["code"].to_numpy(np.int64)
    cell = position * len(names) + code
    if cell.size and int(np.bincount(cell).max()) > 1:
        found = queries.values(database, chosen, names, units=units).drop_duplicates(["kernel_id", "code"])
        position, code = _positions(launches, found["kernel_id"]), found["code"].to_numpy(np.int64)
    value = found["value"].to_numpy(np.float64)
    percent = found["percent"].to_numpy(bool) if units else None
    return Values(launches, tuple(names), position, code, value, percent)


def _positions(launches: pd.DataFrame, kernel_ids: pd.Series[int]) -> Ints:
    """Return the rows of launches, ordered by kernel_id, that hold these kernels."""
    known = launches["kernel_id"].to_numpy(np.int64)
    wanted = kernel_ids.to_numpy(np.int64)
    if known.size and known[-1] - known[0] == known.size - 1:  # as after one import: no search needed
        offsets: Ints = wanted - known[0]
        return offsets
    return np.searchsorted(known, wanted).astype(np.int64)
