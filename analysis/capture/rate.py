"""How fast a job is within a window of time, from what it says: numbers it prints, lines it writes, steps it counts."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from analysis.errors import UsageError

Way = Literal["regex", "lines", "steps"]

#: Marks that a window must hold; fewer say too little of a rate.
LEAST_MARKS = 4


@dataclass(frozen=True)
class RateBy:
    """How a job says how fast it is.

    Attributes
    ----------
    way : {"regex", "lines", "steps"}
        ``regex``: it prints its throughput, and the pattern's first group is the number. ``lines``: each line that the
        pattern fits is a piece of work. ``steps``: it counts by `analysis.capture.steps`.
    pattern : str
        For ``regex`` and ``lines``; blank for any line.
    per_line : float
        Work of a line.
    unit : str
        Unit of the throughput.
    """

    way: Way = "steps"
    pattern: str = ""
    per_line: float = 1.0
    unit: str = "it/s"

    def __post_init__(self) -> None:
        try:
            groups = re.compile(self.pattern).groups
        except re.error as error:
            raise UsageError(f"{self.pattern!r} is no regular expression ({error})", "Correct it.") from error
        if self.way == "regex" and groups < 1:
            raise UsageError(
                f"{self.pattern!r} has no group",
                r"Put what is the throughput in brackets, for example '([\d.]+) samples/s'.",
            )

    def mark(self, line: str, at: float, before: float) -> Mark | None:
        """Return what a line of output says, or None where it says nothing.

        Parameters
        ----------
        line : str
            The line.
        at : float
            When it came, by the monotonic clock.
        before : float
            Work done up to it.

        Returns
        -------
        Mark or None
            For ``regex`` its `work` is the number printed; for ``lines`` the work done with it.
        """
        if self.way == "steps":
            return None
        found = re.search(self.pattern, line)
        if found is None:
            return None
        if self.way == "lines":
            return Mark(at, before + self.per_line)
        try:
            return Mark(at, float(found[1].replace(",", "")))
        except (ValueError, AttributeError):
            return None


@dataclass(frozen=True)
class Mark:
    """What a job said at a time: work done so far, or (``regex``) its throughput since the mark before."""

    at: float
    work: float


def of_step_line(line: str) -> tuple[Mark, float] | None:
    """Read a line of `analysis.capture.steps`: the mark, and the memory reserved in MiB."""
    parts = line.split()
    try:
        return Mark(float(parts[0]), float(parts[1])), float(parts[2])
    except (ValueError, IndexError):
        return None


def rate(marks: Sequence[Mark], start: float, end: float, way: Way) -> float | None:
    """Return the throughput between two times.

    Work is counted from the first mark within the window to the last: what is under way at its edges belongs to neither
    side, so nothing is lost by where the edges fall. Printed throughputs are averaged over the time each stands for.

    Parameters
    ----------
    marks : sequence of Mark
        In the order of time.
    start, end : float
        The window.
    way : {"regex", "lines", "steps"}
        What the marks hold.

    Returns
    -------
    float or None
        Work a second (or the printed unit); None with fewer than `LEAST_MARKS` marks within the window.
    """
    inside = [mark for mark in marks if start <= mark.at <= end]
    if len(inside) < LEAST_MARKS:
        return None
    seconds = inside[-1].at - inside[0].at
    if seconds <= 0:
        return None
    if way != "regex":
        return (inside[-1].work - inside[0].work) / seconds
    pairs = itertools.pairwise(inside)
    return sum(later.work * (later.at - earlier.at) for earlier, later in pairs) / seconds
