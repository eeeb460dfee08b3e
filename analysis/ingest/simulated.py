"""Files that a simulator wrote say so in their text; what they hold never passes for measured."""

from __future__ import annotations

from analysis.errors import InputRefusedError, Where
from analysis.ingest.format import Opened
from analysis.store.database import Database
from analysis.store.queries import sources

#: Stands in the first lines of every file that StallScope's simulator writes.
MARK = "simulated by StallScope"

#: The data set of the simulated sample that ships with StallScope; measurements have no place in it.
SAMPLE = "sample"

_FIRST = 8192


def is_simulated(opened: Opened) -> bool:
    """Say whether a file states that a simulator wrote it."""
    return MARK in opened.head[:_FIRST]


def check_dataset(database: Database, dataset: str, opened: Opened) -> bool:
    """Return whether a file is simulated, once it may go into the data set.

    Raises
    ------
    InputRefusedError
        If simulated and measured values would share a data set.
    """
    simulated = is_simulated(opened)
    held = sources.is_simulated(database, dataset)
    holds = dataset == SAMPLE if held is None else held
    if simulated and not holds and held is not None:
        raise InputRefusedError(
            f"it is simulated, and the data set {dataset} holds measurements",
            "Load it into a data set of its own with --dataset.",
            Where(opened.name),
        )
    if holds and not simulated:
        raise InputRefusedError(
            f"it is measured, and the data set {dataset} is simulated",
            "Load it into another data set with --dataset.",
            Where(opened.name),
        )
    return simulated
