"""The same jobs under several sharing mechanisms: what each does to throughput, turnaround, fairness and the p99."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from analysis.interference import metrics
from analysis.numbers import significant
from analysis.store.database import Database
from analysis.store.filters import Filter
from analysis.store.queries import coruns

#: Columns of a comparison, one row a run; `analysis.sharing.compare` makes the same by simulation.
COLUMNS = (
    "gpu", "jobs", "k", "mechanism", "setting", "run_id", "outcome", "note", "stp", "together", "antt", "fairness",
    "jain", "worst", "p99_inflation", "overloaded", "simulated",
)  # fmt: skip

#: How a note begins that says of a server that its queue grows without end; such a run has no p99.
OVERLOADED = "can't keep up"

#: Settings in a note, as their file spells them, in words; a switch that is on is named alone.
SETTINGS = {
    "preemption_latency_limit": "latency limit",
    "min_wait_time": "least wait",
    "use_original_configs": "launches as they are",
    "use_space_share": "SMs shared",
    "disable_transformation": "kernels untransformed",
}

#: Figures of a comparison: title, and whether a smaller one is better.
MEASURES = {
    "together": ("time together, min for 100 min one after the other", True),
    "stp": ("STP", False),
    "antt": ("ANTT, x", True),
    "fairness": ("fairness", False),
    "jain": ("Jain's index", False),
    "worst": ("worst S, x", True),
    "p99_inflation": ("p99 inflation, x", True),
}


def compare(
    database: Database, dataset: str, gpu: str | None = None, jobs: tuple[str, ...] | None = None
) -> pd.DataFrame:
    """Return the runs of sets of jobs that were measured under more than one mechanism.

    Parameters
    ----------
    database : Database
        The open database.
    dataset : str
        The data set.
    gpu : str, optional
        Canonical name; all by default.
    jobs : tuple of str, optional
        Only the set of these jobs, in any order.

    Returns
    -------
    pd.DataFrame
        One row a run: gpu, jobs (sorted names), k, mechanism, setting (what tells runs under one mechanism apart, such
        as a thread percentage; empty otherwise), run_id, outcome, note, stp, together (minutes for what takes 100 one
        after the other), antt, fairness, jain, worst (largest S), p99_inflation (mean over the members with a latency),
        overloaded (whether a server can't keep up, so that the run has no p99), simulated. NaN where a value is not
        known.
    """
    chosen = Filter(datasets=(dataset,), gpus=(gpu,) if gpu else ())
    members = coruns.members(database, chosen)
    if members.empty:
        return pd.DataFrame(columns=list(COLUMNS))
    rows = [_run(part) for _, part in members.groupby("run_id", sort=True)]
    frame = pd.DataFrame(rows, columns=[*COLUMNS, "_note"])
    if jobs is not None:
        frame = frame[[one == tuple(sorted(jobs)) for one in frame["jobs"]]]
    different = frame.groupby(["gpu", "jobs"])["mechanism"].transform("nunique") > 1
    frame = frame[different].copy()
    frame["setting"] = [
        setting or told
        for setting, told in zip(frame["setting"], _telling(frame["mechanism"], frame["_note"]), strict=True)
    ]
    return frame[list(COLUMNS)].reset_index(drop=True)


def _run(part: pd.DataFrame) -> dict[str, Any]:
    first = part.iloc[0]
    ran = first["run_outcome"] == "ran"
    slowdowns = part["slowdown"].to_numpy(dtype=float)
    inflation = metrics.p99_inflation(part["p99_solo_ms"], part["p99_corun_ms"])
    note = first["note"] if isinstance(first["note"], str) else ""
    overloaded = OVERLOADED in note
    if overloaded:
        inflation = np.full(len(part), np.nan)
    return {
        "gpu": first["gpu"],
        "jobs": tuple(sorted(part["workload"])),
        "k": int(first["k"]),
        "mechanism": first["mechanism"],
        "setting": _caps(part),
        "run_id": int(first["run_id"]),
        "outcome": first["run_outcome"],
        "note": (note if overloaded else "") if ran else note or "did not run",
        "overloaded": overloaded,
        "simulated": bool(first["simulated"]),
        # That a server can't keep up is an outcome, not a setting.
        "_note": "" if overloaded else note,
        **figures(slowdowns if ran else np.full(len(part), np.nan), inflation),
    }


def figures(slowdowns: np.ndarray, inflation: np.ndarray) -> dict[str, float]:
    """Return the figures of one run from its members' slowdowns and p99 inflations (NaN: none)."""
    known = np.isfinite(inflation)
    if not np.isfinite(slowdowns).all():
        return dict.fromkeys((*MEASURES, "p99_inflation"), float("nan"))
    stp = metrics.stp(slowdowns)
    return {
        "stp": stp,
        "together": float(metrics.together_per_100(stp)),
        "antt": metrics.antt(slowdowns),
        "fairness": metrics.fairness(slowdowns),
        "jain": metrics.jain(slowdowns),
        "worst": metrics.worst(slowdowns),
        "p99_inflation": float(inflation[known].mean()) if known.any() else float("nan"),
    }


def _caps(part: pd.DataFrame) -> str:
    """Name what each client of a run was given: its MIG profile, its threads, its memory; nothing where all had all."""
    shares, room = part["thread_percentage"].astype(float), part["memory_cap_mib"].astype(float)
    slices = part["mig_profile"]
    if not ((shares < 100).any() or room.notna().any() or slices.notna().any()):
        return ""
    any_share = bool((shares < 100).any())
    words = []
    for share, cap, profile in zip(shares, room, slices, strict=True):
        given = [str(profile)] if isinstance(profile, str) else []
        given += [f"{100.0 if np.isnan(share) else share:.0f} %"] if any_share else []
        given += [] if np.isnan(cap) else [f"{cap:,.0f} MiB"]
        words.append(", ".join(given) or "no cap")
    # In one order, so that sets compare; who got which part stands in the table of the jobs.
    return " / ".join(sorted(words, reverse=True))


def _telling(mechanisms: pd.Series[str], notes: pd.Series[str]) -> list[str]:
    """Keep of the notes what tells the runs of one mechanism apart: settings that all of them share say nothing."""
    words: dict[str, set[str]] = {}
    parts = [[part.strip() for part in note.split(",") if part.strip()] for note in notes]
    for mechanism in set(mechanisms):
        own = [set(found) for name, found in zip(mechanisms, parts, strict=True) if name == mechanism]
        words[mechanism] = set.intersection(*own) if own else set()
    # A switch that is off in one run and on in another is named where it is on.
    return [
        ", ".join(_readable(part) for part in found if part not in words[mechanism] and not part.endswith(" false"))
        for mechanism, found in zip(mechanisms, parts, strict=True)
    ]


def _readable(part: str) -> str:
    name, _, value = part.partition(" ")
    if name not in SETTINGS:
        return part
    return SETTINGS[name] if value == "true" else f"{SETTINGS[name]} {value}"


def common_sets(frame: pd.DataFrame) -> list[tuple[str, tuple[str, ...]]]:
    """Return the sets (GPU, jobs) that ran under every mechanism of a comparison, in order."""
    ran = frame[frame["outcome"] == "ran"]
    if ran.empty:
        return []
    count = ran.groupby(["gpu", "jobs"])["mechanism"].nunique()
    # A mechanism that a GPU does not have, such as MIG, can't keep its sets out.
    full = ran.groupby("gpu")["mechanism"].nunique()
    reached = count.reset_index()
    kept = reached[reached["mechanism"] == reached["gpu"].map(full)]
    return [(str(gpu), tuple(jobs)) for gpu, jobs in zip(kept["gpu"], kept["jobs"], strict=True)]


def summary(frame: pd.DataFrame) -> pd.DataFrame:
    """Return one row a mechanism and setting: means over its sets, each set once.

    Parameters
    ----------
    frame : pd.DataFrame
        As `compare` gives it; for equal terms only the sets of `common_sets`.

    Returns
    -------
    pd.DataFrame
        mechanism, setting, sets (that ran), did_not_run, overloaded (sets in which a server can't keep up), and the
        mean of each figure of `MEASURES`, the largest STP first. A mean of p99 inflation is over the sets that have
        one; with a set whose server can't keep up there is no mean, it would be that of the others.
    """
    figures_of = list(MEASURES)
    once = frame.groupby(["mechanism", "setting", "gpu", "jobs"], sort=False)[figures_of].mean()
    means = once.groupby(["mechanism", "setting"], sort=False).mean()
    ran = frame["outcome"] == "ran"
    sets = frame[["gpu", "jobs"]].apply(tuple, axis=1).where(ran)
    counts = (
        frame.assign(sets=sets, did_not_run=~ran, overloaded=sets.where(frame["overloaded"].astype(bool)))
        .groupby(["mechanism", "setting"], sort=False)
        .agg({"sets": "nunique", "did_not_run": "sum", "overloaded": "nunique"})
    )
    means["p99_inflation"] = means["p99_inflation"].where(counts["overloaded"].reindex(means.index) == 0)
    return counts.join(means).reset_index().sort_values("stp", ascending=False, kind="stable", ignore_index=True)


def answer(table: pd.DataFrame) -> str:
    """Say in a sentence which mechanism gets most done, and which keeps latencies.

    Parameters
    ----------
    table : pd.DataFrame
        As `summary` gives it.
    """
    known = table.dropna(subset=["stp"])
    if known.empty:
        return "None of these sets ran under any mechanism."
    most = known.iloc[0]
    text = (
        f"{_start(_named(most))} gets most done: {most['together']:.0f} min together for what takes 100 one after the "
        f"other (STP {most['stp']:.2f})."
    )
    served = known.dropna(subset=["p99_inflation"])
    if len(served) > 1:
        ordered = served.sort_values("p99_inflation", kind="stable")
        best, worst = ordered.iloc[0], ordered.iloc[-1]
        least, most_of = (significant(float(row["p99_inflation"])) for row in (best, worst))
        text += f" The 99th percentile of latency grows least under {_named(best)}: {least} x"
        text += f", most under {_named(worst)}: {most_of} x."
    lost = known[known["overloaded"] > 0]
    if len(lost):
        named = ", ".join(f"{_named(row)} ({row['overloaded']} of {row['sets']})" for _, row in lost.iterrows())
        text += f" Servers {OVERLOADED} with their requests, so that there is no p99, in sets under {named}."
    return text


def _start(text: str) -> str:
    return text[:1].upper() + text[1:]


def _named(row: pd.Series[Any]) -> str:
    return f"{row['mechanism']} ({row['setting']})" if row["setting"] else str(row["mechanism"])
