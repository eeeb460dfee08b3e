"""The same pairs on several GPUs: whether a slowdown, an order or a verdict carries over."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from scipy.stats import spearmanr

from analysis.interference.matrix import DID_NOT_RUN, MEASURED, SlowdownMatrix, slowdown_matrix
from analysis.store.database import Database
from analysis.store.queries import coruns

#: How wrong a slowdown was that was copied from another GPU, mean absolute percentage error over pairs of GPUs in
#: public data sets.
PUBLISHED_ERROR = (15.0, 55.0)


def matrices(
    database: Database, dataset: str, mechanism: str | None = None, gpus: Sequence[str] = ()
) -> dict[str, SlowdownMatrix]:
    """Return the matrix of every GPU that was measured under one mechanism.

    Parameters
    ----------
    database : Database
        The open database.
    dataset : str
        Data set.
    mechanism : str, optional
        By default the one that most GPUs were measured under; never two mixed.
    gpus : sequence of str
        Only these; all by default.

    Returns
    -------
    dict
        GPU -> matrix, by name.
    """
    measured = coruns.gpus_and_mechanisms(database, dataset)
    if gpus:
        measured = measured[measured["gpu"].isin(list(gpus))]
    if measured.empty:
        return {}
    if mechanism is None:
        counts = measured.groupby("mechanism").agg(gpus=("gpu", "nunique"), runs=("runs", "sum"))
        mechanism = str(counts.sort_values(["gpus", "runs"], ascending=False, kind="stable").index[0])
    there = measured.loc[measured["mechanism"] == mechanism, "gpu"]
    return {str(gpu): slowdown_matrix(database, dataset, str(gpu), mechanism) for gpu in sorted(set(there))}


def same_pairs(found: Mapping[str, SlowdownMatrix]) -> pd.DataFrame:
    """Return every directed pair that was measured soundly on at least two GPUs.

    Returns
    -------
    pd.DataFrame
        workload, beside, family, gpu, slowdown (NaN: did not run), worst (larger S of the two), state; one row a pair
        and GPU. Flagged cells stay out.
    """
    parts = []
    for gpu, matrix in found.items():
        table = matrix.table()[["workload", "beside", "slowdown", "worst", "state"]]
        family = dict(zip(matrix.workloads, matrix.families, strict=True))
        parts.append(table.assign(gpu=gpu, family=table["workload"].map(family)))
    if not parts:
        return pd.DataFrame(columns=["workload", "beside", "slowdown", "worst", "state", "gpu", "family"])
    rows = pd.concat(parts, ignore_index=True)
    rows = rows[rows["state"].isin([MEASURED, DID_NOT_RUN])]
    several = rows.groupby(["workload", "beside"])["gpu"].transform("nunique") > 1
    return rows[several].reset_index(drop=True)


def transfers(pairs: pd.DataFrame, limit: float) -> pd.DataFrame:
    """Return how well a slowdown carries over, for every GPU it could be copied from and to.

    Parameters
    ----------
    pairs : pd.DataFrame
        As `same_pairs` gives them.
    limit : float
        Slowdown up to which a pair may share.

    Returns
    -------
    pd.DataFrame
        source, target, cells (measured on both), spearman (rank correlation), copy_error (mean of |S on source / S on
        target - 1|, percent), bias (signed mean, percent; below 0: too low, the dangerous side), pairs (unordered, that
        ran on both), changed (of those: within the limit on one and not on the other), did_not_run (pairs that did not
        run on one of them, or on both).
    """
    wide = pairs.pivot(index=["workload", "beside"], columns="gpu", values="slowdown")
    rows = []
    for source, target in itertools.permutations(wide.columns, 2):
        both = wide[[source, target]].dropna()
        relative = 100 * (both[source] / both[target] - 1)
        sides = changed_sides(pairs, source, target, limit)
        enough = len(both) > 2 and both[source].nunique() > 1 and both[target].nunique() > 1
        rows.append(
            {
                "source": source, "target": target, "cells": len(both),
                "spearman": float(spearmanr(both[source], both[target]).statistic) if enough else math.nan,
                "copy_error": float(relative.abs().mean()) if len(both) else math.nan,
                "bias": float(relative.mean()) if len(both) else math.nan,
                "pairs": int(sides["ran"].sum()), "changed": int((sides["changed"] & sides["ran"]).sum()),
                "did_not_run": int((~sides["ran"]).sum()),
            }
        )  # fmt: skip
    columns = ["source", "target", "cells", "spearman", "copy_error", "bias", "pairs", "changed", "did_not_run"]
    return pd.DataFrame(rows, columns=columns)


def changed_sides(pairs: pd.DataFrame, source: str, target: str, limit: float) -> pd.DataFrame:
    """Return the unordered pairs with a verdict on both GPUs, those that change sides of the limit first.

    Returns
    -------
    pd.DataFrame
        workload, beside, source_worst and target_worst (larger S of the two; NaN: did not run), change (such as
        ``within on P100, beyond on V100``, empty where both agree), changed, ran (on both).
    """
    once = pairs[pairs["workload"] <= pairs["beside"]]
    keys = ["workload", "beside"]
    left, right = (
        once[once["gpu"] == gpu].set_index(keys)[["worst", "state"]].add_suffix(f"_{side}")
        for gpu, side in ((source, "source"), (target, "target"))
    )
    both = left.join(right, how="inner").reset_index()
    # A pair whose other member was not soundly measured has no verdict.
    verdict = {side: _verdict(both[f"worst_{side}"], both[f"state_{side}"], limit) for side in ("source", "target")}
    known = (verdict["source"] != "") & (verdict["target"] != "")
    changed = known & (verdict["source"] != verdict["target"])
    either = (verdict["source"] == "within") | (verdict["target"] == "within")
    table = pd.DataFrame(
        {
            "workload": both["workload"], "beside": both["beside"], "source_worst": both["worst_source"],
            "target_worst": both["worst_target"], "changed": changed & either,
            "ran": (both["state_source"] == MEASURED) & (both["state_target"] == MEASURED),
            "change": np.where(
                changed & either, verdict["source"] + f" on {source}, " + verdict["target"] + f" on {target}", ""
            ),
        }
    )[known].reset_index(drop=True)  # fmt: skip
    gap = (np.log(table["source_worst"]) - np.log(table["target_worst"])).abs().fillna(np.inf)
    order = table.assign(gap=gap).sort_values(["changed", "gap"], ascending=[False, False], kind="stable").index
    return table.loc[order].reset_index(drop=True)


def _verdict(worst: pd.Series[float], state: pd.Series[str], limit: float) -> pd.Series:
    words = np.where(state == DID_NOT_RUN, "did not run", np.where(worst <= limit, "within", "beyond"))
    return pd.Series(np.where((state == MEASURED) & worst.isna(), "", words), index=worst.index, dtype=object)
