"""Is a workload's solo baseline what it claims to be? Its best partner tells."""

from __future__ import annotations

import pandas as pd

from analysis.interference.finding import Finding, Severity, counted, named, place
from analysis.store.database import Database
from analysis.store.filters import Filter
from analysis.store.queries import coruns, exclusions, pairs

#: Beside its gentlest partner a job should run about as fast as alone.
LOWEST, HIGHEST = 0.95, 1.25

#: A high minimum says something only when several partners agree on it.
PARTNERS_FOR_HIGH = 3

#: Where more than this share of the workloads fails, the GPU or the campaign is the reason, not a few baselines.
MINORITY = 0.25

#: Faster than alone by more than noise allows.
FASTER_THAN_ALONE = 0.98
_FASTER = "faster-than-alone"


def minimum_slowdowns(database: Database, dataset: str | None = None, gpu: str | None = None) -> pd.DataFrame:
    """Return each workload's smallest slowdown over its partners in runs of two.

    Repeats of a pair count as their median. Members under a thread percentage below 100 or on a MIG slice are left
    out: they are slow by their share, whatever their baseline. What the user left out as a whole because it ran faster
    than alone counts here all the same: without it a baseline that is off would pass for a sound one.

    Parameters
    ----------
    database : Database
        The open database.
    dataset, gpu : str, optional
        Restrict to one data set, one GPU.

    Returns
    -------
    pd.DataFrame
        One row a (dataset, gpu, workload): minimum (S), gentlest (the partner), partners (how many), outside (the
        minimum is outside 0.95 to 1.25; above 1.25 only with at least 3 partners), excluded (outside, and at most a
        quarter of the workloads of this data set and GPU are).
    """
    chosen = Filter(datasets=(dataset,) if dataset else (), gpus=(gpu,) if gpu else ())
    found = pairs.lowest(database, dataset, gpu, exclusions.slowdowns_left_out(database, _FASTER, chosen))
    key = ["dataset", "gpu", "workload"]
    high = (found["minimum"] > HIGHEST) & (found["partners"] >= PARTNERS_FOR_HIGH)
    found["outside"] = (found["minimum"] < LOWEST) | high
    by_gpu = found.groupby(["dataset", "gpu"])["outside"]
    allowed = (by_gpu.transform("size") * MINORITY).clip(lower=1)
    found["excluded"] = found["outside"] & (by_gpu.transform("sum") <= allowed)
    return found.loc[:, [*key, "minimum", "gentlest", "partners", "outside", "excluded"]]


def flagged_workloads(database: Database, dataset: str, gpu: str | None = None) -> set[tuple[str, str]]:
    """Return the (gpu, workload) whose solo baseline is off, to be left out of evaluations by default.

    A workload is flagged when its minimum slowdown over its partners is outside 0.95 to 1.25. Where more than a quarter
    of a GPU's workloads are outside, none is flagged: then the band does not separate a few wrong baselines from sound
    ones (a K80 slows every pair by more; a noisy campaign speeds half of them up), and leaving them out would choose
    the test set by its target. The check `minimum_slowdown` reports them all the same.
    """
    found = minimum_slowdowns(database, dataset, gpu)
    chosen = found[found["excluded"]]
    return set(zip(chosen["gpu"].astype(str), chosen["workload"].astype(str), strict=True))


def minimum_slowdown(database: Database, dataset: str | None = None) -> list[Finding]:
    """Report workloads whose minimum slowdown over their partners is outside 0.95 to 1.25."""
    found = minimum_slowdowns(database, dataset)
    findings = []
    for (name, gpu), group in found[found["outside"]].groupby(["dataset", "gpu"], sort=True):
        total = int(((found["dataset"] == name) & (found["gpu"] == gpu)).sum())
        excluded = bool(group["excluded"].any())
        then = (
            "They are flagged and left out of evaluations unless you include them."
            if excluded
            else "That is too many to blame single baselines, so none is left out; read their slowdowns with care."
        )
        sentence = (
            f"{len(group)} of {total} workloads have a minimum slowdown over their partners outside {LOWEST} to "
            f"{HIGHEST}, so their solo baseline is doubtful: {named(group['workload'])}. {then}"
        )
        rows = group.sort_values("minimum", kind="stable").reset_index(drop=True)
        severity: Severity = "error" if excluded else "warning"
        findings.append(Finding("minimum-slowdown", severity, place(name, gpu), len(rows), sentence, rows))
    return findings


def faster_than_alone(database: Database, dataset: str | None = None) -> list[Finding]:
    """Report members with S below 0.98: faster beside others than alone."""
    members = coruns.members(database, Filter(datasets=(dataset,) if dataset else ()))
    members = members[members["slowdown"].notna()]
    findings = []
    for (name, gpu), group in members.groupby(["dataset", "gpu"], sort=True):
        rows = group[group["slowdown"] < FASTER_THAN_ALONE]
        if rows.empty:
            continue
        share, below = 100 * len(rows) / len(group), 100 * float((group["slowdown"] < 1).mean())
        sentence = (
            f"{len(rows):,} of {counted(len(group), 'member')} with a slowdown ({share:.1f} %) ran faster beside "
            f"others than alone (S below {FASTER_THAN_ALONE}; {below:.1f} % are below 1): their solo baselines are "
            "off, or the runs are noisy."
        )
        shown = ["dataset", "gpu", "mechanism", "run_id", "slot", "workload", "slowdown", "file_name", "line"]
        rows = rows[shown].reset_index(drop=True)
        findings.append(Finding(_FASTER, "warning", place(name, gpu), len(rows), sentence, rows))
    return findings
