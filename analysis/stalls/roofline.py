"""The roofline of a profile: arithmetic and DRAM traffic of each kernel against what the GPU can do.

Only what the counters state is drawn: operations come from instruction counters, never from occupancy or utilisation,
and a kernel that lacks them is counted as missing.

References
----------
.. [1] S. Williams, A. Waterman and D. Patterson, Roofline: an insightful visual performance model for multicore
   architectures, Communications of the ACM 52(4), 2009.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from analysis.reference import gpus
from analysis.stalls.counters import DRAM_BYTES, weighted_sum
from analysis.stalls.kernels import key_of
from analysis.stalls.launches import fetch
from analysis.stalls.shares import KEYS, grouped
from analysis.store.database import Database
from analysis.store.filters import Filter
from analysis.store.queries import profiles as queries

_THREAD = "smsp__sass_thread_inst_executed_op_{}_pred_on.sum"

#: Counters of single- and double-precision operations and the operations that one count stands for; a fused
#: multiply-add is two. The first set that a launch has in full counts.
_OPERATIONS: tuple[dict[str, float], ...] = (
    {_THREAD.format("fadd"): 1.0, _THREAD.format("fmul"): 1.0, _THREAD.format("ffma"): 2.0},
    {"smsp__sass_thread_inst_executed_ops_fadd_fmul_ffma_pred_on.sum": 1.0},
    {"flop_count_sp": 1.0},
)
_DOUBLE: tuple[dict[str, float], ...] = (
    {_THREAD.format("dadd"): 1.0, _THREAD.format("dmul"): 1.0, _THREAD.format("dfma"): 2.0},
    {"smsp__sass_thread_inst_executed_ops_dadd_dmul_dfma_pred_on.sum": 1.0},
    {"flop_count_dp": 1.0},
)

#: What gets all that a roofline needs.
COMMAND = (
    "ncu --csv --metrics gpu__time_duration.sum,dram__bytes.sum,"
    + ",".join(_THREAD.format(name) for name in ("fadd", "fmul", "ffma"))
    + " YOUR_PROGRAM"
)

COLUMNS = ["flop", "bytes", "time_ns", "intensity", "gflops", "gbps", "bound", "launches", "simulated", "key"]


@dataclass(frozen=True, eq=False)
class Roofline:
    """Points and roofs.

    Attributes
    ----------
    points : pd.DataFrame
        One row a kernel whose operations, DRAM bytes and time are known: the keys of a kernel, flop and bytes (of one
        launch), time_ns, intensity (operations a byte), gflops and gbps (achieved, 10^9 a second), bound (``memory`` or
        ``compute``: the roof above it; None without a roof), launches, simulated, key.
    missing : pd.DataFrame
        What is missing of the others: lacks (``operations``, ``DRAM bytes``, ``duration``) and kernels (how many).
    peaks : pd.DataFrame
        Roofs by GPU (index): gflops (single precision, fused multiply-adds on all lanes at boost clock) and gbps
        (DRAM); GPUs of unknown peaks are absent.
    kernels : int
        Kernels that were looked at.
    """

    points: pd.DataFrame
    missing: pd.DataFrame
    peaks: pd.DataFrame
    kernels: int

    def sentence(self) -> str:
        """Say how many kernels have a place, and if none has, what is missing."""
        if self.points.empty:
            lacks = ", ".join(f"{row.lacks} in {row.kernels} of {self.kernels}" for row in self.missing.itertuples())
            return f"No kernel has a place on a roofline: missing are {lacks}." if lacks else "There are no kernels."
        below = self.points["bound"].value_counts()
        parts = [f"{below[name]} under the {name} roof" for name in ("memory", "compute") if name in below]
        placed = f"{len(self.points)} of {self.kernels} kernels have operations, DRAM bytes and a duration"
        return f"{placed}{': ' + ', '.join(parts) if parts else ''}."


def roofline(database: Database, chosen: Filter | None = None) -> Roofline:
    """Place the chosen kernels under the roofs of their GPUs.

    Parameters
    ----------
    database : Database
        The open database.
    chosen : Filter, optional
        Profiles to look at.

    Notes
    -----
    Intensity is operations over DRAM bytes, performance operations over duration; the roof is the smaller of the
    GPU's peak and intensity times its DRAM bandwidth [1]_. Operations of tensor cores are not counted, so a kernel that
    runs on them lies lower than it works.
    """
    choice = chosen or Filter()
    launches = queries.launches(database, choice)
    names = list(dict.fromkeys(name for sets in (_OPERATIONS, _DOUBLE, DRAM_BYTES) for one in sets for name in one))
    found = fetch(database, choice, launches, names if len(launches) else [])
    single, double = weighted_sum(found, _OPERATIONS), weighted_sum(found, _DOUBLE)
    flop = np.where(np.isnan(single), double, single + np.nan_to_num(double))
    table = pd.DataFrame(
        {"flop": flop, "bytes": weighted_sum(found, DRAM_BYTES), "time_ns": launches["duration_ns"].to_numpy(float)}
    )
    if launches.empty:
        none = pd.DataFrame(columns=["lacks", "kernels"])
        return Roofline(pd.DataFrame(columns=[*KEYS["kernel"], *COLUMNS]), none, _peaks([]), 0)
    thing, things = grouped(database, launches, "kernel")
    # A mean over launches, each counter over those that have it: files of one workload may hold them in turns.
    means = table.groupby(thing.to_numpy()).mean()
    sizes = launches.groupby(thing.to_numpy()).agg(
        launches=("invocations", "sum"), simulated=("simulated", "any")
    )  # fmt: skip
    rows = things.join(means).join(sizes)
    lacks = [
        (word, int(rows[name].isna().sum()))
        for name, word in (("flop", "operations"), ("bytes", "DRAM bytes"), ("time_ns", "duration"))
    ]
    missing = pd.DataFrame([row for row in lacks if row[1]], columns=["lacks", "kernels"])
    points = rows.dropna(subset=["flop", "bytes", "time_ns"]).query("flop > 0 and bytes > 0 and time_ns > 0").copy()
    points["intensity"] = points["flop"] / points["bytes"]
    points["gflops"] = points["flop"] / points["time_ns"]
    points["gbps"] = points["bytes"] / points["time_ns"]
    peaks = _peaks(sorted(set(points["gpu"].astype(str))))
    ridge = points["gpu"].map(peaks["gflops"] / peaks["gbps"]).to_numpy(float)
    points["bound"] = [
        None if np.isnan(at) else "memory" if intensity < at else "compute"
        for intensity, at in zip(points["intensity"], ridge, strict=True)
    ]
    points["key"] = [key_of(*parts) for parts in points[KEYS["kernel"]].astype(str).itertuples(index=False, name=None)]
    ordered = points.sort_values("time_ns", ascending=False, kind="stable").reset_index(drop=True)
    return Roofline(ordered[[*KEYS["kernel"], *COLUMNS]], missing, peaks, len(rows))


def _peaks(names: list[str]) -> pd.DataFrame:
    """Return the roofs of the GPUs whose table has them: two operations a lane and cycle, and the DRAM bandwidth."""
    table = gpus.load(simulated=True).reindex(names)
    numbers = table[["sm_count", "fp32_lanes_per_sm", "boost_clock_mhz", "memory_gbps"]].astype(float)
    peaks = pd.DataFrame(
        {
            "gflops": 2 * numbers["sm_count"] * numbers["fp32_lanes_per_sm"] * numbers["boost_clock_mhz"] / 1e3,
            "gbps": numbers["memory_gbps"],
        }
    )
    return peaks.dropna()
