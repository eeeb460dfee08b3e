"""Finds the profiles of a set of jobs, wherever they are, and builds the rows that a model is asked about."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from analysis.errors import NotEnoughDataError, NotFoundError, UsageError
from analysis.ingest.formats.ncu.advice import COMMAND
from analysis.predict.frame import profiles, whitebox_sets
from analysis.predict.frame.features import rows_for_sets
from analysis.predict.frame.terms import WHITE_BOX
from analysis.predict.models.manifest import Manifest
from analysis.reference import gpus as reference
from analysis.reference.mechanism_names import MPS
from analysis.store.database import Database
from analysis.store.filters import Filter
from analysis.store.queries.sources import workloads

#: Thread percentage of an MPS client without a cap.
UNCAPPED = 100.0


@dataclass(frozen=True)
class Gathered:
    """The rows of a set, with what is to be said about where they came from.

    Attributes
    ----------
    X : pd.DataFrame
        One row a job.
    profiles : dict of str to pd.Series
        Solo profile of each job, with the columns of `profiles.collect`.
    gpu, mechanism : str
        Canonical.
    notes : tuple of str
        Reasons why the whole set is beyond the model's data.
    calibrated : bool
        Whether the model's measured co-runs speak for this set: same data set, GPU and mechanism.
    datasets : tuple of str
        Where the jobs are.
    caps : tuple of float
        MPS thread percentage of each job, 100 without a cap.
    """

    X: pd.DataFrame
    profiles: dict[str, pd.Series[Any]]
    gpu: str
    mechanism: str
    notes: tuple[str, ...]
    calibrated: bool
    datasets: tuple[str, ...] = ()
    caps: tuple[float, ...] = ()


def gather(
    database: Database,
    manifest: Manifest,
    gpu: str,
    jobs: Sequence[str],
    mechanism: str | None = None,
    dataset: str | None = None,
    caps: Sequence[float | None] | None = None,
) -> Gathered:
    """Find the jobs' profiles and build their rows; see `predict_jobs`."""
    if len(jobs) < 2:
        raise UsageError("a set needs at least two jobs", "Name two or more with --job.")
    seen = reference.resolve(gpu, manifest.gpus)
    where = seen[0] if seen else reference.canonical(gpu)
    how = mechanism or manifest.mechanisms[0]
    notes: list[str] = []
    if not seen and manifest.runs:
        notes.append(f"the model has seen {', '.join(manifest.gpus)}, not {where}")
    if how not in manifest.mechanisms:
        notes.append(f"the model has seen {', '.join(manifest.mechanisms)}, not {how}")
    given = _caps(jobs, caps, how)
    capped = any(cap < UNCAPPED for cap in given)
    if capped and "own_thread_percentage" not in manifest.ranges and manifest.predictor != "white-box":
        said = ", ".join(f"{cap:g} %" for cap in given)
        notes.append(f"the model has seen no capped client and takes no account of thread percentages of {said}")
    if len(jobs) not in manifest.k:
        notes.append(f"the model has seen sets of {', '.join(map(str, manifest.k))}, not of {len(jobs)}")
    homes = _homes(database, manifest, jobs, dataset)
    found: dict[str, pd.Series[Any]] = {}
    for name in sorted(set(homes.values())):
        table = profiles.collect(database, name)
        if WHITE_BOX in manifest.columns:
            table = whitebox_sets.attach(table, database, name)
        mine = [job for job in dict.fromkeys(jobs) if homes[job] == name]
        if name != manifest.dataset:
            notes.append(f"{', '.join(mine)} come from data set {name}, the model learned from {manifest.dataset}")
        for job in mine:
            row, note = _profile(table, where, job)
            if note:
                notes.append(note)
            found[job] = row
    table = pd.DataFrame(list(found.values()))
    table.index = pd.MultiIndex.from_tuples([(where, job) for job in found], names=["gpu", "workload"])
    X = rows_for_sets(table, [tuple(jobs)], where, how, percentages=[given] if capped else None)
    if manifest.predictor == "white-box" and X[WHITE_BOX].isna().any():
        raise NotEnoughDataError(
            f"the white box has no figure for this set on {where} under {how}; it needs: stall profiles",
            f"Profile each job alone on {where} with `{COMMAND}`; it knows sets of up to "
            f"{whitebox_sets.LARGEST_SET} under CUDA MPS, time-slicing and static SM partition.",
        )
    inside = set(homes.values()) == {manifest.dataset} and bool(seen) and how in manifest.mechanisms
    inside &= manifest.runs > 0  # a model that has seen no co-run speaks for none
    inside &= not capped or "own_thread_percentage" in manifest.ranges
    return Gathered(X, found, where, how, tuple(notes), inside, tuple(sorted(set(homes.values()))), given)


def _caps(jobs: Sequence[str], caps: Sequence[float | None] | None, mechanism: str) -> tuple[float, ...]:
    """Return each client's thread percentage; refuse what MPS would refuse."""
    if caps is None:
        return (UNCAPPED,) * len(jobs)
    given = tuple(UNCAPPED if cap is None else float(cap) for cap in caps)
    if len(given) != len(jobs):
        raise UsageError(f"{len(given)} thread percentages are given for {len(jobs)} jobs", "Give one for each job.")
    if any(not 0 < cap <= UNCAPPED for cap in given):
        raise UsageError("a thread percentage is above 0 and at most 100", "100 leaves a client without a cap.")
    if any(cap < UNCAPPED for cap in given) and not mechanism.startswith(MPS):
        raise UsageError(f"thread percentages belong to CUDA MPS, not to {mechanism}", "Leave them out.")
    return given


def _homes(database: Database, manifest: Manifest, jobs: Sequence[str], dataset: str | None) -> dict[str, str]:
    """Return the data set of each job: the one asked for, the model's, or any other that knows the name."""
    known = workloads(database, Filter())
    homes = {}
    for job in dict.fromkeys(jobs):
        places = [str(name) for name in known.loc[known["workload"] == job, "dataset"]]
        wanted = [name for name in (dataset, manifest.dataset) if name in places] if dataset is None else [dataset]
        choice = next((name for name in (*wanted, *(places if dataset is None else ())) if name in places), None)
        if choice is None:
            raise NotFoundError(
                f"there is no workload {job!r}{f' in data set {dataset}' if dataset else ''}",
                "Import its profile, or choose one of the list.",
            )
        homes[job] = choice
    return homes


def _profile(table: pd.DataFrame, gpu: str, job: str) -> tuple[pd.Series[Any], str | None]:
    """Return a job's profile on a GPU, or that on another GPU with a note."""
    of_job = table[table.index.get_level_values("workload") == job]
    places = [str(name) for name in of_job.index.get_level_values("gpu")]
    if not places:
        return pd.Series(np.nan, index=table.columns, dtype=object), f"nothing was measured of {job}"
    related = [name for name in places if reference.matches(gpu, name) or reference.matches(name, gpu)]
    chosen = gpu if gpu in places else (related or places)[0]
    row: pd.Series[Any] = of_job.iloc[places.index(chosen)]
    note = None if gpu in places or related else f"the profile of {job} was measured on {chosen}, not on {gpu}"
    return row, note
