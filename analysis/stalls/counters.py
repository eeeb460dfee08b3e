"""Counters that a verdict rests on, as percent of their peak, brought together over launches by GPU time."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

from analysis.errors import UsageError
from analysis.reference import gpus
from analysis.stalls.launches import Values, fetch
from analysis.stalls.shares import KEYS, grouped
from analysis.store.database import Database
from analysis.store.filters import Filter
from analysis.store.queries import profiles as queries

Array = npt.NDArray[np.float64]

#: Numerator and denominator of a percentage, the pair to prefer first.
_RATIOS: dict[str, tuple[tuple[str, str], ...]] = {
    "issue_active": tuple((f"smsp__issue_active.{roll}", f"smsp__cycles_active.{roll}") for roll in ("sum", "avg")),
    "dram": tuple((f"dram__cycles_active.{roll}", f"dram__cycles_elapsed.{roll}") for roll in ("sum", "avg")),
}

#: Counters of bytes between L2 and DRAM: the first set that a launch has in full counts, with what one count is.
DRAM_BYTES: tuple[dict[str, float], ...] = (
    {"dram__bytes.sum": 1.0},
    {"dram__bytes_read.sum": 1.0, "dram__bytes_write.sum": 1.0},
    {"dram__bytes_op_read.sum": 1.0, "dram__bytes_op_write.sum": 1.0},
    {"dram_read_bytes": 1.0, "dram_write_bytes": 1.0},
)

#: Bytes a second, as stated.
_RATES: tuple[dict[str, float], ...] = (
    {"dram__bytes.sum.per_second": 1.0},
    {"dram__bytes_read.sum.per_second": 1.0, "dram__bytes_write.sum.per_second": 1.0},
)

#: All metrics that the percentages are made of.
METRICS: tuple[str, ...] = tuple(
    dict.fromkeys(
        [name for pairs in _RATIOS.values() for pair in pairs for name in pair]
        + [name for one in (*DRAM_BYTES, *_RATES) for name in one]
    )
)


def percentages(values: Values, gpu: pd.Series[str]) -> dict[str, Array]:
    """Return what the raw counters of launches give.

    Parameters
    ----------
    values : Values
        Of the metrics `METRICS`, in base units (bytes, bytes a second, cycles).
    gpu : pd.Series of str
        The GPU of each launch, for its bandwidth.

    Returns
    -------
    dict of str to ndarray
        Percent by the name of the counter (``issue_active``, ``dram``), one a launch, NaN where it can't be made.
    """
    table = {name: values.of([name]).table()[:, 0] for name in METRICS if name in values.names}
    nothing: Array = np.full(len(values.launches), np.nan)
    found = {}
    for counter, pairs in _RATIOS.items():
        result = nothing
        for above, below in reversed(pairs):
            ratio = np.divide(table[above], table[below], out=nothing.copy(), where=table[below] > 0)
            result = np.where(np.isnan(ratio), result, 100 * ratio)
        found[counter] = result
    gbps = gpus.load(simulated=True)["memory_gbps"].astype(float)
    peak = gpu.map(gbps).to_numpy(float)
    # Bytes of one launch over its nanoseconds are 10^9 bytes a second.
    moved = weighted_sum(values, DRAM_BYTES) / values.launches["duration_ns"].to_numpy(float)
    stated = weighted_sum(values, _RATES) / 1e9
    achieved = 100 * np.where(np.isnan(stated), moved, stated) / peak
    found["dram"] = np.where(np.isnan(found["dram"]), achieved, found["dram"])
    return found


def weighted_sum(values: Values, sets: tuple[dict[str, float], ...]) -> Array:
    """Return the weighted sum of the first set of counters that each launch has in full, NaN where it has none."""
    result: Array = np.full(len(values.launches), np.nan)
    for one in reversed(sets):
        found = values.of(list(one)).table() @ np.array(list(one.values()))
        result = np.where(np.isnan(found), result, found)
    return result


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
        "fma", "FMA pipe activity",
        ("sm__pipe_fma_cycles_active.avg.pct_of_peak_sustained_active",
         "sm__inst_executed_pipe_fma.avg.pct_of_peak_sustained_active",
         "smsp__pipe_fma_cycles_active.avg.pct_of_peak_sustained_active"),
    ),
    Counter(
        "alu", "ALU pipe activity",
        ("sm__pipe_alu_cycles_active.avg.pct_of_peak_sustained_active",
         "sm__inst_executed_pipe_alu.avg.pct_of_peak_sustained_active"),
    ),
    Counter(
        "fp64", "FP64 pipe activity",
        ("sm__pipe_fp64_cycles_active.avg.pct_of_peak_sustained_active",
         "sm__inst_executed_pipe_fp64.avg.pct_of_peak_sustained_active"),
    ),
    Counter(
        "lsu", "load/store pipe activity",
        ("sm__inst_executed_pipe_lsu.avg.pct_of_peak_sustained_active",
         "sm__inst_executed_pipe_lsu.avg.pct_of_peak_sustained_elapsed",
         "smsp__inst_executed_pipe_lsu.avg.pct_of_peak_sustained_active",
         "l1tex__data_pipe_lsu_wavefronts.avg.pct_of_peak_sustained_elapsed"),
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
    by : {"workload", "name", "kernel", "launch"}
        As for `analysis.stalls.shares.stall_shares`.

    Returns
    -------
    pd.DataFrame
        One row a thing: its keys and one column a counter of `COUNTERS`, in percent of peak (clocks in hertz), NaN
        where no launch has it. What no metric states is made from raw counters where they are there, see
        `analysis.stalls.counters`. Launches are weighted by duration where all of a profile have one,
        else they count alike.

    Raises
    ------
    UsageError
        If ``by`` is unknown.
    """
    if by not in KEYS:
        raise UsageError(f"counters can't be given by {by!r}", f"Choose one of {', '.join(KEYS)}.")
    choice = chosen or Filter()
    keys = KEYS[by]
    launches = queries.launches(database, choice)
    names, columns, scales, percent = _names()
    both = [*names, *(name for name in METRICS if name not in names)]
    found, raw = fetch(database, choice, launches, both, units=True).split(len(names))
    usable = ~percent[found.code] | (found.percent if found.percent is not None else False)
    at, code, value = found.position[usable], found.code[usable], found.value[usable]
    table: Array = np.full((len(launches), len(NAMES)), np.nan)
    # In descending order of preference within a counter, the first name is written last.
    order = np.argsort(-code, kind="stable")
    table[at[order], columns[code[order]]] = (value * scales[code])[order]
    if raw.position.size:
        gpu = launches["profile_id"].map(queries.named_profiles(database, launches["profile_id"].unique())["gpu"])
        for name, percents in percentages(raw, gpu).items():
            column = NAMES.index(name)
            table[:, column] = np.where(np.isnan(table[:, column]), percents, table[:, column])
    seen = np.flatnonzero(~np.isnan(table).all(axis=1))
    if not seen.size:
        return pd.DataFrame({name: pd.Series(dtype=float if name in NAMES else object) for name in [*keys, *NAMES]})
    rows = launches.iloc[seen].reset_index(drop=True)
    times = rows["invocations"].to_numpy(float)
    durations = rows["duration_ns"].astype(float)
    untimed = durations.isna().groupby(rows["profile_id"]).transform("any").to_numpy(bool)
    weight = np.where(untimed, times, times * durations.to_numpy())
    thing, things = grouped(database, rows, by)
    known = ~np.isnan(table[seen])
    sums = pd.DataFrame(np.where(known, table[seen], 0.0) * weight[:, None], columns=NAMES).groupby(thing).sum()
    weights = pd.DataFrame(known * weight[:, None], columns=NAMES).groupby(thing).sum()
    return things[keys].join(sums / weights.where(weights > 0)).reset_index(drop=True)


def _names() -> tuple[list[str], np.ndarray, np.ndarray, np.ndarray]:
    """Return the metrics in order of preference: their counter's column, factor, and whether only percent counts."""
    rows = [
        (metric, NAMES.index(counter.name), scale, percent)
        for counter in COUNTERS
        for metrics, scale, percent in (
            (counter.percents, 1.0, True),
            (counter.fractions, 100.0, False),
            (counter.plain, 1.0, False),
        )
        for metric in metrics
    ]
    metrics, names, scales, percents = zip(*rows, strict=True)
    return list(metrics), np.array(names), np.array(scales), np.array(percents)
