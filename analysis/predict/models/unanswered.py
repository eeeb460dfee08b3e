"""Asking without any model: no figure, but memory, measurements of the very set, and what to measure first."""

from __future__ import annotations

from typing import Self

import numpy as np
import pandas as pd

from analysis.errors import UsageError
from analysis.predict.frame import profiles
from analysis.predict.frame.schema import Floats
from analysis.predict.frame.terms import schema
from analysis.predict.models.manifest import Manifest, package_versions, schema_hash
from analysis.predict.predictors.base import Predictor
from analysis.reference.mechanism_names import MPS
from analysis.store.database import Database
from analysis.store.queries.sources import is_simulated, require_dataset

#: Stands in the place of a predictor; with a data set behind it, of a model.
NAME = "no-model"
_START = f"{NAME}:"


class Unanswered(Predictor):
    """No predictor: it has no figure for any set."""

    columns_: tuple[str, ...] = ()

    def fit(self, X: pd.DataFrame, y: Floats) -> Self:
        """Learn nothing."""
        return self

    def predict(self, X: pd.DataFrame) -> Floats:
        """Return NaN for every row."""
        return np.full(len(X), np.nan)


def asked_for(model_id: str) -> str | None:
    """Return the data set that is asked about without a model; None for a model.

    Raises
    ------
    UsageError
        If no data set is named.
    """
    if model_id == NAME:
        raise UsageError("without a model the data set has to be named", f"Write {_START}DATASET.")
    return model_id.removeprefix(_START) if model_id.startswith(_START) else None


def model_id_of(dataset: str) -> str:
    """Return what stands in the place of a model's name for a data set."""
    return f"{_START}{dataset}"


def card(database: Database, dataset: str) -> Manifest:
    """Return the card of what stands for no model: the jobs and GPUs of a data set, and nothing learned.

    Raises
    ------
    NotFoundError
        If there is no such data set.
    """
    require_dataset(database, dataset)
    table = profiles.collect(database, dataset)
    gpus = table.index.get_level_values("gpu").astype(str)
    jobs = sorted(set(table.index.get_level_values("workload").astype(str)))
    return Manifest(
        model_id=model_id_of(dataset),
        predictor=NAME,
        title="No model",
        source="",
        dataset=dataset,
        simulated=is_simulated(database, dataset),
        gpus=list(pd.Series(gpus).value_counts().index) if len(gpus) else ["unknown"],
        mechanisms=[MPS, "time-slicing", "static SM partition"],
        workloads=jobs,
        families=sorted({str(name) for name in table["family"].dropna()}),
        k=[2, 3, 4],
        rows=0,
        runs=0,
        left_out={},
        flagged=[],
        data_hash="",
        schema_hash=schema_hash(schema()),
        columns=[],
        ranges={},
        calibration={},
        versions=package_versions(),
        created_at="",
        payload_sha256="",
        payload_bytes=0,
    )
