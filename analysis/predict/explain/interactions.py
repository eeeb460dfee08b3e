"""Which features act together: exactly for trees (TreeSHAP interaction values), by a screening for all predictors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from threadpoolctl import threadpool_limits

from analysis.predict.explain.background import training_frame
from analysis.predict.explain.importance import GlobalImportance
from analysis.predict.explain.shapley import tree_of
from analysis.predict.frame.naming import feature_of
from analysis.predict.frame.schema import Floats
from analysis.predict.models import models
from analysis.predict.predictors.contributions import tree_explainer
from analysis.predict.predictors.ensemble import Average
from analysis.store.database import Database

#: Rows and columns of exact interaction values: their cost grows with the columns squared.
ROWS = 60

#: Slices of a feature's values inside which another feature is looked at.
_SLICES = 8


@dataclass(frozen=True)
class Interactions:
    """How strongly pairs of features act together.

    Attributes
    ----------
    table : pd.DataFrame
        feature, with, strength; strongest first.
    method : str
        What the strength is.
    exact : bool
        Whether it is the interaction value itself.
    """

    table: pd.DataFrame
    method: str
    exact: bool


def screened(found: GlobalImportance, feature: str) -> pd.DataFrame:
    """Return how well each other feature's value explains what is left of a feature's contributions.

    Rows are cut into slices of the feature's own value; inside a slice its contribution would be constant without an
    interaction. The strength is the mean absolute correlation there, times the deviation inside the slices.

    Returns
    -------
    pd.DataFrame
        with, strength (ln S); strongest first. Empty where the feature has no value to slice.
    """
    own = found.values[feature].to_numpy(dtype=np.float64)
    shap = found.shap[feature].to_numpy(dtype=np.float64)
    known = np.isfinite(own)
    if known.sum() < 2 * _SLICES or np.ptp(own[known]) == 0:
        return pd.DataFrame(columns=["with", "strength"])
    order = np.argsort(own[known], kind="stable")
    slices = [part for part in np.array_split(np.flatnonzero(known)[order], _SLICES) if len(part) > 3]
    rows = []
    for name in found.values.columns:
        if name == feature:
            continue
        other = found.values[name].to_numpy(dtype=np.float64)
        rows.append({"with": str(name), "strength": float(np.mean([_within(shap[p], other[p]) for p in slices]))})
    table = pd.DataFrame(rows, columns=["with", "strength"])
    return table.sort_values("strength", ascending=False, kind="stable", ignore_index=True)


def _within(shap: Floats, other: Floats) -> float:
    known = np.isfinite(other)
    if known.sum() < 4 or np.ptp(other[known]) == 0 or np.ptp(shap[known]) == 0:
        return 0.0
    return float(abs(np.corrcoef(shap[known], other[known])[0, 1]) * shap[known].std())


def interactions(database: Database, model_id: str, found: GlobalImportance, most: int = 20) -> Interactions:
    """Return the strongest pairs of features of a model.

    Parameters
    ----------
    database : Database
        The open database.
    model_id : str
        The model.
    found : GlobalImportance
        Its global explanation, for predictors whose interactions are screened.
    most : int
        Pairs returned.

    Returns
    -------
    Interactions
        For trees, and averages of nothing but trees, the mean absolute SHAP interaction value of both orders.
    """
    manifest, estimator = models.load(database, model_id)
    parts = _trees(estimator)
    if parts is None:
        rows = [
            {"feature": str(name), "with": row["with"], "strength": float(row["strength"])}
            for name in found.table["feature"].head(8)
            for row in screened(found, str(name)).head(5).to_dict("records")
        ]
        table = pd.DataFrame(rows, columns=["feature", "with", "strength"])
        method = "screened: correlation of a contribution with the other's value where its own value hardly changes"
        return Interactions(_strongest(table, most), method, exact=False)
    frame = training_frame(database, manifest)
    frame = frame.take(np.sort(np.random.default_rng(0).permutation(len(frame))[:ROWS]))
    strength: dict[tuple[str, str], Floats] = {}
    for weight, part in parts:
        for pair, values in _of_tree(part, frame.X).items():
            strength[pair] = strength.get(pair, np.zeros(len(frame))) + weight * values
    rows = [
        {"feature": one, "with": other, "strength": float(np.abs(values).mean())}
        for (one, other), values in strength.items()
    ]
    table = pd.DataFrame(rows, columns=["feature", "with", "strength"])
    return Interactions(
        _strongest(table, most), f"exact: TreeSHAP interaction values over {len(frame)} rows", exact=True
    )


def _strongest(table: pd.DataFrame, most: int) -> pd.DataFrame:
    return table.sort_values("strength", ascending=False, kind="stable", ignore_index=True).head(most)


def _trees(estimator: Any, weight: float = 1.0) -> list[tuple[float, Any]] | None:
    """Return the tree parts of a predictor with their weights; None where any part is something else."""
    if isinstance(estimator, Average):
        found: list[tuple[float, Any]] = []
        for share, (_, part) in zip(estimator.weights_, estimator.parts_, strict=True):
            inner = _trees(part, weight * float(share))
            if inner is None:
                return None
            found += inner
        return found
    return [(weight, estimator)] if tree_of(estimator) is not None else None


def _of_tree(estimator: Any, X: pd.DataFrame) -> dict[tuple[str, str], Floats]:
    """Return the interaction values of both orders of each pair of features, summed over their columns."""
    model = tree_of(estimator)
    with threadpool_limits(1):
        explainer = tree_explainer(estimator, model)
        values = np.asarray(explainer.shap_interaction_values(estimator.matrix(X)), dtype=np.float64)
    labels = [feature_of(str(name)).label for name in estimator.columns_]
    found: dict[tuple[str, str], Floats] = {}
    for i in range(len(labels)):
        for j in range(i + 1, len(labels)):
            if labels[i] != labels[j]:
                first, second = sorted((labels[i], labels[j]))
                found[first, second] = found.get((first, second), np.zeros(len(X))) + 2.0 * values[:, i, j]
    return found
