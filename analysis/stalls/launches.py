"""The stall reasons of launches as numbers: one value a launch, family and reason, and what they should add up to."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from analysis.reference import stall_reasons
from analysis.reference.stall_families import BY_NAME, FAMILIES
from analysis.store.database import Database
from analysis.store.filters import Filter
from analysis.store.queries import launches as launch_queries
from analysis.store.queries import profiles

_ORDER = {family.name: position for position, family in enumerate(FAMILIES)}


@dataclass(frozen=True)
class LaunchStalls:
    """Stall reasons of a choice of launches.

    Attributes
    ----------
    launches : pd.DataFrame
        One row a launch: the columns of `analysis.store.queries.profiles.kernels`; the index is the launch's position.
    entries : pd.DataFrame
        position, stall_family, reason, value (in the family's unit): exactly one row each, whatever suffixes the tool
        printed.
    totals : pd.DataFrame
        position, stall_family, reported (sum of the reasons), total (what they should add up to, in the same unit),
        known (whether the tool stated the total; else it is the sum).
    """

    launches: pd.DataFrame
    entries: pd.DataFrame
    totals: pd.DataFrame

    def of_family(self, family: str) -> LaunchStalls:
        """Keep one family."""
        return LaunchStalls(
            self.launches,
            self.entries[self.entries["stall_family"] == family],
            self.totals[self.totals["stall_family"] == family],
        )


def read(database: Database, chosen: Filter) -> LaunchStalls:
    """Read the stall reasons of the chosen launches.

    Of several suffixes of one metric the one that carries the family's unit counts, so ``.pct`` and ``.ratio`` of one
    reason are never added; a value printed as n/a is no value.
    """
    launches = profiles.kernels(database, chosen).reset_index(drop=True)
    names = _stall_names(launch_queries.stall_metric_names(database))
    if launches.empty or names.empty:
        return LaunchStalls(launches, _no_entries(), _no_totals())
    found = launch_queries.values(database, chosen, list(names["metric"]))
    position = pd.Index(launches["kernel_id"])
    found["position"] = position.get_indexer(pd.Index(found["kernel_id"]))
    found["order"] = names["rank"].to_numpy()[found["code"]]
    found["value"] = found["value"] * names["scale"].to_numpy()[found["code"]]
    found["entry"] = names["entry"].to_numpy()[found["code"]]
    found = found.sort_values(["position", "entry", "order"], kind="stable").drop_duplicates(["position", "entry"])
    kinds = names.drop_duplicates("entry").set_index("entry")[["stall_family", "reason"]]
    entries = pd.DataFrame(
        {
            "position": found["position"].to_numpy(),
            "stall_family": kinds["stall_family"].astype("category").loc[found["entry"]].to_numpy(),
            "reason": kinds["reason"].astype("category").loc[found["entry"]].to_numpy(),
            "value": found["value"].to_numpy(),
        }
    )
    sums = entries.groupby(["position", "stall_family"], observed=True)["value"].sum()
    reported = sums.rename("reported").reset_index()
    return LaunchStalls(launches, entries, _totals(database, chosen, position, reported))


def _stall_names(known: pd.DataFrame) -> pd.DataFrame:
    """One row a metric that carries a quantity: metric, stall_family, reason, rank and scale of its suffix, entry."""
    rows = []
    for metric, family, reason in known[["metric", "family", "reason"]].itertuples(index=False):
        resolved = stall_reasons.resolve(metric)
        rank, scale = (0, 1.0) if resolved is None or resolved.family != family else (resolved.rank, resolved.scale)
        if rank is not None and scale > 0 and family in BY_NAME:
            rows.append((metric, str(family), str(reason), rank, scale))
    names = pd.DataFrame(rows, columns=["metric", "stall_family", "reason", "rank", "scale"])
    names["entry"] = names.groupby(["stall_family", "reason"]).ngroup()
    return names


def _totals(database: Database, chosen: Filter, position: pd.Index, reported: pd.DataFrame) -> pd.DataFrame:
    """Add what the reasons of each launch should sum to, and whether the tool said so or their own sum stands in."""
    families = [BY_NAME[name] for name in reported["stall_family"].unique()]
    stated = [(family.name, name) for family in families for name in family.totals]
    total = pd.Series(np.nan, index=pd.MultiIndex.from_frame(reported[["position", "stall_family"]]))
    if stated:
        found = launch_queries.values(database, chosen, [name for _, name in stated])
        found["position"] = position.get_indexer(pd.Index(found["kernel_id"]))
        found["stall_family"] = np.array([family for family, _ in stated], dtype=object)[found["code"]]
        # Codes follow the order of preference, so the first of a launch is the best.
        best = found[found["value"] > 0].drop_duplicates(["position", "stall_family"])
        total = best.set_index(["position", "stall_family"])["value"].reindex(total.index)
    percent = total.index.get_level_values("stall_family").isin(
        [family.name for family in families if family.kind == "percent"]
    )
    total[percent] = 100.0
    known = total.notna().to_numpy()
    reported["total"] = np.where(known, total.to_numpy(), reported["reported"].to_numpy())
    reported["known"] = known
    return reported


def preferred_family(stalls: LaunchStalls, keys: list[str]) -> pd.Series[str]:
    """Return the family to show for each group of launches: that of most launches, then in the order of `FAMILIES`.

    Parameters
    ----------
    stalls : LaunchStalls
        Launches with any number of families.
    keys : list of str
        Columns of the launches that make a group.

    Returns
    -------
    pd.Series
        Family by group; groups without stall reasons are absent.
    """
    columns = stalls.launches[[*keys, "invocations"]]
    table = stalls.totals[stalls.totals["reported"] > 0].join(columns, on="position")
    counted = table.groupby([*keys, "stall_family"], observed=True)["invocations"].sum().reset_index()
    counted["order"] = [_ORDER[name] for name in counted["stall_family"]]
    best = counted.sort_values(["invocations", "order"], ascending=[False, True], kind="stable").drop_duplicates(keys)
    chosen: pd.Series[str] = best.set_index(keys)["stall_family"].astype(str)
    return chosen


def _no_entries() -> pd.DataFrame:
    return pd.DataFrame({"position": pd.Series(dtype=int), "stall_family": "", "reason": "", "value": 0.0}).iloc[:0]


def _no_totals() -> pd.DataFrame:
    empty = {"position": pd.Series(dtype=int), "stall_family": "", "reported": 0.0, "total": 0.0, "known": False}
    return pd.DataFrame(empty).iloc[:0]
