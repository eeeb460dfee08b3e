"""Counters and stall shares of Nsight Compute profiles, weighted by kernel duration, as quantities of a workload."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
import pandas as pd

from analysis.numbers import volume
from analysis.predict.frame.quantities import QUANTITIES, STALL_GROUPS, STALL_REASONS, factor
from analysis.store.database import Database
from analysis.store.filters import Filter
from analysis.store.queries import profiles

#: Launch properties: profiler metric to quantity. Registers come for each thread and are multiplied with the threads.
_LAUNCH = {
    "Threads": "threads", "launch__thread_count": "threads",
    "Registers Per Thread": "registers", "launch__registers_per_thread": "registers",
    "Static Shared Memory Per Block": "shared_memory", "launch__shared_mem_per_block_static": "shared_memory",
    "launch__shared_mem_per_block": "shared_memory",
}  # fmt: skip


def _metric_names() -> dict[str, str]:
    names = {
        alias: quantity.name
        for quantity in QUANTITIES
        if quantity.what in ("counters", "stalls")
        for alias in quantity.aliases
    }
    return {**names, **_LAUNCH}


def from_kernels(database: Database, dataset: str) -> pd.DataFrame:
    """Return duration-weighted counters and the kernel lengths of every profile.

    Returns
    -------
    pd.DataFrame
        Index (gpu, workload); columns are quantity names in base units. Empty without profiles.
    """
    chosen = Filter(datasets=(dataset,))
    launches = profiles.kernels(database, chosen)
    if launches.empty:
        return _empty()
    launches["times"] = launches["invocations"].astype(float).clip(lower=1)
    launches["weight"] = launches["duration_ns"].astype(float) * launches["times"]
    names = _metric_names()
    long = profiles.metrics(database, chosen, tuple(names)).dropna(subset=["value"])
    long["name"] = long["metric"].map(names)
    # A mask as an array: an empty list would choose no columns instead of no rows.
    usable = [_usable(name, unit) for name, unit in zip(long["name"], long["unit"], strict=True)]
    long = long[np.array(usable, dtype=bool)]
    by_name = {quantity.name: quantity for quantity in QUANTITIES}
    long["value"] = [
        float(value) * factor(by_name[name], unit if isinstance(unit, str) else None)
        for name, value, unit in zip(long["name"], long["value"], long["unit"], strict=True)
    ]
    long = _per_launch(_with_threads(long.drop_duplicates(["kernel_id", "name"]), launches))
    long = long.merge(launches[["kernel_id", "weight", "times"]], on="kernel_id")
    long["weight"] = long["weight"].fillna(long["times"])  # no duration in the file: launches count alike
    long["product"] = long["value"] * long["weight"]
    sums = long.groupby(["gpu", "workload", "name"])[["product", "weight"]].sum()
    counters = (sums["product"] / sums["weight"]).unstack("name") if len(sums) else _empty()
    return counters.join(_lengths(launches), how="outer")


def _with_threads(long: pd.DataFrame, launches: pd.DataFrame) -> pd.DataFrame:
    """Add the threads of launches with counters of which none states them: blocks of the grid times threads of a block.

    A launch without any counter gets none: its shape alone is no evidence of what it asks the GPU for.
    """
    stated = set(long.loc[long["name"] == "threads", "kernel_id"])
    lacking = launches[launches["kernel_id"].isin(set(long["kernel_id"]) - stated)]
    threads = np.array(
        [volume(grid) * volume(block) for grid, block in zip(lacking["grid"], lacking["block"], strict=True)]
    )
    more = lacking[["kernel_id", "gpu", "workload"]].assign(name="threads", value=threads).dropna(subset=["value"])
    return pd.concat([long, more], ignore_index=True) if len(more) else long


def _per_launch(long: pd.DataFrame) -> pd.DataFrame:
    """Turn registers for each thread into registers of the launch; without its threads they are unknown."""
    threads = long[long["name"] == "threads"].set_index("kernel_id")["value"]
    of_registers = long["name"] == "registers"
    long.loc[of_registers, "value"] *= threads.reindex(long.loc[of_registers, "kernel_id"]).to_numpy()
    return long.dropna(subset=["value"])


def _usable(name: str, unit: object) -> bool:
    """Refuse a bandwidth that shares its name with a percentage of peak; without a unit it is what its name says."""
    fraction = next((q.scale == "fraction" for q in QUANTITIES if q.name == name), False)
    return not fraction or not isinstance(unit, str) or unit.strip() in ("%", "")


def _lengths(launches: pd.DataFrame) -> pd.DataFrame:
    timed = launches.dropna(subset=["duration_ns"])
    if timed.empty:
        return _empty()
    sums = timed.groupby(["gpu", "workload"])[["weight", "times"]].sum()
    return pd.DataFrame({"kernel_length": sums["weight"] / sums["times"] / 1e3})


def from_stalls(database: Database, dataset: str) -> pd.DataFrame:
    """Return the stall shares of every profile by group and by common reason, as fractions of the warp cycles.

    What the reasons leave unaccounted is not scaled away.

    Returns
    -------
    pd.DataFrame
        Index (gpu, workload); columns ``stall_*`` and ``reason_*``. Empty without stall profiles.
    """
    shares = _shares(database, dataset)
    if shares is None or shares.empty:
        return _empty()
    # One stall family a workload and GPU: the one that accounts for most, so that no cycle counts twice.
    best = (
        shares.sort_values("accounted", ascending=False, kind="stable")
        .drop_duplicates(["gpu", "workload"])
        .set_index(["gpu", "workload"])["stall_family"]
    )
    keys = pd.MultiIndex.from_frame(shares[["gpu", "workload"]])
    shares = shares[shares["stall_family"].to_numpy() == best.reindex(keys).to_numpy()]
    groups = shares.pivot_table(index=["gpu", "workload"], columns="group", values="share", aggfunc="sum") / 100
    reasons = shares.pivot_table(index=["gpu", "workload"], columns="reason", values="share", aggfunc="sum") / 100
    out = pd.DataFrame(index=groups.index)
    for key, group in STALL_GROUPS.items():
        out[f"stall_{key}"] = groups.get(group, 0.0)
    for reason in STALL_REASONS:
        out[f"reason_{reason}"] = reasons.get(reason, 0.0)
    out = out.fillna(0.0)
    cycles = shares.groupby(["gpu", "workload"])["cycles"].sum(min_count=1)
    out["warp_cycles_per_issue"] = cycles.where(cycles > 0, np.nan)
    return out


def _shares(database: Database, dataset: str) -> pd.DataFrame | None:
    try:
        module: Any = importlib.import_module("analysis.stalls.shares")
    except ModuleNotFoundError:
        return None
    found: pd.DataFrame = module.stall_shares(database, Filter(datasets=(dataset,)), by="workload")
    return found


def _empty() -> pd.DataFrame:
    return pd.DataFrame(index=pd.MultiIndex.from_arrays([[], []], names=["gpu", "workload"]))
