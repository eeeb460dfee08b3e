"""The result of an evaluation: one row a predictor, with its out-of-fold predictions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from analysis.predict.evaluate import metrics
from analysis.predict.evaluate.folding import FoldResult, FoldTask
from analysis.predict.evaluate.intervals import Calibration
from analysis.predict.evaluate.protocols import Fold
from analysis.predict.frame.frame import TrainingFrame
from analysis.predict.predictors.registry import PredictorSpec

#: Columns of a comparison, in the order of the command line's JSON.
ROW_COLUMNS = (
    "predictor", "protocol", "status", "fold_count", "n", "mape", "mape_folds", "median_ape", "p95_ape", "within_10",
    "spearman", "bias", "skill", "mape_ci", "coverage", "width", "title", "kind", "groups", "group_unit", "fit_seconds",
    "predict_seconds",
)  # fmt: skip


@dataclass(frozen=True)
class Evaluation:
    """A comparison of predictors under one protocol.

    Attributes
    ----------
    evaluation_id, dataset, protocol : str
        Its id, and what it is about.
    sentence : str
        The protocol in words, to stand beside every figure.
    rows : list of dict
        One a predictor, with the keys of `ROW_COLUMNS`; errors, shares and coverage in percent, width in S. A predictor
        without its inputs has a status ``needs: ...`` and None everywhere; one that made the data itself
        says ``not ranked: ...``.
    predictions : pd.DataFrame
        Out-of-fold predictions, the columns of the store.
    n, runs, workloads : int
        Members, runs and workloads behind the comparison.
    gpus, mechanisms : list of str
        Where they were measured.
    left_out : mapping of str to int
        Members left out, by reason.
    flagged : list of str
        Workloads left out because the data checks doubt them.
    simulated, leaky : bool
        Whether a simulator made the data; whether the protocol lets a test row's twin into training.
    notes : list of str
        What is to be said beside the figures: the mechanism that was chosen, predictors without a rank.
    request : mapping
        What was asked for.
    seconds : float
        How long it took.
    """

    evaluation_id: str
    dataset: str
    protocol: str
    sentence: str
    rows: list[dict[str, Any]]
    predictions: pd.DataFrame
    n: int
    runs: int
    workloads: int
    gpus: list[str]
    mechanisms: list[str]
    left_out: Mapping[str, int]
    flagged: list[str]
    simulated: bool
    leaky: bool
    notes: list[str]
    request: Mapping[str, Any]
    seconds: float

    def table(self) -> pd.DataFrame:
        """Return the comparison as a frame with the columns of `ROW_COLUMNS`."""
        return pd.DataFrame(self.rows, columns=list(ROW_COLUMNS))

    def summary(self) -> dict[str, Any]:
        """Return everything but the predictions, as plain values."""
        skipped = ("predictions",)
        return {name: value for name, value in self.__dict__.items() if name not in skipped}


@dataclass
class Collected:
    """Results of one predictor as they come in."""

    parts: dict[int, pd.DataFrame] = field(default_factory=dict)
    calibrations: list[Calibration] = field(default_factory=list)
    fit_seconds: float = 0.0
    predict_seconds: float = 0.0
    failure: str | None = None


def fold_predictions(task: FoldTask, result: FoldResult) -> pd.DataFrame:
    """Return a fold's predictions with the columns of the store, slowdowns as plain ratios."""
    rows = task.frame.rows.iloc[task.fold.test]
    return pd.DataFrame(
        {
            "predictor": task.predictor,
            "seed": task.fold.seed,
            "fold": task.fold.number,
            "run_id": rows["run_id"].to_numpy(),
            "slot": rows["slot"].to_numpy(),
            "workload": rows["workload"].to_numpy(),
            "co_workloads": rows["others"].to_numpy(),
            "gpu": rows["gpu"].to_numpy(),
            "mechanism": rows["mechanism"].to_numpy(),
            "measured": rows["slowdown"].to_numpy(),
            "predicted": np.exp(result.predicted),
            "low": np.exp(result.low),
            "high": np.exp(result.high),
        }
    )


def bootstrap_of(about: TrainingFrame, frame: TrainingFrame, folds: Sequence[Fold]) -> metrics.WorkloadBootstrap | None:
    """Return the draws that all predictors of a comparison share; None with a single workload."""
    if len(about.workloads) < 2:
        return None
    order = np.concatenate([fold.test for fold in folds])
    return metrics.WorkloadBootstrap(metrics.run_workloads(frame.rows.iloc[order]))


def comparison_row(
    spec: PredictorSpec,
    protocol: str,
    status: str,
    collected: Collected | None,
    fold_count: int,
    bootstrap: metrics.WorkloadBootstrap | None,
) -> dict[str, Any]:
    """Return one predictor's row of the comparison; figures are None where it did not run."""
    row: dict[str, Any] = dict.fromkeys(ROW_COLUMNS)
    row |= {
        "predictor": spec.name, "protocol": protocol, "status": status, "fold_count": fold_count, "title": spec.title,
        "kind": spec.kind,
    }  # fmt: skip
    if collected is None or not collected.parts:
        return row
    predictions = pd.concat([part for _, part in sorted(collected.parts.items())], ignore_index=True)
    row |= metrics.figures(predictions)
    if bootstrap is not None:
        errors = metrics.absolute_percentage_errors(
            predictions["measured"].to_numpy(dtype=np.float64), predictions["predicted"].to_numpy(dtype=np.float64)
        )
        interval = bootstrap.interval(errors)
        row["mape_ci"] = list(interval) if interval else None
    row["fit_seconds"] = collected.fit_seconds
    row["predict_seconds"] = collected.predict_seconds
    if collected.calibrations:
        row["groups"] = min(calibration.groups for calibration in collected.calibrations)
        row["group_unit"] = collected.calibrations[0].unit
    return row
