"""From numbers to advice: whether a set fits in memory, and whether its jobs may share."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Literal

import numpy as np
import pandas as pd

from analysis.interference.memory import Memory
from analysis.predict.frame.quantities import QUANTITIES

Verdict = Literal["share", "don't", "measure first"]
Evidence = Literal["none", "telemetry", "counters", "stalls", "measured"]

#: Sharing is worth its trouble from this system throughput on (1 is what one job after the other gives).
WORTHWHILE = 1.1

#: What is said where there is no figure at all.
NO_FIGURE = "They never ran together here, and without a model nothing says what they would cost each other."

#: What each quantity is evidence of. How long warps wait doesn't say what for: that alone is no stall profile.
_BY_WHAT = {quantity.name: quantity.what for quantity in QUANTITIES} | {"warp_cycles_per_issue": "counters"}


def evidence_of(profile: pd.Series, read: Collection[str] | None = None) -> Evidence:
    """Return the best kind of evidence that a solo profile holds.

    Parameters
    ----------
    profile : pd.Series
        Quantities by name; NaN where unknown.
    read : collection of str, optional
        Quantities that the model reads: what it doesn't look at is no evidence for what it says.
    """
    known = {
        _BY_WHAT[str(name)]
        for name, value in profile.items()
        if str(name) in _BY_WHAT and isinstance(value, float) and np.isfinite(value) and (read is None or name in read)
    }
    for what, tier in (("stalls", "stalls"), ("counters", "counters"), ("duty cycle", "telemetry")):
        if what in known:
            return tier  # type: ignore[return-value]
    return "none"


def weakest(tiers: Sequence[Evidence]) -> Evidence:
    """Return the weakest evidence among the jobs of a set: a chain holds as much as its weakest link."""
    order: tuple[Evidence, ...] = ("none", "telemetry", "counters", "stalls", "measured")
    return min(tiers, key=order.index)


def verdict(
    memory: Memory,
    slowdowns: Sequence[float],
    lows: Sequence[float | None],
    highs: Sequence[float | None],
    *,
    extrapolating: bool,
    evidence: Evidence,
    simulated: bool = False,
    doubtful: Sequence[str] = (),
) -> tuple[Verdict, str]:
    """Advise on a set of jobs.

    Memory comes first: with unknown memory the answer is never share. Then no job may pay more than it would by taking
    turns: k jobs that take turns slow each other k times, so S above k starves a job, whatever the set gains.
    A prediction without an interval, or outside of what the model has seen, is a reason to measure, not to share.

    Parameters
    ----------
    memory : str
        As `memory_fit` says.
    slowdowns : sequence of float
        Predicted (or measured) S of each job.
    lows, highs : sequence of float or None
        Ends of the intervals.
    extrapolating : bool
        Whether an input is outside the training data.
    evidence : str
        Weakest evidence of the jobs.
    simulated : bool
        Whether what ran together ran in a simulator.
    doubtful : sequence of str
        Jobs whose solo baseline the data checks doubt, or that ran faster beside the others than alone: their measured
        slowdown proves nothing.

    Returns
    -------
    tuple of str
        share, don't, or measure first; and why, as a sentence.
    """
    together = float(np.sum(1.0 / np.asarray(slowdowns, dtype=np.float64)))
    turns = len(slowdowns)
    if memory == "does_not_fit":
        return "don't", "Their peaks of memory are more than the GPU has."
    if evidence == "measured":
        run = "Simulated" if simulated else "Measured"
        if doubtful:
            return (
                "measure first",
                f"They ran together, but the solo baseline of {' and of '.join(doubtful)} is doubtful, and with it the "
                "slowdown: measure it alone again.",
            )
        if together < WORTHWHILE:
            return "don't", f"{run} together they do {together:.2f} times the work of one job after the other."
        if max(slowdowns) > turns:
            return "don't", _starved(max(slowdowns), turns, together, f"{run} together, one")
        if memory == "unknown":
            ran = "ran together in the simulator" if simulated else "ran together once"
            return "measure first", f"They {ran}, but their peaks of memory are unknown."
        return "share", f"{run} together they do {together:.2f} times the work of one job after the other."
    if memory == "unknown":
        return "measure first", "Whether they fit into memory together is unknown: measure each job's peak."
    if evidence == "none":
        return "measure first", "There is no solo profile of every job."
    if not np.isfinite(together):
        return "measure first", NO_FIGURE
    if any(value is None for value in (*lows, *highs)):
        return "measure first", "No measured co-run stands behind an interval for this prediction."
    worst = float(np.sum([1.0 / float(high) for high in highs if high is not None]))
    best = float(np.sum([1.0 / float(low) for low in lows if low is not None]))
    if best < WORTHWHILE:
        return "don't", f"Even the gentle end of the intervals gives {best:.2f} times the work of one after the other."
    if max(float(low) for low in lows if low is not None) > turns:
        return "don't", _starved(max(slowdowns), turns, together)
    if extrapolating:
        return "measure first", "The prediction goes beyond what the model has seen."
    longest = max(float(high) for high in highs if high is not None)
    if longest > turns:
        return (
            "measure first",
            f"One of them may take up to {longest:.2f} times as long; taking turns would cost it {turns} times.",
        )
    if worst >= 1.0 and together >= WORTHWHILE:
        return (
            "share",
            f"They do {together:.2f} times the work of one after the other, at least {worst:.2f}.",
        )
    return "measure first", f"Sharing may gain {together:.2f} times the work, but as little as {worst:.2f}."


def _starved(slowdown: float, turns: int, together: float, who: str = "One") -> str:
    return (
        f"{who} of them takes {slowdown:.2f} times as long, more than the {turns} times that taking turns would cost "
        f"it, though together they do {together:.2f} times the work."
    )
