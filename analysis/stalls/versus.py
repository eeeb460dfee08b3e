"""One baseline beside several others: the same comparison for each, and what differs in one table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd

from analysis.errors import UsageError
from analysis.stalls.compare import Comparison, compare
from analysis.stalls.sides import Side
from analysis.store.database import Database

#: Others beside one baseline: more bars than this can't be told apart.
MOST_OTHERS = 5

#: A difference of fewer percentage points than this is left out of the view of differences.
LEAST_POINTS = 1.0


def compare_all(database: Database, base: Side, others: Sequence[Side]) -> tuple[Comparison, ...]:
    """Compare every other profile with the baseline.

    Raises
    ------
    UsageError
        If there is none, more than `MOST_OTHERS`, or the baseline among them.
    """
    if not 0 < len(others) <= MOST_OTHERS:
        raise UsageError(
            f"a baseline is compared with one to {MOST_OTHERS} others, and {len(others)} are given", "Choose fewer."
        )
    if any((one.dataset, one.workload, one.gpu) == (base.dataset, base.workload, base.gpu) for one in others):
        raise UsageError(f"{base.name} is the baseline and an other at once", "Choose another profile beside it.")
    return tuple(compare(database, base, one) for one in others)


def to_json(comparisons: Sequence[Comparison]) -> dict[str, Any]:
    """Return one comparison as it is, several as ``{base, comparisons[]}``."""
    documents = [one.to_json() for one in comparisons]
    return documents[0] if len(documents) == 1 else {"base": documents[0]["base"], "comparisons": documents}


def table(comparisons: Sequence[Comparison], part: str) -> pd.DataFrame:
    """Put one table of every comparison below one another.

    Parameters
    ----------
    comparisons : sequence of Comparison
        With one baseline.
    part : {"totals", "kernels", "pairs", "unmatched", "top_reasons"}
        An attribute of `Comparison`.

    Returns
    -------
    pd.DataFrame
        The columns ``other`` (workload), ``other_gpu`` and those of the part, in the order of the comparisons.
    """
    frames: list[pd.DataFrame] = []
    for one in comparisons:
        frame: pd.DataFrame = getattr(one, part).copy()
        frame.insert(0, "other", one.other.workload)
        frame.insert(1, "other_gpu", one.other.gpu)
        frames.append(frame)
    kept = [frame for frame in frames if len(frame)] or frames[:1]
    return pd.concat(kept, ignore_index=True)


def differing(frame: pd.DataFrame, least: float = LEAST_POINTS) -> pd.DataFrame:
    """Keep the rows that differ: by so many percentage points, or because one side doesn't have the reason.

    Rows where both sides are known to be zero, or nearly alike, are what the view of differences leaves out.
    """
    apart = frame["difference"].abs() >= least
    # A reason that only one side has, and that holds less than the least there, is no difference worth a row.
    alone = frame[["share_base", "share_other"]].max(axis=1).ge(least) & frame["state"].ne("both")
    # Where one side has no stall metrics at all nothing differs: it is a sentence, not a list of every reason.
    sides = [name for name in ("other", "other_gpu") if name in frame]
    both = frame["state"].eq("both")
    if len(frame):
        both = both.groupby([frame[name] for name in sides] or both * 0).transform("any")
    return pd.DataFrame(frame[(apart | alone) & both].reset_index(drop=True))


def sentence(comparisons: Sequence[Comparison]) -> str:
    """Say the largest difference of each comparison in words."""
    return " ".join(one.sentence() for one in comparisons)
