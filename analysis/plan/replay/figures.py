"""Figures of replays: completion times, waiting, slowdowns, violations, GPU hours, and their intervals over seeds."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from scipy import stats

from analysis.plan.replay.cluster import Replay

#: Figures of a replay, entries of the vocabulary of columns. Times are in hours, shares in percent, slowdowns ratios.
FIGURES = (
    "mean_jct_h", "median_jct_h", "p95_jct_h", "makespan_h", "mean_waiting_h", "mean_slowdown", "worst_slowdown",
    "violations", "shared", "gpu_hours",
)  # fmt: skip

#: Level of the intervals over seeds.
LEVEL = 0.95


def figures(replay: Replay, limit: float, watched: tuple[int, int] | None = None) -> dict[str, float]:
    """Return the figures of one replay.

    Parameters
    ----------
    replay : Replay
        What came of it.
    limit : float
        Largest slowdown that a job may pay, for the violations.
    watched : tuple of int, optional
        Count only the jobs with these numbers (from, up to but without); GPU hours are always of all jobs.

    Returns
    -------
    dict
        The names of `FIGURES`; NaN where no job ended. JCT (job completion time) is from arrival to end; the
        slowdown of a job is its time on GPUs over the time that the same work takes alone on them.
    """
    jobs = replay.jobs
    if watched is not None:
        jobs = jobs[(jobs["number"] >= watched[0]) & (jobs["number"] < watched[1])]
    if jobs.empty:
        return dict.fromkeys(FIGURES, float("nan"))
    jct = (jobs["finish_s"] - jobs["arrival_s"]).to_numpy(dtype=np.float64) / 3600.0
    waiting = jct - jobs["busy_s"].to_numpy(dtype=np.float64) / 3600.0
    slowdown = (jobs["busy_s"] / jobs["alone_s"]).to_numpy(dtype=np.float64)
    return {
        "mean_jct_h": float(jct.mean()),
        "median_jct_h": float(np.median(jct)),
        "p95_jct_h": float(np.quantile(jct, 0.95)),
        "makespan_h": float((jobs["finish_s"].max() - jobs["arrival_s"].min()) / 3600.0),
        "mean_waiting_h": float(max(waiting.mean(), 0.0)),
        "mean_slowdown": float(slowdown.mean()),
        "worst_slowdown": float(slowdown.max()),
        "violations": float(100.0 * (slowdown > limit * (1 + 1e-9)).mean()),
        "shared": float(100.0 * (jobs["shared_s"] > 0).mean()),
        "gpu_hours": replay.gpu_s / 3600.0,
    }


def over_seeds(values: Sequence[float]) -> tuple[float, float | None, float | None]:
    """Return the mean over seeds and the ends of its interval by Student's t; none with fewer than two seeds.

    Examples
    --------
    >>> mean, low, high = over_seeds([1.0, 2.0, 3.0])
    >>> round(mean, 2), round(low, 2), round(high, 2)
    (2.0, -0.48, 4.48)
    """
    found = np.asarray([value for value in values if np.isfinite(value)], dtype=np.float64)
    if not len(found):
        return float("nan"), None, None
    mean = float(found.mean())
    if len(found) < 2:
        return mean, None, None
    half = float(stats.t.ppf(0.5 + LEVEL / 2.0, len(found) - 1) * found.std(ddof=1) / np.sqrt(len(found)))
    return mean, mean - half, mean + half


def summary(runs: pd.DataFrame, by: Sequence[str] = ("policy",)) -> pd.DataFrame:
    """Bring one row a replay to one row a policy (and load): the mean of every figure over seeds, with its interval.

    Parameters
    ----------
    runs : pd.DataFrame
        Columns `by`, seed and the names of `FIGURES`.
    by : sequence of str
        What makes a group.

    Returns
    -------
    pd.DataFrame
        Columns `by`, seeds, and for every figure its mean under its own name, with ``_low`` and ``_high``.
    """
    rows = []
    for key, group in runs.groupby(list(by), sort=False):
        row: dict[str, object] = dict(zip(by, key if isinstance(key, tuple) else (key,), strict=True))
        row["seeds"] = int(group["seed"].nunique())
        for name in FIGURES:
            mean, low, high = over_seeds(group[name].tolist())
            row |= {name: mean, f"{name}_low": low, f"{name}_high": high}
        rows.append(row)
    return pd.DataFrame(rows)
