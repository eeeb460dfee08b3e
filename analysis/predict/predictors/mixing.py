"""How much trees should say beside the processes where a model is new, learnt from models that are left out."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import clone

from analysis.predict.frame.schema import Floats, Ints
from analysis.predict.predictors import novelty
from analysis.predict.predictors.structured import StructuredGP

#: Steps in which weights are tried: 1/8.
STEPS = 8

#: Left-out models that speak for the processes alone before any was left out, and how many make a weight.
PRIOR_GROUPS = 2.0
LEAST_GROUPS = 5

#: Draws of models over which the best weights are averaged.
DRAWS = 200

#: Smaller weights are none: trees that hardly count are not worth their time.
LEAST_WEIGHT = 0.04


def learnt(process: StructuredGP, trees: Sequence[tuple[str, Any]], X: pd.DataFrame, y: Floats, pairs: Ints) -> Floats:
    """Return the weights of the processes and of each tree part for sets with a model that was never seen.

    Models are left out of the training rows in turn: of the processes in closed form, of the trees by fitting again.

    Parameters
    ----------
    process : StructuredGP
        Fitted on all rows.
    trees : sequence of (str, estimator)
        The tree parts, unfitted.
    X, y
        The training rows and ln S.
    pairs : ndarray of int
        Those with one co-runner, which trees learn from.

    Returns
    -------
    ndarray, shape (1 + trees,)
        Sums to 1.
    """
    grid = candidates(1 + len(trees))
    errors = []
    groups = list(novelty.rehearsals(X.iloc[pairs]))
    if len(groups) < LEAST_GROUPS:
        first: Floats = grid[0]
        return first
    for held in groups:
        rest, rows = np.delete(pairs, held), pairs[held]
        rows, said, _ = process.left_out([rows])
        parts = [said, *(clone(tree).fit(X.iloc[rest], y[rest]).predict(X.iloc[rows]) for _, tree in trees)]
        mixed = np.column_stack(parts) @ grid.T
        errors.append(np.abs(np.expm1(mixed - y[rows][:, None])).mean(axis=0))
    return best_weights(np.array(errors), grid)


def candidates(parts: int) -> Floats:
    """Return the weights that are tried, shape (candidates, parts), the first part alone first."""
    rest = [found for found in product(range(STEPS + 1), repeat=parts - 1) if sum(found) <= STEPS]
    return np.array([[STEPS - sum(found), *found] for found in rest], dtype=np.float64) / STEPS


def best_weights(errors: Floats, grid: Floats) -> Floats:
    """Return the weights of least error, averaged over draws of the groups, drawn to the first part with few of them.

    Parameters
    ----------
    errors : ndarray, shape (groups, candidates)
        Mean absolute percentage error of each left-out group with each candidate.
    grid : ndarray, shape (candidates, parts)
        The candidates.
    """
    groups = len(errors)
    lot = np.random.default_rng(0)
    best = [grid[int(np.argmin(errors[lot.integers(0, groups, groups)].mean(axis=0)))] for _ in range(DRAWS)]
    weights: Floats = np.mean(best, axis=0) * groups / (groups + PRIOR_GROUPS)
    weights[weights < LEAST_WEIGHT] = 0.0
    weights[0] = 1.0 - weights[1:].sum()
    return weights
