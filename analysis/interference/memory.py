"""Do jobs fit in a GPU's memory together? What is unknown is said to be unknown."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

import numpy as np
import pandas as pd

from analysis.numbers import significant
from analysis.reference import gpus
from analysis.store.database import Database
from analysis.store.filters import Filter
from analysis.store.queries import coruns, pairs, telemetry

Memory = Literal["fits", "tight", "does_not_fit", "unknown"]

#: Said of jobs that ran together every time, though nobody knows their peaks.
UNKNOWN_YET_RAN = "Nobody knows their peaks of memory; they ran together, so they fit."

#: MiB that the driver needs for each process beside what a framework reports; nvidia-smi's figure includes it.
CONTEXT_MIB = 500.0

#: From this part of the GPU's memory on it is tight: fragmentation and peaks that a profile missed can break it.
TIGHT = 0.9


def memory_fit(peaks_mib: Sequence[float], kinds: Sequence[str | None], capacity_mib: float) -> Memory:
    """Say whether the jobs fit together.

    Parameters
    ----------
    peaks_mib : sequence of float
        Peak memory of each job alone; NaN where unknown.
    kinds : sequence of str or None
        What each peak is: nvidia-smi (with the context), reserved, allocated (without).
    capacity_mib : float
        The GPU's memory; NaN where unknown.

    Returns
    -------
    str
        fits, tight (above 90 % of the memory), does_not_fit, or unknown.
    """
    needed = needs(peaks_mib, kinds)
    known = needed[np.isfinite(needed)]
    if np.isfinite(capacity_mib) and known.sum() > capacity_mib:
        return "does_not_fit"  # what is known is too much already
    if len(known) < len(needed) or not np.isfinite(capacity_mib):
        return "unknown"
    return "tight" if known.sum() > TIGHT * capacity_mib else "fits"


def needs(peaks_mib: Sequence[float], kinds: Sequence[str | None]) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Return the MiB that each job takes, with its process's context; NaN where unknown."""
    return np.array(
        [
            float(peak) + (0.0 if kind == "nvidia-smi" else CONTEXT_MIB)
            for peak, kind in zip(peaks_mib, kinds, strict=True)
        ],
        dtype=np.float64,
    )


def capacity(gpu: str) -> float:
    """Return a GPU's memory in MiB, NaN for an unknown GPU or one that comes in several sizes."""
    table = gpus.load()
    name = gpus.canonical(gpu)
    return float(table["memory_mib"].get(name, np.nan))


def peaks(database: Database, dataset: str, gpu: str) -> pd.DataFrame:
    """Return each workload's largest known peak memory on a GPU.

    Returns
    -------
    pd.DataFrame
        Index workload; peak_memory_mib and memory_kind. Solo measurements come first, then what a co-run stated for the
        member, then the largest sample of telemetry; workloads without any are absent.
    """
    return database.cached("peak memory", (dataset, gpu), lambda: _peaks(database, dataset, gpu))


def _peaks(database: Database, dataset: str, gpu: str) -> pd.DataFrame:
    here = Filter(datasets=(dataset,), gpus=(gpu,))
    columns = ["workload", "peak_memory_mib", "memory_kind"]
    sampled = telemetry.of_workloads(database, dataset)
    sampled = sampled[sampled["gpu"] == gpu].assign(memory_kind="nvidia-smi")[columns]

    def largest(frame: pd.DataFrame) -> pd.DataFrame:
        known = frame.dropna(subset=["peak_memory_mib"]).sort_values("peak_memory_mib", ascending=False, kind="stable")
        return known.drop_duplicates("workload")

    found = [
        largest(coruns.solos(database, here)[columns]),
        pairs.peaks(database, dataset, gpu),
        largest(sampled),
    ]
    return pd.concat(found).drop_duplicates("workload").set_index("workload")


def after_running(memory: Memory, ran: bool) -> Memory:
    """Return the verdict on jobs that ran together, every time: what ran fits, whatever the peaks alone add up to.

    Peaks alone need not fall together, and frameworks give memory back when it gets scarce.
    """
    return "fits" if ran and memory in ("does_not_fit", "unknown") else memory


def comparable(kinds: Sequence[str | None]) -> str:
    """Say how peaks of several kinds were made comparable; blank where all are nvidia-smi's."""
    other = sorted({kind or "not stated" for kind in kinds if kind != "nvidia-smi"})
    if not other:
        return ""
    cache = " Allocated memory leaves out what the framework keeps in reserve, so it is a lower bound."
    return (
        f"To peaks of the kind {' and '.join(other)} {CONTEXT_MIB:,.0f} MiB were added for each process's context, "
        f"which only nvidia-smi counts.{cache if 'allocated' in other else ''}"
    )


def memory_sentence(
    verdict: Memory, needed_mib: float, capacity_mib: float, kinds: Sequence[str | None] = (), *, ran: bool = False
) -> str:
    """Say a verdict on memory with its numbers, and how peaks of other kinds than nvidia-smi's were counted.

    Parameters
    ----------
    verdict : str
        As `memory_fit` or `after_running` returns it.
    needed_mib, capacity_mib : float
        Sum of the needs, and the GPU's memory.
    kinds : sequence of str or None
        What the peaks are.
    ran : bool
        Whether the jobs ran together.
    """
    if verdict == "fits" and math.isnan(needed_mib):
        return UNKNOWN_YET_RAN
    told = comparable(kinds) if verdict != "unknown" else ""
    if ran and needed_mib > capacity_mib:
        text = f"They ran together, though their peaks alone add up to {significant(needed_mib / 1024)} of "
        return f"{text}{significant(capacity_mib / 1024)} GiB. {told}".rstrip()
    return f"{_plain_sentence(verdict, needed_mib, capacity_mib)} {told}".rstrip()


def _plain_sentence(verdict: Memory, needed_mib: float, capacity_mib: float) -> str:
    of = f"{significant(needed_mib / 1024)} of {significant(capacity_mib / 1024)} GiB"
    return {
        "fits": f"The memory fits: {of}.",
        "tight": f"The memory is tight: {of}.",
        "does_not_fit": f"The memory does not fit: {of} are needed.",
        "unknown": "Whether the memory fits is unknown.",
    }[verdict]
