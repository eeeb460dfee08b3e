"""What a solo profile is evidence of: nothing, telemetry, counters or stall reasons."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Literal

import numpy as np
import pandas as pd

from analysis.predict.frame.quantities import QUANTITIES

Evidence = Literal["none", "telemetry", "counters", "stalls", "measured"]

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
