"""One side of a comparison: a workload on a GPU, found by what a user calls it."""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd

from analysis.errors import NotFoundError, UsageError
from analysis.reference import gpus, stall_reasons
from analysis.store.database import Database
from analysis.store.filters import Filter
from analysis.store.queries import profiles


@dataclass(frozen=True)
class Side:
    """A profile to compare.

    Attributes
    ----------
    dataset, workload, gpu : str
        What it is of.
    chosen : Filter
        Its launches.
    simulated : bool
        Whether a simulator made it.
    cc : str or None
        Compute capability, from the file or from the GPU's name.
    """

    dataset: str
    workload: str
    gpu: str
    chosen: Filter
    simulated: bool
    cc: str | None

    @property
    def name(self) -> str:
        """Workload and GPU in words."""
        return f"{self.workload} on {self.gpu}"

    def available(self) -> frozenset[str] | None:
        """Return the stall reasons that this GPU can report, None where its architecture is unknown."""
        return None if self.cc is None else frozenset(stall_reasons.available(self.cc))


def side(database: Database, chosen: Filter) -> Side:
    """Make a side of a filter that leaves one workload on one GPU.

    Raises
    ------
    NotFoundError
        If no profile passes the filter.
    UsageError
        If several do, with their names.
    """
    launches = profiles.kernels(database, chosen)
    found = launches[["dataset", "workload", "gpu"]].drop_duplicates()
    if found.empty:
        raise NotFoundError(f"there is no profile of {chosen.sentence()}", "Import one, or widen the choice.")
    if len(found) > 1:
        names = "; ".join(f"{row['workload']}@{row['gpu']}" for row in found.head(6).to_dict("records"))
        raise UsageError(
            f"a side of a comparison is one workload on one GPU, and {chosen.sentence()} holds {len(found)}",
            f"Name one of: {names}.",
        )
    dataset, workload, gpu = (str(found.iloc[0][name]) for name in ("dataset", "workload", "gpu"))
    narrowed = chosen.with_(datasets=(dataset,), workloads=(workload,), gpus=(gpu,))
    return Side(dataset, workload, gpu, narrowed, bool(launches["simulated"].any()), _capability(launches, gpu))


def find(database: Database, text: str, dataset: str | None = None) -> Side:
    """Find the side that a user names.

    Parameters
    ----------
    database : Database
        The open database.
    text : str
        ``WORKLOAD``, ``WORKLOAD@GPU``, or the name of an imported file; the GPU may be a family.
    dataset : str, optional
        Restrict to one data set.

    Raises
    ------
    NotFoundError, UsageError
        As `side`.
    """
    launches = profiles.kernels(database, Filter(datasets=(dataset,) if dataset else ()))
    for name, gpu in _readings(text):
        rows = launches[launches["workload"] == name]
        if gpu is not None:
            rows = rows[rows["gpu"].isin(gpus.resolve(gpu, rows["gpu"].unique()))]
        if len(rows):
            return side(database, _filter(rows).with_(workloads=(name,)))
    files = launches[launches["file_name"] == text]
    if len(files):
        return side(database, _filter(files).with_(sources=tuple(int(s) for s in files["source_id"].unique())))
    known = ", ".join(
        f"{w}@{g}" for w, g in launches[["workload", "gpu"]].drop_duplicates().head(8).itertuples(index=False)
    )
    raise NotFoundError(
        f"there is no profile called {text!r}",
        f"Name a workload, WORKLOAD@GPU or an imported file; profiled are: {known or 'none yet'}.",
    )


def _readings(text: str) -> list[tuple[str, str | None]]:
    """A workload's name may hold an @ itself, so the whole text comes first."""
    name, at, gpu = text.rpartition("@")
    return [(text, None), *([(name, gpu)] if at else [])]


def _filter(rows: pd.DataFrame) -> Filter:
    return Filter(datasets=tuple(sorted(set(rows["dataset"]))), gpus=tuple(sorted(set(rows["gpu"]))))


def _capability(launches: pd.DataFrame, gpu: str) -> str | None:
    stated = launches["cc"].dropna()
    if len(stated):
        return str(stated.iloc[0])
    table = gpus.load(simulated=True)
    return str(table.at[gpu, "cc"]) if gpu in table.index and isinstance(table.at[gpu, "cc"], str) else None
