"""The stall reasons of launches as numbers: one value a launch, family and reason, and what they should add up to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from analysis.reference import stall_reasons
from analysis.reference.stall_families import BY_NAME, FAMILIES
from analysis.stalls import known
from analysis.stalls.values import Floats, Ints, Values, fetch
from analysis.store.database import Database
from analysis.store.filters import Filter
from analysis.store.queries import launches as queries

_ORDER = {family.name: position for position, family in enumerate(FAMILIES)}


@dataclass(frozen=True, eq=False)
class LaunchStalls:
    """Stall reasons of a choice of launches, as arrays.

    Attributes
    ----------
    launches : pd.DataFrame
        One row a launch, see `analysis.store.queries.launches.launches`; the index is the launch's position.
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
    names = _stall_names(known.stall_metrics(database))
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
