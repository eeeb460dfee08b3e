"""MIG profiles of GPUs: how many slices of a GPU, and how much of its memory, each takes."""

from __future__ import annotations

from functools import lru_cache

import pandas as pd

from analysis.reference import gpus
from analysis.settings import asset


@lru_cache(maxsize=1)
def load() -> pd.DataFrame:
    """Return all profiles, one row a board and profile.

    Returns
    -------
    pd.DataFrame
        gpu, profile, compute_slices, memory_slices, sm_count and sm_count_most (SMs of an instance; they differ where
        boards of one name do), memory_mib, source.
    """
    return pd.read_csv(asset("data", "mig_profiles.csv"))


def profiles(gpu: str) -> dict[str, pd.DataFrame]:
    """Return the profiles of a GPU, smallest first.

    Parameters
    ----------
    gpu : str
        A GPU, or a family that comes in several sizes, such as ``A100``.

    Returns
    -------
    dict
        One table for each size that the name fits; empty for a GPU without MIG.
    """
    table = load()
    found = {str(name): part for name, part in table.groupby("gpu", sort=False) if gpus.matches(str(name), gpu)}
    by = ["memory_mib", "compute_slices"]
    return {name: part.sort_values(by, kind="stable").reset_index(drop=True) for name, part in found.items()}
