"""Rows that a format understands and sets aside: counted and kept by the rule that sets them aside, and in words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import pyarrow as pa

from analysis.ingest.contract.cells import Ints
from analysis.ingest.contract.format import Opened
from analysis.store.parsed import Frame

#: Frame of the rows that were set aside.
FRAME = "set_aside_row"
#: Most rows of a file that are kept with their text; all are counted.
MOST_KEPT = 100_000
_SHOWN = 500

#: What the rows of each rule are.
_RULES = {
    "max_rate": "peak rates of the GPU, which are no measurement of the kernel",
    "printed_again": "metrics that the file prints for the launch already",
    "mirrored_cell": "cells that stand a second time, seen from the partner",
    "scale_above_1": "cells of jobs on several GPUs, which are no co-runs on one",
    "unconsolidated": "cells of jobs spread over several machines, which are no co-runs on one GPU",
    "memory_operation": "copies and fills of memory, which are no kernels",
    "not_a_kernel": "lines of memory operations and API calls, which are no kernels",
    "other_table": "lines of another table in the file",
    "same_kernels_again": "lines of kernels that another table of the file has too",
    "list_of_fields": "lines that list fields instead of values",
    "other_metric": "metrics of another exporter",
    "partner_rejected": "members whose partner's row was rejected",
    "no_usage": "steps for which no usage was recorded",
    "no_gpu_metric": "metrics of the run that are none of a GPU",
    "no_process": "moments at which no process ran",
    "repeated_figures": "figures that repeat those of another row",
    "text": "lines of text",
}  # fmt: skip


def what_aside(rule: str) -> str:
    """Say what the rows of a rule are, with the rule's name.

    Examples
    --------
    >>> what_aside("memory_operation")
    'copies and fills of memory, which are no kernels (rule memory_operation)'
    """
    words = _RULES.get(rule)
    return f"{words} (rule {rule})" if words else f"by rule {rule}"


class Aside:
    """Rows set aside, in the order in which they were met."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self._rows: list[tuple[str, int | None, str | None]] = []

    def add(self, rule: str, lines: Sequence[int] | Ints, texts: Sequence[str] | None = None) -> None:
        """Set rows aside.

        Parameters
        ----------
        rule : str
            The rule that does.
        lines : sequence of int
            Line of each in the file.
        texts : sequence of str, optional
            What stands there; by default the line itself.
        """
        if not len(lines):
            return
        self.counts[rule] += len(lines)
        room = MOST_KEPT - len(self._rows)
        first = [int(line) for line in lines[:room]]
        shown: Sequence[str | None] = texts[:room] if texts is not None else [None] * len(first)
        self._rows += [(rule, line, text) for line, text in zip(first, shown, strict=True)]

    def frames(self, opened: Opened) -> dict[str, Frame]:
        """Return the rows as a frame of `analysis.store.parsed.FRAME_COLUMNS`; nothing where there are none."""
        if not self._rows:
            return {}
        lines = _lines(opened, {line for _, line, text in self._rows if text is None and line is not None})
        texts = [(lines.get(line or 0) if text is None else text) for _, line, text in self._rows]
        rules, places, _ = zip(*self._rows, strict=True)
        return {
            FRAME: pa.table(
                {
                    "rule": pa.array(rules, pa.string()),
                    "line": pa.array(places, pa.int64()),
                    "text": pa.array([text[:_SHOWN] if text else None for text in texts], pa.string()),
                }
            )
        }


def _lines(opened: Opened, wanted: set[int]) -> dict[int, str]:
    """Return lines of the text by number, without blanks around them."""
    if not wanted or opened.text is None:
        return {}
    found: dict[int, str] = {}
    last = max(wanted)
    with opened.text.open("rb") as file:
        for number, raw in enumerate(file, start=1):
            if number in wanted:
                found[number] = raw[: 4 * _SHOWN].decode("utf-8", errors="replace").removeprefix("\ufeff").strip()
            if number >= last:
                break
    return found
