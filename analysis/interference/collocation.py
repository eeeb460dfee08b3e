"""The questions of a collocation study, answered from measured sets: MPS or MIG, memory, MIG profiles, serial gain.

References
----------
.. [1] T. Robroek, E. Yousefzadeh-Asl-Miandoab and P. Tozun, An Analysis of Collocation on GPUs for Deep Learning
   Training, EuroMLSys 2024, 10.1145/3642970.3655827: the questions.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd

from analysis.interference import metrics
from analysis.interference.memory import after_running, capacity, memory_fit, memory_sentence, needs, peaks
from analysis.reference import mig
from analysis.reference.mechanism_names import MPS, MPS_PRIORITY
from analysis.store.database import Database
from analysis.store.filters import Filter
from analysis.store.queries import coruns

_MPS, _MIG = (MPS, MPS_PRIORITY), ("MIG", "MPS inside MIG")


def mps_or_mig(runs: pd.DataFrame) -> pd.DataFrame:
    """Hold the best run of each set under MPS against its best under MIG.

    Parameters
    ----------
    runs : pd.DataFrame
        As `analysis.interference.mechanisms.compare` gives them.

    Returns
    -------
    pd.DataFrame
        One row a set that was tried under both: gpu, jobs, mps and mig (what was best, with its setting), mps_stp,
        mig_stp, mps_worst, mig_worst, better (``MPS``, ``MIG``, ``neither ran``; the larger STP, and what ran where
        only one did).
    """
    rows = []
    for (gpu, jobs), part in runs.groupby(["gpu", "jobs"], sort=True):
        sides = {name: part[part["mechanism"].isin(of)] for name, of in (("mps", _MPS), ("mig", _MIG))}
        if any(side.empty for side in sides.values()):
            continue
        row: dict[str, Any] = {"gpu": gpu, "jobs": jobs}
        for name, side in sides.items():
            ran = side.dropna(subset=["stp"]).sort_values("stp", ascending=False, kind="stable")
            best = ran.iloc[0] if len(ran) else None
            row[name] = "did not run" if best is None else _named(best)
            row[f"{name}_stp"] = math.nan if best is None else float(best["stp"])
            row[f"{name}_worst"] = math.nan if best is None else float(best["worst"])
        left, right = row["mps_stp"], row["mig_stp"]
        row["better"] = "neither ran" if math.isnan(left) and math.isnan(right) else (
            "MPS" if math.isnan(right) or left >= right else "MIG"
        )  # fmt: skip
        rows.append(row)
    columns = ["gpu", "jobs", "better", "mps", "mps_stp", "mps_worst", "mig", "mig_stp", "mig_worst"]
    return pd.DataFrame(rows, columns=columns)


def aggregate_memory(database: Database, dataset: str, runs: pd.DataFrame) -> pd.DataFrame:
    """Say of each set whether its jobs' memory fits in the GPU together.

    Returns
    -------
    pd.DataFrame
        gpu, jobs, memory (fits, tight, does_not_fit, unknown), needed_mib, capacity_mib, sentence.
    """
    known = {str(gpu): peaks(database, dataset, str(gpu)) for gpu in runs["gpu"].unique()}
    all_ran = runs.groupby(["gpu", "jobs"])["stp"].agg(lambda stp: bool(stp.notna().all()))
    rows = []
    for gpu, jobs in dict.fromkeys(zip(runs["gpu"], runs["jobs"], strict=True)):
        at = known[gpu].reindex(list(jobs))
        kinds = [kind if isinstance(kind, str) else None for kind in at["memory_kind"]]
        peak, room = [float(value) for value in at["peak_memory_mib"]], capacity(gpu)
        ran = bool(all_ran.loc[[(gpu, jobs)]].iloc[0])
        memory = after_running(memory_fit(peak, kinds, room), ran)
        needed = float(np.nansum(needs(peak, kinds)))
        rows.append(
            {
                "gpu": gpu, "jobs": jobs, "memory": memory,
                "needed_mib": needed if memory != "unknown" else math.nan, "capacity_mib": room,
                "sentence": memory_sentence(memory, needed, room, kinds, ran=ran),
            }
        )  # fmt: skip
    return pd.DataFrame(rows, columns=["gpu", "jobs", "memory", "needed_mib", "capacity_mib", "sentence"])


def smallest_profiles(database: Database, dataset: str, gpu: str) -> pd.DataFrame:
    """Return the smallest MIG profile that holds each job's memory, and the replicas that a device plugin may make.

    Returns
    -------
    pd.DataFrame
        workload, needed_mib (peak memory with its process's context), one column ``profile_GPU`` for each size of the
        GPU that has MIG (``none``: only the whole GPU, or not even that), replicas (largest R for which the job fits
        in memory / R; NaN where unknown), measured (S in the MIG profiles it was measured in). Jobs without a known
        peak stay in, with ``unknown``.
    """
    here = Filter(datasets=(dataset,), gpus=(gpu,))
    known = peaks(database, dataset, gpu)
    members = coruns.members(database, here)
    names = sorted({*members["workload"], *coruns.solos(database, here)["workload"]})
    sliced = members[members["mig_profile"].notna() & members["slowdown"].notna()]
    medians = sliced.groupby(["workload", "mig_profile"])["slowdown"].median()
    room = capacity(gpu)
    rows = []
    for name in names:
        peak = float(known["peak_memory_mib"].get(name, math.nan))
        kind = known["memory_kind"].get(name)
        needed = float(needs([peak], [kind if isinstance(kind, str) else None])[0])
        row: dict[str, Any] = {"workload": name, "needed_mib": needed}
        for size, table in mig.profiles(gpu).items():
            fitting = table[table["memory_mib"] >= needed]
            first = str(fitting["profile"].iloc[0]) if len(fitting) else "none"
            row[f"profile_{size}"] = "unknown" if math.isnan(needed) else first
        row["replicas"] = math.floor(room / needed) if math.isfinite(needed) and math.isfinite(room) else math.nan
        own = medians.loc[name] if name in medians.index.get_level_values(0) else pd.Series(dtype=float)
        row["measured"] = ", ".join(f"{profile}: {value:.2f} x" for profile, value in own.items())
        rows.append(row)
    return pd.DataFrame(rows)


def serial_gain(database: Database, dataset: str, runs: pd.DataFrame) -> pd.DataFrame:
    """Return what each run gains over taking turns.

    Returns
    -------
    pd.DataFrame
        gpu, jobs, mechanism, setting, run_id, gain (1.3: 30 % more work in the same time), basis: ``these lengths``
        where the jobs' solo times are known (sum of solo times over the makespan), else ``jobs that never run out``
        (STP). The largest first.
    """
    members = coruns.members(database, Filter(datasets=(dataset,)))
    lengths = members[members["measure"] == "time"].groupby("run_id")
    timed = {int(str(run)): part for run, part in lengths if part["solo_value"].notna().all()}
    rows = []
    for run in runs.dropna(subset=["stp"]).to_dict("records"):
        gain, basis = float(run["stp"]), "jobs that never run out"
        part = timed.get(int(run["run_id"]))
        if part is not None and len(part) == run["k"]:
            times = part["solo_value"].to_numpy(float)
            gain = metrics.serial_gain(times, metrics.together_time(times, part["slowdown"].to_numpy(float)))
            basis = "these lengths"
        kept = {name: run[name] for name in ("gpu", "jobs", "mechanism", "setting", "run_id")}
        rows.append({**kept, "gain": gain, "basis": basis})
    table = pd.DataFrame(rows, columns=["gpu", "jobs", "mechanism", "setting", "run_id", "gain", "basis"])
    return table.sort_values("gain", ascending=False, kind="stable").reset_index(drop=True)


def _named(row: pd.Series[Any]) -> str:
    return f"{row['mechanism']} ({row['setting']})" if row["setting"] else str(row["mechanism"])
