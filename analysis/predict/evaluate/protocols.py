"""How training and test rows are divided. Folds are made of groups, so that nothing of a test group is trained on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from analysis.errors import NotEnoughDataError, UsageError
from analysis.predict.frame.frame import TrainingFrame
from analysis.predict.frame.schema import Ints

SEEDS = (0, 1, 2)
FOLDS = 5

#: Protocols by name, with the sentence that stands beside every figure.
PROTOCOLS: dict[str, str] = {
    "random-rows": "random rows, 5 folds x 3 seeds; leaky: the same pairs and repeats stand on both sides",
    "unseen-pair": "pairs that were never seen together, 5 folds x 3 seeds over unordered pairs",
    "leave-one-workload-out": "a workload that was never seen, in no run of the training rows",
    "leave-one-family-out": "a model family that was never seen, in no run of the training rows",
    "unseen-gpu": "a GPU that was never seen; trained on other GPUs",
    "pairs-to-k": "sets of three and more, trained on pairs; members whose pairs are all measured",
    "few-shot": "a new model family with a few of its runs measured, 3 seeds",
}

#: Protocols that are shown only as a contrast.
LEAKY = frozenset({"random-rows"})

#: A family needs this many runs to take part in few-shot.
FEW_SHOT_RUNS = 30


@dataclass(frozen=True)
class Fold:
    """One division of the rows.

    Attributes
    ----------
    label : str
        What is held out, for people.
    seed, number : int
        Seed of the division and the fold's number in it.
    train, test : ndarray of int
        Row numbers of the frame.
    """

    label: str
    seed: int
    number: int
    train: Ints
    test: Ints


def prepare(frame: TrainingFrame, protocol: str) -> TrainingFrame:
    """Return the rows that a protocol is about: pairs, except where sets of three and more are the point.

    Raises
    ------
    UsageError
        If there is no such protocol.
    """
    if protocol not in PROTOCOLS:
        raise UsageError(f"there is no protocol {protocol!r}", f"Choose one of {', '.join(PROTOCOLS)}.")
    k = frame.rows["k"].to_numpy()
    if protocol == "pairs-to-k":
        return frame.take(np.flatnonzero(k >= 2))
    smallest = int(k.min()) if len(k) else 2
    return frame.take(np.flatnonzero(k == max(2, smallest)))


def folds(
    frame: TrainingFrame,
    protocol: str,
    *,
    gpu: str | None = None,
    train_gpus: Sequence[str] | None = None,
    runs: int = 10,
    seeds: Sequence[int] = SEEDS,
    n_folds: int = FOLDS,
) -> list[Fold]:
    """Divide the rows of a frame by a protocol.

    Parameters
    ----------
    frame : TrainingFrame
        The rows, as `prepare` returns them.
    protocol : str
        A name of `PROTOCOLS`.
    gpu : str, optional
        For ``unseen-gpu``: the GPU to test on.
    train_gpus : sequence of str, optional
        For ``unseen-gpu``: GPUs to train on; all others by default.
    runs : int, default 10
        For ``few-shot``: measured runs of the new family among the training rows.
    seeds : sequence of int
        Seeds of the random divisions.
    n_folds : int
        Folds of each random division.

    Returns
    -------
    list of Fold
        Rows of a fold's test set never stand in its training set.

    Raises
    ------
    NotEnoughDataError
        If the rows can't be divided so.
    UsageError
        If the protocol is unknown or lacks a GPU.
    """
    if protocol == "unseen-pair":
        made = grouped(frame.rows["pair"], seeds, n_folds)
    elif protocol == "random-rows":
        made = grouped(pd.Series(np.arange(len(frame))), seeds, n_folds)
    elif protocol == "leave-one-workload-out":
        members = [
            frozenset((own, *others)) for own, others in zip(frame.rows["workload"], frame.rows["others"], strict=True)
        ]
        made = left_out(members)
    elif protocol == "leave-one-family-out":
        made = left_out(frame.rows["families"])
    elif protocol == "unseen-gpu":
        made = unseen_gpu(frame, gpu, train_gpus)
    elif protocol == "pairs-to-k":
        made = _pairs_to_k(frame)
    elif protocol == "few-shot":
        made = few_shot(frame, runs, seeds)
    else:
        raise UsageError(f"there is no protocol {protocol!r}", f"Choose one of {', '.join(PROTOCOLS)}.")
    usable = [fold for fold in made if len(fold.train) and len(fold.test)]
    if not usable:
        raise NotEnoughDataError(
            f"the co-runs of {frame.dataset} can't be divided by protocol {protocol}: {_why(frame, protocol)}",
            "Choose another protocol, or load more co-runs.",
        )
    return usable


def grouped(groups: pd.Series, seeds: Sequence[int], n_folds: int) -> Iterator[Fold]:
    """Divide rows into folds so that the rows of one group stay together, once for each seed."""
    codes, unique = pd.factorize(groups, sort=True)
    count = min(n_folds, len(unique))
    if count < 2:
        return
    for seed in seeds:
        fold_of = np.empty(len(unique), dtype=np.int64)
        fold_of[np.random.default_rng(seed).permutation(len(unique))] = np.arange(len(unique)) % count
        row_fold = fold_of[codes]
        for number in range(count):
            label = f"seed {seed}, fold {number + 1} of {count}"
            yield Fold(label, seed, number, np.flatnonzero(row_fold != number), np.flatnonzero(row_fold == number))


def left_out(members: Iterable[frozenset[str]]) -> Iterator[Fold]:
    """Hold out, one name after the other, every row whose run has the name among its members."""
    rows_of: dict[str, list[int]] = {}
    count = 0
    for row, found in enumerate(members):
        count = row + 1
        for name in found:
            rows_of.setdefault(name, []).append(row)
    for number, name in enumerate(sorted(rows_of)):
        inside = np.array(rows_of[name], dtype=np.int64)
        yield Fold(name, 0, number, np.delete(np.arange(count), inside), inside)


def unseen_gpu(frame: TrainingFrame, gpu: str | None, train_gpus: Sequence[str] | None) -> Iterator[Fold]:
    """Hold out a GPU, or each in turn, and train on others."""
    column = frame.rows["gpu"].astype(str).to_numpy()
    available = sorted(set(column))
    tests = [gpu] if gpu is not None else available
    for number, test in enumerate(tests):
        train = [name for name in (train_gpus or available) if name != test]
        label = f"{', '.join(train)} to {test}"
        yield Fold(label, 0, number, np.flatnonzero(np.isin(column, train)), np.flatnonzero(column == test))


def _pairs_to_k(frame: TrainingFrame) -> Iterator[Fold]:
    rows = frame.rows
    pairs = rows["k"].to_numpy() == 2
    place = list(zip(rows["gpu"], rows["mechanism"], strict=True))
    measured = {
        (*place[number], rows["workload"].iloc[number], rows["others"].iloc[number][0])
        for number in np.flatnonzero(pairs)
    }
    whole = np.array(
        [
            not pairs[number] and all((*place[number], own, other) in measured for other in others)
            for number, (own, others) in enumerate(zip(rows["workload"], rows["others"], strict=True))
        ]
    )
    yield Fold("pairs to larger sets", 0, 0, np.flatnonzero(pairs), np.flatnonzero(whole))


def few_shot(frame: TrainingFrame, runs: int, seeds: Sequence[int]) -> Iterator[Fold]:
    """Hold out a family but for a few of its runs, which are trained on."""
    run_ids = frame.rows["run_id"].to_numpy()
    for fold in left_out(frame.rows["families"]):
        of_family = np.unique(run_ids[fold.test])
        if len(of_family) < FEW_SHOT_RUNS:
            continue
        for seed in seeds:
            picked = np.random.default_rng(seed).permutation(of_family)[:runs]
            measured = np.isin(run_ids[fold.test], picked)
            train = np.concatenate([fold.train, fold.test[measured]])
            yield Fold(f"{fold.label}, seed {seed}", seed, fold.number, train, fold.test[~measured])


def _why(frame: TrainingFrame, protocol: str) -> str:
    if protocol == "unseen-gpu":
        return f"it has the GPU {', '.join(sorted(set(frame.rows['gpu'].astype(str))))} only"
    if protocol == "pairs-to-k":
        return "it has no measured set of three or more whose pairs are all measured"
    if protocol == "few-shot":
        return f"no family has {FEW_SHOT_RUNS} runs or more"
    if protocol == "leave-one-family-out":
        return "it has a single family"
    return "there are too few different runs"
