"""Sets of jobs through the white-box model: what it reads of each job, and each different set solved once."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from analysis.errors import StallScopeError
from analysis.predict.frame.schema import Floats
from analysis.reference import gpus as reference
from analysis.reference.mechanism_names import MPS, MPS_PRIORITY, STREAMS
from analysis.sharing import mechanisms
from analysis.sharing.causes import Cause, causes
from analysis.sharing.mechanisms import Mechanism
from analysis.sharing.whitebox import missing, read_profiles, recover_jobs, solve_sets
from analysis.store.database import Database
from analysis.store.filters import Filter

#: Column of a table of profiles with what the model reads of each job.
LAUNCHES = "launches"
#: Larger sets are left open: the states of a set grow with the power of its jobs' phases.
LARGEST_SET = 4


@dataclass(frozen=True)
class SetQuery:
    """A set whose slowdowns are asked for.

    Attributes
    ----------
    gpu, mechanism : str
        Where and how they share.
    jobs : tuple of str
        Names; one may stand twice.
    percentages : tuple of float
        MPS thread percentage or share of the SMs of each; empty where none is set.
    first : tuple of bool
        Who goes first; empty where that isn't known.
    profiles : tuple of str
        MIG profile of each; empty where not known.
    """

    gpu: str
    mechanism: str
    jobs: tuple[str, ...]
    percentages: tuple[float, ...] = ()
    first: tuple[bool, ...] = ()
    profiles: tuple[str, ...] = ()

    def ordered(self) -> tuple[SetQuery, tuple[int, ...]]:
        """Return the same set in one order whatever order it came in, and where each member came from."""
        keys = [
            tuple(values[place] for values in (self.jobs, self.percentages, self.first, self.profiles) if values)
            for place in range(len(self.jobs))
        ]
        order = tuple(sorted(range(len(keys)), key=lambda place: keys[place]))

        def turned(values: tuple[Any, ...]) -> tuple[Any, ...]:
            return tuple(values[place] for place in order) if values else ()

        same = SetQuery(
            self.gpu, self.mechanism, turned(self.jobs), turned(self.percentages), turned(self.first),
            turned(self.profiles),
        )  # fmt: skip
        return same, order


def attach(table: pd.DataFrame, database: Database, dataset: str) -> pd.DataFrame:
    """Put what the predictor reads of each job beside its solo profile.

    Parameters
    ----------
    table : pd.DataFrame
        Profiles as `profiles.collect` returns them, index (gpu, workload).
    database : Database
        The open database.
    dataset : str
        Where the profiles are.

    Returns
    -------
    pd.DataFrame
        The table with a column `LAUNCHES`: the job's rows of `sharing.whitebox.read_profiles`; NaN without a profile.
        The table as it was where no profile has what the model needs.
    """
    found = launches_of(database, dataset)
    if missing(found):
        return table
    by_job = dict(iter(found.groupby(["gpu", "workload"], sort=False)))
    launches = np.full(len(table), np.nan, dtype=object)
    for place, key in enumerate(table.index):
        if key in by_job:
            launches[place] = by_job[key]
    return table.assign(**{LAUNCHES: launches})


def launches_of(database: Database, dataset: str) -> pd.DataFrame:
    """Return `sharing.whitebox.read_profiles` of a data set, read once; nobody may change it."""
    return database.cached("launches", dataset, lambda: read_profiles(database, Filter(datasets=(dataset,))))


def solve(table: pd.DataFrame, asked: Sequence[SetQuery]) -> list[Floats]:
    """Return ln S of every member of every set, each different set solved once, all of a GPU and mechanism together.

    Parameters
    ----------
    table : pd.DataFrame
        Profiles with the column `LAUNCHES`.
    asked : sequence of SetQuery
        The sets.

    Returns
    -------
    list of ndarray
        ln S in the order of the set's jobs; NaN where a job has no full profile on that GPU, the set has more than
        `LARGEST_SET` jobs, or who was given what is not known.
    """
    ordered = [one.ordered() for one in asked]
    groups: dict[tuple[str, Mechanism], list[SetQuery]] = defaultdict(list)
    for one in dict.fromkeys(same for same, _ in ordered):
        how = mechanism_of(one)
        if how is not None and 2 <= len(one.jobs) <= LARGEST_SET:
            groups[one.gpu, how].append(one)
    solved: dict[SetQuery, Floats] = {}
    for gpu in dict.fromkeys(gpu for gpu, _ in groups):
        try:
            recovered = recover_jobs(_launches(table, gpu), gpu)
        except StallScopeError:  # a GPU of which nothing is published
            continue
        if recovered is None:
            continue
        for (place, how), sets in groups.items():
            if place != gpu:
                continue
            try:
                values = solve_sets(recovered, [one.jobs for one in sets], how)
            except StallScopeError:  # shares or instances that this GPU can't give
                continue
            solved.update(zip(sets, values, strict=True))
    results = []
    for same, order in ordered:
        said = np.full(len(order), np.nan)
        if same in solved:
            said[list(order)] = np.log(solved[same])
        results.append(said)
    return results


def causes_of(table: pd.DataFrame, asked: SetQuery) -> list[list[Cause]] | None:
    """Return what each co-runner's use of each resource costs each member of a set.

    Parameters
    ----------
    table : pd.DataFrame
        Profiles with the column `LAUNCHES`.
    asked : SetQuery
        The set.

    Returns
    -------
    list of list of Cause or None
        In the order of the set's jobs, whose places the causes name; None where `solve` has no figure.
    """
    same, order = asked.ordered()
    how = mechanism_of(same)
    if how is None or not 2 <= len(same.jobs) <= LARGEST_SET:
        return None
    try:
        recovered = recover_jobs(_launches(table, same.gpu), same.gpu)
        if recovered is None or not set(same.jobs) <= set(recovered.names):
            return None
        found = causes(recovered, same.jobs, how)
    except StallScopeError:  # nothing is published of the GPU, or it can't give these shares
        return None
    results: list[list[Cause]] = [[] for _ in order]
    for place, member in zip(order, found, strict=True):
        results[place] = [replace(one, by=None if one.by is None else order[one.by]) for one in member]
    return results


def mechanism_of(asked: SetQuery) -> Mechanism | None:
    """Return the mechanism of a set as the queueing model knows it; None where it doesn't, or lacks who got what."""
    name, first = asked.mechanism, tuple(place for place, high in enumerate(asked.first) if high)
    capped = any(part < 100 for part in asked.percentages)
    ranked = 0 < len(first) < len(asked.jobs)
    known: dict[str, Mechanism | None] = {
        "exclusive": mechanisms.Exclusive(),
        "time-slicing": mechanisms.TimeSlicing(),
        MPS: mechanisms.CudaMps(percentages=asked.percentages if capped else ()),
        # Streams of one process meet on the SMs as the clients of MPS do: one hardware scheduler, leftover policy.
        STREAMS: mechanisms.CudaMps(),
        MPS_PRIORITY: mechanisms.CudaMpsPriority(first) if ranked else None,
        "static SM partition": mechanisms.StaticPartition(asked.percentages if capped else ()),
        "block-level priority (Tally)": mechanisms.BlockPriority(first) if ranked else None,
        "MIG": mechanisms.Mig(asked.profiles) if asked.profiles else None,
    }
    return known.get(name)


def _launches(table: pd.DataFrame, gpu: str) -> pd.DataFrame:
    """Return the launches of all jobs of a GPU; a profile that came from another GPU says nothing here."""
    here = table.loc[table.index.get_level_values("gpu") == gpu, LAUNCHES]
    parts = [part for part in here if isinstance(part, pd.DataFrame) and _same(gpu, str(part["gpu"].iloc[0]))]
    if not parts:
        return pd.DataFrame(columns=["gpu", "workload"])
    return pd.concat(parts, ignore_index=True).assign(gpu=gpu)


def _same(gpu: str, other: str) -> bool:
    return gpu == other or reference.matches(gpu, other) or reference.matches(other, gpu)


def of_members(members: pd.DataFrame) -> list[SetQuery]:
    """Return the sets of runs, in the order of their first members.

    Parameters
    ----------
    members : pd.DataFrame
        Members in the order of run and slot: run_id, workload, gpu, mechanism, thread_percentage; priority and
        mig_profile where they are known.
    """
    runs = members["run_id"].to_numpy()
    starts = np.flatnonzero(np.append(True, runs[1:] != runs[:-1])) if len(runs) else np.array([], dtype=int)
    ends = np.append(starts[1:], len(runs))
    jobs = members["workload"].astype(str).tolist()
    gpu, mechanism = members["gpu"].astype(str).tolist(), members["mechanism"].astype(str).tolist()
    part = members["thread_percentage"].to_numpy(dtype=np.float64)
    part = np.where(np.isnan(part) & members["mechanism"].astype(str).str.startswith(MPS), 100.0, part).tolist()
    nothing = [None] * len(members)
    priority = members["priority"].tolist() if "priority" in members else nothing
    profile = members["mig_profile"].tolist() if "mig_profile" in members else nothing
    found = []
    for start, end in zip(starts.tolist(), ends.tolist(), strict=True):
        parts, ranks, slices = part[start:end], priority[start:end], profile[start:end]
        found.append(
            SetQuery(
                gpu[start], mechanism[start], tuple(jobs[start:end]),
                tuple(parts) if not any(np.isnan(parts)) else (),
                tuple(rank == "high" for rank in ranks) if all(isinstance(rank, str) for rank in ranks) else (),
                tuple(map(str, slices)) if all(isinstance(one, str) and one for one in slices) else (),
            )
        )  # fmt: skip
    return found
