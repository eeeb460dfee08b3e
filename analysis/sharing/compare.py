"""The same jobs under every mechanism, simulated: the counterpart of `analysis.interference.mechanisms` for any set."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pandas as pd

from analysis.errors import StallScopeError
from analysis.interference.mechanisms import COLUMNS, OVERLOADED, figures
from analysis.interference.metrics import p99_inflation
from analysis.sharing.mechanisms import (
    BlockPriority,
    CudaMps,
    CudaMpsPriority,
    Mechanism,
    Mig,
    StaticPartition,
    TimeSlicing,
)
from analysis.sharing.partitions import mig_profiles
from analysis.sharing.profile import Noise
from analysis.sharing.simulate import CoRun, Simulator

Floats = npt.NDArray[np.float64]


def mechanisms_for(simulator: Simulator, k: int) -> list[Mechanism]:
    """Return the mechanisms that a GPU offers for a set of k jobs; where some go first, it is the first job."""
    offered: list[Mechanism] = [
        CudaMps(), CudaMps(percentages=(100.0 / k,) * k), CudaMpsPriority(), TimeSlicing(), StaticPartition(),
        BlockPriority(),
    ]  # fmt: skip
    if mig_profiles(simulator.machine):
        offered.insert(4, Mig())
    return offered


def co_runs(simulator: Simulator, jobs: Sequence[str]) -> list[CoRun]:
    """Co-run a set under every mechanism; where some go first, it is the first job named, whatever it is.

    Parameters
    ----------
    simulator : Simulator
        Knows the GPU and the jobs.
    jobs : sequence of str
        Two to four names.

    Returns
    -------
    list of CoRun
        One a mechanism; one that can't take the set is a run that did not run, with its sentence.
    """
    found: list[CoRun] = []
    for how in mechanisms_for(simulator, len(jobs)):
        try:
            found.extend(simulator.co_run([tuple(jobs)], how))
        except StallScopeError as error:
            found.append(simulator.refused(jobs, how, error.what))
    return found


def as_frame(runs: Sequence[CoRun]) -> pd.DataFrame:
    """Return simulated runs with the columns of `analysis.interference.mechanisms.compare`."""
    rows = [
        {
            "gpu": run.gpu,
            "jobs": tuple(sorted(run.workloads)),
            "k": len(run.workloads),
            "mechanism": run.mechanism,
            "setting": " / ".join(run.labels) if any(run.labels) else "",
            "run_id": number,
            "outcome": run.outcome,
            "note": "; ".join(dict.fromkeys(filter(None, map(run.remark, range(len(run.workloads)))))),
            "overloaded": bool(run.overloaded.any()),
            "simulated": True,
            **figures(run.slowdown, _inflation(run)),
        }
        for number, run in enumerate(runs)
    ]
    return pd.DataFrame(rows, columns=list(COLUMNS))


def _inflation(run: CoRun) -> Floats:
    """Return the p99 inflation of each member; none of them where a server can't keep up."""
    if run.overloaded.any():
        return np.full(len(run.workloads), np.nan)
    return p99_inflation(run.p99_solo_ms, run.p99_ms)


def members(runs: Sequence[CoRun], noise: Noise | None = None) -> pd.DataFrame:
    """Return one row a member of simulated runs.

    Parameters
    ----------
    runs : sequence of CoRun
        As `Simulator.co_run` gives them.
    noise : Noise, optional
        Scatter of the measurement and of each job's solo baseline; none by default.

    Returns
    -------
    pd.DataFrame
        mechanism, setting, workload, first (whether it goes first), slowdown, p50_solo_ms, p50_ms, p99_solo_ms, p99_ms
        (NaN without latency), p50 and p99 of a step, utilisation, outcome (``ran``, ``did_not_run``, or `OVERLOADED`
        for a server whose queue grows without end), note.
    """
    rows = []
    for number, run in enumerate(runs):
        for slot, name in enumerate(run.workloads):
            solo = noise.baseline(run.gpu, name) if noise else 1.0
            shared = noise.member(run.gpu, f"{run.mechanism} {number}", slot) if noise else 1.0
            rows.append(
                {
                    "mechanism": run.mechanism,
                    "setting": run.labels[slot],
                    "workload": name,
                    "first": len(set(run.priority)) > 1 and run.priority[slot] == max(run.priority),
                    "slowdown": float(run.slowdown[slot]) * shared / solo,
                    "p50_solo_ms": float(run.p50_solo_ms[slot]) * solo,
                    "p50_ms": _finite(run.p50_ms[slot]) * shared,
                    "p99_solo_ms": float(run.p99_solo_ms[slot]) * solo,
                    "p99_ms": _finite(run.p99_ms[slot]) * shared,
                    "step_p50_ms": float(run.step_p50_ms[slot]) * shared,
                    "step_p99_ms": float(run.step_p99_ms[slot]) * shared,
                    "utilisation": float(run.utilisation[slot]),
                    "outcome": OVERLOADED if run.overloaded[slot] else run.outcome,
                    "note": run.remark(slot),
                }
            )
    return pd.DataFrame(rows)


def _finite(value: float) -> float:
    return float(value) if np.isfinite(value) else float("nan")


def shares_note(runs: Sequence[CoRun], k: int) -> str:
    """Say that equal shares change with the number of jobs, where some mechanism gave them; empty otherwise."""
    equal = tuple([f"{100 / k:.0f} %"] * k)
    named = list(dict.fromkeys(run.mechanism for run in runs if k > 1 and run.labels == equal))
    if not named:
        return ""
    return (
        f"Equal shares under {' and '.join(named)}: {100 / k:.0f} % of the SMs each. With another number of jobs each "
        "share is another, so a job can get on better beside more jobs: its neighbours got slower with their shares."
    )
