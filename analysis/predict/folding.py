"""What happens inside one fold: fit, predict, calibrate; nothing of the test rows reaches the fit."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone

from analysis.predict import intervals, protocols
from analysis.predict.frame import TrainingFrame
from analysis.predict.intervals import Calibration
from analysis.predict.protocols import Fold
from analysis.predict.schema import Floats


@dataclass(frozen=True)
class FoldTask:
    """One predictor in one fold; carries its rows, so that it can run on another machine."""

    predictor: str
    estimator: Any
    frame: TrainingFrame
    fold: Fold
    protocol: str
    calibrate: bool
    runs: int

    def __str__(self) -> str:
        return f"{self.predictor}: {self.fold.label}"


@dataclass(frozen=True)
class FoldResult:
    """What a fold gave: ln S of the test rows, their intervals, and how long it took."""

    predicted: Floats
    low: Floats
    high: Floats
    calibration: Calibration | None
    fit_seconds: float
    predict_seconds: float


def run_fold(task: FoldTask) -> FoldResult:
    """Fit one predictor on a fold's training rows and predict its test rows; calibrate on training rows alone."""
    frame, fold = task.frame, task.fold
    train = frame.take(fold.train)
    started = time.perf_counter()
    fitted = clone(task.estimator).fit(train.X, train.y)
    fit_seconds = time.perf_counter() - started
    started = time.perf_counter()
    predicted = np.asarray(fitted.predict(frame.X.iloc[fold.test]), dtype=np.float64)
    predict_seconds = time.perf_counter() - started
    calibration = calibrate_by_groups(task.estimator, train, task.protocol, task.runs) if task.calibrate else None
    if calibration is None:
        low = high = np.full(len(predicted), np.nan)
    else:
        low, high = calibration.interval(predicted)
    return FoldResult(predicted, low, high, calibration, fit_seconds, predict_seconds)


def calibrate_by_groups(estimator: Any, train: TrainingFrame, protocol: str, runs: int = 10) -> Calibration | None:
    """Leave groups of the training rows out in turn and calibrate an interval on what was predicted for them."""
    inner, groups, unit = protocols.inner_folds(train, protocol, runs)
    predicted, measured = [], []
    for fold in inner:
        part = train.take(fold.train)
        fitted = clone(estimator).fit(part.X, part.y)
        predicted.append(np.asarray(fitted.predict(train.X.iloc[fold.test]), dtype=np.float64))
        measured.append(train.y[fold.test])
    if not predicted:
        return None
    return intervals.calibrate(np.concatenate(predicted), np.concatenate(measured), groups, unit)
