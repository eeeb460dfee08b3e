"""What a row of a stall table stands for, as a label and as hover text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from analysis.charts.theme import full, unique_labels
from analysis.numbers import shorten, visible

_IDENTITY = ("dataset", "workload", "gpu", "kernel", "grid", "block", "kernel_id")


def identity(frame: pd.DataFrame) -> list[str]:
    """Return the columns that identify what a row stands for."""
    found = [name for name in _IDENTITY if name in frame.columns]
    # Without full names the short one tells kernels apart: a row then stands for all kernels of it.
    return [*found, "short_name"] if "kernel" not in found and "short_name" in frame.columns else found


def things(frame: pd.DataFrame, most: int = 34) -> pd.DataFrame:
    """Return one row for each workload, kernel or launch of a table, in its order.

    Parameters
    ----------
    frame : pd.DataFrame
        Rows with the columns of `analysis.stalls.shares.KEYS`.
    most : int
        Longest label, in characters.

    Returns
    -------
    pd.DataFrame
        The identifying columns, label (short, unique, escaped; only what tells the things apart), name (the same as
        plain text) and
        hover (all of it, escaped).
    """
    keys = identity(frame)
    columns = list(dict.fromkeys([*keys, *(["short_name"] if "short_name" in frame.columns else [])]))
    found = frame[columns].drop_duplicates(keys).reset_index(drop=True)
    short = [_short(row, found) for row in found.to_dict("records")]
    found["label"] = unique_labels(short, most)
    found["name"] = [shorten(visible(text), most) for text in short]
    found["hover"] = [_long(row) for row in found[keys].to_dict("records")]
    return found


def _short(row: Mapping[Any, Any], found: pd.DataFrame) -> str:
    several = {name: name in found and found[name].nunique() > 1 for name in _IDENTITY}
    if "kernel" not in row and "short_name" in row:
        return " · ".join([str(row["short_name"]), *(str(row[name]) for name in ("workload", "gpu") if several[name])])
    if "kernel" in row:
        same_name = found[found["short_name"] == row["short_name"]]
        parts = [str(row["short_name"])]
        if len(same_name.drop_duplicates(["grid"])) > 1 and row["grid"]:
            parts.append(f"grid {row['grid']}")
        if "kernel_id" in row and len(same_name) > 1:
            parts.append(f"launch {row['kernel_id']}")
        parts += [str(row[name]) for name in ("workload", "gpu") if several[name]]
        return " · ".join(parts)
    parts = [str(row["workload"])]
    parts += [str(row[name]) for name in ("gpu", "dataset") if several[name]]
    return " · ".join(parts)


def _long(row: Mapping[Any, Any]) -> str:
    if "kernel" not in row and "short_name" in row:
        return f"<b>{full(row['short_name'])}</b>, all sizes<br>{full(row['workload'])} on {full(row['gpu'])}"
    if "kernel" not in row:
        return f"<b>{full(row['workload'])}</b><br>{full(row['gpu'])}"
    shape = f"<br>grid {full(row['grid'] or '–')}, block {full(row['block'] or '–')}"
    return f"<b>{full(row['kernel'])}</b>{shape}<br>{full(row['workload'])} on {full(row['gpu'])}"
