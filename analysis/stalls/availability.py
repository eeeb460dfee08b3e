"""Which stall reasons a GPU can report at all: one that it can't is not available there, which is not zero."""

from __future__ import annotations

import pandas as pd

from analysis.reference import gpus, stall_reasons
from analysis.store.database import Database
from analysis.store.filters import Filter
from analysis.store.queries import profiles


def unavailable(database: Database, chosen: Filter | None = None) -> dict[str, tuple[str, ...]]:
    """Return the stall reasons that each profiled GPU can't report.

    Parameters
    ----------
    database : Database
        The open database.
    chosen : Filter, optional
        Profiles to look at.

    Returns
    -------
    dict of str to tuple of str
        Reasons by GPU, in the order of the table of reasons; GPUs of an unknown architecture are absent.
    """
    stated = profiles.capabilities(database, chosen)
    table = gpus.load()
    reasons = [str(name) for name in stall_reasons.load().index]
    found: dict[str, tuple[str, ...]] = {}
    for gpu, rows in stated.groupby("gpu", sort=False):
        known = rows["cc"].dropna()
        listed = table["cc"].get(str(gpu))
        cc = str(known.iloc[0]) if len(known) else listed if isinstance(listed, str) else None
        if cc is not None:
            there = set(stall_reasons.available(cc))
            found[str(gpu)] = tuple(name for name in reasons if name not in there)
    return found


def by_family(shares: pd.DataFrame) -> list[tuple[str, pd.DataFrame]]:
    """Part stall shares by their family of metrics, as families have no common axis; the most rows first."""
    if shares.empty:
        return []
    names = shares["stall_family"].value_counts(sort=True).index
    return [(str(name), shares[shares["stall_family"] == name].reset_index(drop=True)) for name in names]
