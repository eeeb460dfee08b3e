"""Slowdowns that no sharing explains: far above turn-taking, exactly turn-taking, or more work than k jobs can do."""

from __future__ import annotations

import pandas as pd

from analysis.interference.finding import Finding, counted, named, place
from analysis.store.database import Database
from analysis.store.filters import Filter
from analysis.store.queries import coruns

#: A member slowed by more than this is starved, or its values are wrong.
STARVED = 10.0

#: S of every member this close to k is taking turns.
TURNS = 0.005

#: From this system throughput over k on a set did more than k jobs can do.
TOO_MUCH = 1.02


def starved(database: Database, dataset: str | None = None) -> list[Finding]:
    """Report members with S above 10."""
    members = coruns.members(database, Filter(datasets=(dataset,) if dataset else ()))
    found = []
    for (name, gpu), rows in members[members["slowdown"] > STARVED].groupby(["dataset", "gpu"], sort=True):
        sentence = (
            f"{counted(len(rows), 'member')} took more than {STARVED:g} times as long as alone "
            f"({named(sorted(rows['workload'].astype(str).unique()))}): starved beside the others, or measured wrongly."
        )
        found.append(_finding("starved", str(name), str(gpu), sentence, rows))
    return found


def turn_taking(database: Database, dataset: str | None = None) -> list[Finding]:
    """Report runs under MPS in which every member took exactly k times as long."""
    runs = _runs(database, dataset)
    same = runs[((runs["slowdown"] - runs["k"]).abs() <= TURNS * runs["k"]).groupby(runs["run_id"]).transform("all")]
    found = []
    for (name, gpu), rows in same[same["mechanism"].str.contains("MPS")].groupby(["dataset", "gpu"], sort=True):
        sentence = (
            f"In {counted(rows['run_id'].nunique(), 'run')} under CUDA MPS every job took as many times as long as "
            "there were jobs, no faster than one after the other: that is what taking turns gives. Was MPS active?"
        )
        found.append(_finding("turn-taking", str(name), str(gpu), sentence, rows))
    return found


def too_much_work(database: Database, dataset: str | None = None) -> list[Finding]:
    """Report runs whose jobs together did more work than k jobs on a GPU each can do."""
    runs = _runs(database, dataset)
    together = (1.0 / runs["slowdown"]).groupby(runs["run_id"]).transform("sum")
    found = []
    for (name, gpu), rows in runs[together > TOO_MUCH * runs["k"]].groupby(["dataset", "gpu"], sort=True):
        sentence = (
            f"In {counted(rows['run_id'].nunique(), 'run')} the jobs did more work than as many GPUs of their own "
            "would: a solo baseline is too slow."
        )
        found.append(_finding("too-much-work", str(name), str(gpu), sentence, rows))
    return found


def _runs(database: Database, dataset: str | None) -> pd.DataFrame:
    """Return the members of runs whose members all have a slowdown, with k."""
    members = coruns.members(database, Filter(datasets=(dataset,) if dataset else ()))
    by_run = members.groupby("run_id")["slowdown"]
    whole = members[by_run.transform(lambda part: part.notna().all() and (part > 0).all()).astype(bool)]
    return whole.assign(k=whole.groupby("run_id")["slot"].transform("size"))


def _finding(rule: str, name: str, gpu: str, sentence: str, rows: pd.DataFrame) -> Finding:
    shown = ["dataset", "gpu", "mechanism", "run_id", "slot", "workload", "slowdown", "file_name", "line"]
    table = rows[shown].reset_index(drop=True)
    return Finding(rule, "warning", place(name, gpu), len(table), sentence, table)
