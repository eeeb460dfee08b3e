"""Slowdowns that nobody measured: clipped to 1, written by hand, or averaged."""

from __future__ import annotations

import numpy as np
import pandas as pd

from analysis.interference.finding import Finding, Severity, counted, named, place
from analysis.store.database import Database
from analysis.store.filters import Filter
from analysis.store.queries import coruns

#: So many members at exactly 1, and so many times more than at any other value, are no coincidence.
CLUSTER, TIMES_MORE = 5, 5

#: Flag of members whose value the authors wrote by hand, and of self pairs that were averaged.
HARD_CODED, AVERAGED = "hard_coded", "averaged"

#: Flag of members whose latency alone is that of a single stream of requests.
SINGLE_STREAM = "solo_single_stream"

_SHOWN = ["dataset", "gpu", "mechanism", "run_id", "slot", "workload", "slowdown", "corun_value", "file_name", "line"]


def exactly_one(database: Database, dataset: str | None = None) -> list[Finding]:
    """Report members whose slowdown is exactly 1 in a cluster: a value clipped or filled in."""
    members = coruns.members(database, _chosen(dataset))
    members = members[members["slowdown"].notna()]
    findings = []
    for (name, gpu), group in members.groupby(["dataset", "gpu"], sort=True):
        rows = group[group["slowdown"] == 1.0]
        others = group.loc[group["slowdown"] != 1.0, "slowdown"].value_counts()
        most = int(others.iloc[0]) if len(others) else 0
        if len(rows) < max(CLUSTER, TIMES_MORE * most):
            continue
        sentence = (
            f"{len(rows):,} of {counted(len(group), 'member')} have a slowdown of exactly 1, and no other value "
            f"occurs more than {counted(most, 'time')}: they were clipped or filled in. "
            "Their true slowdown is unknown, near or below 1."
        )
        findings.append(_finding("exactly-one", "warning", name, gpu, sentence, rows))
    return findings


def hard_coded(database: Database, dataset: str | None = None) -> list[Finding]:
    """Report members whose value was written by hand: they are co-runners, but have no slowdown."""
    members = coruns.members(database, _chosen(dataset))
    findings = []
    for (name, gpu), rows in _flagged(members, HARD_CODED).groupby(["dataset", "gpu"], sort=True):
        jobs = sorted({str(job).split("/")[0] for job in rows["workload"]})
        sentence = (
            f"{len(rows)} members in {counted(rows['run_id'].nunique(), 'run')} carry a value that the authors wrote "
            f"by hand ({', '.join(jobs)}): they have no slowdown of their own and count as co-runners only."
        )
        findings.append(_finding("hard-coded", "warning", name, gpu, sentence, rows))
    return findings


def other_solo(database: Database, dataset: str | None = None) -> list[Finding]:
    """Report members whose solo latency was measured under another load than their co-run."""
    members = coruns.members(database, _chosen(dataset))
    findings = []
    for (name, gpu), rows in _flagged(members, SINGLE_STREAM).groupby(["dataset", "gpu"], sort=True):
        sentence = (
            f"{counted(len(rows), 'member')} of {named(sorted(rows['workload'].unique()))} "
            f"{'has' if len(rows) == 1 else 'have'} a latency alone that is of a single stream of requests, not of the "
            "server under load: their latency beside others compares two loads."
        )
        findings.append(_finding("other-solo", "warning", name, gpu, sentence, rows))
    return findings


def averaged_self_pairs(database: Database, dataset: str | None = None) -> list[Finding]:
    """Report pairs of a workload with itself whose two members carry one and the same value."""
    pairs = coruns.pairs(database, _chosen(dataset))
    pairs = pairs[(pairs["workload"] == pairs["partner"]) & pairs["slowdown"].notna()]
    findings = []
    for (name, gpu), group in pairs.groupby(["dataset", "gpu"], sort=True):
        # One campaign averages all of them or none; a data set may hold several.
        averaged = [rows for _, part in group.groupby("source_id") if len(rows := _averaged(part))]
        if not averaged:
            continue
        rows = pd.concat(averaged)
        several = group["source_id"].nunique() > len(averaged)
        of = f" of {', '.join(sorted(set(rows['file_name'])))}" if several else ""
        sentence = (
            f"In all {counted(len(rows), 'pair')} of a workload with itself{of} both members have the same value: they "
            "were averaged, so each counts for one measurement, not two."
        )
        findings.append(_finding("averaged-self-pairs", "info", name, gpu, sentence, rows))
    return findings


def _averaged(pairs: pd.DataFrame) -> pd.DataFrame:
    """Return the self pairs of a file, one row each, if all of them (three or more) carry one value for both."""
    same = pairs["slowdown"] == pairs["partner_slowdown"]
    clipped = pairs["slowdown"] == 1.0
    rows = pairs[same & ~clipped & (pairs["slot"] == 0)]
    return rows if len(rows) >= 3 and (same | clipped).all() else rows.iloc[:0]


def _chosen(dataset: str | None) -> Filter:
    return Filter(datasets=(dataset,) if dataset else ())


def _flagged(members: pd.DataFrame, flag: str) -> pd.DataFrame:
    # Typed, as an empty list would choose no columns instead of no rows.
    return members[np.array([flag in list(flags) for flags in members["flags"]], dtype=bool)]


def _finding(rule: str, severity: Severity, dataset: object, gpu: object, sentence: str, rows: pd.DataFrame) -> Finding:
    shown = rows[_SHOWN].reset_index(drop=True)
    return Finding(rule, severity, place(dataset, gpu), len(shown), sentence, shown)
