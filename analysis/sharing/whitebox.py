"""The white-box predictor: slowdowns from solo profiles by queueing theory, without a single measured co-run.

It recovers the service demands of each job from its stall profile and utilisations, and solves the network of the jobs
together. With StallScope's own simulator it shares its model, so its figures on such data say nothing about hardware:
it stays out of rankings on them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt
import pandas as pd

from analysis.errors import NotEnoughDataError
from analysis.ingest.formats.ncu.advice import COMMAND
from analysis.numbers import volume
from analysis.sharing import engine
from analysis.sharing.corun import HEAD_OF_LINE
from analysis.sharing.demands import machine
from analysis.sharing.mechanisms import CudaMps, Mechanism
from analysis.sharing.recover import NEEDED, Recovered, recover
from analysis.store.database import Database
from analysis.store.filters import Filter
from analysis.store.queries import coruns, profiles

Floats = npt.NDArray[np.float64]

#: Metric, in percent of peak or as it stands, and the column and factor that it becomes.
_METRICS: Final[dict[str, tuple[str, float]]] = {
    "smsp__issue_active.avg.pct_of_peak_sustained_active": ("issue_active", 0.01),
    "Issue Slots Busy": ("issue_active", 0.01),
    "One or More Eligible": ("issue_active", 0.01),
    "smsp__issue_active.avg.per_cycle_active": ("issue_active", 1.0),
    "sm__warps_active.avg.pct_of_peak_sustained_active": ("occupancy", 0.01),
    "Achieved Occupancy": ("occupancy", 0.01),
    "sm__pipe_fma_cycles_active.avg.pct_of_peak_sustained_active": ("math", 0.01),
    "sm__inst_executed_pipe_fma.avg.pct_of_peak_sustained_active": ("math", 0.01),
    "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active": ("tensor", 0.01),
    "sm__inst_executed_pipe_tensor.avg.pct_of_peak_sustained_active": ("tensor", 0.01),
    "l1tex__data_pipe_lsu_wavefronts_mem_shared.avg.pct_of_peak_sustained_elapsed": ("mio", 0.01),
    "l1tex__data_pipe_lsu_wavefronts.avg.pct_of_peak_sustained_elapsed": ("lsu", 0.01),
    "lts__throughput.avg.pct_of_peak_sustained_elapsed": ("l2", 0.01),
    "L2 Cache Throughput": ("l2", 0.01),
    "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed": ("dram", 0.01),
    "dram__throughput.avg.pct_of_peak_sustained_elapsed": ("dram", 0.01),
    "DRAM Throughput": ("dram", 0.01),
    "lts__t_sector_hit_rate.pct": ("l2_hit", 0.01),
    "L2 Hit Rate": ("l2_hit", 0.01),
    "launch__registers_per_thread": ("registers", 1.0),
    "Registers Per Thread": ("registers", 1.0),
    "launch__shared_mem_per_block_static": ("shared_kib", 1 / 1024),
    "Static Shared Memory Per Block": ("shared_kib", 1 / 1024),
    "launch__grid_size": ("grid", 1.0),
    "Grid Size": ("grid", 1.0),
    "launch__block_size": ("threads", 1.0),
    "Block Size": ("threads", 1.0),
}


def read_profiles(database: Database, chosen: Filter) -> pd.DataFrame:
    """Return what the predictor needs of the profiles in the database, one row a launch.

    Parameters
    ----------
    database : Database
        The open database.
    chosen : Filter
        Profiles to read.

    Returns
    -------
    pd.DataFrame
        workload, gpu, kernel, invocations, duration_us; fractions of peak issue_active, occupancy, math, tensor, mio,
        lsu, l2, dram, l2_hit; registers, shared_kib, grid, threads; one column a stall reason in warp cycles for each
        issued instruction; duty, the share of a step with a kernel on the GPU. NaN where the profile does not say.
    """
    kernels = profiles.kernels(database, chosen)
    base = kernels[["kernel_id", "workload", "gpu", "kernel", "invocations"]].copy()
    base["duration_us"] = kernels["duration_ns"].astype(float) / 1e3
    for column, text in (("grid", kernels["grid"]), ("threads", kernels["block"])):
        base[column] = [volume(value) for value in text]
    long = profiles.metrics(database, chosen, tuple(_METRICS)).dropna(subset=["value"])
    long["column"] = [_METRICS[name][0] for name in long["metric"]]
    long["value"] = [v * _METRICS[name][1] for name, v in zip(long["metric"], long["value"].astype(float), strict=True)]
    wide = long.pivot_table(index="kernel_id", columns="column", values="value", aggfunc="first")
    stalls = profiles.stall_metrics(database, chosen).dropna(subset=["value"])
    frame = base.set_index("kernel_id")
    for part in (wide, _cycles(stalls), _cycles_of_shares(stalls)):
        frame = frame.combine_first(part)
    return frame.reset_index(drop=True).assign(duty=_duty(database, chosen, frame))


def _cycles(stalls: pd.DataFrame) -> pd.DataFrame:
    """Return stall reasons in warp cycles for each issued instruction, where they are stated so."""
    own = stalls[stalls["stall_family"] == "per_issue_active"]
    ratios = own["metric"].str.endswith(".ratio") | ~own["metric"].str.contains(".", regex=False)
    return own[ratios].pivot_table(index="kernel_id", columns="reason", values="value", aggfunc="first")


def _cycles_of_shares(stalls: pd.DataFrame) -> pd.DataFrame:
    """Turn shares of warp cycles into cycles for each issued instruction: an issue is one cycle of *selected*."""
    own = stalls[(stalls["stall_family"] == "per_warp_active") & stalls["metric"].str.endswith(".pct")]
    shares = own.pivot_table(index="kernel_id", columns="reason", values="value", aggfunc="first")
    if "selected" not in shares:
        return shares.iloc[:0]
    return shares.div(shares["selected"].where(shares["selected"] > 0), axis=0)


def missing(frame: pd.DataFrame) -> list[str]:
    """Return what profiles lack for this predictor, in words; empty when they suffice.

    Parameters
    ----------
    frame : pd.DataFrame
        As `read_profiles` gives it.
    """
    words = {
        "duration_us": "kernel durations", "issue_active": "issue activity", "warps": "achieved occupancy",
        "dram": "DRAM throughput", "long_scoreboard": "stall reasons in cycles", "wait": "stall reasons in cycles",
    }  # fmt: skip
    given = frame.rename(columns={"occupancy": "warps"})
    return list(dict.fromkeys(words[name] for name in NEEDED if name not in given or given[name].isna().all()))


def recover_jobs(frame: pd.DataFrame, gpu: str) -> Recovered | None:
    """Recover the jobs that were profiled on a GPU; None where no profile there has all that it takes.

    Parameters
    ----------
    frame : pd.DataFrame
        Profiles of jobs alone, as `read_profiles` gives them; rows of other GPUs are left out.
    gpu : str
        The GPU, by the name in the frame.

    Raises
    ------
    NotFoundError
        If nothing is published of the GPU.
    """
    here = frame[frame["gpu"] == gpu].copy()
    if missing(here):
        return None
    here["warps"] = here["occupancy"] * _max_warps(gpu)
    complete = here.dropna(subset=list(NEEDED))
    return None if complete.empty else recover(complete, gpu)


def solve_sets(
    recovered: Recovered, sets: Sequence[Sequence[str]], how: Mechanism, *, head_of_line: float = HEAD_OF_LINE
) -> list[Floats]:
    """Solve the networks of sets of recovered jobs, all at once.

    Parameters
    ----------
    recovered : Recovered
        As `recover_jobs` gives it.
    sets : sequence of sequence of str
        Names of the members; a name may stand twice.
    how : Mechanism
        How they share.
    head_of_line : float
        How far kernels that don't fit beside each other take turns.

    Returns
    -------
    list of ndarray
        S of each member; NaN for all of a set in which one was not recovered.
    """
    results = [np.full(len(names), np.nan) for names in sets]
    place = {name: number for number, name in enumerate(recovered.names)}
    known = [number for number, names in enumerate(sets) if all(name in place for name in names)]
    where = recovered.jobs.kernels.machine
    groups = [(tuple(place[name] for name in sets[number]), how.layout(where, len(sets[number]))) for number in known]
    for number, values in zip(known, engine.slowdowns(recovered.jobs, groups, how, head_of_line), strict=True):
        results[number] = values
    return results


def predict_slowdowns(
    frame: pd.DataFrame,
    sets: Sequence[Sequence[str]],
    gpu: str,
    mechanism: Mechanism | None = None,
    *,
    head_of_line: float = HEAD_OF_LINE,
) -> list[Floats]:
    """Predict the slowdown of every member of every set from solo profiles.

    Parameters
    ----------
    frame : pd.DataFrame
        Profiles of the members alone, as `read_profiles` gives them; rows of other GPUs are left out.
    sets : sequence of sequence of str
        Names of the members; a name may stand twice.
    gpu : str
        The GPU, by the name in the frame.
    mechanism : Mechanism, optional
        How they share; CUDA MPS by default.
    head_of_line : float
        How far kernels that don't fit beside each other take turns.

    Returns
    -------
    list of ndarray
        S of each member; NaN for all of a set in which one has no profile.

    Raises
    ------
    NotEnoughDataError
        If the profiles lack something for all jobs.
    """
    lacks = missing(frame)
    if lacks:
        raise NotEnoughDataError(
            f"the profiles lack {', '.join(lacks)}", f"Profile with `{COMMAND}`, or see the guide for the metrics."
        )
    recovered = recover_jobs(frame, gpu)
    if recovered is None:
        return [np.full(len(names), np.nan) for names in sets]
    return solve_sets(recovered, sets, mechanism or CudaMps(), head_of_line=head_of_line)


def _max_warps(gpu: str) -> float:
    where = machine(gpu)
    return where.max_warps / where.parts


def _duty(database: Database, chosen: Filter, frame: pd.DataFrame) -> Floats:
    """Return the GPU-busy share of each row's job, where it is published; NaN elsewhere."""
    features = coruns.features(database, chosen)
    known = features[features["name"].isin(["sm_util", "sm%", "gpu_util", "duty_cycle"])].dropna(subset=["value"])
    share = known.drop_duplicates(["workload", "gpu"]).set_index(["workload", "gpu"])["value"] / 100
    keys = pd.MultiIndex.from_frame(frame[["workload", "gpu"]])
    return share.reindex(keys).to_numpy(dtype=float)
