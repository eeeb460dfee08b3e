"""What is known of a trained model: the manifest that travels with its bytes, and the card made from it."""

from __future__ import annotations

import hashlib
import json
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any

import numpy as np
import pandas as pd
from pydantic import BaseModel, ConfigDict, Field

from analysis.predict.evaluate.intervals import Calibration
from analysis.predict.frame.frame import TrainingFrame
from analysis.predict.frame.schema import FeatureSchema

#: Raised when a manifest gains or loses meaning, or a stored predictor has other parts than before.
FORMAT = 2

#: Packages whose versions decide whether a stored estimator still means the same.
PACKAGES = ("stallscope", "scikit-learn", "numpy", "skops")


class Manifest(BaseModel):
    """Manifest of a model; the model card shows the same fields.

    Attributes
    ----------
    format : int
        Version of this manifest.
    model_id, predictor, title, source : str
        Its id, the predictor, and where that comes from.
    dataset : str
        What it learned from; simulated says whether a simulator made that.
    gpus, mechanisms, workloads, families : list of str
        What it has seen.
    k : list of int
        Sizes of the sets it has seen.
    rows, runs : int
        Members and runs it learned from.
    left_out, flagged
        What was left out.
    notes : list of str
        What is to be said about the choice of rows and the predictor.
    data_hash : str
        Hash of features and targets.
    schema_hash, columns
        The feature schema, and the columns that the model uses.
    ranges : dict
        Smallest and largest value of each used column among the training rows.
    calibration : dict
        By protocol: how predictions become intervals; None where there was too little to calibrate on.
    protocol_results : list
        Rows of the latest stored comparison of this predictor on this data set, by protocol.
    sources : list
        Files behind the data: name and sha256.
    versions : dict
        Versions of the packages that wrote it.
    payload_sha256, payload_bytes
        The estimator's bytes.
    """

    model_config = ConfigDict(extra="forbid")

    format: int = FORMAT
    model_id: str
    predictor: str
    title: str
    source: str
    dataset: str
    simulated: bool
    gpus: list[str]
    mechanisms: list[str]
    workloads: list[str]
    families: list[str]
    k: list[int]
    rows: int
    runs: int
    left_out: dict[str, int]
    flagged: list[str]
    notes: list[str] = Field(default_factory=list)
    data_hash: str
    schema_hash: str
    columns: list[str]
    ranges: dict[str, tuple[float, float]]
    calibration: dict[str, dict[str, Any] | None]
    protocol_results: list[dict[str, Any]] = Field(default_factory=list)
    sources: list[dict[str, str]] = Field(default_factory=list)
    versions: dict[str, str]
    created_at: str
    payload_sha256: str
    payload_bytes: int

    def calibrated(self, protocol: str) -> Calibration | None:
        """Return the calibration of a protocol, or None."""
        found = self.calibration.get(protocol)
        return None if found is None else Calibration(**found)


def schema_hash(schema: FeatureSchema) -> str:
    """Return a hash of the columns' names, units and meanings."""
    return hashlib.sha256(json.dumps(schema.to_json(), sort_keys=True).encode()).hexdigest()


def package_versions() -> dict[str, str]:
    """Return the versions of the packages that decide what a stored estimator means."""
    return {name: version(name) for name in PACKAGES}


def now() -> str:
    """Return the present time in UTC, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def used_columns(estimator: Any) -> list[str]:
    """Return the numeric columns that a fitted estimator reads, parts of averages included, in the frame's order."""
    own = list(getattr(estimator, "columns_", []))
    for _, part in getattr(estimator, "parts_", []):
        own += used_columns(part)
    return list(dict.fromkeys(own))


def column_ranges(frame: TrainingFrame, columns: list[str]) -> dict[str, tuple[float, float]]:
    """Return the smallest and largest training value of each column that is known at all."""
    values: pd.DataFrame = frame.X[columns]
    low, high = values.min(), values.max()
    return {
        name: (float(low[name]), float(high[name]))
        for name in columns
        if np.isfinite(low[name]) and np.isfinite(high[name])
    }
