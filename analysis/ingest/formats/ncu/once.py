"""Metrics that a profile prints twice for one launch: one of the rows counts, and the others are set aside."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from analysis.ingest.contract.cells import Ints
from analysis.ingest.formats.ncu.assembly import Measured, damaged
from analysis.ingest.formats.ncu.stall_metrics import Bools, each_once
from analysis.ingest.text.numbers import Numbers

#: How many places a table of counts may have for each row; above that it is sorted.
_ROOMY = 8


@dataclass(frozen=True)
class Again:
    """Rows that repeat a metric of their launch.

    Attributes
    ----------
    lines : ndarray of int64
        Where they stand.
    texts : list of str
        Metric and value of each.
    warning : str or None
        Says that values differ; None where all repeat the value that counts.
    """

    lines: Ints
    texts: list[str]
    warning: str | None


def once(rows: Measured) -> tuple[Measured, Again | None]:
    """Keep one row for each metric of a launch: the first that has a value.

    A metric that stands in two sections of the report is told apart by these, as the sections are.

    Parameters
    ----------
    rows : Measured
        Rows of metrics.

    Returns
    -------
    tuple of Measured and Again or None
        The rows that count, and those that repeat one of them; None where there are none.
    """
    if not len(rows.launch) or each_once(rows.launch, rows.metric):
        return rows, None
    key = rows.launch.astype(np.int64) * len(rows.section_names) + rows.section
    key = key * len(rows.metric_names) + rows.metric
    if not _repeats(key):
        return rows, None
    # A cell that was damaged is for its own reject to tell.
    sound = np.flatnonzero(~damaged(rows))
    missing = np.isnan(rows.numbers.values[sound])
    order = sound[np.lexsort((sound, missing, key[sound]))]
    begins = np.ones(len(order), dtype=bool)
    begins[1:] = key[order[1:]] != key[order[:-1]]
    kept = order[np.repeat(np.flatnonzero(begins), np.diff(np.flatnonzero(begins), append=len(order)))]
    again = np.sort(order[~begins])
    if not len(again):
        return rows, None
    counted = np.empty(len(key), dtype=np.int64)
    counted[order] = kept
    texts = [f"{rows.metric_names[rows.metric[row]]}: {rows.text[int(row)].as_py()}" for row in again]
    mask = np.ones(len(key), dtype=bool)
    mask[again] = False
    return _only(rows, mask), Again(rows.line[again], texts, _differing(rows, again, counted[again]))


def _repeats(key: Ints) -> bool:
    most = int(key.max())
    if most < _ROOMY * len(key):
        return bool((np.bincount(key) > 1).any())
    return len(np.unique(key)) < len(key)


def _differing(rows: Measured, again: Ints, counted: Ints) -> str | None:
    """Say where a row has another value, or a value in another unit, than the one that counts."""
    values, unit = rows.numbers.values, rows.unit
    other = ~np.isnan(values[again]) & ((values[again] != values[counted]) | (unit[again] != unit[counted]))
    if not other.any():
        return None
    first, count = int(again[other][0]), int(other.sum())
    launches = len(np.unique(rows.launch[again[other]]))
    where = "one launch" if launches == 1 else f"{launches:,} launches"
    what = "1 metric stands" if count == 1 else f"{count:,} metrics stand"
    return (
        f"{what} twice with different values in {where}, such as {rows.metric_names[rows.metric[first]]} in lines "
        f"{rows.line[counted[other][0]]:,} and {rows.line[first]:,}: the first value counts, the others were set aside."
    )


def _only(rows: Measured, mask: Bools) -> Measured:
    chosen = pa.array(mask)
    numbers = rows.numbers
    return replace(
        rows,
        launch=rows.launch[mask],
        line=rows.line[mask],
        section=rows.section[mask],
        metric=rows.metric[mask],
        unit=rows.unit[mask],
        numbers=Numbers(numbers.values[mask], numbers.missing[mask], numbers.wrong[mask], numbers.grouped),
        text=rows.text.filter(chosen),
        note=None if rows.note is None else rows.note.filter(chosen),
    )
