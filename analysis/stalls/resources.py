"""Which resources workloads lean on, and which ones several of them lean on at once.

Two kinds of evidence are kept apart: *use*, the percentage of a resource's peak that counters state, and *wait*, the
percentage of warp cycles that stall reasons put on it. A wait on the long scoreboard names no memory level: only the
throughput of DRAM or of the L2 cache does.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import pandas as pd

from analysis.numbers import significant
from analysis.reference.stall_families import BY_NAME
from analysis.stalls.counters import COUNTERS, counters
from analysis.stalls.shares import stall_shares
from analysis.stalls.verdict import BUSY_SCHEDULERS
from analysis.store.database import Database
from analysis.store.filters import Filter


@dataclass(frozen=True)
class Resource:
    """A part of the GPU that jobs share.

    Attributes
    ----------
    name, title : str
        Short name; what a person calls it.
    counters : tuple of str
        Names of `analysis.stalls.counters.COUNTERS` that state its use; the largest known one counts.
    groups : tuple of str
        Groups of stall reasons that are waits for it; empty where no reason names it.
    """

    name: str
    title: str
    counters: tuple[str, ...]
    groups: tuple[str, ...]


RESOURCES: tuple[Resource, ...] = (
    Resource("dram", "DRAM", ("dram",), ()),
    Resource("l2", "L2 cache", ("l2",), ()),
    Resource("memory", "global or local memory, level unknown", (), ("global/local memory wait", "memory pipe")),
    Resource("mio", "shared memory and MIO", ("mio",), ("shared memory and MIO",)),
    Resource("lsu", "load/store pipe", ("lsu",), ()),
    Resource("math", "math pipes", ("tensor", "fma", "alu", "fp64"), ("compute pipe",)),
    Resource("sm", "the SM's busiest unit", ("sm",), ()),
    Resource("issue", "issue slots", ("issue_active",), ("issue",)),
)

#: Counters of single pipes: where one is known, the maximum over all of them says nothing more.
_PIPES = ("tensor", "fma", "alu", "fp64", "lsu", "mio")

_TITLES: dict[str | None, str] = {counter.name: counter.title for counter in COUNTERS}

#: From this percentage of a resource's peak on a job leans on it.
LEANS = 30.0

#: From this percentage of warp cycles on a job leans on a resource whose use nobody counted.
WAITS = 10.0

COLUMNS = [
    "dataset", "workload", "gpu", "resource", "title", "use", "counter", "wait", "stall_family", "accounted", "leans",
    "simulated",
]  # fmt: skip


def leaning(database: Database, chosen: Filter | None = None) -> pd.DataFrame:
    """Return how much each profiled workload leans on each resource.

    Parameters
    ----------
    database : Database
        The open database.
    chosen : Filter, optional
        Profiles to look at.

    Returns
    -------
    pd.DataFrame
        One row a workload, GPU and resource of `RESOURCES`: dataset, workload, gpu, resource, title, use (percent of
        the resource's peak, NaN where no counter states it), counter (what stated it), wait (percent of warp cycles,
        NaN where no stall reason names the resource or none was profiled), stall_family (metrics by which waits were
        counted, None without any), accounted, leans (use of at least `LEANS`,
        else, without a use, wait of at least `WAITS`), simulated.
    """
    shares = stall_shares(database, chosen, "workload")
    measured = counters(database, chosen, "workload")
    keys = ["dataset", "workload", "gpu"]
    groups = shares.pivot_table(index=keys, columns="group", values="share", aggfunc="sum", observed=True)
    accounted = {
        key: (str(family), float(explained), bool(simulated))
        for *key_parts, family, explained, simulated in shares.drop_duplicates(keys)[
            [*keys, "stall_family", "accounted", "simulated"]
        ].itertuples(index=False)
        for key in [tuple(key_parts)]
    }
    wanted = pd.concat([shares[keys], measured[keys]]).drop_duplicates()
    counted = measured.set_index(keys)
    rows = []
    for key in wanted.itertuples(index=False, name=None):
        waits = groups.loc[key] if key in groups.index else None
        uses = counted.loc[key] if key in counted.index else None
        for resource in RESOURCES:
            known = {} if uses is None else {name: float(uses[name]) for name in resource.counters}
            known = {name: value for name, value in known.items() if not math.isnan(value)}
            if resource.name == "sm" and uses is not None and any(not math.isnan(float(uses[name])) for name in _PIPES):
                known = {}
            counter = max(known, key=lambda name: known[name], default=None)
            use = math.nan if counter is None else known[counter]
            # A group that a profile reports nothing of is unknown, not empty.
            parts = [] if waits is None else [float(waits[name]) for name in resource.groups if name in waits.index]
            parts = [value for value in parts if not math.isnan(value)]
            wait = sum(parts) if parts else math.nan
            leans = use >= LEANS if not math.isnan(use) else wait >= WAITS
            family, explained, simulated = accounted.get(key, (None, math.nan, False))
            rows.append(
                (*key, resource.name, resource.title, use, _TITLES.get(counter), wait,
                 family, explained, bool(leans), simulated)
            )  # fmt: skip
    return pd.DataFrame(rows, columns=COLUMNS)


def overlap(lean: pd.DataFrame) -> pd.DataFrame:
    """Return what several workloads ask of each resource together.

    Parameters
    ----------
    lean : pd.DataFrame
        Rows of `leaning` of the workloads side by side, on one GPU.

    Returns
    -------
    pd.DataFrame
        One row a resource: resource, title, jobs (how many lean on it), asked (sum of their use in percent of its
        peak, NaN unless every job's is known), smallest_wait (percent of warp cycles that even the one which waits
        least spends on it, NaN unless every job's is known and counted by the same metrics), shared (two or more lean
        on it), state (``over``, ``shared``, ``one``, ``free``, ``unknown``).
    """
    rows = []
    alike = len(families(lean)) < 2
    for resource in RESOURCES:
        part = lean[lean["resource"] == resource.name]
        asked = float(part["use"].sum()) if len(part) and part["use"].notna().all() else math.nan
        # The busiest unit may be another one in each job: what they ask of it does not add up.
        asked = math.nan if resource.name == "sm" else asked
        least = float(part["wait"].min()) if alike and len(part) and part["wait"].notna().all() else math.nan
        jobs = int(part["leans"].sum())
        silent = part["use"].isna() & part["wait"].isna()
        if jobs >= 2:
            state = "over" if asked > 100 else "shared"
        elif silent.any():
            state = "unknown"
        else:
            state = "one" if jobs else "free"
        rows.append((resource.name, resource.title, jobs, asked, least, jobs >= 2, state))
    return pd.DataFrame(rows, columns=["resource", "title", "jobs", "asked", "smallest_wait", "shared", "state"])


def families(lean: pd.DataFrame) -> dict[str, list[str]]:
    """Return the families of metrics by which waits were counted, and the jobs of each: waits of two don't compare."""
    known = lean[lean["stall_family"].notna()].drop_duplicates("workload")
    return {
        str(family): part["workload"].astype(str).tolist() for family, part in known.groupby("stall_family", sort=False)
    }


def differently_counted(lean: pd.DataFrame) -> str | None:
    """Say that the jobs' waits were counted by different metrics; None where all are of one family."""
    found = families(lean)
    if len(found) < 2:
        return None
    ways = "; ".join(f"{', '.join(jobs)} as {BY_NAME[family].title}" for family, jobs in found.items())
    return (
        f"The waits were counted in {len(found)} ways ({ways}): a job's own waits compare with one another, not with "
        "those of a job that was counted otherwise."
    )


def sentence(lean: pd.DataFrame) -> str:
    """Say which resources the jobs lean on together, claiming DRAM only where its throughput was counted."""
    names = list(dict.fromkeys(lean["workload"]))
    if len(names) < 2:
        return "Choose two or more jobs to see what they lean on together."
    table = {str(row["resource"]): row for row in overlap(lean).to_dict("records")}
    levels = [table["dram"], table["l2"]]
    who = "Both" if len(names) == 2 else f"Of the {len(names)} jobs, two or more"
    parts = []
    for resource in RESOURCES:
        row = table[resource.name]
        if not row["shared"] or (resource.name == "memory" and all(one["state"] != "unknown" for one in levels)):
            continue
        each = lean[(lean["resource"] == resource.name) & lean["leans"]].to_dict("records")
        if resource.name == "sm":
            uses = " and ".join(f"{one['workload']} {significant(one['use'])} %" for one in each)
            parts.append(f"{resource.title} ({uses} of its peak; which unit that is, the profiles don't say)")
        elif all(not math.isnan(one["use"]) for one in each):
            uses = " and ".join(f"{one['workload']} {significant(one['use'])} %" for one in each)
            part = f"{resource.title} ({uses} of its peak"
            if row["state"] == "over":
                part += f": together {significant(row['asked'])} %, more than it has"
            parts.append(f"{part})")
        else:
            waits = " and ".join(f"{one['workload']} {significant(one['wait'])} %" for one in each)
            title = "global or local memory" if resource.name == "memory" else resource.title
            parts.append(f"{title} ({waits} of warp cycles wait for it)")
    open_levels = [{"DRAM": "DRAM"}.get(one["title"], "the L2 cache") for one in levels if one["state"] == "unknown"]
    level = (
        f" Whether that is {' or '.join(open_levels)} is open: not every profile states "
        f"{'their' if len(open_levels) > 1 else 'its'} throughput."
    )
    tail = level if open_levels and table["memory"]["shared"] else ""
    if not parts:
        return f"No resource that the profiles state is leaned on by more than one of {', '.join(names)}.{tail}"
    return f"{who} lean on {'; '.join(parts)}.{tail}"


def hidden(lean: pd.DataFrame) -> list[str]:
    """Return the jobs whose schedulers are so busy that their waits cost no time when they are alone."""
    busy = lean[(lean["resource"] == "issue") & (lean["use"] >= BUSY_SCHEDULERS)]
    return [str(name) for name in busy["workload"]]
