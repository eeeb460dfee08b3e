"""What the warps of each profiled workload wait for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pandas as pd

from analysis.charts.stall_bars import stall_bars
from analysis.interference.finding import counted, named
from analysis.reference.stall_families import BY_NAME
from analysis.report.document import Block, Notice, Section, Text
from analysis.report.table import columns_of, figure, table
from analysis.stalls.shares import ENOUGH_ACCOUNTED, by_family

#: Reasons below this percentage of warp cycles are left to the CSV of the Stalls page.
_LEAST_SHARE = 1.0

_COLUMNS = columns_of("workload", "gpu", "reason", "group", "share", "cycles", "accounted", "launches")
_VERDICTS = columns_of("workload", "gpu", "kind", "sentence")


def section(
    shares: pd.DataFrame, verdicts: pd.DataFrame, unavailable: Mapping[str, Sequence[str]] | None = None
) -> Section | None:
    """Make the section of the rows of `analysis.stalls.shares.stall_shares` by workload; None without profiles.

    Parameters
    ----------
    shares, verdicts : pd.DataFrame
        By workload.
    unavailable : mapping of str to sequence of str, optional
        Stall reasons that a GPU can't report, by GPU.
    """
    if shares.empty:
        return None
    blocks: list[Block] = [Text(sentences=(sentence(verdicts),))]
    little = shares[shares["accounted"] < ENOUGH_ACCOUNTED].drop_duplicates(["workload", "gpu"])
    if len(little):
        blocks.append(
            Notice(
                level="warning",
                sentence=f"The reported reasons leave a part of the warp cycles open for {named(little['workload'])}; "
                "shares are not scaled up to hide it.",
            )
        )
    parts = by_family(shares)
    for family, part in parts:  # families of metrics have no common axis
        of = f": {BY_NAME[family].title}" if len(parts) > 1 else ""
        blocks.append(figure(f"Where warp cycles go{of}", stall_bars(part, unavailable=unavailable)))
    blocks.append(table("What bounds each workload", verdicts, _VERDICTS))
    large = shares[shares["share"] >= _LEAST_SHARE]
    caption = (
        f"Reasons of at least {_LEAST_SHARE:.0f} % of the warp cycles; launches weighted by "
        f"{named(sorted(set(shares['weight'].astype(str))))}. A reason that a GPU does not have is absent, not zero."
    )
    blocks.append(table("Stall reasons", large, _COLUMNS, caption=caption))
    return Section(key="stalls", title="Why the jobs wait", blocks=tuple(blocks))


def sentence(verdicts: pd.DataFrame) -> str:
    """Say how many workloads are bound by what."""
    counts = verdicts["kind"].value_counts()
    parts = [f"{number} {kind}" for kind, number in counts.items() if kind != "unknown"]
    unknown = int(counts.get("unknown", 0))
    if unknown:
        parts.append(f"{unknown} without a verdict")
    return f"Of {counted(len(verdicts), 'profile')} with stall reasons: {', '.join(parts)}."
