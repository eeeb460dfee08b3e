"""The one frame that every predictor sees: built from solo profiles, for pairs and for larger sets alike."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np
import pandas as pd

from analysis.errors import NotEnoughDataError, NotFoundError
from analysis.interference import checks
from analysis.predict.frame import profiles as solo_profiles
from analysis.predict.frame import whitebox_sets
from analysis.predict.frame.frame import TrainingFrame, all_pairs, assemble
from analysis.reference.mechanism_names import MPS
from analysis.store.database import Database
from analysis.store.filters import Filter
from analysis.store.queries import coruns, exclusions, sources

#: Flags of a member that make its slowdown no measurement.
NO_TARGET_FLAGS = ("hard_coded", "not_measured", "partial")

#: Flag of a member whose S was clipped to exactly 1, and how it is counted: its true slowdown is unknown.
CLIPPED, CLIPPED_REASON = "clipped", "clipped to exactly 1"

#: Members that a frame holds at most, and how those that were not drawn for it are counted.
MOST_MEMBERS = 200_000
NOT_DRAWN = f"not among the {MOST_MEMBERS:,} that were drawn by lot"

__all__ = ["TrainingFrame", "all_pairs", "build", "flagged_workloads", "for_jobs", "rows_for_sets"]


def build(
    database: Database,
    dataset: str,
    gpus: Iterable[str] | None = None,
    mechanisms: Iterable[str] | None = None,
    *,
    include_flagged: bool = False,
    white_box: bool = False,
) -> TrainingFrame:
    """Build the frame of a data set's measured members.

    Parameters
    ----------
    database : Database
        The open database.
    dataset : str
        The data set; data sets are never pooled.
    gpus, mechanisms : iterable of str, optional
        Canonical names to keep; all by default.
    include_flagged : bool, default False
        Keep runs with workloads that the data checks flag, and members whose S was clipped or never measured.
    white_box : bool, default False
        Solve the white-box model for the column of its prediction, which stays empty otherwise.

    Returns
    -------
    TrainingFrame
        Members with a target. Runs that did not run, or not completely, are counted in `left_out`, as are those of a
        larger table that were not drawn (`MOST_MEMBERS`).

    Raises
    ------
    NotFoundError
        If there is no such data set.
    NotEnoughDataError
        If no member has a slowdown.
    """
    sources.require_dataset(database, dataset)
    chosen = Filter(datasets=(dataset,), gpus=tuple(gpus or ()), mechanisms=tuple(mechanisms or ()))
    members = coruns.members(database, chosen)
    left_out: dict[str, int] = {}
    members = _drop(members, members["run_outcome"] != "ran", "run did not finish", left_out)
    if members["simulated"].nunique() > 1:  # never trained on together; what was measured counts
        members = _drop(members, members["simulated"].astype(bool), "simulated", left_out)
    flagged = frozenset() if include_flagged else flagged_workloads(database, dataset)
    if flagged:
        bad = pd.Series(list(zip(members["gpu"], members["workload"], strict=True)), index=members.index).isin(flagged)
        members = _drop(members, bad.groupby(members["run_id"]).transform("any"), "flagged workload", left_out)
    members = _drawn(members, left_out)
    if members.empty:
        raise NotEnoughDataError(
            f"data set {dataset} has no co-run to learn from{_chosen(chosen)}", "Import measured co-runs first."
        )
    table = solo_profiles.collect(database, dataset)
    if white_box:
        table = whitebox_sets.attach(table, database, dataset)
    frame = assemble(dataset, members, table)
    target = members["slowdown"].to_numpy(dtype=np.float64)
    measured = np.isfinite(target) & (target > 0) & (include_flagged | ~_carry(members, *NO_TARGET_FLAGS))
    good = measured & (include_flagged | ~_carry(members, CLIPPED))
    counted = ~members["left_out"].to_numpy(dtype=bool)
    for reason, without in (("no target", ~measured), (CLIPPED_REASON, measured & ~good)):
        if lacking := int((without & counted).sum()):
            left_out[reason] = lacking
    for rule, count in exclusions.members_left_out(database, chosen).itertuples(index=False):
        left_out[f"{exclusions.REASON}{rule}"] = int(count)
    if not good.any():
        raise NotEnoughDataError(
            f"no member of data set {dataset} has a slowdown{_chosen(chosen)}",
            "Import solo measurements beside the co-runs.",
        )
    frame = replace(
        frame,
        left_out=left_out,
        flagged=flagged,
        simulated=bool(members["simulated"].any()),
        own_model=sources.own_simulator(database, dataset),
    )
    return frame.take(np.flatnonzero(good))


def for_jobs(database: Database, dataset: str, jobs: Sequence[str], gpu: str, mechanism: str = MPS) -> pd.DataFrame:
    """Build the rows of one set of jobs, one row a job, none of it measured together.

    Parameters
    ----------
    database : Database
        The open database.
    dataset : str
        Data set that holds the jobs' solo profiles.
    jobs : sequence of str
        Workload names; a name may stand twice.
    gpu, mechanism : str
        Where and how they would share.

    Returns
    -------
    pd.DataFrame
        The identity columns and every column of the schema.

    Raises
    ------
    NotFoundError
        If nothing is known of a job.
    """
    table = solo_profiles.collect(database, dataset)
    known = set(table.index.get_level_values("workload")) | set(
        sources.workloads(database, Filter(datasets=(dataset,)))["workload"].astype(str)
    )
    for job in jobs:
        if job not in known:
            raise NotFoundError(
                f"there is no workload {job!r} in data set {dataset}", "Import its profile, or choose one of the list."
            )
    return rows_for_sets(table, [tuple(jobs)], gpu, mechanism)


def rows_for_sets(
    table: pd.DataFrame,
    sets: Sequence[Sequence[str]],
    gpu: str,
    mechanism: str = MPS,
    columns: Sequence[str] | None = None,
    percentages: Sequence[Sequence[float]] | None = None,
) -> pd.DataFrame:
    """Build the rows of many sets of jobs from a table of profiles, set by set and job by job.

    Parameters
    ----------
    table : pd.DataFrame
        Profiles as `profiles.collect` returns them.
    sets : sequence of sequences of str
        Names of the jobs of each set.
    gpu, mechanism : str
        Where and how they share.
    columns : sequence of str, optional
        Numeric columns to compute; all by default.
    percentages : sequence of sequences of float, optional
        MPS thread percentage of each job of each set; NaN where a client is not capped.

    Returns
    -------
    pd.DataFrame
        Identity columns and numeric columns.
    """
    members = pd.DataFrame(
        [
            {"run_id": run, "slot": slot, "workload": job, "gpu": gpu, "mechanism": mechanism,
             "thread_percentage": percentages[run][slot] if percentages else np.nan, "slowdown": np.nan}
            for run, jobs in enumerate(sets) for slot, job in enumerate(jobs)
        ]
    )  # fmt: skip
    return assemble("", members, table, columns).X


def _carry(members: pd.DataFrame, *flags: str) -> np.ndarray:
    """Return which members carry one of the flags."""
    return np.array([not set(flags).isdisjoint(found if found is not None else ()) for found in members["flags"]], bool)


def flagged_workloads(database: Database, dataset: str) -> frozenset[tuple[str, str]]:
    """Return the (gpu, workload) pairs whose solo baseline the data checks doubt."""
    return frozenset(checks.flagged_workloads(database, dataset))


def _drawn(members: pd.DataFrame, left_out: dict[str, int]) -> pd.DataFrame:
    """Draw whole runs by lot where there are more members than a frame holds."""
    if len(members) <= MOST_MEMBERS:
        return members
    run = pd.factorize(members["run_id"])[0]
    lot = np.random.default_rng(0).permutation(int(run.max()) + 1)
    size = np.bincount(run)
    kept = np.zeros(len(size), dtype=bool)
    kept[lot[np.cumsum(size[lot]) <= MOST_MEMBERS]] = True
    return _drop(members, pd.Series(~kept[run], index=members.index), NOT_DRAWN, left_out)


def _chosen(chosen: Filter) -> str:
    words = [*chosen.gpus, *chosen.mechanisms]
    return f" on {', '.join(words)}" if words else ""


def _drop(members: pd.DataFrame, bad: pd.Series, reason: str, left_out: dict[str, int]) -> pd.DataFrame:
    if bad.any():
        left_out[reason] = int(bad.sum())
    return members[~bad.to_numpy(dtype=bool)]
