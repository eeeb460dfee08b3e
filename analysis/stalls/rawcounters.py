"""Percentages that raw counters give where no metric states them: how often schedulers issue, how busy DRAM is.

Exports of early versions of Nsight Compute, and lists of single metrics, hold sums of counters rather than percentages.

Notes
-----
Of one launch:

- issue active, percent of the active cycles = 100 x smsp__issue_active / smsp__cycles_active, which is what
  smsp__issue_active.avg.per_cycle_active is by its name: the counter per active cycle of its unit [1]_.
- DRAM throughput, percent = 100 x dram__cycles_active / dram__cycles_elapsed, the pct_of_peak_sustained_elapsed of a
  counter whose peak is one a cycle [1]_; else 100 x bytes / duration / peak bandwidth of the GPU, where
  ``data/gpus.csv`` has it.

References
----------
.. [1] NVIDIA, Nsight Compute, Kernel Profiling Guide, section Metrics Decoder (``.per_cycle_active``,
   ``.pct_of_peak_sustained_elapsed``).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pandas as pd

from analysis.reference import gpus
from analysis.stalls.values import Values

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
    gbps = gpus.load()["memory_gbps"].astype(float)
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
