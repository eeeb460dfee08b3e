"""Runs of two brought to one row a directed pair: the metrics of each run, its repeats, and what caps do to them."""

from __future__ import annotations

import numpy as np
import pandas as pd

from analysis.interference.finding import counted

#: Marks of a member whose slowdown is no measurement of it.
DOUBTFUL_FLAGS = frozenset({"clipped", "hard_coded"})

#: Metrics of a run of two, as columns of `with_metrics`.
METRICS = ("stp", "antt", "fairness", "jain", "worst", "p99")


def capped_members(pairs: pd.DataFrame) -> pd.Series[bool]:
    """Say of each member whether its client was capped: fewer than all threads, or a limit of memory."""
    return (pairs["thread_percentage"].astype(float) < 100) | pairs["memory_cap_mib"].notna()


def without_caps(pairs: pd.DataFrame) -> tuple[pd.DataFrame, str | None]:
    """Prefer, pair by pair, the runs in which no client was capped; say how many capped ones are left or left out."""
    capped = capped_members(pairs).groupby(pairs["run_id"]).transform("any").astype(bool)
    if not capped.any():
        return pairs, None
    ends = pd.Series([frozenset(pair) for pair in zip(pairs["workload"], pairs["partner"], strict=True)], pairs.index)
    free = (~capped).groupby(ends).transform("any")
    kept = pairs[~capped | ~free]
    left_out = int(pairs.loc[capped & free, "run_id"].nunique())
    only = int(pairs.loc[capped & ~free, "run_id"].nunique())
    parts = [
        f"Left out: {counted(left_out, 'run')} with capped clients, whose pairs also ran without caps."
        if left_out
        else "",
        f"Shown: {counted(only, 'run')} with capped clients (thread percentage or memory); no run without caps exists."
        if only
        else "",
    ]
    return kept, " ".join(part for part in parts if part)


def with_metrics(pairs: pd.DataFrame) -> pd.DataFrame:
    """Add the metrics of each run of two; NaN where one of them did not run or has no slowdown."""
    ran = (pairs["outcome"] == "ran") & (pairs["partner_outcome"] == "ran")
    own, other = pairs["slowdown"].where(ran), pairs["partner_slowdown"].where(ran)
    pairs["both_ran"] = ran
    pairs["own"] = own
    pairs["stp"] = 1 / own + 1 / other
    pairs["antt"] = (own + other) / 2
    pairs["fairness"] = np.minimum(own, other) / np.maximum(own, other)
    pairs["jain"] = (own + other) ** 2 / (2 * (own**2 + other**2))  # the same in S as in 1/S, for two
    pairs["worst"] = np.maximum(own, other)
    pairs["p99"] = (pairs["p99_corun_ms"] / pairs["p99_solo_ms"]).where(ran)
    return pairs


def cells(pairs: pd.DataFrame) -> pd.DataFrame:
    """Bring the runs to one row a directed pair: first both members of a self pair to their mean, then repeats.

    Parameters
    ----------
    pairs : pd.DataFrame
        As `analysis.store.queries.coruns.pairs` gives them.

    Returns
    -------
    pd.DataFrame
        workload, partner, slowdown (median of the runs), low, high, the `METRICS` (medians), ran and failed (runs of
        either kind), capped (whether a client was in any of them), left_out (whether the user left out every value),
        doubtful (every run that ran has a marked value).
    """
    pairs = with_metrics(pairs)
    pairs["doubtful"] = [bool(DOUBTFUL_FLAGS.intersection(flags)) for flags in pairs["flags"]]
    pairs["capped"] = capped_members(pairs).groupby(pairs["run_id"]).transform("any").astype(bool)
    key = ["workload", "partner"]
    runs = pairs.groupby([*key, "run_id"], as_index=False).agg(
        own=("own", "mean"), ran=("both_ran", "all"), doubtful=("doubtful", "any"), capped=("capped", "any"),
        left_out=("left_out", "all"),
        **{name: (name, "mean") for name in METRICS},
    )  # fmt: skip
    runs["failed"] = ~runs["ran"]
    merged = runs.groupby(key, as_index=False).agg(
        slowdown=("own", "median"), low=("own", "min"), high=("own", "max"), ran=("ran", "sum"),
        failed=("failed", "sum"), capped=("capped", "any"), left_out=("left_out", "all"),
        **{name: (name, "median") for name in METRICS},
    )  # fmt: skip
    sound = runs[runs["ran"]].groupby(key)["doubtful"].all().rename("doubtful").reset_index()
    merged = merged.merge(sound, on=key, how="left")
    merged["doubtful"] = merged["doubtful"].fillna(False).astype(bool)
    return merged
