"""Counters that a verdict rests on, as percent of their peak, brought together over launches by GPU time."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from analysis.errors import UsageError
from analysis.stalls.shares import KEYS
from analysis.store.database import Database
from analysis.store.filters import Filter
from analysis.store.queries import launches as launch_queries
from analysis.store.queries import profiles


@dataclass(frozen=True)
class Counter:
    """A quantity and the metrics that state it.

    Attributes
    ----------
    name : str
        Column of the frames.
    title : str
        What a person calls it.
    percents : tuple of str
        Metrics in percent, the one to prefer first; under another unit they are something else and do not count.
    fractions : tuple of str
        Metrics between 0 and 1.
    plain : tuple of str
        Metrics taken as they are, in base units.
    """

    name: str
    title: str
    percents: tuple[str, ...] = ()
    fractions: tuple[str, ...] = ()
    plain: tuple[str, ...] = ()


COUNTERS: tuple[Counter, ...] = (
    Counter(
        "issue_active", "cycles in which a scheduler issues",
        ("Issue Slots Busy", "One or More Eligible", "smsp__issue_active.avg.pct_of_peak_sustained_active"),
        ("smsp__issue_active.avg.per_cycle_active", "Issued Warp Per Scheduler"),
    ),
    Counter(
        "dram", "DRAM throughput",
        ("DRAM Throughput", "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed",
         "dram__throughput.avg.pct_of_peak_sustained_elapsed", "SOL FB", "SOL DRAM"),
    ),
    Counter(
        "l2", "L2 throughput",
        ("L2 Cache Throughput", "lts__throughput.avg.pct_of_peak_sustained_elapsed",
         "lts__t_sectors.avg.pct_of_peak_sustained_elapsed", "SOL L2", "SOL L2 Cache"),
    ),
    Counter(
        "l1", "L1/TEX throughput",
        ("L1/TEX Cache Throughput", "l1tex__throughput.avg.pct_of_peak_sustained_active", "SOL TEX",
         "SOL L1/TEX Cache"),
    ),
    Counter(
        "sm", "SM throughput",
        ("Compute (SM) Throughput", "sm__throughput.avg.pct_of_peak_sustained_elapsed", "SOL SM", "SM [%]"),
    ),
    Counter(
        "tensor", "tensor pipe activity",
        ("sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active",
         "sm__inst_executed_pipe_tensor.avg.pct_of_peak_sustained_active"),
    ),
    Counter(
        "mio", "shared-memory pipe throughput",
        ("Mem Pipes Busy", "l1tex__data_pipe_lsu_wavefronts_mem_shared.avg.pct_of_peak_sustained_elapsed",
         "smsp__inst_issued_mio.avg.pct_of_peak_sustained_active"),
    ),
    Counter("occupancy", "achieved occupancy",
            ("Achieved Occupancy", "sm__warps_active.avg.pct_of_peak_sustained_active")),
    Counter("sm_clock", "SM clock", plain=("SM Frequency", "smsp__cycles_elapsed.avg.per_second",
                                           "gpc__cycles_elapsed.avg.per_second")),
    Counter("dram_clock", "DRAM clock", plain=("DRAM Frequency", "Memory Frequency",
                                               "dram__cycles_elapsed.avg.per_second")),
)  # fmt: skip

NAMES = [counter.name for counter in COUNTERS]


def counters(database: Database, chosen: Filter | None = None, by: str = "workload") -> pd.DataFrame:
    """Return the counters of workloads, kernels or launches.

    Parameters
    ----------
    database : Database
        The open database.
    chosen : Filter, optional
        Profiles to look at.
    by : {"workload", "kernel", "launch"}
        As for `analysis.stalls.shares.stall_shares`.

    Returns
    -------
    pd.DataFrame
        One row a thing: its keys and one column a counter of `COUNTERS`, in percent of peak (clocks in hertz), NaN
        where no launch has it. Launches are weighted by duration where all have one, else they count alike.

    Raises
    ------
    UsageError
        If ``by`` is unknown.
    """
    if by not in KEYS:
        raise UsageError(f"counters can't be given by {by!r}", f"Choose one of {', '.join(KEYS)}.")
    choice = chosen or Filter()
    keys = KEYS[by]
    launches = profiles.kernels(database, choice)
    names, columns, scales, percent = _names()
    found = launch_queries.values(database, choice, names)
    found = found[~percent[found["code"]] | found["percent"].to_numpy(bool)]
    found = found.drop_duplicates(["kernel_id", "code"])
    found["counter"] = columns[found["code"]]
    found["value"] = found["value"] * scales[found["code"]]
    # Codes follow the order of preference within a counter.
    best = found.sort_values(["kernel_id", "code"], kind="stable").drop_duplicates(["kernel_id", "counter"])
    if best.empty:
        return pd.DataFrame({name: pd.Series(dtype=float if name in NAMES else object) for name in [*keys, *NAMES]})
    wide = best.pivot(index="kernel_id", columns="counter", values="value").reindex(columns=NAMES)
    table = launches.set_index("kernel_id", drop=False).loc[wide.index]
    times = table["invocations"].astype(float)
    duration = table["duration_ns"].astype(float)
    weight = (times * duration if duration.notna().all() else times).to_numpy()
    things = [table[key].fillna("").to_numpy() for key in keys]
    sums = wide.mul(weight, axis=0).groupby(things).sum(min_count=1)
    weights = wide.notna().mul(weight, axis=0).groupby(things).sum()
    result: pd.DataFrame = sums / weights.where(weights > 0)
    return result.rename_axis(index=keys).reset_index()


def _names() -> tuple[list[str], np.ndarray, np.ndarray, np.ndarray]:
    """Return the metrics in order of preference with their counter, their factor, and whether they must be percent."""
    rows = [
        (metric, counter.name, scale, percent)
        for counter in COUNTERS
        for metrics, scale, percent in (
            (counter.percents, 1.0, True),
            (counter.fractions, 100.0, False),
            (counter.plain, 1.0, False),
        )
        for metric in metrics
    ]
    metrics, names, scales, percents = zip(*rows, strict=True)
    return list(metrics), np.array(names, dtype=object), np.array(scales), np.array(percents)
