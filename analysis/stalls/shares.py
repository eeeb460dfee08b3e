"""Stall shares: what the warps of a workload, a kernel or a launch wait for, in percent of their cycles.

The share of a reason is its warp cycles over all warp cycles. What the reasons of a profile do not account for stays
open: it is `accounted` that says how much they explain, and nothing is scaled to 100. Families of metrics are never
mixed: each row rests on one.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
import pandas as pd

from analysis.errors import UsageError
from analysis.reference import stall_reasons
from analysis.reference.stall_families import BY_NAME
from analysis.stalls.launches import LaunchStalls, preferred_family, read
from analysis.stalls.weights import COUNTS, TRACE, TRACE_AND_WARPS, launch_weights, weigh
from analysis.store.database import Database
from analysis.store.filters import Filter

By = Literal["workload", "kernel", "launch"]

#: Columns that identify a row, by what it stands for.
KEYS: dict[str, list[str]] = {
    "workload": ["dataset", "workload", "gpu"],
    "kernel": ["dataset", "workload", "gpu", "kernel", "short_name", "grid", "block"],
    "launch": ["dataset", "workload", "gpu", "kernel", "short_name", "grid", "block", "kernel_id"],
}

COLUMNS = [
    "stall_family", "reason", "group", "share", "cycles", "accounted", "total", "launches", "kernels", "weight",
    "profiled", "sources", "simulated",
]  # fmt: skip

#: Below this percentage of accounted warp cycles a profile carries a warning.
ENOUGH_ACCOUNTED = 95.0


def stall_shares(
    database: Database, chosen: Filter | None = None, by: By | str = "workload", *, family: str | None = None
) -> pd.DataFrame:
    """Return the share of every reported stall reason.

    Parameters
    ----------
    database : Database
        The open database.
    chosen : Filter, optional
        Profiles to look at; all by default. Data sets, GPUs and workloads are never pooled.
    by : {"workload", "kernel", "launch"}
        What a row stands for. A kernel is a name at one grid and block size.
    family : str, optional
        Family of metrics, such as ``per_issue_active``; by default that of most launches of each workload and GPU.

    Returns
    -------
    pd.DataFrame
        One row a thing and reason, the largest share first within each thing:

        - dataset, workload, gpu; for kernels also kernel, short_name, grid, block; for launches also kernel_id;
        - stall_family, reason, group;
        - share: percent of warp cycles, of the stated total where there is one. A reason that a launch does not report
          adds nothing to it;
        - cycles: warp cycles for each issued instruction, NaN where the family has none;
        - accounted: percent of the stated total that the reasons add up to, NaN where no total is stated;
        - total: the stated total in warp cycles for each issued instruction, NaN where unknown;
        - launches, kernels, sources: how many stand behind the row's thing;
        - weight: what the launches are weighted with, see `analysis.stalls.weights.SENTENCES`;
        - profiled: percent of the GPU time of a time trace that they stand for, NaN without a trace;
        - simulated: whether any source is simulated.

    Raises
    ------
    UsageError
        If ``by`` or the family is unknown.

    Notes
    -----
    For a ratio family the share of reason r over launches l is sum(w_l v_lr / T_l) / sum(w_l), where v is the value, T
    the stated total (else the sum of the reasons) and w the launch's warp cycles; counts are added.
    """
    if by not in KEYS:
        raise UsageError(f"stall shares can't be given by {by!r}", f"Choose one of {', '.join(KEYS)}.")
    if family is not None and family not in BY_NAME:
        raise UsageError(f"unknown family of stall metrics {family!r}", f"Choose one of {', '.join(BY_NAME)}.")
    choice = chosen or Filter()
    stalls = read(database, choice)
    if stalls.entries.empty:
        return _empty(by)
    stalls = _one_family(stalls, family)
    stalled = np.zeros(len(stalls.launches), dtype=bool)
    stalled[stalls.totals["position"]] = True
    weights = launch_weights(database, choice, stalls.launches, stalled)
    return _aggregate(stalls, weights, by)


def _one_family(stalls: LaunchStalls, family: str | None) -> LaunchStalls:
    """Keep one family of each workload and GPU; the launches without it have no stall reasons."""
    if family is not None:
        return stalls.of_family(family)
    keys = ["dataset", "workload", "gpu"]
    wanted = preferred_family(stalls, keys)
    of_launch = wanted.reindex(pd.MultiIndex.from_frame(stalls.launches[keys])).to_numpy()
    entries, totals = stalls.entries, stalls.totals
    return LaunchStalls(
        stalls.launches,
        entries[of_launch[entries["position"]] == entries["stall_family"].astype(object)],
        totals[of_launch[totals["position"]] == totals["stall_family"].astype(object)],
    )


def _aggregate(stalls: LaunchStalls, weights: pd.DataFrame, by: str) -> pd.DataFrame:
    keys = KEYS[by]
    launches = stalls.launches
    # A launch all of whose reasons are zero or n/a says nothing about where its warps wait.
    totals = stalls.totals[stalls.totals["reported"] > 0].reset_index(drop=True)
    if totals.empty:
        return _empty(by)
    at = totals["position"].to_numpy()
    things = launches.iloc[at][keys].fillna("").reset_index(drop=True)
    totals["thing"] = things.groupby(keys, sort=False).ngroup()
    # Weights are chosen for a whole workload, so that its kernels compare with one another.
    profile = launches.iloc[at].groupby(KEYS["workload"], sort=False).ngroup().to_numpy()
    totals["weight"], totals["issues"], totals["kind"], totals["traced"] = 0.0, 0.0, "", np.nan
    for rows in totals.groupby(profile, sort=False).groups.values():
        family = BY_NAME[str(totals.at[rows[0], "stall_family"])]
        total = totals.loc[rows, "total"].to_numpy(float)
        of_rows = weights.iloc[totals.loc[rows, "position"]]
        if family.kind == "count":
            totals.loc[rows, ["weight", "issues"]] = np.column_stack([total, total])
            totals.loc[rows, "kind"] = COUNTS
            continue
        weighing = weigh(of_rows, total, per_issue=family.cycles)
        totals.loc[rows, "weight"] = weighing.warp_cycles
        totals.loc[rows, "issues"] = weighing.issues
        totals.loc[rows, "kind"] = weighing.kind
        totals.loc[rows, "traced"] = of_rows["traced_ns"].to_numpy()
    totals["trace"] = weights["trace_ns"].iloc[at].to_numpy()
    return _shares(stalls, totals, things, by)


def _shares(stalls: LaunchStalls, totals: pd.DataFrame, things: pd.DataFrame, by: str) -> pd.DataFrame:
    launches = stalls.launches
    entries = stalls.entries.merge(
        totals[["position", "stall_family", "thing", "weight", "issues", "total"]], on=["position", "stall_family"]
    )
    entries["share"] = entries["weight"] * entries["value"] / entries["total"]
    entries["cycles"] = entries["issues"] * entries["value"]
    rows = entries.groupby(["thing", "stall_family", "reason"], observed=True)[["share", "cycles"]].sum().reset_index()
    totals["stated"] = totals["weight"].where(totals["known"], 0.0)
    totals["explained"] = totals["stated"] * totals["reported"] / totals["total"]
    totals["issue_cycles"] = totals["issues"] * totals["total"]
    of_launch = launches.iloc[totals["position"]].reset_index(drop=True)
    totals["invocations"] = of_launch["invocations"]
    totals["source_id"] = of_launch["source_id"]
    totals["simulated"] = of_launch["simulated"]
    totals["kernel"] = of_launch.groupby(["kernel", "grid", "block"], dropna=False).ngroup()
    whole = totals.groupby("thing").agg(
        all=("weight", "sum"), issues=("issues", "sum"),
        stated=("stated", "sum"), explained=("explained", "sum"), issue_cycles=("issue_cycles", "sum"),
        known=("known", "all"), launches=("invocations", "sum"), kernels=("kernel", "nunique"),
        weight=("kind", "first"), sources=("source_id", "nunique"), simulated=("simulated", "any"),
        traced=("traced", "sum"), trace=("trace", "first"),
    )  # fmt: skip
    rows = rows.join(whole, on="thing")
    families = rows["stall_family"].astype(str)
    cycles = families.map({name: family.cycles for name, family in BY_NAME.items()}).to_numpy(bool)
    rows["share"] = 100 * rows["share"] / rows["all"]
    rows["cycles"] = np.where(cycles, rows["cycles"] / rows["issues"], np.nan)
    rows["accounted"] = 100 * rows["explained"] / rows["stated"].where(rows["stated"] > 0)
    rows["total"] = np.where(cycles & rows["known"], rows["issue_cycles"] / rows["issues"], np.nan)
    traced = rows["weight"].isin([TRACE, TRACE_AND_WARPS])
    rows["profiled"] = (100 * rows["traced"] / rows["trace"]).where(traced)
    rows["reason"], rows["stall_family"] = rows["reason"].astype(str), families
    rows["group"] = rows["reason"].map({reason: stall_reasons.group_of(reason) for reason in rows["reason"].unique()})
    first = things.groupby(totals["thing"].to_numpy()).first()
    rows = rows.join(first, on="thing").sort_values(
        ["thing", "share", "reason"], ascending=[True, False, True], kind="stable"
    )
    return rows[[*KEYS[by], *COLUMNS]].reset_index(drop=True)


def _empty(by: str) -> pd.DataFrame:
    return pd.DataFrame({name: pd.Series(dtype=object) for name in [*KEYS[by], *COLUMNS]})
