"""What only rule texts say: the largest stall reason of profiles that hold no stall metrics."""

from __future__ import annotations

import pandas as pd

from analysis.reference import stall_reasons
from analysis.stalls.shares import KEYS
from analysis.store.database import Database
from analysis.store.filters import Filter
from analysis.store.queries import profiles

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
