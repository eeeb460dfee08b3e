"""What a check of the data found."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal

import pandas as pd

Severity = Literal["error", "warning", "info"]

#: Columns that only serve to name a row.
_HIDDEN = ("source_id", "other_id", "kernel_id", "workload_id", "origin", "outside", "excluded", "slot")


@dataclass(frozen=True)
class Finding:
    """One rule's finding at one place.

    Attributes
    ----------
    rule : str
        Name of the rule, such as ``minimum-slowdown``.
    severity : {"error", "warning", "info"}
        ``error``: the numbers can't be used as they are; ``warning``: use with care; ``info``: know it.
    where : str
        Data set and GPU, or file.
    count : int
        How many things (workloads, members, cells ...) the rule caught.
    sentence : str
        What was found, and what it means, for a person.
    rows : pd.DataFrame
        The evidence; one row a caught thing, or where those were not kept, one row a file.
    """

    rule: str
    severity: Severity
    where: str
    count: int
    sentence: str
    rows: pd.DataFrame = field(repr=False, compare=False)

    @property
    def shown(self) -> pd.DataFrame:
        """The rows without the columns that only serve to name them."""
        return self.rows.drop(columns=list(_HIDDEN), errors="ignore")

    def to_dict(self) -> dict[str, str | int]:
        """Return the finding without its rows, as the command line prints it."""
        return {
            "rule": self.rule,
            "severity": self.severity,
            "where": self.where,
            "count": self.count,
            "sentence": self.sentence,
        }


def place(*parts: object) -> str:
    """Join the parts of a place that are known: ``kace, V100-32GB``."""
    return ", ".join(str(part) for part in parts if part)


def named(names: Iterable[object], most: int = 5) -> str:
    """List names in a sentence, the first few by name and the rest by number."""
    words: Sequence[str] = [str(name) for name in names]
    if len(words) <= most:
        return ", ".join(words)
    return f"{', '.join(words[:most])} and {len(words) - most} more"


def counted(number: int, noun: str, plural: str | None = None) -> str:
    """Write a number with its noun: ``1 run``, ``2,458 runs``."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"
