"""The online predictor: slowdowns from stall profiles taken *during* a co-run, which only a simulator can give.

Profilers do not work under MPS, so this stays a yardstick: how well stalls would tell a slowdown if they could be seen.
It is labelled online and never ranked with predictors that look at solo profiles only.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import pandas as pd

from analysis.errors import UsageError
from analysis.sharing import engine
from analysis.sharing.corun import GAP, HEAD_OF_LINE, states
from analysis.sharing.simulate import Simulator

#: What every list of predictors says of it.
LABEL: Final = "online: reads co-run stalls"


def co_run_profiles(simulator: Simulator, names: Sequence[str], head_of_line: float = HEAD_OF_LINE) -> pd.DataFrame:
    """Return what a profiler would see of each member's kernels if it could look at one client of CUDA MPS.

    Parameters
    ----------
    simulator : Simulator
        Knows the members.
    names : sequence of str
        The members; none of them a server, whose load a profile does not show.
    head_of_line : float
        How far kernels that don't fit beside each other take turns.

    Returns
    -------
    pd.DataFrame
        One row a member and kernel: member (position), workload, kernel, time_us (alone, of a step), and, alone and
        together, warps (resident on a sub-partition) and cycles (warp cycles for each issued instruction), averaged
        over the phases of the others. A row of kernel ``""`` is the gap between kernels.

    Raises
    ------
    UsageError
        If a member is a server.
    """
    jobs = simulator.jobs
    places = [simulator.workloads.index(name) for name in names]
    if any(jobs.workloads[place].service for place in places):
        raise UsageError("an online profile needs jobs that run all the time", "Leave servers out.")
    shape = tuple(len(jobs.rows[place]) for place in places)
    at = engine.phase_combinations(shape)
    rows = np.stack([jobs.rows[place][at[:, i]] for i, place in enumerate(places)], axis=1)
    mixed = states(jobs.kernels, jobs.alone, rows, None, head_of_line)
    speed = np.minimum(mixed.speed, 1.0)
    length = np.zeros((1, len(places), max(shape)))
    for i, place in enumerate(places):
        length[0, i, : shape[i]] = jobs.lengths_us[place]
    share = engine.occupancy(shape, speed[None], length)[0]
    found = []
    for i, place in enumerate(places):
        for number, row in enumerate(jobs.rows[place]):
            here = at[:, i] == number
            weight = share[here] / share[here].sum()
            one = {"member": i, "workload": names[i], "kernel": "", "time_us": jobs.lengths_us[place][number]}
            if row != GAP:
                issued = float(jobs.alone.throughput[row])
                alone = states(jobs.kernels, jobs.alone, np.array([[row]], dtype=np.intp), None, 0.0)
                warps, warps_alone = float(weight @ mixed.population[here, i]), float(alone.population[0, 0])
                pace = float(weight @ speed[here, i])
                one |= {
                    "kernel": f"{number}: {jobs.kernels.kernels[row].name}",
                    "warps": warps_alone, "cycles": warps_alone / issued,
                    "warps_together": warps, "cycles_together": warps / (pace * issued),
                }  # fmt: skip
            found.append(one)
    return pd.DataFrame(found)


def predict_online(profile: pd.DataFrame) -> pd.Series[float]:
    """Return slowdowns from stall profiles of a co-run.

    A kernel issues at warps / warp cycles for each issue; alone over together is its slowdown.

    Parameters
    ----------
    profile : pd.DataFrame
        As `co_run_profiles` gives it.

    Returns
    -------
    pd.Series
        S by member (its position).
    """
    speed = (profile["warps_together"] / profile["cycles_together"]) / (profile["warps"] / profile["cycles"])
    slowed = profile["time_us"] / speed.where(profile["kernel"] != "", 1.0)
    sums = slowed.groupby(profile["member"]).sum() / profile["time_us"].groupby(profile["member"]).sum()
    return sums.rename("slowdown")


def beside_truth(simulator: Simulator, names: Sequence[str]) -> pd.DataFrame:
    """Set what the online variant reads out of a set's stalls under CUDA MPS beside the simulated slowdown.

    Parameters
    ----------
    simulator : Simulator
        Knows the members.
    names : sequence of str
        Two to four jobs, none of them a server.

    Returns
    -------
    pd.DataFrame
        One row a member: workload, co_workloads, gpu, slowdown (simulated), online, label, simulated. Empty when the
        set does not fit.

    Raises
    ------
    UsageError
        If a member is a server.
    """
    said = predict_online(co_run_profiles(simulator, names))
    run = simulator.co_run([tuple(names)])[0]
    rows = [
        {
            "workload": name,
            "co_workloads": [*names[:slot], *names[slot + 1 :]],
            "gpu": simulator.machine.name,
            "slowdown": float(run.slowdown[slot]),
            "online": float(said[slot]),
            "label": LABEL,
            "simulated": True,
        }
        for slot, name in enumerate(names)
        if run.outcome == "ran"
    ]
    columns = ["workload", "co_workloads", "gpu", "slowdown", "online", "label", "simulated"]
    return pd.DataFrame(rows, columns=columns)
