"""Which rows a question is about: data set, GPU, one mechanism, and what predictors may see of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from analysis.errors import NotEnoughDataError, UsageError
from analysis.predict.evaluate import protocols
from analysis.predict.frame import features
from analysis.predict.frame import mechanism as onemechanism
from analysis.predict.frame.frame import TrainingFrame
from analysis.reference import gpus as reference
from analysis.store.database import Database
from analysis.store.queries import coruns
from analysis.store.queries.sources import require_dataset

#: Kinds of features that can be chosen; how jobs are configured is always seen.
EVIDENCE = ("stalls", "counters", "duty cycle", "white box")


@dataclass(frozen=True)
class Selected:
    """The rows that a question is about.

    Attributes
    ----------
    frame : TrainingFrame
        The rows.
    test_gpu, train_gpus : str or None, list of str or None
        Under ``unseen-gpu``, what was asked for.
    notes : tuple of str
        What is to be said about the choice of rows.
    """

    frame: TrainingFrame
    test_gpu: str | None
    train_gpus: list[str] | None
    notes: tuple[str, ...]


def select_frame(
    database: Database,
    dataset: str,
    protocol: str,
    gpu: str | None,
    train_gpus: Sequence[str] | None,
    mechanism: str | None,
    include_flagged: bool,
    *,
    white_box: bool = False,
    evidence: Sequence[str] | None = None,
) -> Selected:
    """Build the frame of one mechanism; under ``unseen-gpu`` the GPU that was asked for is the test, not a filter.

    With `evidence`, predictors see the columns of these kinds alone, beside how the jobs are configured; the others are
    gaps.
    """
    if protocol not in protocols.PROTOCOLS:
        raise UsageError(f"there is no protocol {protocol!r}", f"Choose one of {', '.join(protocols.PROTOCOLS)}.")
    require_dataset(database, dataset)
    available = sorted(set(coruns.gpus_and_mechanisms(database, dataset)["gpu"].astype(str)))
    options = {"include_flagged": include_flagged, "white_box": white_box}
    if protocol != "unseen-gpu":
        gpus = resolve_gpus(gpu, available, dataset)
        mechanisms, notes = onemechanism.choose(database, dataset, gpus, mechanism)
        built = _only(features.build(database, dataset, gpus, mechanisms, **options), evidence)
        return Selected(built, None, None, tuple(notes))
    test = resolve_gpus(gpu, available, dataset)[0] if gpu else None
    train = [name for word in train_gpus or () for name in resolve_gpus(word, available, dataset)] or None
    wanted = None if train is None or test is None else [*train, test]
    mechanisms, notes = onemechanism.choose(database, dataset, wanted, mechanism)
    built = _only(features.build(database, dataset, wanted, mechanisms, **options), evidence)
    return Selected(built, test, train, tuple(notes))


def _only(frame: TrainingFrame, evidence: Sequence[str] | None) -> TrainingFrame:
    """Leave the columns of some kinds of evidence, and the configuration; the others become gaps."""
    if not evidence:
        return frame
    unknown = [name for name in evidence if name not in EVIDENCE]
    if unknown:
        raise UsageError(f"there are no features of the kind {unknown[0]!r}", f"Choose of {', '.join(EVIDENCE)}.")
    hidden = [one.name for one in frame.schema if one.what in EVIDENCE and one.what not in evidence]
    X = frame.X.copy()
    X[[name for name in hidden if name in X]] = np.nan
    return replace(frame, X=X)


def resolve_gpus(wanted: str | None, available: Sequence[str], dataset: str) -> list[str]:
    """Return the GPUs of a data set's co-runs that a user's word means.

    Raises
    ------
    NotEnoughDataError
        If the data set has no co-run on it.
    """
    found = reference.resolve(wanted, available)
    if not found:
        there = ", ".join(available) if available else "no GPU at all"
        raise NotEnoughDataError(
            f"data set {dataset} has no co-run on {wanted}", f"Choose one of those it was measured on: {there}."
        )
    return found
