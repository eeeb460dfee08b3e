"""The stall reasons of launches as numbers: one value a launch, family and reason, and what they should add up to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pandas as pd

from analysis.reference import stall_reasons
from analysis.reference.stall_families import BY_NAME, FAMILIES
from analysis.store.database import Database
from analysis.store.filters import Filter
from analysis.store.queries import profiles as queries

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Values:
    """At most one value a launch and metric.

    Attributes
    ----------
    launches : pd.DataFrame
        As `analysis.store.queries.profiles.launches`; the index is the launch's position.
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
        As `analysis.store.queries.profiles.launches`.
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


def stall_metrics(database: Database) -> pd.DataFrame:
    """Return the stall metrics that any launch has: metric, family, reason."""
    return database.cached("stall metrics", None, lambda: queries.stall_metric_names(database))


def timing_sources(database: Database) -> tuple[int, ...]:
    """Return the sources that only measure time, see `analysis.store.queries.profiles.timing_sources`."""
    return database.cached("timing sources", None, lambda: tuple(queries.timing_sources(database)))


_ORDER = {family.name: position for position, family in enumerate(FAMILIES)}


@dataclass(frozen=True, eq=False)
class LaunchStalls:
    """Stall reasons of a choice of launches, as arrays.

    Attributes
    ----------
    launches : pd.DataFrame
        One row a launch, see `analysis.store.queries.profiles.launches`; the index is the launch's position.
    entries : pd.DataFrame
        What an entry's number stands for: stall_family, reason.
    position, entry, value : ndarray
        One item a launch, family and reason, whatever suffixes the tool printed; values in the family's unit.
    totals : pd.DataFrame
        position, stall_family, reported (sum of the reasons), total (what they should add up to, in the same unit),
        known (whether the tool stated the total; else it is the sum). Launches whose reasons are all zero or n/a are
        left out: they say nothing about where their warps wait.
    values : Values
        The other metrics that were fetched.
    """

    launches: pd.DataFrame
    entries: pd.DataFrame
    position: Ints
    entry: Ints
    value: Floats
    totals: pd.DataFrame
    values: Values

    def keep(self, families: pd.Series[str]) -> LaunchStalls:
        """Keep one family of each profile.

        Parameters
        ----------
        families : pd.Series
            Family by profile_id; profiles that it lacks keep nothing.
        """
        if self.entries["stall_family"].nunique() == 1 and (families == self.entries["stall_family"].iloc[0]).all():
            return self
        number = {name: place for place, name in enumerate(BY_NAME)}
        wanted = self.launches["profile_id"].map(families.map(number)).fillna(-1).to_numpy(np.int64)
        of_entry = self.entries["stall_family"].map(number).to_numpy(np.int64)
        kept = wanted[self.position] == of_entry[self.entry]
        of_total = self.totals["stall_family"].astype(str).map(number).to_numpy(np.int64)
        totals = self.totals[wanted[self.totals["position"]] == of_total].reset_index(drop=True)
        return replace(
            self, position=self.position[kept], entry=self.entry[kept], value=self.value[kept], totals=totals
        )


def read(database: Database, chosen: Filter, also: Sequence[str] = ()) -> LaunchStalls:
    """Read the stall reasons of the chosen launches.

    Of several suffixes of one metric the one that carries the family's unit counts, so ``.pct`` and ``.ratio`` of one
    reason are never added; a value printed as n/a is no value.

    Parameters
    ----------
    database : Database
        The open database.
    chosen : Filter
        Launches to read.
    also : sequence of str
        Other metrics to fetch in the same pass, found in `LaunchStalls.values`.
    """
    launches = queries.launches(database, chosen)
    names = _stall_names(stall_metrics(database))
    entries = names.drop_duplicates("entry").sort_values("entry")[["stall_family", "reason"]].reset_index(drop=True)
    stated = [name for family in entries["stall_family"].unique() for name in BY_NAME[family].totals]
    wanted = list(dict.fromkeys([*names["metric"], *stated, *also]))
    found = fetch(database, chosen, launches, wanted if len(names) and len(launches) else [])
    stalls, others = found.split(len(names))
    position, entry, value = _best(stalls, names)
    totals = _totals(others, entries, position, entry, value)
    return LaunchStalls(launches, entries, position, entry, value, totals, others)


def _stall_names(found: pd.DataFrame) -> pd.DataFrame:
    """One row a metric that carries a quantity: metric, stall_family, reason, rank and scale of its suffix, entry."""
    rows = []
    for metric, family, reason in found[["metric", "family", "reason"]].itertuples(index=False):
        resolved = stall_reasons.resolve(metric)
        rank, scale = (0, 1.0) if resolved is None or resolved.family != family else (resolved.rank, resolved.scale)
        if rank is not None and scale > 0 and family in BY_NAME:
            rows.append((metric, str(family), str(reason), rank, scale))
    names = pd.DataFrame(rows, columns=["metric", "stall_family", "reason", "rank", "scale"])
    names["entry"] = names.groupby(["stall_family", "reason"]).ngroup()
    return names


def _best(values: Values, names: pd.DataFrame) -> tuple[Ints, Ints, Floats]:
    """Return each launch's reasons as position, entry and value in the family's unit, of the best suffix each."""
    # A million values: what would change nothing is not computed.
    entries, scales = names["entry"].to_numpy(np.int64), names["scale"].to_numpy(np.float64)
    entry = values.code if np.array_equal(entries, np.arange(len(entries))) else entries[values.code]
    value = values.value if (scales == 1).all() else scales[values.code] * values.value
    position, count = values.position, int(entry.max(initial=0)) + 1
    if names["entry"].is_unique or not position.size:
        return position, entry, value
    rank = names["rank"].to_numpy(np.int64)[values.code]
    order = np.lexsort((rank, entry, position))
    key = position[order] * count + entry[order]
    first = order[np.flatnonzero(np.diff(key, prepend=-1))]
    return position[first], entry[first], value[first]


def _totals(values: Values, entries: pd.DataFrame, position: Ints, entry: Ints, value: Floats) -> pd.DataFrame:
    """Sum the reasons of each launch and family, and find what they should sum to."""
    family_of = pd.Categorical(entries["stall_family"])
    names = [str(name) for name in family_of.categories]
    count = len(values.launches)
    # With one family, which is usual, a value's place is its launch's.
    place = position if len(names) == 1 else position * len(names) + family_of.codes.astype(np.int64)[entry]
    sums = np.bincount(place, weights=value, minlength=count * len(names))
    reported: Floats = sums.astype(np.float64).reshape(count, len(names))
    total = np.full_like(reported, np.nan)
    for column, name in enumerate(names):
        family = BY_NAME[name]
        if family.kind == "percent":
            total[:, column] = 100.0
        elif family.totals:
            stated = values.of(family.totals).table()
            stated[~(stated > 0)] = np.nan
            for preferred in reversed(range(len(family.totals))):
                there = ~np.isnan(stated[:, preferred])
                total[there, column] = stated[there, preferred]
    known = ~np.isnan(total)
    at, column_of = np.nonzero(reported > 0)
    return pd.DataFrame(
        {
            "position": at,
            "stall_family": pd.Categorical.from_codes(column_of, dtype=pd.CategoricalDtype(names)),
            "reported": reported[at, column_of],
            "total": np.where(known, total, reported)[at, column_of],
            "known": known[at, column_of],
        }
    )


def preferred_family(stalls: LaunchStalls) -> pd.Series[str]:
    """Return the family to show for each profile: that of most launches, then in the order of `FAMILIES`.

    Returns
    -------
    pd.Series
        Family by profile_id; profiles without stall reasons are absent.
    """
    at = stalls.totals["position"].to_numpy()
    table = pd.DataFrame(
        {
            "profile_id": stalls.launches["profile_id"].to_numpy()[at],
            "stall_family": stalls.totals["stall_family"],
            "invocations": stalls.launches["invocations"].to_numpy()[at],
        }
    )
    counted = table.groupby(["profile_id", "stall_family"], observed=True)["invocations"].sum().reset_index()
    counted["order"] = [_ORDER[str(name)] for name in counted["stall_family"]]
    best = counted.sort_values(["invocations", "order"], ascending=[False, True], kind="stable")
    chosen: pd.Series[str] = best.drop_duplicates("profile_id").set_index("profile_id")["stall_family"].astype(str)
    return chosen
