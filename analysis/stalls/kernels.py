"""Which kernels matter: time, launches and what each waits for, as one table."""

from __future__ import annotations

import hashlib

import numpy as np
import pandas as pd

from analysis.errors import UsageError
from analysis.numbers import significant
from analysis.reference import stall_reasons
from analysis.stalls.shares import KEYS, stall_shares
from analysis.stalls.verdict import verdicts
from analysis.store.database import Database
from analysis.store.filters import Filter
from analysis.store.queries import kernels as queries
from analysis.store.queries import profiles
from analysis.store.queries.profiles import launches

_SIZE = ["grid", "block"]
_KERNEL = ["profile_id", "kernel", *_SIZE]
_SUMMED = ["launches", "timed", "time_ns"]


def one_file_each(rows: pd.DataFrame) -> pd.DataFrame:
    """Keep of each kernel the file that says most about its time, and count the files that hold it.

    Parameters
    ----------
    rows : pd.DataFrame
        As `analysis.store.queries.kernels.by_source`.

    Returns
    -------
    pd.DataFrame
        The same columns, and files (how many hold the kernel) and trace (whether a time trace counts).

    Notes
    -----
    A summary of a time trace knows no grid and block. Its time belongs to the kernels of that name which a profile
    tells apart: to the one size, or to the several in proportion to their durations in the profile (to their launches
    where one has none). Where the profile knows no sizes, those of the trace are brought together.
    """
    trace = ~rows["metrics"].astype(bool) & rows["time_ns"].notna()
    rows = _without_sizes(rows.assign(trace=trace))
    rows = _sized(rows)
    rows = rows.assign(files=rows.groupby(_KERNEL)["source_id"].transform("nunique"))
    ordered = rows.sort_values(["trace", "time_ns", "launches"], ascending=False, kind="stable", na_position="last")
    kept = ordered.drop_duplicates(_KERNEL).copy()
    # A trace of the short name alone has timed the profile's kernels too: theirs would count the same time twice.
    traced = kept[kept["trace"]][["profile_id", "short_name"]].drop_duplicates()
    twice = kept[["profile_id", "short_name"]].merge(traced, how="left", indicator=True)["_merge"].eq("both").to_numpy()
    kept.loc[twice & ~kept["trace"].to_numpy(bool), "time_ns"] = np.nan
    return kept


def _sizeless(rows: pd.DataFrame) -> pd.Series[bool]:
    return (rows["grid"] == "") & (rows["block"] == "")


def _without_sizes(rows: pd.DataFrame) -> pd.DataFrame:
    """Bring the sizes of a trace together for the names that no profile knows a size of."""
    name = [rows["profile_id"], rows["kernel"]]
    measured = ~rows["trace"]
    any_profile = measured.groupby(name).transform("any")
    sized = (measured & ~_sizeless(rows)).groupby(name).transform("any")
    blank = rows["trace"] & any_profile & ~sized & ~_sizeless(rows)
    if not blank.any():
        return rows
    rows = rows.assign(grid=rows["grid"].mask(blank, ""), block=rows["block"].mask(blank, ""))
    keys = [name for name in rows.columns if name not in _SUMMED]
    return rows.groupby(keys, sort=False, dropna=False)[_SUMMED].sum(min_count=1).reset_index()[[*rows.columns]]


def _sized(rows: pd.DataFrame) -> pd.DataFrame:
    """Give the time of a trace without sizes to the kernels that profiles tell apart: by name, else by short name."""
    left = rows[rows["trace"] & _sizeless(rows)]
    profiled = rows[~rows["trace"] & ~_sizeless(rows)]
    if left.empty or profiled.empty:
        return rows
    # One profile stands for the kernel's sizes: the one that says most of their time.
    profiled = profiled.sort_values(["time_ns", "launches"], ascending=False, kind="stable", na_position="last")
    profiled = profiled.drop_duplicates(_KERNEL)[[*_KERNEL, "short_name", "launches", "time_ns"]]
    done = []
    for key in ("kernel", "short_name"):
        # A bare short name stands for all kernels of it; a full name that differs is another kernel.
        open_rows = left if key == "kernel" else left[left["kernel"] == left["short_name"]]
        found = open_rows.reset_index().merge(profiled, on=["profile_id", key], suffixes=("", "_of"))
        if found.empty:
            continue
        found = found.drop(columns=_SIZE).rename(columns={"grid_of": "grid", "block_of": "block"})
        if key == "short_name":
            found["kernel"] = found["kernel_of"]
        part = found["time_ns_of"].where(
            found["time_ns_of"].notna().groupby(found["index"]).transform("all"), found["launches_of"]
        )
        of = found.groupby("index")["index"].transform("size")
        found["time_ns"] *= part / part.groupby(found["index"]).transform("sum")
        # How often each size ran only the profile says, and over how many the mean goes, nothing.
        found["launches"] = found["launches"].where(of == 1, found["launches_of"])
        found["timed"] = found["timed"].where(of == 1, 0)
        done.append(found)
        left = left[~left.index.isin(found["index"])]
    if not done:
        return rows
    given = pd.concat(done)
    kept = rows[~rows.index.isin(given["index"])]
    return pd.concat([kept, given[list(rows.columns)]], ignore_index=True)


#: Where the largest reason of something was found.
METRICS, RULES = "stall metrics", "rule text only"


def top_reasons(database: Database, chosen: Filter | None, shares: pd.DataFrame, by: str) -> pd.DataFrame:
    """Return what rule texts name where there are no stall shares.

    Parameters
    ----------
    database : Database
        The open database.
    chosen : Filter or None
        Profiles to look at.
    shares : pd.DataFrame
        Rows of `analysis.stalls.shares.stall_shares`; their profiles have metrics, so rule texts add nothing to them.
    by : {"workload", "name", "kernel", "launch"}
        What a row stands for; of several launches that of the longest duration speaks.

    Returns
    -------
    pd.DataFrame
        The keys of ``by`` and, for a workload too, short_name (the kernel that the text is about); reason, group, share
        (percent of warp cycles, as the text states it), reason_from (`RULES`), simulated. The other reasons of these
        profiles are unknown, not zero.
    """
    found = profiles.rules(database, chosen)
    found = found[found["top_reason"].notna()]
    place = KEYS["workload"]
    measured = set(shares[place].drop_duplicates().itertuples(index=False, name=None))
    only = [key not in measured for key in found[place].itertuples(index=False, name=None)]
    found = found[pd.Series(only, index=found.index, dtype=bool)]
    found = found.sort_values("duration_ns", ascending=False, kind="stable", na_position="last")
    found = found.assign(grid=found["grid"].fillna(""), block=found["block"].fillna(""), reason_from=RULES)
    found = found.rename(columns={"top_reason": "reason", "top_share": "share"}).drop_duplicates(KEYS[by])
    found["group"] = [stall_reasons.group_of(str(name)) for name in found["reason"]]
    names = [*KEYS[by], *(["short_name"] if by == "workload" else [])]
    return found[[*names, "reason", "group", "share", "reason_from", "simulated"]].reset_index(drop=True)


#: What a row can stand for: a kernel at one size, or all kernels of one short name.
LEVELS = ("kernel", "name")

COLUMNS = [
    "launches", "time_ns", "mean_ns", "time_share", "kind", "reason", "reason_share", "reason_from", "accounted",
    "stalled", "files", "devices", "simulated", "key",
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
        devices (on how many GPUs the workload ran: its times are their sum, see `pooled`), simulated, key (see
        `key_of`).

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
    table = table.merge(queries.devices(database, choice), on=KEYS["workload"], how="left")
    given = verdicts(database, choice, by)[[*keys, "kind", "accounted", "launches"]]
    table = table.merge(given.rename(columns={"launches": "stalled"}), on=keys, how="left")
    table = table.merge(_reasons(database, choice, by), on=keys, how="left")
    text = ["kind", "reason", "reason_from"]
    table[text] = table[text].astype(object).where(table[text].notna(), None)
    table["key"] = [key_of(*parts) for parts in table[keys].astype(str).itertuples(index=False, name=None)]
    order = table.sort_values(["time_ns", "launches"], ascending=False, kind="stable", na_position="last")
    return order[[*keys, *COLUMNS]].reset_index(drop=True)


def pooled(table: pd.DataFrame) -> str:
    """Say which workloads of a `kernel_table` ran on several GPUs, whose times stand as a sum; blank where none did."""
    several = table[table["devices"].fillna(0) > 1].drop_duplicates(KEYS["workload"])
    named = [f"{row['workload']} ran on {int(row['devices'])} GPUs" for row in several.head(5).to_dict("records")]
    if not named:
        return ""
    return (
        f"{', '.join(named)}: times and shares pool the GPUs and are no time that passed. The launches of each kernel "
        "name the GPU."
    )


#: From this part of a job's GPU time on, what was profiled speaks for all of it.
MOST_OF_TIME = 95.0


def parts_of_time(database: Database, chosen: Filter | None = None) -> list[str]:
    """Say for which workloads the stall shares stand for a part of the GPU time, a sentence each.

    A time trace that saw the whole program, or a profile whose other kernels have no stall reasons, tells how much of
    the job's GPU time the kernels with stall reasons are.
    """
    table = kernel_table(database, chosen)
    out = []
    for (_, workload, gpu), rows in table.groupby(KEYS["workload"], sort=False):
        with_reasons = rows[rows["stalled"].fillna(0) > 0]
        part = float(with_reasons["time_share"].sum())
        if len(with_reasons) and rows["time_ns"].notna().any() and part < MOST_OF_TIME:
            out.append(
                f"The stall shares of {workload} on {gpu} stand for {significant(part)} % of the job's GPU time: its "
                "other kernels have no stall reasons."
            )
    return out


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
