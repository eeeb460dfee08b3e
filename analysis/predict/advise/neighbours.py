"""The measured runs most like a set of jobs: what is known beside what is predicted."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from analysis.store.database import Database
from analysis.store.filters import Filter
from analysis.store.queries import coruns
from analysis.store.queries.sources import workloads

#: Difference of two jobs that have nothing in common, of two of one family, and of two of one model at least.
STRANGERS, OF_ONE_FAMILY, OF_ONE_MODEL = 2.0, 1.0, 0.2

_SETTINGS = ("batch_size", "precision", "phase", "training_data")
_WORDS = {"batch_size": "batch size", "precision": "precision", "phase": "phase", "training_data": "training data"}


@dataclass(frozen=True)
class Likeness:
    """The settings of a data set's jobs.

    Attributes
    ----------
    table : pd.DataFrame
        Index workload; model, family and settings where they are known.
    """

    table: pd.DataFrame

    @classmethod
    def of(cls, database: Database, dataset: str) -> Likeness:
        """Read the jobs of a data set."""
        found = workloads(database, Filter(datasets=(dataset,))).drop_duplicates("workload").set_index("workload")
        return cls(found[[name for name in ("model", "family", *_SETTINGS) if name in found]])

    def apart(self, one: str, other: str) -> float:
        """Return how much two jobs differ: 0 for the same one, below `OF_ONE_FAMILY` within a model."""
        if one == other:
            return 0.0
        if not {one, other} <= set(self.table.index):
            return STRANGERS
        if not self.of_one_model(one, other):
            family = self._value(one, "family")
            return OF_ONE_FAMILY if family is not None and family == self._value(other, "family") else STRANGERS
        total = OF_ONE_MODEL
        for name in _SETTINGS:
            mine, theirs = self._value(one, name), self._value(other, name)
            if mine == theirs:
                continue
            if name == "batch_size" and mine and theirs:
                total += min(0.1 * abs(float(np.log2(float(mine) / float(theirs)))), 0.5)
            else:
                total += 0.3
        return min(total, OF_ONE_FAMILY)

    def of_one_model(self, one: str, other: str) -> bool:
        """Say whether two jobs are one model with other settings."""
        if not {one, other} <= set(self.table.index):
            return False
        model = self._value(one, "model")
        return model is not None and model == self._value(other, "model")

    def settings(self, one: str, other: str) -> list[str]:
        """Return the settings in which two jobs of one model differ."""
        return [name for name in _SETTINGS if self._value(one, name) != self._value(other, name)]

    def difference(self, one: str, other: str) -> str:
        """Say what is changed when one job becomes another."""
        if self.of_one_model(one, other):
            parts = [
                f"{_WORDS[name]} {self._shown(other, name)} instead of {self._shown(one, name)}"
                for name in self.settings(one, other)
            ]
            if parts:
                return f"{one} with {', '.join(parts)} ({other})"
        return f"{other} instead of {one}"

    def _value(self, name: str, column: str) -> Any:
        if column not in self.table:
            return None
        value: Any = self.table.at[name, column]
        return None if pd.isna(value) else value

    def _shown(self, name: str, column: str) -> str:
        value = self._value(name, column)
        return "unknown" if value is None else f"{value:g}" if isinstance(value, float) else str(value)


COLUMNS = ["jobs", "k", "slowdowns", "worst", "stp", "runs", "difference", "simulated"]

#: What a job that a measured run lacks counts for.
_LACKS = 1.5


def measured_sets(database: Database, dataset: str, gpu: str, mechanism: str) -> pd.DataFrame:
    """Return the sets that ran on a GPU under a mechanism, repeats as their median; clients without caps.

    Returns
    -------
    pd.DataFrame
        jobs (sorted tuple), k, values (tuple of S in the order of the jobs), worst, stp, runs, simulated.
    """
    chosen = Filter(datasets=(dataset,), gpus=(gpu,), mechanisms=(mechanism,))
    members = coruns.members(database, chosen)
    capped = members["thread_percentage"].fillna(100.0) < 100.0
    members = members[~capped.groupby(members["run_id"]).transform("any")]
    members = members[members["run_outcome"] == "ran"]
    known = members["slowdown"].notna().groupby(members["run_id"]).transform("all")
    members = members[known].sort_values(["run_id", "workload", "slowdown"], kind="stable")
    rows = []
    for _, run in members.groupby("run_id", sort=False):
        rows.append(
            (tuple(run["workload"].astype(str)), tuple(run["slowdown"].astype(float)), bool(run["simulated"].iloc[0]))
        )
    table = pd.DataFrame(rows, columns=["jobs", "values", "simulated"])
    found = []
    for _, part in table.groupby("jobs", sort=True):
        names = tuple(part["jobs"].iloc[0])
        values = np.median(np.array(part["values"].tolist(), dtype=np.float64), axis=0)
        found.append(
            {
                "jobs": names, "k": len(names), "values": tuple(float(value) for value in values),
                "worst": float(values.max()), "stp": float((1.0 / values).sum()), "runs": len(part),
                "simulated": bool(part["simulated"].any()),
            }
        )  # fmt: skip
    return pd.DataFrame(found, columns=["jobs", "k", "values", "worst", "stp", "runs", "simulated"])


def nearest_runs(
    database: Database, dataset: str, gpu: str, jobs: Sequence[str], mechanism: str, most: int = 6
) -> pd.DataFrame:
    """Return the measured sets most like a set of jobs, the nearest first.

    Sets of as many jobs and smaller ones are compared job by job, in the order in which they differ least: the same job
    counts nothing, the same model with other settings little, another family most, a job that is missing as well.

    Parameters
    ----------
    database : Database
        The open database.
    dataset, gpu, mechanism : str
        Where and how; as stored.
    jobs : sequence of str
        The set.
    most : int
        Rows at most.

    Returns
    -------
    pd.DataFrame
        jobs (text), k, slowdowns (text), worst, stp, runs, difference (0 for the set itself), simulated.
    """
    sets = measured_sets(database, dataset, gpu, mechanism)
    sets = sets[sets["k"] <= len(jobs)].reset_index(drop=True)
    if sets.empty:
        return pd.DataFrame(columns=COLUMNS)
    like = Likeness.of(database, dataset)
    names = sorted({name for found in sets["jobs"] for name in found})
    place = {name: number for number, name in enumerate(names)}
    apart = np.array([[like.apart(job, name) for name in names] for job in jobs])
    difference = np.empty(len(sets))
    for _, part in sets.groupby("k"):
        k = int(part["k"].iloc[0])
        members = np.array([[place[name] for name in found] for found in part["jobs"]])
        costs = [
            sum(apart[job, members[:, slot]] for slot, job in enumerate(order))
            for order in itertools.permutations(range(len(jobs)), k)
        ]
        difference[part.index] = np.min(costs, axis=0) + _LACKS * (len(jobs) - k)
    sets = sets.assign(difference=difference).sort_values("difference", kind="stable").head(most)
    shown = sets.assign(
        slowdowns=["; ".join(f"{value:.2f} x" for value in values) for values in sets["values"]],
        jobs=[" + ".join(found) for found in sets["jobs"]],
    )
    return shown[COLUMNS].reset_index(drop=True)
