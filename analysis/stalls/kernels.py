"""Which kernels matter: time, launches and what each waits for, as one table."""

from __future__ import annotations

import hashlib

import pandas as pd

from analysis.errors import UsageError
from analysis.stalls.rules import METRICS, RULES
from analysis.stalls.shares import KEYS, stall_shares
from analysis.stalls.timing import one_file_each
from analysis.stalls.verdict import verdicts
from analysis.store.database import Database
from analysis.store.filters import Filter
from analysis.store.queries import kernels as queries
from analysis.store.queries import profiles
from analysis.store.queries.launches import launches

#: What a row can stand for: a kernel at one size, or all kernels of one short name.
LEVELS = ("kernel", "name")

COLUMNS = [
    "launches", "time_ns", "mean_ns", "time_share", "kind", "reason", "reason_share", "reason_from", "accounted",
    "stalled", "files", "simulated", "key",
]  # fmt: skip


def kernel_table(database: Database, chosen: Filter | None = None, by: str = "kernel") -> pd.DataFrame:
    """Return the kernels of every chosen workload, those with the most GPU time first.

    Several files of one workload describe the same launches, so they are not added: of each kernel the file with the
    most time counts, and a time trace, which saw the program run undisturbed, before a profile.

    Parameters
    ----------
    database : Database
        The open database.
    chosen : Filter, optional
        Profiles to look at.
    by : {"kernel", "name"}
        A kernel is a name at one grid and block size; a name brings all kernels of one short name together.

    Returns
    -------
    pd.DataFrame
        The keys of `analysis.stalls.shares.KEYS` and launches, time_ns (of all of them), mean_ns (of one), time_share
        (percent of the GPU time that is known of the workload), kind (the verdict), reason and reason_share (the
        largest stall reason and its percentage of warp cycles), reason_from (`METRICS`, or `RULES` where only the
        profiler's rule text names one; None without either), accounted, stalled (launches with stall reasons), files,
        simulated, key (see `key_of`).

    Raises
    ------
    UsageError
        If ``by`` is unknown.
    """
    if by not in LEVELS:
        raise UsageError(f"kernels can't be listed by {by!r}", f"Choose one of {', '.join(LEVELS)}.")
    choice = chosen or Filter()
    keys = KEYS[by]
    found = one_file_each(queries.by_source(database, choice))
    grouped = found.groupby(keys, sort=False, dropna=False)
    table = grouped.agg(
        launches=("launches", "sum"), time_ns=("time_ns", lambda times: times.sum(min_count=1)), timed=("timed", "sum"),
        files=("files", "max"), simulated=("simulated", "any"),
    ).reset_index()  # fmt: skip
    table["mean_ns"] = table["time_ns"] / table["timed"].where(table["timed"] > 0)
    whole = table.groupby(KEYS["workload"])["time_ns"].transform("sum")
    table["time_share"] = 100 * table["time_ns"] / whole.where(whole > 0)
    given = verdicts(database, choice, by)[[*keys, "kind", "accounted", "launches"]]
    table = table.merge(given.rename(columns={"launches": "stalled"}), on=keys, how="left")
    table = table.merge(_reasons(database, choice, by), on=keys, how="left")
    text = ["kind", "reason", "reason_from"]
    table[text] = table[text].astype(object).where(table[text].notna(), None)
    table["key"] = [key_of(*parts) for parts in table[keys].astype(str).itertuples(index=False, name=None)]
    order = table.sort_values(["time_ns", "launches"], ascending=False, kind="stable", na_position="last")
    return order[[*keys, *COLUMNS]].reset_index(drop=True)


def _reasons(database: Database, chosen: Filter, by: str) -> pd.DataFrame:
    """Return the largest reason of each thing, from its metrics, else from what a rule text says of a launch of it."""
    keys = KEYS[by]
    shares = stall_shares(database, chosen, by)
    largest = shares[shares["reason"] != "selected"].drop_duplicates(keys)[[*keys, "reason", "share"]]
    rules = profiles.rules(database, chosen)
    rules = rules[rules["top_reason"].notna()].sort_values("duration_ns", ascending=False, kind="stable")
    rules = rules.assign(grid=rules["grid"].fillna(""), block=rules["block"].fillna(""))
    named = rules.drop_duplicates(keys).rename(columns={"top_reason": "reason", "top_share": "share"})
    found = pd.concat(
        [largest.assign(reason_from=METRICS), named[[*keys, "reason", "share"]].assign(reason_from=RULES)]
    )
    return found.drop_duplicates(keys).rename(columns={"share": "reason_share"})


def longest_first(database: Database, chosen: Filter | None, shares: pd.DataFrame, by: str) -> pd.DataFrame:
    """Order stall shares by the GPU time of what their rows stand for; what has no time comes last, as it was."""
    return in_order(shares, times_of(database, chosen, shares, by), by)


def times_of(database: Database, chosen: Filter | None, shares: pd.DataFrame, by: str) -> pd.Series[float]:
    """Return the GPU time in nanoseconds of what each row of stall shares stands for, NaN where it isn't known."""
    keys = KEYS[by]
    if by == "launch":
        timed = launches(database, chosen or Filter())[["kernel_id", "duration_ns"]].rename(
            columns={"duration_ns": "time_ns"}
        )
        found = shares[["kernel_id"]].merge(timed, on="kernel_id", how="left")
    else:
        found = shares[keys].merge(kernel_table(database, chosen, by)[[*keys, "time_ns"]], on=keys, how="left")
    return found["time_ns"].astype(float).set_axis(shares.index)


def in_order(shares: pd.DataFrame, times: pd.Series[float], by: str) -> pd.DataFrame:
    """Order stall shares by times, see `times_of`."""
    thing = shares.groupby(KEYS[by], sort=False, dropna=False).ngroup()
    ordered = shares.assign(_time=times.to_numpy(float), _thing=thing.to_numpy())
    ordered = ordered.sort_values(["_time", "_thing"], ascending=[False, True], kind="stable", na_position="last")
    return ordered.drop(columns=["_time", "_thing"]).reset_index(drop=True)


def first_things(shares: pd.DataFrame, by: str, most: int) -> pd.DataFrame:
    """Keep the rows of the first so many workloads, kernels or launches of a table."""
    thing = shares.groupby(KEYS[by], sort=False, dropna=False).ngroup()
    return pd.DataFrame(shares[thing < most])


def key_of(*parts: str) -> str:
    """Return a short name for an address: kernel names are too long, and hostile, to stand in one.

    Examples
    --------
    >>> len(key_of("own", "bert", "A100", "gemm<float>"))
    10
    """
    return hashlib.sha256("\x1f".join(parts).encode()).hexdigest()[:10]
