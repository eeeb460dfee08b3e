"""A model's predictions for all pairs of a matrix at once, with intervals where measured co-runs stand behind them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

from analysis.interference.layers import Predicted
from analysis.predict.evaluate.folding import deviation_of
from analysis.predict.evaluate.intervals import Calibration
from analysis.predict.frame import profiles, whitebox_sets
from analysis.predict.frame.features import rows_for_sets
from analysis.predict.frame.frame import all_pairs
from analysis.predict.frame.terms import WHITE_BOX, schema
from analysis.predict.models import models
from analysis.predict.models.manifest import Manifest
from analysis.reference import gpus as reference
from analysis.store.database import Database

Bools = npt.NDArray[np.bool_]

#: Rows that are built and predicted at once.
BLOCK = 100_000

#: Protocols that intervals are calibrated by: jobs that the model knows, and sets with one that it doesn't.
_BY = ("unseen-pair", "leave-one-workload-out")


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
        table = whitebox_sets.attach(table, database, manifest.dataset)
    keys = pd.MultiIndex.from_tuples([(gpu, name) for name in workloads], names=["gpu", "workload"])
    size = len(workloads)
    predicted, low, high = (np.full((size, size), np.nan) for _ in range(3))
    by = _calibrations(manifest, workloads) if seen and how in manifest.mechanisms else []
    for targets, X in blocks_of_pairs(table.reindex(keys), gpu, how, manifest.columns):
        values = np.asarray(estimator.predict(X), dtype=np.float64)
        predicted[targets] = values.reshape(-1, size)
        for _, calibration, square in by:
            rows = square[targets].ravel()
            if rows.any():
                part = X.loc[rows].reset_index(drop=True)
                ends = calibration.interval(values[rows], deviation_of(estimator, part, calibration))
                low[targets][square[targets]], high[targets][square[targets]] = ends
    notes += [
        f"{100 * calibration.level:.0f} % intervals are calibrated by {protocol}, on {calibration.groups} left-out "
        f"{calibration.unit}."
        for protocol, calibration, _ in by
    ]
    if np.isnan(low).all():
        notes.append("No measured co-run stands behind an interval here, so none is shown.")
    return PredictedPairs(Predicted(np.exp(predicted), np.exp(low), np.exp(high)), manifest, tuple(notes))


def blocks_of_pairs(
    table: pd.DataFrame, gpu: str, mechanism: str, columns: Sequence[str], most: int = BLOCK
) -> Iterator[tuple[slice, pd.DataFrame]]:
    """Build the rows of all ordered pairs a few targets at a time, so that a thousand workloads fit into memory.

    Parameters
    ----------
    table : pd.DataFrame
        Profiles of the workloads, index (gpu, workload).
    gpu, mechanism : str
        Where and how they share.
    columns : sequence of str
        Columns that the predictor reads; those that say how jobs share and where are always there.
    most : int
        Rows of a block, at least those of one target.

    Yields
    ------
    slice, pd.DataFrame
        The targets, and their rows: each beside every workload in the order of the table.
    """
    size = len(table)
    step = max(1, most // max(size, 1))
    wanted = [column.name for column in schema() if column.name in set(columns) or column.what == "configuration"]
    for start in range(0, size, step):
        stop = min(start + step, size)
        yield slice(start, stop), all_pairs(table, gpu, mechanism, wanted, start, stop)


def _calibrations(manifest: Manifest, workloads: Sequence[str]) -> list[tuple[str, Calibration, Bools]]:
    """Return the calibrations that there are, each with the pairs it speaks for: known jobs, or any other."""
    known = np.isin(np.array(workloads, dtype=object), manifest.workloads)
    both = known[:, None] & known[None, :]
    found = [
        (protocol, manifest.calibrated(protocol), pairs) for protocol, pairs in zip(_BY, (both, ~both), strict=True)
    ]
    return [(protocol, calibration, pairs) for protocol, calibration, pairs in found if calibration and pairs.any()]


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
