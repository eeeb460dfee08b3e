"""What a predictor says of its own answers: additive contributions of columns to ln S, exact or sampled."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal
from weakref import WeakKeyDictionary

import numpy as np
import pandas as pd
from threadpoolctl import threadpool_limits

from analysis.errors import NotEnoughDataError
from analysis.predict.frame.schema import Floats

#: Where a sum of contributions starts: what the predictor says on average, on average for sets of as many jobs, or the
#: job without anybody beside it.
Start = Literal["typical", "sets", "alone"]

#: How a predictor is explained: exactly, in closed form against training rows, or by sampling against them.
Explained = Literal["exact", "background", "sampled"]

#: Contributions that identity columns stand for: who the job is, who runs beside it, their combination, the place.
HISTORY = ("workload", "others", "workload and others", "gpu and mechanism", "caution")

#: Rows that a sampled explainer compares with, and its passes over the columns.
BACKGROUND_ROWS = 25
PASSES = 5

#: Explainers by estimator, each with the fitted model that it is of.
_EXPLAINERS: WeakKeyDictionary[Any, tuple[Any, Any]] = WeakKeyDictionary()


@dataclass(frozen=True)
class Contributions:
    """Additive contributions to ln S.

    Attributes
    ----------
    base : ndarray, shape (rows,)
        Where the sum starts: what the predictor says on average over its training rows.
    values : pd.DataFrame, shape (rows, columns)
        Contributions by column of the frame, or by one of `HISTORY`.
    method : str
        How they were computed, for people.
    start : {"typical", "sets", "alone"}
        What the base is; see `analysis.predict.explain.explanation.sentence`.
    error : float
        Standard error of a contribution that is measured against a sample of training rows; 0 where it is exact.
    """

    base: Floats
    values: pd.DataFrame
    method: str
    start: Start = "typical"
    error: float = 0.0

    def total(self) -> Floats:
        """Return base plus contributions: the prediction."""
        total: Floats = self.base + self.values.to_numpy(dtype=np.float64).sum(axis=1)
        return total


def constant(base: Floats) -> Contributions:
    """Return the explanation of rows to which no column contributes: ln S is the base."""
    return Contributions(base, pd.DataFrame(index=range(len(base))), "a constant")


def of_columns(estimator: Any, X: pd.DataFrame, background: pd.DataFrame | None) -> Contributions:
    """Explain a learner on columns: trees and linear models exactly, others by sampling.

    Parameters
    ----------
    estimator
        A fitted predictor with `columns_`, `matrix` and `model_`.
    X : pd.DataFrame
        Rows to explain.
    background : pd.DataFrame, optional
        Rows of the training frame.
    """
    if not estimator.columns_:
        return constant(np.full(len(X), estimator.constant_))
    model, matrix, columns = estimator.model_, estimator.matrix(X), list(estimator.columns_)
    if is_tree(model):
        return _tree(estimator, model, matrix, columns)
    if hasattr(model, "scaled_contributions"):
        base, values = model.scaled_contributions(matrix)
        return Contributions(np.full(len(X), base), pd.DataFrame(values, columns=columns), "exact: linear")
    if _is_linear(model):
        return _linear(model.coef_, float(model.intercept_), estimator, matrix, columns)
    return by_sampling(estimator, X, background)


def columns_explained(estimator: Any) -> Explained:
    """Say how `of_columns` explains a fitted learner on columns."""
    model = getattr(estimator, "model_", None)
    exact = model is None or is_tree(model) or _is_linear(model) or hasattr(model, "scaled_contributions")
    return "exact" if exact else "sampled"


def is_tree(model: Any) -> bool:
    """Say whether a fitted learner is made of trees."""
    return hasattr(model, "estimators_") or hasattr(model, "_predictors")


def _is_linear(model: Any) -> bool:
    # A support vector machine has an intercept too, but coefficients only with a linear kernel.
    return hasattr(model, "coef_") and hasattr(model, "intercept_")


def tree_explainer(estimator: Any, model: Any) -> Any:
    """Return the tree explainer of a fitted model, made once and kept as long as the estimator lives.

    It is no part of the estimator, which can be stored after it was explained as before.
    """
    import shap  # slow to import: only where something is explained

    made = _EXPLAINERS.get(estimator)
    if made is None or made[0] is not model:
        made = (model, shap.TreeExplainer(model, feature_perturbation="tree_path_dependent"))
        _EXPLAINERS[estimator] = made
    return made[1]


def _tree(estimator: Any, model: Any, matrix: Floats, columns: list[str]) -> Contributions:
    with threadpool_limits(1):
        explainer = tree_explainer(estimator, model)
        values = np.asarray(explainer.shap_values(matrix, check_additivity=False), dtype=np.float64)
    base = float(np.ravel(explainer.expected_value)[0])
    return Contributions(
        np.full(len(matrix), base), pd.DataFrame(values, columns=columns), "exact: TreeSHAP, path-dependent"
    )


def _linear(coef: Floats, intercept: float, estimator: Any, matrix: Floats, columns: list[str]) -> Contributions:
    # Scaled columns have mean 0 among the training rows, so that the intercept is the mean prediction.
    middle = 0.0 if estimator.scales else estimator.mean_
    values = pd.DataFrame((matrix - middle) * coef, columns=columns)
    base = intercept + float(np.sum(np.asarray(coef) * middle))
    return Contributions(np.full(len(matrix), base), values, "exact: linear")


def required(background: pd.DataFrame | None) -> pd.DataFrame:
    """Return the training rows to compare with.

    Raises
    ------
    NotEnoughDataError
        If there are none.
    """
    if background is None or background.empty:
        raise NotEnoughDataError(
            "this predictor can only be explained against its training rows, and they are not in the database",
            "Load its data set again, or explain a tree-based predictor.",
        )
    return background


def by_sampling(estimator: Any, X: pd.DataFrame, background: pd.DataFrame | None) -> Contributions:
    """Permutation SHAP; it is additive by construction, its split among columns is an estimate."""
    import shap

    background = required(background)
    columns = _read_columns(estimator, X)
    sample = background.sample(min(BACKGROUND_ROWS, len(background)), random_state=0)
    frame = X.reset_index(drop=True)

    def ask(values: Floats, row: int) -> Floats:
        asked = frame.iloc[[row] * len(values)].reset_index(drop=True)
        asked[columns] = values
        answered: Floats = np.asarray(estimator.predict(asked), dtype=np.float64)
        return answered

    masker = sample[columns].to_numpy(dtype=np.float64)
    base, rows = np.empty(len(X)), []
    for row in range(len(X)):
        explainer = shap.explainers.Permutation(lambda values, row=row: ask(values, row), masker, seed=0)
        asked = frame[columns].to_numpy(dtype=np.float64)[[row]]
        found = explainer(asked, max_evals=PASSES * (2 * len(columns) + 1), silent=True)
        base[row] = float(np.ravel(found.base_values)[0])
        rows.append(np.asarray(found.values, dtype=np.float64).ravel())
    method = f"estimated: permutation SHAP, {PASSES} passes against {len(sample)} training rows"
    return Contributions(base, pd.DataFrame(rows, columns=columns), method)


def _read_columns(estimator: Any, X: pd.DataFrame) -> list[str]:
    own = list(getattr(estimator, "columns_", []))
    if not own:
        resources = getattr(estimator, "resources", ()) or getattr(estimator, "requires", ())
        own = [f"{side}_{name}" for name in resources for side in ("own", "others_sum")]
    return [name for name in own if X[name].notna().any()]
