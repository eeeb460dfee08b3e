"""Which file says how long a kernel takes, when several files of one job hold it: one row a kernel, no time twice."""

from __future__ import annotations

import numpy as np
import pandas as pd

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
