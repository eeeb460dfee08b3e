"""A model's predictions for all pairs of a matrix at once, with intervals where measured co-runs stand behind them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from analysis.interference.layers import Predicted
from analysis.predict import models, profiles, whiteboxsets
from analysis.predict.features import rows_for_sets
from analysis.predict.folding import deviation_of
from analysis.predict.frame import all_pairs
from analysis.predict.manifest import Manifest
from analysis.predict.schema import Floats
from analysis.predict.terms import WHITE_BOX
from analysis.reference import gpus as reference
from analysis.store.database import Database


@dataclass(frozen=True, eq=False)
class PredictedPairs:
    """Predictions of all ordered pairs.

    Attributes
    ----------
    values : Predicted
        Slowdown and interval, in the order asked for; NaN ends where no measured co-run stands behind an interval.
    model : Manifest
        The model.
    notes : tuple of str
        Why the predictions may be beyond the model's data, and what the intervals rest on.
    """

    values: Predicted
    model: Manifest
    notes: tuple[str, ...]


def predict_pairs(
    database: Database, model_id: str, gpu: str, mechanism: str, workloads: Sequence[str]
) -> PredictedPairs:
    """Predict every workload beside every other, and beside itself.

    Parameters
    ----------
    database : Database
        The open database.
    model_id : str
        A stored model.
    gpu, mechanism : str
        Where and how they share, as stored.
    workloads : sequence of str
        Workloads of the model's data set.

    Raises
    ------
    NotFoundError, ModelRefusedError
        As `models.load`.
    """
    manifest, estimator = models.load(database, model_id)
    seen = reference.resolve(gpu, manifest.gpus)
    how = mechanism or manifest.mechanisms[0]
    notes = list(manifest.notes)
    if not seen:
        notes.append(f"The model has seen {', '.join(manifest.gpus)}, not {gpu}: its predictions are extrapolations.")
    if how not in manifest.mechanisms:
        notes.append(f"The model has seen {', '.join(manifest.mechanisms)}, not {how}.")
    table = profiles.collect(database, manifest.dataset)
    if WHITE_BOX in manifest.columns:
        table = whiteboxsets.attach(table, database, manifest.dataset)
    keys = pd.MultiIndex.from_tuples([(gpu, name) for name in workloads], names=["gpu", "workload"])
    X = all_pairs(table.reindex(keys), gpu, how)
    predicted = np.asarray(estimator.predict(X), dtype=np.float64)
    size = len(workloads)
    low, high = np.full(size * size, np.nan), np.full(size * size, np.nan)
    if seen and how in manifest.mechanisms:
        known = np.isin(np.array(workloads, dtype=object), manifest.workloads)
        both = (known[:, None] & known[None, :]).ravel()
        for protocol, rows in (("unseen-pair", both), ("leave-one-workload-out", ~both)):
            calibration = manifest.calibrated(protocol)
            if calibration is not None and rows.any():
                part = X.loc[rows].reset_index(drop=True)
                low[rows], high[rows] = calibration.interval(
                    predicted[rows], deviation_of(estimator, part, calibration)
                )
                notes.append(
                    f"{100 * calibration.level:.0f} % intervals are calibrated by {protocol}, on {calibration.groups} "
                    f"left-out {calibration.unit}."
                )
    if np.isnan(low).all():
        notes.append("No measured co-run stands behind an interval here, so none is shown.")
    return PredictedPairs(
        Predicted(_square(predicted, size), _square(low, size), _square(high, size)), manifest, tuple(notes)
    )


def _square(values: Floats, size: int) -> Floats:
    return np.asarray(np.exp(values).reshape(size, size), dtype=np.float64)


def predict_sets(
    database: Database, model_id: str, gpu: str, mechanism: str, sets: Sequence[tuple[str, ...]]
) -> list[tuple[float, ...]]:
    """Predict the slowdowns of many sets of jobs at once.

    Parameters
    ----------
    database : Database
        The open database.
    model_id : str
        A stored model.
    gpu, mechanism : str
        Where and how they share, as stored.
    sets : sequence of tuple of str
        Workloads of the model's data set; a name may stand twice.

    Returns
    -------
    list of tuple of float
        One S a job, set by set; NaN for a GPU or a mechanism that the model has not seen, where it would only guess.
    """
    manifest, estimator = models.load(database, model_id)
    if not sets:
        return []
    if not reference.resolve(gpu, manifest.gpus) or mechanism not in manifest.mechanisms:
        return [(float("nan"),) * len(one) for one in sets]
    X = rows_for_sets(profiles.collect(database, manifest.dataset), sets, gpu, mechanism)
    values = iter(np.exp(np.asarray(estimator.predict(X), dtype=np.float64)).tolist())
    return [tuple(next(values) for _ in one) for one in sets]
