"""The training rows that explanations start from, read once for as long as nothing is written."""

from __future__ import annotations

from typing import Any

import pandas as pd

from analysis.errors import NotEnoughDataError
from analysis.predict.explain.shapley import needs_background
from analysis.predict.frame import features
from analysis.predict.frame.frame import TrainingFrame
from analysis.predict.frame.terms import WHITE_BOX
from analysis.predict.models.manifest import Manifest
from analysis.store.database import Database


def training_frame(database: Database, manifest: Manifest) -> TrainingFrame:
    """Return the rows that a model learned from, as the database has them now; nobody may change them.

    Raises
    ------
    NotFoundError
        If the model's data set is no longer loaded.
    NotEnoughDataError
        If no co-run of it is left.
    """
    solve = WHITE_BOX in manifest.columns
    key = (manifest.dataset, tuple(manifest.gpus), tuple(manifest.mechanisms), solve)
    return database.cached("training frame", key,
        lambda: features.build(database, manifest.dataset, manifest.gpus, manifest.mechanisms, white_box=solve),
    )  # fmt: skip


def of_training(database: Database, manifest: Manifest, estimator: Any) -> pd.DataFrame | None:
    """Return training rows for predictors that are explained against some; None where they are gone."""
    if not needs_background(estimator):
        return None
    try:
        return training_frame(database, manifest).X
    except NotEnoughDataError:
        return None
