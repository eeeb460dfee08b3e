"""Which mechanism a comparison or a model is about: one at a time, never several pooled without being asked."""

from __future__ import annotations

from collections.abc import Sequence

from analysis.store.database import Database
from analysis.store.queries import coruns


def most_measured(database: Database, dataset: str, gpus: Sequence[str] | None = None) -> list[tuple[str, int]]:
    """Return a data set's mechanisms with their numbers of runs, the most measured first.

    Parameters
    ----------
    database : Database
        The open database.
    dataset : str
        The data set.
    gpus : sequence of str, optional
        Canonical names; all by default.
    """
    found = coruns.gpus_and_mechanisms(database, dataset)
    if gpus is not None:
        found = found[found["gpu"].isin(list(gpus))]
    runs = found.groupby("mechanism", sort=True)["runs"].sum()
    return [(str(name), int(count)) for name, count in sorted(runs.items(), key=lambda item: (-item[1], item[0]))]


def choose(
    database: Database, dataset: str, gpus: Sequence[str] | None, asked: str | None
) -> tuple[list[str] | None, list[str]]:
    """Return the mechanisms to filter by, and what is to be said about a choice that nobody made.

    A slowdown under MIG and one under time-slicing are different quantities, so they are not averaged: without a choice
    it is the mechanism with the most runs.

    Parameters
    ----------
    database, dataset, gpus
        As in `most_measured`.
    asked : str or None
        The mechanism that was asked for.

    Returns
    -------
    tuple
        A filter, None for all; sentences, none where there was nothing to choose.
    """
    known = most_measured(database, dataset, gpus)
    if asked is not None:
        return [next((name for name, _ in known if name.casefold() == asked.casefold()), asked)], []
    if len(known) < 2:
        return None, []
    (first, runs), *others = known
    rest = sum(count for _, count in others)
    return [first], [
        f"{dataset} holds {len(known)} mechanisms, which are never pooled: this is {first} alone, the one with the "
        f"most runs ({runs:,}); {rest:,} runs under {', '.join(name for name, _ in others)} are left out. "
        "Name another mechanism to see it."
    ]
