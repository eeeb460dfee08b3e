"""How much each launch counts when launches are brought together, and which share of the GPU's time they stand for.

A workload's share of a stall reason is the reason's warp cycles over all warp cycles. A launch brings shares (or warp
cycles for each issued instruction); its weight says how many warp cycles (or issues) stand behind them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

from analysis.stalls import launches as known
from analysis.stalls.launches import Values
from analysis.store.database import Database
from analysis.store.filters import Filter
from analysis.store.queries import profiles as queries

Array = npt.NDArray[np.float64]

INSTRUCTIONS = "instructions issued"
TIME_AND_WARPS = "duration x warps"
TIME = "duration"
TRACE_AND_WARPS = "GPU time x warps"
TRACE = "GPU time"
NOTHING = "unweighted"
COUNTS = "counts"

#: Sentence for each kind of weight, for a caption.
SENTENCES = {
    INSTRUCTIONS: "Launches are weighted by the instructions they issued.",
    TIME_AND_WARPS: "Launches are weighted by duration times active warps.",
    TIME: "Launches are weighted by duration, as the profile does not say how many warps were active.",
    TRACE_AND_WARPS: "Kernels are weighted by their GPU time in a time trace, times active warps.",
    TRACE: "Kernels are weighted by their GPU time in a time trace.",
    NOTHING: "Launches count alike, as the profile holds neither instructions nor durations.",
    COUNTS: "Counts of the launches are added.",
}

_ISSUED = (
    "smsp__inst_issued.sum", "sm__inst_issued.sum", "smsp__issue_active.sum", "Issued Instructions",
    "smsp__inst_executed.sum", "sm__inst_executed.sum", "Executed Instructions",
)  # fmt: skip
_WARPS = (
    "smsp__warps_active.avg.per_cycle_active", "sm__warps_active.avg.per_cycle_active", "Achieved Active Warps Per SM",
    "sm__warps_active.avg.pct_of_peak_sustained_active", "Achieved Occupancy",
)  # fmt: skip


#: Metrics that can weigh a launch.
METRICS = (*_ISSUED, *_WARPS)


def launch_weights(database: Database, chosen: Filter, values: Values, stalled: npt.NDArray[np.bool_]) -> pd.DataFrame:
    """Return what can weigh each launch, NaN where it isn't known.

    Parameters
    ----------
    database : Database
        The open database.
    chosen : Filter
        The choice that the values came from.
    values : Values
        Of the metrics `METRICS`.
    stalled : ndarray of bool
        Which launches have stall reasons.

    Returns
    -------
    pd.DataFrame
        In the order of the launches, each over all invocations: issued (instructions), time_ns (duration; where the
        launch has none, the mean of the same kernel in another file of the workload), warps (active, in a unit common
        to all launches of a profile), traced_ns (GPU time in a time trace that the launch stands for), trace_ns (GPU
        time of the whole trace of its workload and GPU).
    """
    launches = values.launches
    times = launches["invocations"].to_numpy(float)
    weights = pd.DataFrame(
        {
            "issued": _first_common(values, _ISSUED) * times,
            "time_ns": _durations(launches) * times,
            "warps": _first_common(values, _WARPS),
            "traced_ns": np.nan,
            "trace_ns": np.nan,
        }
    )
    timing = known.timing_sources(database)
    traces = queries.gpu_time(database, chosen, timing) if timing else None
    if traces is not None and len(traces):
        names = queries.kinds(database, launches["kind"].unique())
        _join_traces(weights, traces, launches, names, stalled)
    return weights


def _join_traces(
    weights: pd.DataFrame,
    traces: pd.DataFrame,
    launches: pd.DataFrame,
    names: pd.DataFrame,
    stalled: npt.NDArray[np.bool_],
) -> None:
    """Give each launch with stall reasons its part of the GPU time that a time trace saw for its kernel.

    Kernels are joined by name, grid and block where the trace has grid and block, else by name, else by short name;
    launches of one kernel share its time by their durations, or alike. Of several traces of a workload in different
    formats, that with the most time counts.
    """
    by_format = traces.groupby(["profile_id", "format"])["time_ns"].transform("sum")
    traces = traces[by_format == by_format.groupby(traces["profile_id"]).transform("max")]
    weights["trace_ns"] = launches["profile_id"].map(traces.groupby("profile_id")["time_ns"].sum()).to_numpy()
    named = launches[["profile_id", "kind"]].join(names, on="kind")
    for keys in (["kernel", "grid", "block"], ["kernel"], ["short_name"]):
        left = named[stalled & weights["traced_ns"].isna().to_numpy()]
        known = traces.dropna(subset=keys).groupby(["profile_id", *keys])["time_ns"].sum()
        found = known.reindex(pd.MultiIndex.from_frame(left[["profile_id", *keys]])).to_numpy()
        if np.isnan(found).all():
            continue
        one_kernel = [left[key] for key in ["profile_id", *keys]]
        part = weights.loc[left.index, "time_ns"]
        # Nanoseconds of some and a plain 1 for the others would be two units in one sum.
        part = part.where(part.notna().groupby(one_kernel).transform("all"), 1.0)
        whole = part.groupby(one_kernel).transform("sum")
        weights.loc[left.index, "traced_ns"] = found * (part / whole).to_numpy()


def _first_common(values: Values, names: tuple[str, ...]) -> Array:
    """Values of the metric that most launches of a profile have; one metric for each profile, as their units differ."""
    found = values.of(names)
    result: Array = np.full(len(values.launches), np.nan)
    if not found.position.size:
        return result
    _, profile = np.unique(values.launches["profile_id"].to_numpy()[found.position], return_inverse=True)
    counts = np.bincount(profile * len(names) + found.code, minlength=(int(profile.max()) + 1) * len(names))
    # Among equally common ones argmax takes the smallest code, which is the first name.
    kept = found.code == counts.reshape(-1, len(names)).argmax(axis=1)[profile]
    result[found.position[kept]] = found.value[kept]
    return result


def _durations(launches: pd.DataFrame) -> Array:
    own = launches["duration_ns"].astype(float)
    if own.isna().any() and own.notna().any():
        own = own.fillna(own.groupby([launches["profile_id"], launches["kind"]]).transform("mean"))
    return np.asarray(own, dtype=float)


@dataclass(frozen=True)
class Weighing:
    """Weights of the launches of one group.

    Attributes
    ----------
    kind : str
        What they are, a key of `SENTENCES`.
    warp_cycles : ndarray
        Weight of each launch's shares, in proportion to its warp cycles; 0 leaves it out.
    issues : ndarray
        Weight of each launch's warp cycles for each issued instruction.
    """

    kind: str
    warp_cycles: Array
    issues: Array


def weigh(weights: pd.DataFrame, total: Array, *, per_issue: bool) -> Weighing:
    """Choose the best weight that all launches of a group have.

    Parameters
    ----------
    weights : pd.DataFrame
        Rows of `launch_weights`, one a launch of the group.
    total : ndarray
        What the reasons of each launch should add up to, in the unit of the family.
    per_issue : bool
        Whether the family counts warp cycles for each issued instruction: then instructions give the warp cycles
        exactly. For other families time comes first.
    """
    traced = weights["traced_ns"].to_numpy(float)
    warps = weights["warps"].to_numpy(float)
    if np.nansum(traced) > 0:
        time = np.nan_to_num(traced)
        kind = TRACE if np.isnan(warps).any() else TRACE_AND_WARPS
        cycles = time if kind == TRACE else time * warps
        return Weighing(kind, cycles, cycles / total)
    issued = weights["issued"].to_numpy(float)
    if per_issue and _all_known(issued):
        return Weighing(INSTRUCTIONS, issued * total, issued)
    time = weights["time_ns"].to_numpy(float)
    if _all_known(time):
        cycles = time * warps if _all_known(warps) else time
        return Weighing(TIME_AND_WARPS if _all_known(warps) else TIME, cycles, cycles / total)
    if _all_known(issued):
        return Weighing(INSTRUCTIONS, issued, issued / total)
    return Weighing(NOTHING, np.ones_like(total), np.ones_like(total))


def _all_known(values: Array) -> bool:
    return bool(values.size) and not np.isnan(values).any() and float(values.sum()) > 0
