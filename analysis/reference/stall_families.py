"""The families of stall metrics: how each is spelt, what its numbers mean, and what its reasons should add up to.

Two families are never mixed or added: they count different things, or the same things in different replay passes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class StallFamily:
    """One family of stall metrics.

    Attributes
    ----------
    name : str
        Short name, as stored in `kernel_label.family`.
    title : str
        What a person calls it.
    unit : str
        Unit of a value once it is stored.
    kind : {"ratio", "percent", "count"}
        ``ratio``: warp cycles per issue or per warp, a share is value / total. ``percent``: the value is the share.
        ``count``: samples or warps, a share is value / sum, and counts of several launches add up.
    suffixes : tuple of str
        Suffixes that carry the quantity, the one to prefer first; ``""`` is no suffix.
    scale : tuple of float
        Factor that takes a value under each suffix to the unit of the first; 0 where none exists.
    totals : tuple of str
        Metrics that state what the reasons should add up to, the one to prefer first. Empty: 100 for percent, else
        only the sum of the reasons is known.
    cycles : bool
        Whether a value is in warp cycles per issued instruction.
    """

    name: str
    title: str
    unit: str
    kind: Literal["ratio", "percent", "count"]
    suffixes: tuple[str, ...]
    scale: tuple[float, ...]
    totals: tuple[str, ...] = ()
    cycles: bool = False


#: In the order of preference: where a launch has several, the first is shown.
FAMILIES: tuple[StallFamily, ...] = (
    StallFamily(
        "per_issue_active",
        "warp cycles per issued instruction",
        "warp cycles per issue",
        "ratio",
        ("ratio", "pct"),
        (1.0, 0.01),
        (
            "smsp__average_warps_active_per_issue_active.ratio",
            "smsp__average_warp_latency_per_inst_issued.ratio",
            "Warp Cycles Per Issued Instruction",
        ),
        cycles=True,
    ),
    StallFamily(
        "pascal",
        "warp cycles per issued instruction (Pascal)",
        "warp cycles per issue",
        "ratio",
        ("", "ratio", "avg"),
        (1.0, 1.0, 1.0),
        ("smsp__warp_cycles_per_issue_active",),
        cycles=True,
    ),
    StallFamily("per_warp_active", "percent of active-warp cycles", "%", "percent", ("pct", "ratio"), (1.0, 100.0)),
    StallFamily("pascal_pct", "percent of active-warp cycles (Pascal)", "%", "percent", ("",), (1.0,)),
    StallFamily(
        "warp_latency",
        "warp cycles over a warp's life",
        "warp cycles",
        "ratio",
        ("ratio", "pct"),
        (1.0, 0.01),
        ("smsp__average_warp_latency.ratio",),
    ),
    StallFamily(
        "warps_cumulative",
        "warps in the state, added up over cycles",
        "warps",
        "count",
        ("sum", "avg", "max", "min", ""),
        (1.0, 0.0, 0.0, 0.0, 1.0),
        ("smsp__warps_active.sum",),
    ),
    StallFamily(
        "pcsamp",
        "samples of the program counter",
        "samples",
        "count",
        ("", "sum", "avg"),
        (1.0, 1.0, 0.0),
        ("smsp__pcsamp_sample_count", "smsp__pcsamp_sample_count.sum"),
    ),
    StallFamily("source_page", "samples on the source page", "samples", "count", ("",), (1.0,)),
    StallFamily(
        "pmsampling",
        "warps in the state over time",
        "warps",
        "count",
        ("avg", "sum", "max", "min", ""),
        (1.0, 0.0, 0.0, 0.0, 0.0),
    ),
    StallFamily("nvprof", "percent of stalls (nvprof)", "%", "percent", ("",), (1.0,)),
    StallFamily(
        "pcsamp_not_issued",
        "samples of the program counter in cycles without an issue",
        "samples",
        "count",
        ("", "sum", "avg"),
        (1.0, 1.0, 0.0),
    ),
    StallFamily(
        "source_page_not_issued",
        "samples on the source page in cycles without an issue",
        "samples",
        "count",
        ("",),
        (1.0,),
    ),
)

#: The same, by name.
BY_NAME: dict[str, StallFamily] = {family.name: family for family in FAMILIES}
