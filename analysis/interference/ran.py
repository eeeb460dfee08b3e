"""Which sets of clients ran on a GPU, what each client paid, and which of it is to be doubted."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import pandas as pd

from analysis.interference.matrix import DOUBTFUL_FLAGS
from analysis.interference.rules.baselines import FASTER_THAN_ALONE, flagged_workloads
from analysis.store.database import Database
from analysis.store.filters import Filter
from analysis.store.queries import coruns

#: Thread percentage of an MPS client without a cap.
UNCAPPED = 100.0

#: A workload and its MPS thread percentage.
Client: TypeAlias = tuple[str, float]


@dataclass(frozen=True)
class Ran:
    """Runs of one set of clients.

    Attributes
    ----------
    ran, failed : int
        Runs that ran, and that did not.
    slowdowns : mapping of client to float
        Median S of each client over the runs; clients of one name and cap share their mean; NaN where unknown.
    worst : float
        Largest S of a run, the median over the runs.
    doubtful : tuple of str
        Jobs whose value is marked, or that ran faster beside the others than alone.
    simulated : bool
        Whether a simulator ran any of them.
    """

    ran: int
    failed: int
    slowdowns: Mapping[Client, float]
    worst: float
    doubtful: tuple[str, ...]
    simulated: bool

    def of(self, clients: Sequence[Client]) -> tuple[float, ...]:
        """Return the slowdowns in the order of the clients; empty where one is unknown."""
        found = tuple(self.slowdowns.get(client, math.nan) for client in clients)
        return found if all(math.isfinite(value) for value in found) else ()


@dataclass(frozen=True)
class RanSets:
    """All sets that ran in one place.

    Attributes
    ----------
    sets : mapping
        Sorted clients -> their runs.
    flagged : frozenset of str
        Workloads whose solo baseline is off.
    """

    sets: Mapping[tuple[Client, ...], Ran]
    flagged: frozenset[str]

    def get(self, jobs: Sequence[str], caps: Sequence[float] = ()) -> Ran | None:
        """Return the runs of exactly these jobs under these caps; without caps by default."""
        return self.sets.get(tuple(sorted(clients(jobs, caps))))

    def doubtful(self, jobs: Sequence[str], found: Ran | None) -> tuple[str, ...]:
        """Return the jobs of a set that are to be doubted."""
        bad = self.flagged | set(found.doubtful if found else ())
        return tuple(dict.fromkeys(job for job in jobs if job in bad))


def clients(jobs: Sequence[str], caps: Sequence[float] = ()) -> list[Client]:
    """Return jobs with their caps."""
    given = caps or (UNCAPPED,) * len(jobs)
    return [(job, float(cap)) for job, cap in zip(jobs, given, strict=True)]


def ran_sets(database: Database, datasets: Sequence[str], gpu: str, mechanism: str) -> RanSets:
    """Return every set of clients that was run on a GPU under a mechanism.

    Parameters
    ----------
    database : Database
        The open database.
    datasets : sequence of str
        Where to look; a run lies within one of them.
    gpu, mechanism : str
        As stored.
    """
    key = (tuple(datasets), gpu, mechanism)
    return database.cached("sets that ran", key, lambda: _read(database, *key))


def _read(database: Database, datasets: tuple[str, ...], gpu: str, mechanism: str) -> RanSets:
    flagged = frozenset(job for one in datasets for _, job in flagged_workloads(database, one, gpu))
    members = coruns.members(database, Filter(datasets, (gpu,), (mechanism,)))
    if members.empty:
        return RanSets({}, flagged)
    cap = members["thread_percentage"].astype(float).fillna(UNCAPPED)
    pairs: list[Any] = list(zip(members["workload"].astype(str), cap, strict=True))
    members = members.assign(client=pd.Series(pairs, index=members.index, dtype=object))
    sound = (members["run_outcome"] == "ran") & (members["outcome"] == "ran")
    members = members.assign(
        slowdown=members["slowdown"].where(sound),
        marked=[bool(DOUBTFUL_FLAGS.intersection(flags)) for flags in members["flags"]],
    )
    runs: dict[tuple[Client, ...], list[pd.DataFrame]] = {}
    for _, run in members.groupby("run_id", sort=False):
        runs.setdefault(tuple(sorted(run["client"])), []).append(run)
    return RanSets({key: _ran(found) for key, found in runs.items()}, flagged)


def _ran(runs: Sequence[pd.DataFrame]) -> Ran:
    of_client: dict[Client, list[float]] = {}
    worst, marked, fine = [], [], []
    ran = 0
    for run in runs:
        values = run["slowdown"].to_numpy(dtype=np.float64)
        if str(run["run_outcome"].iloc[0]) != "ran":
            continue
        ran += 1
        marked.append({str(job) for job, bad in zip(run["workload"], run["marked"], strict=True) if bad})
        if not np.isfinite(values).all():
            continue
        fine.append(marked[-1])
        worst.append(float(values.max()))
        own: dict[Client, list[float]] = {}
        for client, value in zip(run["client"], values, strict=True):
            own.setdefault(client, []).append(float(value))
        for client, found in own.items():
            of_client.setdefault(client, []).append(float(np.mean(found)))
    slow = {client: float(np.median(found)) for client, found in of_client.items()}
    fast = {job for (job, cap), value in slow.items() if value < FASTER_THAN_ALONE}
    # A mark counts where no run is without it.
    doubted = set.intersection(*fine) if fine else set()
    return Ran(
        ran, len(runs) - ran, slow, float(np.median(worst)) if worst else math.nan, tuple(sorted(fast | doubted)),
        any(bool(run["simulated"].any()) for run in runs),
    )  # fmt: skip
