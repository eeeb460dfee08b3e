"""Sets of three jobs and more: what they cost, and how far the pairs tell it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from analysis.interference import metrics
from analysis.interference.choose import choose
from analysis.interference.matrix import FLAGGED, SlowdownMatrix, slowdown_matrix
from analysis.store.database import Database
from analysis.store.filters import Filter
from analysis.store.queries import coruns

FIGURES = ("stp", "antt", "fairness", "jain", "worst")


def measured_sets(
    database: Database, dataset: str, gpu: str | None = None, mechanism: str | None = None
) -> pd.DataFrame:
    """Return every set of jobs that was run, pairs included.

    Parameters
    ----------
    database : Database
        The open database.
    dataset : str
        Data set.
    gpu, mechanism : str, optional
        See `analysis.interference.choose.choose`.

    Returns
    -------
    pd.DataFrame
        One row a set: jobs (sorted names), k, ran and failed (runs), slowdowns (tuple in the order of jobs, the median
        of the runs that ran; members of one name share their mean), stp, together, antt, fairness, jain, worst,
        flagged (a member's solo baseline is doubtful). NaN where no run has all its values.
    """
    choice = choose(database, dataset, gpu, mechanism)
    members = coruns.members(database, Filter((dataset,), (choice.gpu,), (choice.mechanism,)))
    doubtful = slowdown_matrix(database, dataset, choice.gpu, choice.mechanism or None).flagged
    whole = members["run_outcome"] == "ran"
    members = members.assign(slowdown=members["slowdown"].where(whole & (members["outcome"] == "ran")))
    # nanmax would call a run with a failed member good; the plain maximum stays unknown.
    members["worst"] = members.groupby("run_id")["slowdown"].transform(lambda part: part.max(skipna=False))
    # Two members of one workload are the same job twice: each counts as their mean, but the worse of them decides.
    members["slowdown"] = members.groupby(["run_id", "workload"])["slowdown"].transform(
        lambda part: part.mean(skipna=False)
    )
    members = members.sort_values(["run_id", "workload"], kind="stable")
    by_run = members.groupby("run_id", sort=False).agg(
        jobs=("workload", tuple),
        slowdowns=("slowdown", tuple),
        outcome=("run_outcome", "first"),
        worst=("worst", "first"),
    )
    rows = []
    for _, part in by_run.groupby("jobs", sort=True):
        names: tuple[str, ...] = tuple(map(str, part["jobs"].iloc[0]))
        ran = part[part["outcome"] == "ran"]
        known = [values for values in ran["slowdowns"] if all(math.isfinite(value) for value in values)]
        slow = (
            tuple(float(value) for value in np.median(np.array(known), axis=0)) if known else (math.nan,) * len(names)
        )
        rows.append(
            {
                "jobs": names, "k": len(names), "ran": len(ran), "failed": len(part) - len(ran), "slowdowns": slow,
                **figures(slow), "worst": float(ran["worst"].median()), "flagged": not doubtful.isdisjoint(names),
            }
        )  # fmt: skip
    columns = ["jobs", "k", "ran", "failed", "slowdowns", "together", *FIGURES, "flagged"]
    return pd.DataFrame(rows, columns=columns)


def figures(slowdowns: Sequence[float]) -> dict[str, float]:
    """Return STP, together, ANTT, fairness, Jain's index and worst S of a set; NaN where a member's S is unknown."""
    if not all(math.isfinite(value) for value in slowdowns):
        return dict.fromkeys((*FIGURES, "together"), math.nan)
    found = {name: float(getattr(metrics, name)(slowdowns)) for name in FIGURES}
    return {**found, "together": 100 / found["stp"]}


def compose(matrix: SlowdownMatrix, jobs: Sequence[str], how: str = "additive") -> tuple[float, ...]:
    """Return what the pairs of a set say of its members' slowdowns.

    Parameters
    ----------
    matrix : SlowdownMatrix
        Measured, or predicted, pairs.
    jobs : sequence of str
        The set; a name may stand twice.
    how : {"additive", "product"}
        1 + the sum of (S - 1) beside each of the others, or the product of S.

    Returns
    -------
    tuple of float
        One S a job; NaN where a pair is unknown.
    """
    places = [matrix.workloads.index(job) if job in matrix.workloads else -1 for job in jobs]
    found = []
    for slot, own in enumerate(places):
        beside = [place for other, place in enumerate(places) if other != slot]
        if own < 0 or min(beside) < 0:
            found.append(math.nan)
            continue
        pairs = matrix.slowdown[own, beside]
        found.append(float(1 + (pairs - 1).sum() if how == "additive" else pairs.prod()))
    return tuple(found)


def composition(matrix: SlowdownMatrix, sets: pd.DataFrame) -> pd.DataFrame:
    """Hold the measured members of sets of three and more against the composition of their pairs.

    Parameters
    ----------
    matrix : SlowdownMatrix
        The pairs.
    sets : pd.DataFrame
        As `measured_sets` gives them; those with a doubtful baseline stay out.

    Returns
    -------
    pd.DataFrame
        One row a member: jobs, k, workload, measured, additive, product; NaN where a pair of it was not measured.
    """
    rows: list[dict[str, Any]] = []
    larger = sets[(sets["k"] > 2) & ~sets["flagged"].astype(bool) & sets["stp"].notna()]
    for one in larger.to_dict("records"):
        added, multiplied = (compose(matrix, one["jobs"], how) for how in ("additive", "product"))
        for slot, job in enumerate(one["jobs"]):
            rows.append(
                {
                    "jobs": one["jobs"], "k": one["k"], "workload": job, "measured": one["slowdowns"][slot],
                    "additive": added[slot], "product": multiplied[slot],
                }
            )  # fmt: skip
    return pd.DataFrame(rows, columns=["jobs", "k", "workload", "measured", "additive", "product"])


def composition_errors(members: pd.DataFrame) -> pd.DataFrame:
    """Return how far each composition is off: how, members, mape and bias in percent (below 0: too low)."""
    known = members.dropna(subset=["additive", "product"])
    rows = []
    for how in ("additive", "product"):
        relative = 100 * (known[how] / known["measured"] - 1)
        rows.append(
            {
                "how": how, "members": len(known), "mape": float(relative.abs().mean()) if len(known) else math.nan,
                "bias": float(relative.mean()) if len(known) else math.nan,
            }
        )  # fmt: skip
    return pd.DataFrame(rows)


def by_k(sets: pd.DataFrame) -> pd.DataFrame:
    """Return how the metrics go with k: k, sets (that ran), did_not_run, and the median of each figure over sets."""
    rows = []
    for k, part in sets.groupby("k", sort=True):
        sound = part[~part["flagged"].astype(bool)]
        rows.append(
            {
                "k": int(str(k)), "sets": int((part["ran"] > 0).sum()), "did_not_run": int((part["ran"] == 0).sum()),
                **{name: float(sound[name].median()) for name in ("together", *FIGURES)},
            }
        )  # fmt: skip
    return pd.DataFrame(rows, columns=["k", "sets", "did_not_run", "together", *FIGURES])


def doubtful_pair(matrix: SlowdownMatrix, jobs: Sequence[str]) -> bool:
    """Say whether a composition of these jobs rests on a flagged cell."""
    places = [matrix.workloads.index(job) for job in jobs if job in matrix.workloads]
    return any(str(matrix.state[i, j]) == FLAGGED for a, i in enumerate(places) for b, j in enumerate(places) if a != b)
