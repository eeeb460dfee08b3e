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
from analysis.reference import gpus, stall_reasons
from analysis.reference.stall_families import BY_NAME
from analysis.stalls.launches import LaunchStalls, preferred_family, read
from analysis.stalls.weights import COUNTS, METRICS, SENTENCES, TRACE, TRACE_AND_WARPS, Weighing, launch_weights, weigh
from analysis.store.database import Database
from analysis.store.filters import Filter
from analysis.store.queries import profiles
from analysis.store.queries import profiles as queries

By = Literal["workload", "name", "kernel", "launch"]

#: Columns that identify a row, by what it stands for.
KEYS: dict[str, list[str]] = {
    "workload": ["dataset", "workload", "gpu"],
    "name": ["dataset", "workload", "gpu", "short_name"],
    "kernel": ["dataset", "workload", "gpu", "kernel", "short_name", "grid", "block"],
    "launch": ["dataset", "workload", "gpu", "kernel", "short_name", "grid", "block", "kernel_id"],
}

COLUMNS = [
    "stall_family", "reason", "group", "share", "cycles", "accounted", "total", "launches", "kernels", "weight",
    "profiled", "sources", "simulated",
]  # fmt: skip

#: The kinds of weights, so that a million launches carry a number each.
KINDS = list(SENTENCES)

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
    by : {"workload", "name", "kernel", "launch"}
        What a row stands for. A kernel is a name at one grid and block size; a name brings the kernels of one short
        name together, whatever their template arguments and sizes.
    family : str, optional
        Family of metrics, such as ``per_issue_active``; by default that of most launches of each workload and GPU.

    Returns
    -------
    pd.DataFrame
        One row a thing and reason, the largest share first within each thing:

        - dataset, workload, gpu; for names also short_name; for kernels kernel, short_name, grid, block; for launches
          also kernel_id;
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
    stalls = read(database, choice, METRICS)
    if family is None:
        stalls = stalls.keep(preferred_family(stalls))
    else:
        profiles = stalls.launches["profile_id"].unique()
        stalls = stalls.keep(pd.Series(family, index=profiles, dtype=object))
    if stalls.totals.empty:
        return _empty(by)
    stalled = np.zeros(len(stalls.launches), dtype=bool)
    stalled[stalls.totals["position"]] = True
    weights = launch_weights(database, choice, stalls.values, stalled)
    totals = _weighed(stalls, weights)
    at = totals["position"].to_numpy()
    launches = stalls.launches.iloc[at].reset_index(drop=True)
    totals["thing"], things = grouped(database, launches, by)
    rows = _shares(stalls, totals)
    rows = rows.join(_wholes(totals, launches), on="thing").join(things, on="thing")
    return _finished(rows, KEYS[by])


def grouped(database: Database, launches: pd.DataFrame, by: str) -> tuple[pd.Series[int], pd.DataFrame]:
    """Bring launches together by what a row stands for.

    Parameters
    ----------
    database : Database
        The open database.
    launches : pd.DataFrame
        Rows of `analysis.store.queries.profiles.launches`.
    by : str
        A key of `KEYS`.

    Returns
    -------
    tuple of pd.Series and pd.DataFrame
        The number of each launch's thing, and the columns of `KEYS` by that number.
    """
    kinds = None if by == "workload" else queries.kinds(database, launches["kind"].unique())
    if by == "name" and kinds is not None:
        name = launches["kind"].map(pd.Series(pd.factorize(kinds["short_name"])[0], kinds.index))
        thing = launches.assign(name=name).groupby(["profile_id", "name"], sort=False).ngroup()
    else:
        identity = {"workload": ["profile_id"], "kernel": ["profile_id", "kind"], "launch": ["kernel_id"]}[by]
        thing = launches.groupby(identity, sort=False).ngroup()
    things = launches[["profile_id", "kind", "kernel_id"]].groupby(thing).first()
    things = things.join(queries.named_profiles(database, things["profile_id"].unique()), on="profile_id")
    return thing, (things if kinds is None else things.join(kinds, on="kind"))[KEYS[by]]


def _weighed(stalls: LaunchStalls, weights: pd.DataFrame) -> pd.DataFrame:
    """Add the weights of each launch: chosen for a whole profile, so that its kernels compare with one another."""
    totals = stalls.totals
    at = totals["position"].to_numpy()
    profile = stalls.launches["profile_id"].to_numpy()[at]
    own = weights.iloc[at].reset_index(drop=True)
    total = totals["total"].to_numpy(float)
    weight, issues, kind = np.zeros(len(at)), np.zeros(len(at)), np.zeros(len(at), dtype=np.int64)
    for rows in pd.Series(profile).groupby(profile, sort=False).indices.values():
        family = BY_NAME[str(totals["stall_family"].iloc[rows[0]])]
        if family.kind == "count":
            found = Weighing(COUNTS, total[rows], total[rows])
        else:
            found = weigh(own.iloc[rows], total[rows], per_issue=family.cycles)
        weight[rows], issues[rows], kind[rows] = found.warp_cycles, found.issues, KINDS.index(found.kind)
    return totals.assign(weight=weight, issues=issues, kind=kind, traced=own["traced_ns"], trace=own["trace_ns"])


def _shares(stalls: LaunchStalls, totals: pd.DataFrame) -> pd.DataFrame:
    """Sum the weighted shares and cycles of each thing and reason: thing, entry's family and reason, share, cycles."""
    row, entry, value = stalls.position, stalls.entry, stalls.value
    if len(totals) < len(stalls.launches):  # else every launch has its row, in the same order
        row_of = np.full(len(stalls.launches), -1, dtype=np.int64)
        row_of[totals["position"]] = np.arange(len(totals))
        row = row_of[row]
        inside = row >= 0
        if not inside.all():
            row, entry, value = row[inside], entry[inside], value[inside]
    count = len(stalls.entries)
    cell = (totals["thing"].to_numpy(np.int64) * count)[row] + entry
    per_value = (totals["weight"] / totals["total"]).to_numpy(float)
    size = (int(totals["thing"].max()) + 1) * count
    share = np.bincount(cell, weights=per_value[row] * value, minlength=size)
    cycles = np.bincount(cell, weights=totals["issues"].to_numpy(float)[row] * value, minlength=size)
    there = np.flatnonzero(np.bincount(cell, minlength=size))
    rows = stalls.entries.iloc[there % count].reset_index(drop=True)
    return rows.assign(thing=there // count, share=share[there], cycles=cycles[there])


def _wholes(totals: pd.DataFrame, launches: pd.DataFrame) -> pd.DataFrame:
    """Bring the launches of each thing together: sums of weights, what is stated and explained, and what is behind."""
    stated = totals["weight"].where(totals["known"], 0.0)
    table = pd.DataFrame(
        {
            "thing": totals["thing"], "all": totals["weight"], "issues": totals["issues"], "stated": stated,
            "explained": stated * totals["reported"] / totals["total"],
            "issue_cycles": totals["issues"] * totals["total"], "known": totals["known"],
            "launches": launches["invocations"], "kernels": launches["kind"], "weight": totals["kind"],
            "sources": launches["source_id"], "simulated": launches["simulated"], "traced": totals["traced"],
            "trace": totals["trace"],
        }
    )  # fmt: skip
    how = {
        **dict.fromkeys(["all", "issues", "stated", "explained", "issue_cycles", "launches", "traced"], "sum"),
        **dict.fromkeys(["kernels", "sources"], "nunique"),
        **dict.fromkeys(["weight", "trace"], "first"),
        "known": "all",
        "simulated": "any",
    }
    return table.groupby("thing").agg(how)


def _finished(rows: pd.DataFrame, keys: list[str]) -> pd.DataFrame:
    cycles = rows["stall_family"].map({name: family.cycles for name, family in BY_NAME.items()}).to_numpy(bool)
    rows["weight"] = [KINDS[number] for number in rows["weight"]]
    rows["share"] = 100 * rows["share"] / rows["all"]
    rows["cycles"] = np.where(cycles, rows["cycles"] / rows["issues"], np.nan)
    rows["accounted"] = 100 * rows["explained"] / rows["stated"].where(rows["stated"] > 0)
    rows["total"] = np.where(cycles & rows["known"], rows["issue_cycles"] / rows["issues"], np.nan)
    traced = rows["weight"].isin([TRACE, TRACE_AND_WARPS])
    rows["profiled"] = (100 * rows["traced"] / rows["trace"]).where(traced)
    rows["group"] = rows["reason"].map({reason: stall_reasons.group_of(reason) for reason in rows["reason"].unique()})
    rows = rows.sort_values(["thing", "share", "reason"], ascending=[True, False, True], kind="stable")
    return rows[[*keys, *COLUMNS]].reset_index(drop=True)


def _empty(by: str) -> pd.DataFrame:
    return pd.DataFrame({name: pd.Series(dtype=object) for name in [*KEYS[by], *COLUMNS]})


def unavailable(database: Database, chosen: Filter | None = None) -> dict[str, tuple[str, ...]]:
    """Return the stall reasons that each profiled GPU can't report.

    Parameters
    ----------
    database : Database
        The open database.
    chosen : Filter, optional
        Profiles to look at.

    Returns
    -------
    dict of str to tuple of str
        Reasons by GPU, in the order of the table of reasons; GPUs of an unknown architecture are absent.
    """
    stated = profiles.capabilities(database, chosen)
    table = gpus.load(simulated=True)
    reasons = [str(name) for name in stall_reasons.load().index]
    found: dict[str, tuple[str, ...]] = {}
    for gpu, rows in stated.groupby("gpu", sort=False):
        known = rows["cc"].dropna()
        listed = table["cc"].get(str(gpu))
        cc = str(known.iloc[0]) if len(known) else listed if isinstance(listed, str) else None
        if cc is not None:
            there = set(stall_reasons.available(cc))
            found[str(gpu)] = tuple(name for name in reasons if name not in there)
    return found


def by_family(shares: pd.DataFrame) -> list[tuple[str, pd.DataFrame]]:
    """Part stall shares by their family of metrics, as families have no common axis; the most rows first."""
    if shares.empty:
        return []
    names = shares["stall_family"].value_counts(sort=True).index
    return [(str(name), shares[shares["stall_family"] == name].reset_index(drop=True)) for name in names]
