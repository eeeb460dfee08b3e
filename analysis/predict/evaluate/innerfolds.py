"""Divides training rows once more, the way a protocol divides all rows, to calibrate intervals on left-out groups."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pandas as pd

from analysis.predict.evaluate.protocols import FOLDS, SEEDS, Fold, few_shot, grouped, left_out, unseen_gpu
from analysis.predict.frame.frame import TrainingFrame
from analysis.predict.frame.schema import Ints

#: Most groups of folds that intervals are calibrated on; more workloads than that are left out several at a time.
INNER_FOLDS = 6

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
