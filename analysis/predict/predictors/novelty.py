"""Which sets have a job of a model that a predictor has never seen, and training rows that rehearse such sets."""

from __future__ import annotations

from collections.abc import Collection, Iterator

import numpy as np
import numpy.typing as npt
import pandas as pd

from analysis.predict.frame.schema import Ints

#: Most rehearsals; models beyond that are left out several at a time.
MOST_GROUPS = 12


def models_of(X: pd.DataFrame) -> list[str]:
    """Return the models that occur in a frame's rows, of targets and of co-runners, sorted."""
    beside = {str(name) for names in set(X["models"]) for name in names}
    return sorted({str(name) for name in X["model"].unique()} | beside)


def strangers(X: pd.DataFrame, models: Collection[str]) -> npt.NDArray[np.bool_]:
    """Say which rows have a job of a model that is not among those given.

    Parameters
    ----------
    X : pd.DataFrame
        Rows of the frame.
    models : collection of str
        Models that were seen, as targets or as co-runners.

    Returns
    -------
    ndarray of bool, shape (rows,)
    """
    seen = frozenset(models)
    # Each distinct name and set of co-runners is looked at once: frames may have millions of rows.
    code, distinct = pd.factorize(X["model"].to_numpy(dtype=object))
    strange = np.array([str(name) not in seen for name in distinct], dtype=bool)
    beside, sets = pd.factorize(X["models"].to_numpy(dtype=object))
    any_strange = np.array([any(str(name) not in seen for name in found) for found in sets], dtype=bool)
    return np.asarray(strange[code] | any_strange[beside], dtype=bool)


def rehearsals(X: pd.DataFrame) -> Iterator[Ints]:
    """Leave models out in turn, each with all runs that it is in: rows that are as strange to the rest as a new model.

    Yields
    ------
    ndarray of int
        Rows that are left out together.
    """
    names = models_of(X)
    order = np.random.default_rng(0).permutation(len(names))
    count = min(MOST_GROUPS, len(names))
    for number in range(count):
        group = [names[place] for place in order[number::count]]
        rows = np.flatnonzero(strangers(X, set(names).difference(group)))
        if 0 < len(rows) < len(X):
            yield rows
