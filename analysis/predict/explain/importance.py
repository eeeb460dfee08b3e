"""What a model looks at: the contributions of many of its training rows, summed back to what people know."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from analysis.predict.explain.background import training_frame
from analysis.predict.explain.shapley import contributions, sampled
from analysis.predict.frame.naming import by_feature, natural
from analysis.predict.frame.schema import Floats
from analysis.predict.models import models
from analysis.store.database import Database

#: Rows behind a global explanation, and behind one that has to be sampled, which takes long.
ROWS = 500
SAMPLED_ROWS = 150


@dataclass(frozen=True)
class GlobalImportance:
    """What a model looks at, over many rows of its training data.

    Attributes
    ----------
    table : pd.DataFrame
        One row a feature: feature, whose, what, group, mean_abs (mean |SHAP| in ln S), mean, largest first.
    shap : pd.DataFrame, shape (rows, features)
        Contributions in ln S, summed back to features.
    values : pd.DataFrame, shape (rows, features)
        Main value of each feature in the unit that people know; NaN where it has none.
    units : dict of str to str
        That unit; empty where the value has none.
    rows : pd.DataFrame
        Who each row is about, and its measured S.
    base : float
        Mean prediction in ln S.
    row_base : ndarray, shape (rows,)
        Where each row's sum starts.
    method : str
        How the contributions were computed.
    additivity_error : float
        Largest |base + sum - prediction|.
    """

    table: pd.DataFrame
    shap: pd.DataFrame
    values: pd.DataFrame
    units: dict[str, str]
    rows: pd.DataFrame
    base: float
    row_base: Floats
    method: str
    additivity_error: float


def global_importance(database: Database, model_id: str, rows: int | None = None) -> GlobalImportance:
    """Explain a model over its training data.

    Parameters
    ----------
    database : Database
        The open database.
    model_id : str
        The model.
    rows : int, optional
        At most so many rows, drawn with a fixed seed; by default many where that is quick, fewer where it is sampled.

    Returns
    -------
    GlobalImportance
        Contributions summed back to features, and their means.

    Raises
    ------
    NotFoundError
        If there is no such model, or its data set is no longer loaded.
    """
    manifest, estimator = models.load(database, model_id)
    whole = frame = training_frame(database, manifest)
    most = rows or (SAMPLED_ROWS if sampled(estimator) else ROWS)
    if len(frame) > most:
        frame = frame.take(np.sort(np.random.default_rng(0).permutation(len(frame))[:most]))
    parts = contributions(estimator, frame.X, whole.X)
    predicted = np.asarray(estimator.predict(frame.X), dtype=np.float64)
    distinct, sums = by_feature(parts.values)
    shap = pd.DataFrame(sums, columns=[feature.label for feature in distinct])
    table = pd.DataFrame(
        [
            {
                "feature": feature.label, "whose": feature.whose, "what": feature.what, "group": feature.group,
                "mean_abs": float(shap[feature.label].abs().mean()), "mean": float(shap[feature.label].mean()),
            }
            for feature in distinct
        ],
        columns=["feature", "whose", "what", "group", "mean_abs", "mean"],
    )  # fmt: skip
    shown = {
        feature.label: natural(feature.main, frame.X[feature.main].to_numpy(dtype=np.float64))
        if feature.main in frame.schema.names
        else (np.full(len(frame), np.nan), "")
        for feature in distinct
    }
    values = pd.DataFrame({label: numbers for label, (numbers, _) in shown.items()}, index=range(len(frame)))
    return GlobalImportance(
        table=table.sort_values("mean_abs", ascending=False, ignore_index=True),
        shap=shap,
        values=values,
        units={label: unit for label, (_, unit) in shown.items()},
        rows=frame.rows.drop(columns=["families"]),
        base=float(np.mean(parts.base)) if len(frame) else 0.0,
        row_base=np.asarray(parts.base, dtype=np.float64),
        method=parts.method,
        additivity_error=float(np.abs(parts.total() - predicted).max()) if len(frame) else 0.0,
    )
