"""Which GPU and which mechanism a user's words mean, in one data set."""

from __future__ import annotations

from dataclasses import dataclass

from analysis.errors import NotFoundError, UsageError
from analysis.reference import gpus
from analysis.store.database import Database
from analysis.store.filters import Filter
from analysis.store.queries import coruns, exclusions
from analysis.store.queries.sources import require_dataset


@dataclass(frozen=True)
class Choice:
    """A GPU and a mechanism as stored, and what had to be decided to get there.

    Attributes
    ----------
    gpu, mechanism : str
        As stored; the mechanism is empty where nothing was co-run on this GPU.
    notes : tuple of str
        One sentence for each decision that the user did not make, and one for what the user left out.
    """

    gpu: str
    mechanism: str
    notes: tuple[str, ...] = ()


def choose(database: Database, dataset: str, gpu: str | None = None, mechanism: str | None = None) -> Choice:
    """Find the one GPU and the one mechanism that are meant.

    Parameters
    ----------
    database : Database
        The open database.
    dataset : str
        Data set to look in.
    gpu : str, optional
        A GPU or its family; may be left out where there is only one.
    mechanism : str, optional
        How the jobs shared. Left out, it is the one with the most runs, and a note says so if there are others.

    Raises
    ------
    NotFoundError
        If the data set, the GPU in it or the mechanism on it is not there.
    UsageError
        If the words fit several GPUs.
    """
    require_dataset(database, dataset)
    measured = coruns.gpus_and_mechanisms(database, dataset)
    solos = coruns.solos(database, Filter(datasets=(dataset,)))
    available = sorted({*measured["gpu"].astype(str), *solos["gpu"].astype(str)})
    found = gpus.resolve(gpu, available)
    if not found:
        there = f"it has {', '.join(available)}" if available else "it has no co-runs and no solo runs"
        wanted = f"GPU {gpu!r}" if gpu else "any GPU"
        raise NotFoundError(f"data set {dataset!r} has no measurements on {wanted}", f"Choose another: {there}.")
    if len(found) > 1:
        raise UsageError(
            f"data set {dataset!r} has several GPUs that fit: {', '.join(found)}", "Name one of them with --gpu."
        )
    chosen = found[0]
    left_out = exclusions.said(database, Filter(datasets=(dataset,), gpus=(chosen,)), "coruns")
    notes = (left_out,) if left_out else ()
    here = measured[measured["gpu"] == chosen].sort_values("runs", ascending=False, kind="stable")
    mechanisms = [str(name) for name in here["mechanism"]]
    if mechanism is not None and mechanism.casefold() not in [name.casefold() for name in mechanisms]:
        there = f"it was measured under {', '.join(mechanisms)}" if mechanisms else "nothing was co-run there"
        raise NotFoundError(f"data set {dataset!r} has no runs under {mechanism!r} on {chosen}", f"Note that {there}.")
    if mechanism is not None:
        return Choice(chosen, next(name for name in mechanisms if name.casefold() == mechanism.casefold()), notes)
    if not mechanisms:
        return Choice(chosen, "", (f"Nothing was co-run on {chosen} yet.", *notes))
    others = ", ".join(mechanisms[1:])
    told = (f"Shown is {mechanisms[0]}, with the most runs; measured too: {others}.",) if others else ()
    return Choice(chosen, mechanisms[0], (*told, *notes))
