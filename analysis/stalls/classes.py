"""Reasons of Nsight Compute brought to the classes of nvprof: the only words in which old and new profiles compare."""

from __future__ import annotations

import numpy as np
import pandas as pd

from analysis.reference import stall_reasons

NVPROF = "nvprof"


def in_classes(shares: pd.DataFrame, by: str) -> pd.DataFrame:
    """Bring stall shares to nvprof's classes, as percent of the cycles in which warps did not issue.

    Parameters
    ----------
    shares : pd.DataFrame
        Rows of `analysis.stalls.shares.stall_shares` of one workload on one GPU.
    by : {"workload", "kernel"}
        What a row of it stands for.

    Returns
    -------
    pd.DataFrame
        The same columns with classes as reasons; cycles are NaN, as nvprof has none. Reasons that no class stands for
        are left out. A table of nvprof's own comes back as it is.
    """
    if shares.empty or (shares["stall_family"] == NVPROF).all():
        return shares
    class_of = {reason: name for name, reasons in stall_reasons.nvprof_classes().items() for reason in reasons}
    keys = ["workload"] if by == "workload" else ["kernel", "grid", "block"]
    frame = shares.copy()
    selected = (
        frame["share"].where(frame["reason"] == "selected", 0.0).groupby([frame[k] for k in keys]).transform("sum")
    )
    # nvprof does not count the cycle in which a warp issues.
    frame["share"] = 100 * frame["share"] / (100 - selected)
    frame["reason"] = frame["reason"].map(class_of)
    frame = frame.dropna(subset=["reason"])
    first = {name: "first" for name in frame.columns if name not in (*keys, "reason", "share", "cycles")}
    brought = frame.groupby([*keys, "reason"], as_index=False, dropna=False).agg({"share": "sum", **first})
    brought["cycles"] = np.nan
    brought["group"] = [stall_reasons.group_of(str(name)) for name in brought["reason"]]
    return brought
