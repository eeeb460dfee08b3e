"""Contributions of the frame's columns to ln S: exact for trees and linear parts, closed or sampled for the rest."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import pandas as pd
from threadpoolctl import threadpool_limits

from analysis.errors import NotEnoughDataError
from analysis.predict.explain.explanation import Start
from analysis.predict.explain.setshapley import explain_sets
from analysis.predict.frame.schema import Floats
from analysis.predict.frame.terms import WHITE_BOX
from analysis.predict.predictors.base import FeatureModel
from analysis.predict.predictors.closed_form import EqualShare, NoInterference, TrainMedian
from analysis.predict.predictors.effects import Composition, CopyOtherGpu, Effects, LowRank
from analysis.predict.predictors.published import OwnAndSum, ScaledLinear
from analysis.predict.predictors.structured import StructuredGP
from analysis.predict.predictors.whitebox import WhiteBox

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
        What the base is; see `sentences.sentence`.
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


def contributions(estimator: Any, X: pd.DataFrame, background: pd.DataFrame | None = None) -> Contributions:
    """Explain a fitted predictor's ln S.

    Parameters
    ----------
    estimator
        A fitted predictor.
    X : pd.DataFrame
        Rows to explain.
    background : pd.DataFrame, optional
        Rows of the training frame, for predictors that are explained against some.

    Returns
    -------
    Contributions
        Base plus contributions is the prediction.

    Raises
    ------
    NotEnoughDataError
        If an explainer that compares with training rows has none.
    """
    if hasattr(estimator, "parts_"):
        return _mixture(estimator, X, background)
    if isinstance(estimator, NoInterference | TrainMedian):
        base = np.asarray(estimator.predict(X), dtype=np.float64)
        return Contributions(base, pd.DataFrame(index=range(len(X))), "a constant")
    if isinstance(estimator, WhiteBox):
        said = pd.DataFrame({WHITE_BOX: estimator.predict(X)})
        return Contributions(np.zeros(len(X)), said, "exact: the queueing network of these jobs", "alone")
    if isinstance(estimator, EqualShare):
        values = pd.DataFrame({"k": estimator.predict(X)})
        return Contributions(np.zeros(len(X)), values, "exact: the logarithm of k", "alone")
    if isinstance(estimator, Composition | CopyOtherGpu):
        start = estimator.median_ if isinstance(estimator, CopyOtherGpu) else 0.0
        values = pd.DataFrame({"workload and others": estimator.predict(X) - start})
        alone: Start = "typical" if isinstance(estimator, CopyOtherGpu) else "alone"
        return Contributions(np.full(len(X), start), values, "exact: measured slowdowns of these jobs", alone)
    if isinstance(estimator, LowRank):
        return _low_rank(estimator, X)
    if isinstance(estimator, Effects):
        return _effects(estimator, X)
    if isinstance(estimator, FeatureModel) and not estimator.columns_:
        return Contributions(np.full(len(X), estimator.constant_), pd.DataFrame(index=range(len(X))), "a constant")
    if isinstance(estimator, FeatureModel | OwnAndSum):
        model, matrix, columns = estimator.model_, estimator.matrix(X), list(estimator.columns_)
        if _is_tree(model):
            return _tree(estimator, model, matrix, columns)
        if _is_linear(model):
            return _linear(model.coef_, float(model.intercept_), estimator, matrix, columns)
        if isinstance(model, ScaledLinear):
            centred = matrix - model.mean_
            values = pd.DataFrame(centred * model.coef_, columns=columns)
            return Contributions(np.full(len(X), float(model.linear_.intercept_)), values, "exact: linear")
    if isinstance(estimator, StructuredGP):
        return _structured(estimator, X, background)
    return _sampled(estimator, X, background)


def explained_exactly(estimator: Any) -> bool:
    """Say whether a fitted predictor (not an average) is explained without sampling."""
    if isinstance(
        estimator, NoInterference | TrainMedian | EqualShare | WhiteBox | LowRank | Effects | Composition | CopyOtherGpu
    ):
        return True
    if not isinstance(estimator, FeatureModel | OwnAndSum):
        return False
    model = getattr(estimator, "model_", None)
    return model is None or _is_tree(model) or _is_linear(model) or isinstance(model, ScaledLinear)


def needs_background(estimator: Any) -> bool:
    """Say whether a predictor, or a part of it, is explained against training rows."""
    return any(not explained_exactly(part) for part in _parts_of(estimator))


def sampled(estimator: Any) -> bool:
    """Say whether a predictor, or a part of it, can only be explained by sampling, which takes long for many rows."""
    return any(not explained_exactly(part) and not isinstance(part, StructuredGP) for part in _parts_of(estimator))


def _parts_of(estimator: Any) -> list[Any]:
    parts = [part for _, part in getattr(estimator, "parts_", [])]
    return [inner for part in parts for inner in _parts_of(part)] or [estimator]


def _mixture(estimator: Any, X: pd.DataFrame, background: pd.DataFrame | None) -> Contributions:
    """Explain a weighted mean by the weighted means of its parts' explanations; rows may have weights of their own."""
    shares = estimator.shares(X) if hasattr(estimator, "shares") else np.tile(estimator.weights_, (len(X), 1))
    base: Floats = np.zeros(len(X))
    values: pd.DataFrame | None = None
    methods, starts, error = [], set(), 0.0
    for share, (name, part) in zip(shares.T, estimator.parts_, strict=True):
        rows = np.flatnonzero(share)
        if len(X) and not len(rows):
            continue
        of_part = contributions(part, X if len(rows) == len(X) else X.iloc[rows], background)
        base[rows] += share[rows] * of_part.base
        scaled = of_part.values.set_axis(rows, axis=0).mul(share[rows], axis=0).reindex(range(len(X)), fill_value=0.0)
        values = scaled if values is None else values.add(scaled, fill_value=0.0)
        methods.append(of_part.method if len(estimator.parts_) == 1 else f"{name}: {of_part.method}")
        starts.add(of_part.start)
        error += float(share.max(initial=0.0)) * of_part.error
    start: Start = next(iter(starts)) if len(starts) == 1 else "typical"
    return Contributions(base, pd.DataFrame() if values is None else values, "; ".join(methods), start, error)


def _is_tree(model: Any) -> bool:
    return hasattr(model, "estimators_") or hasattr(model, "_predictors")


def _is_linear(model: Any) -> bool:
    # A support vector machine has an intercept too, but coefficients only with a linear kernel.
    return hasattr(model, "coef_") and hasattr(model, "intercept_")


def tree_of(estimator: Any) -> Any | None:
    """Return the fitted trees behind a predictor on columns; None where it is something else."""
    if not isinstance(estimator, FeatureModel | OwnAndSum):
        return None
    model = getattr(estimator, "model_", None)
    return model if model is not None and _is_tree(model) else None


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


def _effects(estimator: Effects, X: pd.DataFrame) -> Contributions:
    design = estimator.design(X).toarray() * estimator.effect_
    beside = X["others"].map(len).to_numpy(dtype=np.float64).clip(min=1.0)
    labels = np.array(sorted(estimator.index_, key=lambda label: estimator.index_[label]), dtype=object)
    values = pd.DataFrame(
        {
            name: design[:, [label.startswith(start) for label in labels]].sum(axis=1) * beside
            for name, start in (("workload", "victim"), ("others", "aggressor"), ("gpu and mechanism", "place"))
        }
    )
    values["k"] = estimator.mean_ * (beside - 1.0)
    return Contributions(np.full(len(X), estimator.mean_), values, "exact: effects of who runs beside whom")


def _low_rank(estimator: LowRank, X: pd.DataFrame) -> Contributions:
    effects = _effects(estimator.effects_, X)
    values = effects.values.assign(**{"workload and others": estimator.predict(X) - effects.total()})
    return Contributions(effects.base, values, "exact: effects and hidden factors of who runs beside whom")


def _structured(estimator: StructuredGP, X: pd.DataFrame, background: pd.DataFrame | None) -> Contributions:
    found = explain_sets(estimator, X, _required(background))
    method = (
        f"Shapley values of its Gaussian processes in closed form against {found.background} training pairs (standard "
        f"error of that choice at most {found.error:.3f} in ln S), carried through to ln S; their sum is exact"
    )
    return Contributions(found.base, found.values, method, "sets", error=found.error)


def _required(background: pd.DataFrame | None) -> pd.DataFrame:
    if background is None or background.empty:
        raise NotEnoughDataError(
            "this predictor can only be explained against its training rows, and they are not in the database",
            "Load its data set again, or explain a tree-based predictor.",
        )
    return background


def _sampled(estimator: Any, X: pd.DataFrame, background: pd.DataFrame | None) -> Contributions:
    """Permutation SHAP; it is additive by construction, its split among columns is an estimate."""
    import shap

    background = _required(background)
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
