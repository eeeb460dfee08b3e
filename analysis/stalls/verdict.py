"""The top-down verdict: what bounds a workload or a kernel, in a sentence that claims no more than counters show."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import pandas as pd

from analysis.reference import stall_reasons
from analysis.stalls.counters import NAMES, counters
from analysis.stalls.shares import ENOUGH_ACCOUNTED, KEYS, stall_shares
from analysis.store.database import Database
from analysis.store.filters import Filter

Kind = Literal[
    "compute-bound", "memory-bound", "latency-bound", "synchronisation-bound", "issue-bound", "unknown"
]  # fmt: skip

#: Above this percentage of cycles with an issue the stalls are hidden behind other warps.
BUSY_SCHEDULERS = 80.0

#: Above this percentage of its peak a memory level counts as used to its bandwidth.
BUSY_MEMORY = 60.0

#: Below this percentage of accounted warp cycles there is no verdict.
ENOUGH_FOR_VERDICT = 50.0

_CLASSES: Mapping[str, tuple[str, ...]] = {
    "memory": ("global/local memory wait", "memory pipe"),
    "on-chip": ("shared memory and MIO",),
    "compute": ("compute pipe",),
    "synchronisation": ("synchronisation",),
    "latency": ("fixed latency", "front end"),
}

_WAITS = {
    "memory": "waiting for global or local memory",
    "on-chip": "waiting for shared memory, special functions or shuffles",
    "compute": "waiting for a busy arithmetic pipe",
    "synchronisation": "waiting for other warps at barriers and fences",
    "latency": "waiting for instructions of fixed latency, branches or instruction fetches",
}


@dataclass(frozen=True)
class Verdict:
    """What bounds something, and why that is said.

    Attributes
    ----------
    kind : str
        One of the five bounds, or ``unknown``.
    sentence : str
        The verdict for a person.
    reason : str or None
        The largest stall reason of the deciding class.
    share : float
        Percent of warp cycles of the deciding class, NaN when unknown.
    gate : {"matter", "hidden", "unknown"}
        Whether the stalls cost time: they do not while schedulers issue in nearly every cycle.
    helps : str
        What usually helps against the largest reason; empty when unknown.
    """

    kind: Kind
    sentence: str
    reason: str | None
    share: float
    gate: Literal["matter", "hidden", "unknown"]
    helps: str = ""


def verdict(shares: pd.DataFrame, measured: Mapping[str, float] | None = None) -> Verdict:
    """Give the verdict on one workload, kernel or launch.

    Parameters
    ----------
    shares : pd.DataFrame
        Rows of `analysis.stalls.shares.stall_shares` of one thing.
    measured : mapping of str to float, optional
        Its counters, see `analysis.stalls.counters.COUNTERS`.

    Returns
    -------
    Verdict
        DRAM is named only where its throughput is known: a wait on the long scoreboard alone is a wait for global or
        local memory, which a cache may have served.
    """
    if shares.empty:
        return Verdict("unknown", "No verdict: the profile holds no stall reasons.", None, math.nan, "unknown")
    known = {name: float(value) for name, value in (measured or {}).items() if not _missing(value)}
    accounted = float(shares["accounted"].iloc[0])
    if not math.isnan(accounted) and accounted < ENOUGH_FOR_VERDICT:
        sentence = (
            f"No verdict: the reported reasons explain only {_percent(accounted)} of the warp cycles. Profile again "
            "with all stall reasons."
        )
        return Verdict("unknown", sentence, None, math.nan, _gate(known))
    by_group = shares.groupby("group")["share"].sum()
    classes = {name: float(by_group.reindex(groups).sum()) for name, groups in _CLASSES.items()}
    leading = max(classes, key=lambda name: classes[name])
    issue = float(by_group.get("issue", 0.0))
    reason, helps = _largest(shares, _CLASSES[leading])
    waits = f"its warps spend {_percent(classes[leading])} of their cycles {_WAITS[leading]}"
    if reason is not None:
        share = float(shares.loc[shares["reason"] == reason, "share"].iloc[0])
        waits += f" ({_title(reason)} {_percent(share)})"
    gate = _gate(known)
    tail = _open(accounted)
    if gate == "hidden":
        sentence = (
            f"Issue-bound: schedulers issue in {_percent(known['issue_active'])} of their cycles, so stalls are hidden "
            f"behind other warps; fewer or cheaper instructions are what helps.{tail}"
        )
        return Verdict("issue-bound", sentence, reason, issue, gate)
    if gate == "unknown" and issue > classes[leading]:
        sentence = (
            f"Issue-bound: warps are ready or issuing in {_percent(issue)} of their cycles, more than they spend on "
            f"any kind of wait.{tail}"
        )
        return Verdict("issue-bound", sentence, reason, issue, gate)
    kind, why = _kind(leading, known)
    matter = (
        f" Schedulers issue in only {_percent(known['issue_active'])} of their cycles, so the stalls cost time."
        if gate == "matter"
        else " Whether the stalls cost time is open: the profile does not say how often schedulers issue."
    )
    return Verdict(kind, f"{kind.capitalize()}: {waits}{why}.{matter}{tail}", reason, classes[leading], gate, helps)


def verdicts(database: Database, chosen: Filter | None = None, by: str = "workload") -> pd.DataFrame:
    """Give the verdict on every workload, kernel or launch that has stall reasons.

    Returns
    -------
    pd.DataFrame
        The keys of `analysis.stalls.shares.KEYS` and kind, sentence, reason, share, gate, helps, accounted, launches,
        simulated; in the order of the shares.
    """
    shares = stall_shares(database, chosen, by)
    keys = KEYS[by]
    measured = {
        tuple(row[name] for name in keys): {name: float(row[name]) for name in NAMES}
        for row in counters(database, chosen, by).to_dict("records")
    }
    rows = []
    for key, group in shares.groupby(keys, sort=False, dropna=False):
        found = measured.get(tuple(key), {})
        given = verdict(group, found)
        first = group.iloc[0]
        rows.append(
            {
                **{name: first[name] for name in keys},
                **vars(given),
                **{name: first[name] for name in ("accounted", "launches", "simulated")},
                **{name: found.get(name, math.nan) for name in NAMES},
            }
        )
    columns = [*keys, "kind", "sentence", "reason", "share", "gate", "helps", "accounted", "launches", "simulated"]
    return pd.DataFrame(rows, columns=[*columns, *NAMES])


def _kind(leading: str, known: Mapping[str, float]) -> tuple[Kind, str]:
    """Return the bound and the part of the sentence that tells memory bandwidth from memory latency."""
    if leading == "compute":
        return "compute-bound", ""
    if leading == "synchronisation":
        return "synchronisation-bound", ""
    if leading == "latency":
        return "latency-bound", ""
    if leading == "on-chip":
        return (
            "memory-bound",
            ", on the chip: shared memory or another user of the MIO queue, which stalls don't tell apart",
        )
    dram, l2 = known.get("dram"), known.get("l2")
    if dram is not None and dram >= BUSY_MEMORY:
        return "memory-bound", f", and DRAM runs at {_percent(dram)} of its peak"
    if l2 is not None and l2 >= BUSY_MEMORY:
        return "memory-bound", f", and the L2 cache runs at {_percent(l2)} of its peak"
    if dram is not None:
        beside = f" and the L2 cache at {_percent(l2)}" if l2 is not None else ""
        return (
            "latency-bound",
            f", while DRAM runs at only {_percent(dram)} of its peak{beside}: latency, not bandwidth",
        )
    return "memory-bound", ", at which level is open: the profile does not state the memory throughput"


def _gate(known: Mapping[str, float]) -> Literal["matter", "hidden", "unknown"]:
    active = known.get("issue_active")
    if active is None:
        return "unknown"
    return "hidden" if active >= BUSY_SCHEDULERS else "matter"


def _largest(shares: pd.DataFrame, groups: tuple[str, ...]) -> tuple[str | None, str]:
    rows = shares[shares["group"].isin(groups)]
    if rows.empty:
        return None, ""
    reason = str(rows.sort_values("share", ascending=False, kind="stable")["reason"].iloc[0])
    table = stall_reasons.load()
    return reason, str(table.at[reason, "helps"]) if reason in table.index else ""


def _title(reason: str) -> str:
    table = stall_reasons.load()
    title = str(table.at[reason, "title"]) if reason in table.index else reason.replace("_", " ")
    return title if title.isupper() or title[:2].isupper() else title[0].lower() + title[1:]


def _open(accounted: float) -> str:
    if math.isnan(accounted) or accounted >= ENOUGH_ACCOUNTED:
        return ""
    return f" The reasons explain {_percent(accounted)} of the warp cycles; {_percent(100 - accounted)} stay open."


def _percent(value: float) -> str:
    return f"{value:.0f} %" if value >= 10 else f"{value:.1f} %"


def _missing(value: float | None) -> bool:
    return value is None or math.isnan(float(value))
