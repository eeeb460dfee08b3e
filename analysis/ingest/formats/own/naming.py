"""Workloads, GPUs and solo values of the own tables: who a row speaks of, and what it says of the job alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from analysis.ingest.contract import mechanisms
from analysis.ingest.contract.format import Hints
from analysis.ingest.contract.names import WorkloadParts, compose, parse_workload, phase
from analysis.ingest.formats.shared.corun_frames import workload_frame
from analysis.reference import gpus

MEASURES = ("throughput", "time")

#: Solo values that differ by more come from two campaigns.
TOLERANCE = 0.02

_NAMED = 5


def name_rows(frame: pd.DataFrame, hints: Hints) -> pd.DataFrame:
    """Fill in what a row may leave out: the GPU from the hints, the workload's name from its parts.

    Parameters
    ----------
    frame : pd.DataFrame
        Typed rows of an own table.
    hints : Hints
        ``gpu`` fills blank cells.

    Returns
    -------
    pd.DataFrame
        With ``gpu``, ``mechanism`` (where there is one) and ``workload`` under their one name; blank where nothing
        tells.
    """
    gpu = {name: gpus.canonical(name) for name in set(frame["gpu"])}
    made = frame["workload"] == ""
    names = [compose(parts) if parts.model else "" for parts in map(_parts, frame[made].to_dict("records"))]
    workload = frame["workload"].copy()
    workload[made] = names
    named = frame.assign(gpu=frame["gpu"].map(gpu).mask(frame["gpu"] == "", hints.gpu or ""), workload=workload)
    if "mechanism" in named:
        named["mechanism"] = named["mechanism"].map(mechanisms.canonical)
    return named


def _parts(row: Mapping[Any, Any]) -> WorkloadParts:
    text = {name: str(row[name]).strip() or None for name in ("model", "family", "dataset", "precision", "phase")}
    batch = float(row["batch_size"])
    return WorkloadParts(
        model=text["model"],
        family=text["family"] or text["model"],
        training_data=text["dataset"],
        batch_size=int(batch) if batch == batch else None,
        precision=text["precision"],
        phase=phase(text["phase"]),
    )


def workloads(good: pd.DataFrame) -> pd.DataFrame:
    """Return the frame ``workload``; what the columns say goes before what the name says."""
    found: dict[str, WorkloadParts] = {}
    for row in good.drop_duplicates("workload").to_dict("records"):
        name = str(row["workload"])
        parts, read = _parts(row), parse_workload(name)
        found[name] = WorkloadParts(**{**vars(read), **parts.known()})
    return workload_frame(found, found)


def solo_rows(good: pd.DataFrame) -> tuple[pd.DataFrame, list[str]]:
    """Return one solo value for each workload and GPU.

    Parameters
    ----------
    good : pd.DataFrame
        Rows without fault; a column ``S`` holds slowdowns, where there are any.

    Returns
    -------
    pd.DataFrame and list of str
        The frame ``solo``: throughput where some row states one, else time, in the unit that most rows use, as the
        median; with the largest peak memory. And a warning for every workload whose values are apart.
    """
    rows = []
    apart: list[str] = []
    # Groups of a few columns are several times faster to take apart than groups of all.
    read = [f"solo_{name}" for name in MEASURES] + ["unit", "S", "peak_memory_mib", "memory_kind"]
    narrow = good[["workload", "gpu", *(name for name in read if name in good)]]
    for (workload, gpu), part in narrow.groupby(["workload", "gpu"], sort=True):
        measure = next((name for name in MEASURES if part[f"solo_{name}"].notna().any()), None)
        unit, value = None, None
        if measure is not None:
            stated = part.dropna(subset=[f"solo_{measure}"])
            unit = stated["unit"].mode().iloc[0] or None
            values = stated.loc[stated["unit"] == (unit or ""), f"solo_{measure}"]
            value = float(values.median())
            if values.max() > values.min() * (1 + TOLERANCE):
                apart.append(f"{workload} on {gpu} has solo values from {values.min():.4g} to {values.max():.4g}")
        elif "S" in part and part["S"].notna().any():
            # Only slowdowns are known: alone the job does its work once in the time that it takes alone.
            measure, unit, value = "normalised", "normalised", 1.0
        peak = part["peak_memory_mib"].dropna()
        if measure is None and peak.empty:
            continue
        memory, kind = (None, None) if peak.empty else (peak.max(), part.at[peak.idxmax(), "memory_kind"])
        rows.append((workload, gpu, measure or "normalised", unit, value, memory, kind or None))
    warnings = [f"{text}: two campaigns?" for text in apart[:_NAMED]]
    if len(apart) > _NAMED:
        warnings.append(f"{len(apart) - _NAMED} more workloads have solo values that are apart")
    columns = ["workload", "gpu", "measure", "unit", "value", "peak_memory_mib", "memory_kind"]
    return pd.DataFrame(rows, columns=columns).astype({"value": float, "peak_memory_mib": float}), warnings
