"""The columns of an own profile table beyond the documented ones: any metric, with its unit and what it stands for."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from analysis.ingest.text.units import base
from analysis.reference import stall_reasons

_UNIT = re.compile(r"\s*[\[(](?P<unit>[^\[\]()]{0,30})[\])]\s*$")
_SHORT = re.compile(r"^stall[_ ](?P<reason>[a-z_]+)$", re.IGNORECASE)


@dataclass(frozen=True)
class Metric:
    """A metric column.

    Attributes
    ----------
    name : str
        The metric's name, without the unit.
    unit : str or None
        From brackets behind the name: ``dram_throughput [%]``.
    family, reason : str or None
        Where the name is a stall metric that carries the quantity.
    """

    name: str
    unit: str | None
    family: str | None
    reason: str | None

    @property
    def base(self) -> str | None:
        """The base unit."""
        return base(self.unit or "").name

    @property
    def factor(self) -> float:
        """What takes a value to the base unit."""
        return base(self.unit or "").factor


def metric(column: str) -> Metric:
    """Say what a column stands for.

    Parameters
    ----------
    column : str
        As written. ``stall_<reason>`` with a canonical reason is the percentage of warp cycles in that state.

    Returns
    -------
    Metric
        Its parts.

    Examples
    --------
    >>> metric("stall_long_scoreboard [%]").name
    'smsp__warp_issue_stalled_long_scoreboard_per_warp_active.pct'
    """
    found = _UNIT.search(column)
    name = column[: found.start()].strip() if found else column.strip()
    unit = (found["unit"].strip() or None) if found else None
    short = _SHORT.match(name)
    if short and short["reason"].lower() in _percentages():
        name, unit = _percentages()[short["reason"].lower()] + ".pct", "%"
    stall = stall_reasons.resolve(name)
    if stall is None or stall.rank is None:
        return Metric(name, unit, None, None)
    return Metric(name, unit, stall.family, stall.reason)


@lru_cache(maxsize=1)
def _percentages() -> dict[str, str]:
    table = stall_reasons.load()["per_warp_active"]
    return {str(reason): str(name) for reason, name in table.items() if name}
