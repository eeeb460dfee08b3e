"""What policies may know before a pair ever ran: out-of-fold predictions, and each job's utilisation alone."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from analysis.errors import NotEnoughDataError
from analysis.interference.decision import LIMIT
from analysis.plan.replay.pairtable import Array, PairTable
from analysis.predict.evaluate import execution, protocols
from analysis.predict.evaluate.execution import Progress
from analysis.predict.evaluate.folding import FoldTask, run_fold
from analysis.predict.frame import features, profiles
from analysis.predict.frame.frame import TrainingFrame
from analysis.predict.predictors.base import needs
from analysis.predict.predictors.registry import DEFAULT, get
from analysis.store.database import Database

PROTOCOL = "unseen-pair"


def out_of_fold(
    database: Database,
    truth: PairTable,
    predictor: str = DEFAULT,
    *,
    limit: float = LIMIT,
    seed: int = 0,
    progress: Progress | None = None,
) -> PairTable:
    """Predict every measured pair by a model that has not seen it: 5 folds of unordered pairs on each GPU.

    Parameters
    ----------
    database : Database
        The open database.
    truth : PairTable
        As `pairtable.measured` gives it; pairs that it has no slowdown for get no prediction.
    predictor : str
        A name of `analysis.predict.predictors.registry.PREDICTORS`.
    limit : float
        Slowdown that the probabilities of `PairTable.within` are about.
    seed : int
        Of the division into folds.
    progress : callable, optional
        Called with the fraction done and a message; may raise to cancel.

    Returns
    -------
    PairTable
        Its ``within`` comes from the residuals of pairs in other folds on the same GPU, both members of a pair taken
        together.

    Raises
    ------
    NotEnoughDataError
        If the predictor lacks its inputs or a fold could not be fitted.
    """
    key = (truth.dataset, truth.gpus, truth.mechanism, predictor, seed, truth.workloads)
    logs, folds = database.cached(
        "replay predictions", key, lambda: _predict(database, truth, predictor, seed, progress)
    )
    slowdown = np.where(np.isnan(truth.slowdown), np.nan, np.exp(logs))
    return replace(truth, slowdown=slowdown, within=_within(logs, folds, np.log(truth.slowdown), float(np.log(limit))))


def _predict(
    database: Database, truth: PairTable, predictor: str, seed: int, progress: Progress | None
) -> tuple[Array, Array]:
    """Return predicted ln S and the number of the fold that held the pair out, GPUs x workloads x workloads."""
    size = len(truth.workloads)
    shape = (len(truth.gpus), size, size)
    total, count, folds = np.zeros(shape), np.zeros(shape), np.full(shape, np.nan)
    spec = get(predictor)
    tasks: list[FoldTask] = []
    for gpu in truth.gpus:
        frame = features.build(
            database, truth.dataset, [gpu], [truth.mechanism], include_flagged=True, white_box=spec.white_box
        )
        frame = frame.take(np.flatnonzero(frame.rows["k"].to_numpy() == 2))
        missing = needs(spec.make(), frame.X)
        if missing:
            raise NotEnoughDataError(
                f"{spec.title} can't predict the pairs of {truth.dataset}, it {missing}", "Choose another predictor."
            )
        tasks += [
            FoldTask(spec.name, spec.make(), frame, fold, PROTOCOL, False, 10)
            for fold in protocols.grouped(frame.rows["pair"], (seed,), protocols.FOLDS)
        ]
    for number, result in execution.run(run_fold, tasks, progress, describe=lambda one: f"predicting by {one}"):
        task = tasks[number]
        if result.failure:
            raise NotEnoughDataError(
                f"{spec.title} could not be fitted on the pairs of {truth.dataset}: {result.failure}",
                "Choose another predictor with --predictor.",
            )
        at = _cells(truth, task.frame, task.fold.test)
        known = at[1] >= 0
        cells = tuple(part[known] for part in at)
        np.add.at(total, cells, result.predicted[known])
        np.add.at(count, cells, 1.0)
        folds[cells] = task.fold.number
    with np.errstate(invalid="ignore"):
        return total / np.where(count > 0, count, np.nan), folds


def _cells(truth: PairTable, frame: TrainingFrame, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return where rows of the frame stand in the table; -1 for workloads that it does not know."""
    place = {name: i for i, name in enumerate(truth.workloads)}
    about = frame.rows.iloc[rows]
    own = np.array([place.get(str(name), -1) for name in about["workload"]])
    other = np.array([place.get(str(names[0]), -1) for names in about["others"]])
    gpu = np.array([truth.gpus.index(str(name)) for name in about["gpu"]])
    own = np.where(other < 0, -1, own)
    return gpu, own, other


def _within(logs: Array, folds: Array, measured: Array, limit: float) -> Array:
    """Return the probability that both of a pair stay within ln of the limit.

    The distribution is that of the residuals of pairs in the other folds, in ln S, each divided by a scale that grows
    with the predicted slowdown; own and partner's residual of a pair stay together.
    """
    within = np.full_like(logs, np.nan)
    for gpu in range(len(logs)):
        rows, columns = np.nonzero(~np.isnan(logs[gpu]) & ~np.isnan(logs[gpu].T) & ~np.isnan(measured[gpu]))
        if not len(rows):
            continue
        predicted = np.stack([logs[gpu][rows, columns], logs[gpu][columns, rows]])
        residual = np.stack([measured[gpu][rows, columns], measured[gpu][columns, rows]]) - predicted
        scale = _scale(predicted, residual)
        scaled = residual / scale
        fold = folds[gpu][rows, columns]
        for number in np.unique(fold):
            mine, others = fold == number, fold != number
            if not others.any():
                continue
            room = (limit - predicted[:, mine]) / scale[:, mine]
            both = (scaled[0, others] <= room[0][:, None]) & (scaled[1, others] <= room[1][:, None])
            within[gpu, rows[mine], columns[mine]] = both.mean(axis=1)
    return within


def _scale(predicted: Array, residual: Array) -> Array:
    """Return how large residuals usually are at a predicted slowdown."""
    strength = np.maximum(predicted, 0.0).ravel()
    design = np.column_stack([np.ones_like(strength), strength])
    floor, slope = np.linalg.lstsq(design, np.abs(residual).ravel(), rcond=None)[0]
    typical = max(float(np.abs(residual).mean()), 1e-6)
    slope = max(float(slope), 0.0)
    floor = max(float(floor), 0.2 * typical) if slope > 0 else typical
    return np.asarray(floor + slope * np.maximum(predicted, 0.0), dtype=np.float64)


def utilisation(database: Database, truth: PairTable) -> Array | None:
    """Return each workload's SM utilisation alone (0 to 1), GPUs x workloads; None where nothing tells it."""
    table = profiles.collect(database, truth.dataset, truth.gpus)
    if "sm_util" not in table or table["sm_util"].isna().all():
        return None
    wide = table["sm_util"].unstack("workload").reindex(index=list(truth.gpus), columns=list(truth.workloads))
    return wide.to_numpy(dtype=np.float64)
