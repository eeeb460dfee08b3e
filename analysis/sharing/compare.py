"""The same jobs under every mechanism, simulated: the counterpart of `analysis.interference.mechanisms` for any set."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from analysis.errors import StallScopeError
from analysis.interference.mechanisms import COLUMNS, figures
from analysis.interference.metrics import p99_inflation
from analysis.sharing.layout import mig_profiles
from analysis.sharing.mechanisms import (
    BlockPriority,
    CudaMps,
    CudaMpsPriority,
    Mechanism,
    Mig,
    StaticPartition,
    TimeSlicing,
)
from analysis.sharing.simulate import CoRun, Simulator


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
    """Co-run a set under every mechanism; servers stand first, so that they are the ones that go first.

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
    serving = {job.name for job in simulator.jobs.workloads if job.service}
    ordered = sorted(jobs, key=lambda name: name not in serving)
    found: list[CoRun] = []
    for how in mechanisms_for(simulator, len(ordered)):
        try:
            found.extend(simulator.co_run([ordered], how))
        except StallScopeError as error:
            found.append(simulator.refused(ordered, how, error.what))
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
            "note": run.note,
            "simulated": True,
            **figures(run.slowdown, p99_inflation(run.p99_solo_ms, run.p99_ms)),
        }
        for number, run in enumerate(runs)
    ]
    return pd.DataFrame(rows, columns=list(COLUMNS))


def members(runs: Sequence[CoRun]) -> pd.DataFrame:
    """Return one row a member of simulated runs: mechanism, setting, workload, first, slowdown, latencies, outcome."""
    return pd.DataFrame(
        [
            {
                "mechanism": run.mechanism,
                "setting": run.labels[slot],
                "workload": name,
                "first": len(set(run.priority)) > 1 and run.priority[slot] == max(run.priority),
                "slowdown": float(run.slowdown[slot]),
                "p50_solo_ms": float(run.p50_solo_ms[slot]),
                "p50_ms": float(run.p50_ms[slot]),
                "p99_solo_ms": float(run.p99_solo_ms[slot]),
                "p99_ms": float(run.p99_ms[slot]),
                "step_p99_ms": float(run.step_p99_ms[slot]),
                "outcome": run.outcome,
                "note": run.note,
            }
            for run in runs
            for slot, name in enumerate(run.workloads)
        ]
    )
