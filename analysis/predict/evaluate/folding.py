"""What happens inside one fold: fit, predict, calibrate; nothing of the test rows reaches the fit."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from analysis.predict.evaluate import intervals
from analysis.predict.evaluate.intervals import Calibration
from analysis.predict.evaluate.protocols import FOLDS, SEEDS, Fold, few_shot, grouped, left_out, unseen_gpu
from analysis.predict.frame.frame import TrainingFrame
from analysis.predict.frame.schema import Floats, Ints
from analysis.predict.predictors.ensemble import familiar
from analysis.predict.predictors.pairgp import EXACT_ROWS

#: Most groups of folds that intervals are calibrated on; more workloads than that are left out several at a time.
INNER_FOLDS = 6

#: Beyond so many training rows a few groups stand for all, and of so many workloads one is left out at a time.
SAMPLED_ROWS = EXACT_ROWS
WORKLOADS_KEPT = 50

#: Fifths of the pairs are left out of a large table until there are so many rows.
PAIR_ROWS = 1_000

#: What a left-out group is under each protocol.
_UNITS = {
    "leave-one-workload-out": "workloads", "leave-one-family-out": "families", "unseen-gpu": "GPUs",
    "few-shot": "families",
}  # fmt: skip


def inner_folds(frame: TrainingFrame, protocol: str, runs: int = 10) -> tuple[list[Fold], int, str]:
    """Divide training rows the way the protocol divides all rows, to calibrate intervals on left-out groups.

    Parameters
    ----------
    frame : TrainingFrame
        Training rows of one fold.
    protocol : str
        The outer protocol.
    runs : int
        As in `folds`, for ``few-shot``.

    Returns
    -------
    list of Fold, int, str
        The folds, the number of groups behind them, and what a group is. Where the training rows can't be divided so (a
        single GPU is left), pairs are left out instead; the measured coverage then shows what that is worth.
    """
    unit = _UNITS.get(protocol, "pairs")
    if protocol == "leave-one-workload-out":
        jobs = zip(frame.rows["workload"], frame.rows["others"], strict=True)
        sets = [frozenset((own, *others)) for own, others in jobs]
        names = sorted({name for found in sets for name in found})
        made = list(_chunks(sets, names))
    elif protocol == "leave-one-family-out":
        names = sorted({name for found in frame.rows["families"] for name in found})
        made = list(left_out(frame.rows["families"]))
    elif protocol == "few-shot":
        made = list(few_shot(frame, runs, SEEDS[:1]))
        names = sorted({fold.label for fold in made})
    elif protocol == "unseen-gpu":
        names = sorted(set(frame.rows["gpu"].astype(str)))
        made = list(unseen_gpu(frame, None, None))
    else:
        names, made = [], []
    made = [fold for fold in made if len(fold.train) >= 2 and len(fold.test)]
    if len(made) >= 2:
        return made, len(names), unit
    if protocol == "random-rows":
        return list(grouped(pd.Series(np.arange(len(frame))), SEEDS[:1], FOLDS)), len(frame), "rows"
    return list(grouped(frame.rows["pair"], SEEDS[:1], FOLDS)), int(frame.rows["pair"].nunique()), "pairs"


def inner_groups(frame: TrainingFrame, protocol: str, runs: int = 10) -> tuple[list[Ints], int, str]:
    """Return training rows that are left out together, group by group, the way the protocol leaves out test rows.

    For predictors that can leave groups out without a new fit; the others refit on `inner_folds`. Pairs are left out a
    fifth at a time, as many as the protocol leaves out.

    Returns
    -------
    list of ndarray of int, int, str
        Row numbers that are left out together, the number of groups behind them, and what a group is.
    """
    unit = _UNITS.get(protocol, "pairs")
    if len(frame) > SAMPLED_ROWS:
        return _few_groups(frame, protocol, unit, runs)
    found: list[Ints] = []
    if protocol == "leave-one-workload-out":
        jobs = zip(frame.rows["workload"], frame.rows["others"], strict=True)
        found = [fold.test for fold in left_out(frozenset((own, *others)) for own, others in jobs)]
    elif protocol == "leave-one-family-out":
        found = [fold.test for fold in left_out(frame.rows["families"])]
    elif protocol == "few-shot":
        found = [fold.test for fold in few_shot(frame, runs, SEEDS[:1])]
    elif protocol == "unseen-gpu":
        found = [fold.test for fold in unseen_gpu(frame, None, None)]
    found = [rows for rows in found if 0 < len(rows) < len(frame)]
    if len(found) >= 2:
        return found, len(found), unit
    pairs = int(frame.rows["pair"].nunique())
    return [fold.test for fold in grouped(frame.rows["pair"], SEEDS[:1], FOLDS)], pairs, "pairs"


def _few_groups(frame: TrainingFrame, protocol: str, unit: str, runs: int) -> tuple[list[Ints], int, str]:
    """Return groups of a large table: a few, because each is a new fit; they stand for the rest.

    Pairs and workloads are many, so that a few dozen left out together leave the others as they were.
    """
    lot = np.random.default_rng(SEEDS[0])
    rows = frame.rows
    if protocol == "leave-one-workload-out":
        names = lot.permutation(np.array(frame.workloads, dtype=object))
        each = max(1, len(names) // WORKLOADS_KEPT)
        groups = [frozenset(names[at * each : (at + 1) * each]) for at in range(INNER_FOLDS)]
        code, sets = pd.factorize(pd.Series(rows["others"]))
        found = []
        for group in groups:
            beside = np.array([not group.isdisjoint(names) for names in sets], dtype=bool)[code]
            found.append(np.flatnonzero(beside | rows["workload"].isin(group).to_numpy()))
        return found, sum(map(len, groups)), unit
    if protocol == "leave-one-family-out":
        folds = list(left_out(rows["families"]))
    elif protocol == "few-shot":
        folds = list(few_shot(frame, runs, SEEDS[:1]))
    elif protocol == "unseen-gpu":
        folds = list(unseen_gpu(frame, None, None))
    else:
        folds = []
    found = [fold.test for fold in folds if 0 < len(fold.test) < len(frame)]
    if len(found) >= 2:
        found = [found[at] for at in lot.permutation(len(found))[:INNER_FOLDS]]
        return found, len(found), unit
    found = []
    for fold in grouped(rows["pair"], SEEDS[:1], FOLDS):
        if sum(map(len, found)) < PAIR_ROWS:
            found.append(fold.test)
    return found, int(rows["pair"].iloc[np.concatenate(found)].nunique()), "pairs"


def _chunks(sets: Sequence[frozenset[str]], names: Sequence[str]) -> Iterator[Fold]:
    """Leave workloads out one by one, or a few at a time when there are many of them.

    A row is tested in the fold that leaves its own workload out; with several left out, rows between two of them are
    harder than under the protocol, which makes intervals a little wide rather than narrow.
    """
    order = np.random.default_rng(SEEDS[0]).permutation(len(names))
    count = min(INNER_FOLDS, len(names))
    for number in range(count):
        out = {names[position] for position in order[number::count]}
        inside = np.array([bool(out & found) for found in sets])
        yield Fold(", ".join(sorted(out)), 0, number, np.flatnonzero(~inside), np.flatnonzero(inside))


#: Up to so many training rows everything is fitted again for every left-out group; beyond, hyper-parameters that were
#: fitted with the group cost little honesty and refitting much time.
REFIT_ROWS = 600


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
    """What a fold gave: ln S of the test rows, their intervals, and how long it took; or why it gave nothing."""

    predicted: Floats
    low: Floats
    high: Floats
    calibration: Calibration | None
    fit_seconds: float
    predict_seconds: float
    failure: str | None = None


def run_fold(task: FoldTask) -> FoldResult:
    """Fit one predictor on a fold's training rows and predict its test rows; calibrate on training rows alone.

    A predictor that breaks, or answers with what is no slowdown, spoils its own row of the comparison and no other.
    """
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            # A network that stops early is still a baseline; its figure says how good it is.
            warnings.simplefilter("ignore", ConvergenceWarning)
            return _fitted_fold(task)
    except Exception as error:
        nothing = np.full(0, np.nan)
        said = " ".join(str(error).split())[:200]
        return FoldResult(nothing, nothing, nothing, None, 0.0, 0.0, f"{type(error).__name__}: {said}")


def _fitted_fold(task: FoldTask) -> FoldResult:
    frame, fold = task.frame, task.fold
    train = frame.take(fold.train)
    started = time.perf_counter()
    fitted = clone(task.estimator).fit(train.X, train.y)
    fit_seconds = time.perf_counter() - started
    started = time.perf_counter()
    predicted = np.asarray(fitted.predict(frame.X.iloc[fold.test]), dtype=np.float64)
    predict_seconds = time.perf_counter() - started
    if predicted.shape != (len(fold.test),):
        raise ValueError(f"predict gave {predicted.size:,} values for {len(fold.test):,} rows")
    wrong = ~np.isfinite(np.exp(predicted))
    if wrong.any():
        raise ValueError(f"predict gave no finite slowdown for {int(wrong.sum()):,} of {len(wrong):,} rows (ln S)")
    calibration = calibrate_by_groups(fitted, train, task.protocol, task.runs) if task.calibrate else None
    if calibration is None:
        low = high = np.full(len(predicted), np.nan)
    else:
        low, high = calibration.interval(predicted, deviation_of(fitted, frame.X.iloc[fold.test], calibration))
    return FoldResult(predicted, low, high, calibration, fit_seconds, predict_seconds)


def calibrate_by_groups(fitted: Any, train: TrainingFrame, protocol: str, runs: int = 10) -> Calibration | None:
    """Calibrate an interval on what is said of groups of training rows that are left out in turn.

    Parameters
    ----------
    fitted
        The predictor, fitted on the training rows. It is fitted again without each group (by its method ``again`` where
        it has weights to keep), except that one with a method ``left_out`` leaves groups out itself where there are
        more than `REFIT_ROWS` rows.
    train : TrainingFrame
        The training rows.
    protocol, runs
        How groups are made.

    Returns
    -------
    Calibration or None
        None where there is too little to calibrate on.
    """
    if hasattr(fitted, "left_out") and len(train) > REFIT_ROWS:
        if hasattr(fitted, "among") and (kept := familiar(train.X)) is not None and len(train) > SAMPLED_ROWS:
            fitted, train = fitted.among(kept), train.take(kept)
        held, groups, unit = inner_groups(train, protocol, runs)
        asked = (held, train.X, train.y) if hasattr(fitted, "again") else (held,)
        rows, predicted, deviation = fitted.left_out(*asked)
        sets = _sets(train, rows)
        lengths = [len(one) for one in held]
        if sum(lengths) == len(rows):  # a row may be left out with several groups: each time it is another set
            sets = sets + np.repeat(np.arange(len(held)), lengths) * len(train)
        return intervals.calibrate(predicted, train.y[rows], groups, unit, deviation=deviation, sets=sets)
    inner, groups, unit = inner_folds(train, protocol, runs)
    parts, measured, deviations, sets = [], [], [], []
    for number, fold in enumerate(inner):
        part, left = train.take(fold.train), train.X.iloc[fold.test]
        again = _again(fitted, part, left)
        parts.append(np.asarray(again.predict(left), dtype=np.float64))
        measured.append(train.y[fold.test])
        sets.append(_sets(train, fold.test) + number * len(train))
        if hasattr(again, "predict_std"):
            deviations.append(np.asarray(again.predict_std(left), dtype=np.float64))
    if not parts:
        return None
    deviation = np.concatenate(deviations) if deviations else None
    return intervals.calibrate(
        np.concatenate(parts), np.concatenate(measured), groups, unit, deviation=deviation, sets=np.concatenate(sets)
    )


def _sets(train: TrainingFrame, rows: Any) -> Any:
    """Return the number of the run that each row is a member of."""
    return pd.factorize(train.rows["run_id"])[0][rows]


def _again(fitted: Any, part: TrainingFrame, asked: pd.DataFrame) -> Any:
    """Fit a predictor again on a part of its rows; one with weights of its own keeps them."""
    if hasattr(fitted, "again"):
        return fitted.again(part.X, part.y, asked)
    return clone(fitted).fit(part.X, part.y)


def deviation_of(fitted: Any, X: pd.DataFrame, calibration: Calibration) -> Floats | None:
    """Return the predictor's standard deviations where its intervals are scaled by them."""
    if not calibration.by_deviation:
        return None
    return np.asarray(fitted.predict_std(X), dtype=np.float64)
