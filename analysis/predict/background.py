"""The training rows that explanations start from, read once for as long as nothing is written."""

from __future__ import annotations

from typing import Any
from weakref import WeakKeyDictionary

import pandas as pd

from analysis.errors import NotEnoughDataError
from analysis.predict import features
from analysis.predict.frame import TrainingFrame
from analysis.predict.manifest import Manifest
from analysis.predict.shapley import needs_background
from analysis.predict.terms import WHITE_BOX
from analysis.store.database import Database

#: Frames kept for each database.
_MOST = 3

_Key = tuple[int, str, tuple[str, ...], tuple[str, ...], bool]
_KEPT: WeakKeyDictionary[Database, dict[_Key, TrainingFrame]] = WeakKeyDictionary()


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
    key = (database.version, manifest.dataset, tuple(manifest.gpus), tuple(manifest.mechanisms), solve)
    kept = _KEPT.setdefault(database, {})
    found = kept.get(key)
    if found is None:
        found = features.build(database, manifest.dataset, manifest.gpus, manifest.mechanisms, white_box=solve)
        for old in [one for one in kept if one[0] != database.version] + list(kept)[: max(len(kept) - _MOST + 1, 0)]:
            kept.pop(old, None)
        kept[key] = found
    return found


def of_training(database: Database, manifest: Manifest, estimator: Any) -> pd.DataFrame | None:
    """Return training rows for predictors that are explained against some; None where they are gone."""
    if not needs_background(estimator):
        return None
    try:
        return training_frame(database, manifest).X
    except NotEnoughDataError:
        return None
