"""What limits the comparison of two profiles, in sentences."""

from __future__ import annotations

import math

import pandas as pd

from analysis.stalls.counters import counters
from analysis.stalls.shares import ENOUGH_ACCOUNTED
from analysis.stalls.sides import Side
from analysis.store.database import Database

#: What identifies a kernel on both sides.
PAIR = ["kernel", "grid", "block"]

#: Clocks further apart than this, in percent, make durations and cycles of two profiles hard to compare.
CLOCK_TOLERANCE = 2.0


def cautions(
    database: Database,
    base: Side,
    other: Side,
    tables: list[dict[str, pd.DataFrame]],
    families: tuple[str | None, str | None],
    classes: bool,
    pairs: pd.DataFrame,
) -> list[str]:
    """Return one sentence for each thing that a reader of the comparison must know.

    Parameters
    ----------
    database : Database
        The open database.
    base, other : Side
        What is compared.
    tables : list of dict
        Stall shares of each side by workload and by kernel.
    families : tuple of str or None
        Family of metrics of each side.
    classes : bool
        Whether both were brought to nvprof's classes.
    pairs : pd.DataFrame
        The paired kernels.
    """
    found = []
    for one, table in zip((base, other), tables, strict=True):
        if table["workload"].empty:
            found.append(f"{one.name} holds no stall metrics, so no shares of it are compared.")
            continue
        accounted = table["kernel"].groupby(PAIR)["accounted"].first()
        low = int((accounted < ENOUGH_ACCOUNTED).sum())
        if low:
            found.append(
                f"In {low} of {len(accounted)} kernels of {one.name} the reasons explain less than "
                f"{ENOUGH_ACCOUNTED:g} % of the warp cycles (least {accounted.min():.1f} %)."
            )
    if classes:
        found.append(
            "One side comes from nvprof, so both are brought to nvprof's classes, as percent of the cycles in which "
            "warps did not issue; reasons without such a class are left out."
        )
    elif None not in families and families[0] != families[1]:
        found.append(
            "The sides report different families of metrics, which have no common scale: their shares stand apart, "
            "and no difference of them is formed."
        )
    if pairs.empty:
        found.append("No kernel has the same name, grid and block on both sides; only the workloads as wholes compare.")
    found += _clock_warnings(database, base, other)
    if base.simulated != other.simulated:
        found.append("One side is simulated and the other measured.")
    return found


def _clock_warnings(database: Database, base: Side, other: Side) -> list[str]:
    """Clocks of one GPU model that differ make cycles and times of its two profiles differ too."""
    if base.gpu != other.gpu:
        return []
    sides = [counters(database, one.chosen) for one in (base, other)]
    found = []
    for column, title in (("sm_clock", "SM"), ("dram_clock", "DRAM")):
        first, second = (float(frame[column].iloc[0]) if len(frame) else math.nan for frame in sides)
        apart = 100 * abs(second / first - 1) if first > 0 else math.nan
        if apart > CLOCK_TOLERANCE:
            found.append(
                f"The {title} clocks differ by {apart:.1f} % ({first / 1e6:.0f} and {second / 1e6:.0f} MHz): times are "
                "not comparable as they stand."
            )
    return found
