"""Finds in a frame's rows the solo profile of every job in them, for predictors that look at jobs one by one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
import pandas as pd

from analysis.predict.quantities import BY_NAME
from analysis.predict.schema import Floats, Ints
from analysis.predict.terms import GPU_DESCRIPTORS, MECHANISMS

#: What a job's profile is made of: quantities, where it runs, and the cap it runs under.
_PLACE = [name for name, _, _ in GPU_DESCRIPTORS] + [f"mechanism_{short}" for short in MECHANISMS.values()]

Key = tuple[str, str, str, float]


@dataclass(frozen=True)
class Members:
    """Rows of a frame as numbers into a list of distinct jobs.

    A job is a workload on a GPU, under a mechanism and a thread percentage; the same workload elsewhere is another.

    Attributes
    ----------
    own : ndarray of int, shape (rows,)
        The job of each row.
    others : ndarray of int, shape (rows, most co-runners)
        Its co-runners, -1 where there are fewer.
    values : ndarray, shape (jobs, profile columns)
        The jobs' raw profiles; NaN where unknown.
    workload, model : ndarray of str, shape (jobs,)
        Who they are.
    """

    own: Ints
    others: Ints
    values: Floats
    workload: np.ndarray
    model: np.ndarray

    @property
    def pairs(self) -> Ints:
        """Row numbers with exactly one co-runner."""
        return np.flatnonzero((self.others >= 0).sum(axis=1) == 1)


class ProfileReader:
    """Reads jobs out of frames; remembers those of the training frame, for co-runners whose own row is not there.

    A co-runner's profile stands in the row where it is the target; for pairs it stands in the columns of the
    co-runners' sums as well, because the sum has one term.

    Parameters
    ----------
    quantities : sequence of str
        Quantities that make a profile.
    """

    def __init__(self, quantities: Sequence[str]) -> None:
        self.quantities = list(quantities)

    @property
    def columns(self) -> list[str]:
        """Names of the profile's columns: quantities, GPU descriptors, mechanism, thread percentage."""
        return [*self.quantities, *_PLACE, "thread_percentage"]

    def remember(self, X: pd.DataFrame) -> Self:
        """Keep the jobs of a training frame."""
        jobs = self._jobs(X)
        self.places_ = [[gpu, mechanism, name] for gpu, mechanism, name, _ in jobs]
        self.caps_ = np.array([cap for *_, cap in jobs], dtype=np.float64)
        self.profiles_ = np.array(list(jobs.values()), dtype=np.float64)
        return self

    def read(self, X: pd.DataFrame) -> Members:
        """Return the rows' jobs."""
        kept: dict[Key, Floats] = {
            (gpu, mechanism, name, float(cap)): profile
            for (gpu, mechanism, name), cap, profile in zip(self.places_, self.caps_, self.profiles_, strict=True)
        }
        found = kept | self._jobs(X)
        anywhere = {(gpu, mechanism, name): key for key in found for gpu, mechanism, name, _ in [key]}
        index: dict[Key, int] = {}
        values: list[Floats] = []
        workloads: list[str] = []
        models: list[str] = []

        def number(key: Key, model: str) -> int:
            if key not in index:
                source = key if key in found else anywhere.get(key[:3])
                profile = found[source] if source is not None else np.full(len(self.columns), np.nan)
                index[key] = len(values)
                values.append(profile)
                workloads.append(key[2])
                models.append(model)
            return index[key]

        most = max((len(others) for others in X["others"]), default=1)
        own = np.empty(len(X), dtype=np.int64)
        others = np.full((len(X), max(most, 1)), -1, dtype=np.int64)
        cap, cap_of_others = _caps(X)
        identity = zip(
            X["gpu"].astype(str), X["mechanism"].astype(str), X["workload"], X["model"], X["others"], X["models"],
            cap, cap_of_others, strict=True,
        )  # fmt: skip
        for row, (gpu, mechanism, name, model, beside, models_beside, mine, theirs) in enumerate(identity):
            own[row] = number((gpu, mechanism, name, mine), model)
            for slot, (other, other_model) in enumerate(zip(beside, models_beside, strict=True)):
                others[row, slot] = number((gpu, mechanism, other, theirs), other_model)
        table = np.array(values, dtype=np.float64).reshape(len(values), len(self.columns))
        return Members(own, others, table, np.array(workloads, dtype=object), np.array(models, dtype=object))

    def _jobs(self, X: pd.DataFrame) -> dict[Key, Floats]:
        found: dict[Key, Floats] = {}
        cap, cap_of_others = _caps(X)
        pairs = X["others"].map(len).to_numpy() == 1
        of_others = np.array([row[0] if len(row) == 1 else "" for row in X["others"]], dtype=object)
        sides = (
            ("others", of_others, cap_of_others, np.flatnonzero(pairs)),
            ("own", X["workload"].to_numpy(dtype=object), cap, np.arange(len(X))),
        )
        for side, names, caps, rows in sides:  # own rows last: they win
            keys = list(
                zip(X["gpu"].astype(str).iloc[rows], X["mechanism"].astype(str).iloc[rows], names[rows], caps[rows],
                    strict=True)
            )  # fmt: skip
            first = ~pd.Index(keys, tupleize_cols=False).duplicated()
            chosen = rows[first]
            profile = self._profile(X.iloc[chosen], side)
            for position, row in enumerate(chosen):
                key = (str(X["gpu"].iloc[row]), str(X["mechanism"].iloc[row]), str(names[row]), float(caps[row]))
                found[key] = profile[position]
        return found

    def _profile(self, rows: pd.DataFrame, side: str) -> Floats:
        columns = []
        for name in self.quantities:
            scale = BY_NAME[name].scale
            start = "own" if side == "own" else "others_mean" if scale == "setting" else "others_sum"
            columns.append(rows[f"{start}_{name}"].to_numpy(dtype=np.float64))
        columns += [rows[name].to_numpy(dtype=np.float64) for name in _PLACE]
        columns.append(rows[f"{side}_thread_percentage"].to_numpy(dtype=np.float64))
        return np.column_stack(columns)


def _caps(X: pd.DataFrame) -> tuple[Floats, Floats]:
    """Return the thread percentage of the job and of each co-runner (their mean), as fractions; -1 for none."""
    beside = X["others"].map(len).to_numpy(dtype=np.float64).clip(min=1.0)
    own = np.nan_to_num(X["own_thread_percentage"].to_numpy(dtype=np.float64), nan=-1.0)
    others = np.nan_to_num(X["others_thread_percentage"].to_numpy(dtype=np.float64) / beside, nan=-1.0)
    return np.round(own, 4), np.round(others, 4)
