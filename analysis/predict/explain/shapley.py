"""Contributions of the frame's columns to ln S, as the predictor that made the prediction states them."""

from __future__ import annotations

from typing import Any

import pandas as pd

from analysis.predict.predictors.base import FeatureModel, Predictor
from analysis.predict.predictors.contributions import Contributions, Explained, by_sampling, is_tree
from analysis.predict.predictors.published import OwnAndSum


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
    if isinstance(estimator, Predictor):
        return estimator.contributions(X, background)
    return by_sampling(estimator, X, background)


def explained(estimator: Any) -> Explained:
    """Say how a fitted predictor is explained; one that is not StallScope's own by sampling."""
    return estimator.explained if isinstance(estimator, Predictor) else "sampled"


def explained_exactly(estimator: Any) -> bool:
    """Say whether a fitted predictor is explained without sampling and without training rows."""
    return explained(estimator) == "exact"


def needs_background(estimator: Any) -> bool:
    """Say whether a predictor, or a part of it, is explained against training rows."""
    return explained(estimator) != "exact"


def sampled(estimator: Any) -> bool:
    """Say whether a predictor, or a part of it, can only be explained by sampling, which takes long for many rows."""
    return explained(estimator) == "sampled"


def tree_of(estimator: Any) -> Any | None:
    """Return the fitted trees behind a predictor on columns; None where it is something else."""
    if not isinstance(estimator, FeatureModel | OwnAndSum):
        return None
    model = getattr(estimator, "model_", None)
    return model if model is not None and is_tree(model) else None
