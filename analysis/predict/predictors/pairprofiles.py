"""Finds in a frame's rows the solo profile of every job in them, for predictors that look at jobs one by one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
import pandas as pd

from analysis.predict.frame.quantities import BY_NAME
from analysis.predict.frame.schema import Floats, Ints
from analysis.predict.frame.terms import GPU_DESCRIPTORS, MECHANISMS

#: What a job's profile is made of: quantities, where it runs, and the cap it runs under.
_PLACE = [name for name, _, _ in GPU_DESCRIPTORS] + [f"mechanism_{short}" for short in MECHANISMS.values()]

#: The cap of an MPS client: no quantity of its profile, yet a part of what a job is.
CAP = "thread_percentage"


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
        return [*self.quantities, *_PLACE, CAP]

    def remember(self, X: pd.DataFrame) -> Self:
        """Keep the jobs of a training frame."""
        found = _index(X)
        profiles = self._profiles(X, found)
        known = found.has_profile
        self.places_ = [list(place) for place, keep in zip(found.places, known, strict=True) if keep]
        self.caps_ = found.caps[known]
        self.profiles_ = profiles[known]
        return self

    def read(self, X: pd.DataFrame) -> Members:
        """Return the rows' jobs; a profile in these rows counts before one of the training frame."""
        found = _index(X)
        profiles = self._profiles(X, found)
        exact = {
            (*place, float(cap)): row for row, (place, cap) in enumerate(zip(self.places_, self.caps_, strict=True))
        }
        anywhere = {tuple(place): row for row, place in enumerate(self.places_)}
        for job in np.flatnonzero(~found.has_profile):
            place = found.places[job]
            row = exact.get((*place, float(found.caps[job])), anywhere.get(place))
            if row is not None:
                profiles[job] = self.profiles_[row]
        workload = np.array([name for _, _, name in found.places], dtype=object)
        return Members(found.own, found.others, profiles, workload, found.model)

    def _profiles(self, X: pd.DataFrame, found: _Index) -> Floats:
        """Return the profiles that stand in the rows themselves; NaN for jobs that have none there."""
        out = np.full((len(found.places), len(self.columns)), np.nan)
        for side, first in (("others", found.first_beside), ("own", found.first_own)):  # own rows last: they win
            jobs = np.flatnonzero(first >= 0)
            if len(jobs):
                out[jobs] = self._profile(X.iloc[first[jobs]], side)
        return out

    def _profile(self, rows: pd.DataFrame, side: str) -> Floats:
        columns = []
        for name in self.quantities:
            scale = BY_NAME[name].scale
            start = "own" if side == "own" else "others_mean" if scale == "setting" else "others_sum"
            columns.append(_column(rows, f"{start}_{name}"))
        columns += [_column(rows, name) for name in _PLACE]
        columns.append(_column(rows, f"{side}_{CAP}"))
        return np.column_stack(columns)


@dataclass(frozen=True)
class _Index:
    """The distinct jobs of a frame's rows, and the first row that holds each one's profile (-1: none)."""

    own: Ints
    others: Ints
    places: list[tuple[str, str, str]]
    caps: Floats
    model: np.ndarray
    first_own: Ints
    first_beside: Ints

    @property
    def has_profile(self) -> np.ndarray:
        return (self.first_own >= 0) | (self.first_beside >= 0)


def _index(X: pd.DataFrame) -> _Index:
    """Number the jobs, with as few Python objects touched as there are jobs: frames may have millions of rows."""
    rows = len(X)
    beside = list(X["others"])
    size = np.fromiter((len(names) for names in beside), dtype=np.int64, count=rows)
    row_of = np.repeat(np.arange(rows), size)
    slot_of = np.arange(len(row_of)) - np.repeat(np.cumsum(size) - size, size)
    name_code, names = pd.factorize(np.concatenate([_objects(X["workload"]), _flat(beside, len(row_of))]))
    cap, cap_of_others = _caps(X)
    cap_code, caps = pd.factorize(np.concatenate([cap, cap_of_others[row_of]]))
    gpu_code, gpus = pd.factorize(_objects(X["gpu"]))
    mechanism_code, mechanisms = pd.factorize(_objects(X["mechanism"]))
    place = gpu_code * len(mechanisms) + mechanism_code
    code = (np.concatenate([place, place[row_of]]) * len(names) + name_code) * len(caps) + cap_code
    distinct, first, job = np.unique(code, return_index=True, return_inverse=True)
    others = np.full((rows, max(int(size.max(initial=1)), 1)), -1, dtype=np.int64)
    others[row_of, slot_of] = job[rows:]
    models = np.concatenate([_objects(X["model"]), _flat(list(X["models"]), len(row_of))])
    of_name, of_cap = np.divmod(distinct, len(caps))
    of_place, of_name = np.divmod(of_name, len(names))
    places = [
        (str(gpus[p // len(mechanisms)]), str(mechanisms[p % len(mechanisms)]), str(names[n]))
        for p, n in zip(of_place, of_name, strict=True)
    ]
    single = np.flatnonzero(size[row_of] == 1)
    return _Index(
        own=job[:rows].astype(np.int64),
        others=others,
        places=places,
        caps=np.asarray(caps[of_cap], dtype=np.float64),
        model=models[first],
        first_own=_first(job[:rows], np.arange(rows), len(distinct)),
        first_beside=_first(job[rows:][single], row_of[single], len(distinct)),
    )


def _first(job: Ints, row: Ints, count: int) -> Ints:
    """Return the first row of every job, -1 for a job that has none."""
    out = np.full(count, -1, dtype=np.int64)
    out[job[::-1]] = row[::-1]
    return out


def _objects(column: pd.Series) -> np.ndarray:
    return column.to_numpy(dtype=object)


def _flat(lists: Sequence[Sequence[str]], count: int) -> np.ndarray:
    out = np.empty(count, dtype=object)
    out[:] = [name for names in lists for name in names]
    return out


def _caps(X: pd.DataFrame) -> tuple[Floats, Floats]:
    """Return the thread percentage of the job and of each co-runner (their mean), as fractions; -1 for none."""
    beside = X["k"].to_numpy(dtype=np.float64) - 1.0
    own = np.nan_to_num(_column(X, f"own_{CAP}"), nan=-1.0)
    others = np.nan_to_num(_column(X, f"others_{CAP}") / np.maximum(beside, 1.0), nan=-1.0)
    return np.round(own, 4), np.round(others, 4)


def _column(X: pd.DataFrame, name: str) -> Floats:
    """Return a column, or NaN where a frame was built without it."""
    return X[name].to_numpy(dtype=np.float64) if name in X.columns else np.full(len(X), np.nan)
