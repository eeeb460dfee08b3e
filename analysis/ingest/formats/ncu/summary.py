"""Nsight Compute, summary by kernel: one row a kernel and metric, with the average over its launches."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pyarrow.compute as pc

from analysis.errors import InputRefusedError, Where
from analysis.ingest.contract.cells import Cells, Ints
from analysis.ingest.contract.format import Hints, Opened
from analysis.ingest.formats.ncu import launches as col
from analysis.ingest.formats.ncu.assembly import Measured
from analysis.ingest.formats.ncu.profile import profile
from analysis.ingest.text.header import find_header
from analysis.ingest.text.numbers import convert, decide
from analysis.ingest.text.reader import read_table
from analysis.store.parsed import Parsed

_KEY = (col.PROCESS, col.KERNEL, col.BLOCK, col.GRID, col.DEVICE, col.CC)
_NUMBERS = (col.MINIMUM, col.MAXIMUM, col.AVERAGE)


class NcuSummary:
    """What ``--print-summary per-kernel`` prints: no launches, but how many there were."""

    name = "ncu-summary"
    title = "Nsight Compute, summary by kernel"

    def sniff(self, opened: Opened) -> bool:
        """Say whether a line of the text is a header of this form."""
        return find_header(opened, col.METRIC, col.is_summary) is not None

    def parse(self, opened: Opened, hints: Hints) -> Parsed:
        """Read the file; the value of a metric is its average over the launches.

        Raises
        ------
        InputRefusedError
            If it is cut off, has no rows, or no row can be understood.
        """
        header = find_header(opened, col.METRIC, col.is_summary)
        if header is None:
            raise InputRefusedError(
                "there is no summary of Nsight Compute in it", "Export it again.", Where(opened.name)
            )
        cells = read_table(
            opened,
            header,
            plain=(col.AVERAGE,),
            needed=lambda names: 1 + max(names.index(name) for name in _NUMBERS if name in names),
            wanted=col.is_summary,
        )
        cells = _understood(cells)
        if cells.count == 0:
            raise InputRefusedError(
                f"none of its {cells.rows_read:,} rows could be understood", "Export it again.", Where(opened.name)
            )
        launch, first = _kernels(cells)
        columns = [cells.texts(name) for name in _NUMBERS if name in cells.has]
        separators = decide(columns)
        average = cells.texts(col.AVERAGE)
        table = _table(cells, first)
        table["invocations"] = _invocations(cells)[first].astype(np.int64)
        section, sections = cells.codes(col.SECTION)
        metric, metrics = cells.codes(col.METRIC)
        unit, units = cells.codes(col.UNIT)
        measured = Measured(
            launch=launch,
            line=cells.lines,
            section=section,
            section_names=sections,
            metric=metric,
            metric_names=metrics,
            unit=unit,
            unit_names=units,
            numbers=convert(average, separators),
            text=average,
            launches=table,
            note=_range(cells),
        )
        note = "The file is a summary: values are averages over the launches of a kernel."
        return profile(
            self.name, opened, hints, cells, measured, separators, era=col.era(header), extra_warnings=(note,)
        )


def _invocations(cells: Cells) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    if col.INVOCATIONS not in cells.has:
        return np.ones(cells.count)
    text = cells.texts(col.INVOCATIONS)
    return convert(text, decide([text])).values


def _understood(cells: Cells) -> Cells:
    """Reject rows without a kernel or metric, or without a number of launches."""
    good = np.ones(cells.count, dtype=bool)
    for name, reason in ((col.KERNEL, "the kernel has no name"), (col.METRIC, "the metric has no name")):
        codes, values = cells.codes(name)
        bad = ~np.array([bool(value.strip()) for value in values], dtype=bool)[codes] & good
        for row in np.flatnonzero(bad):
            cells.rejects.add(cells.lines[row], name, reason, "")
        good &= ~bad
    count = _invocations(cells)
    bad = ~((count >= 1) & (count == np.floor(count))) & good
    for row in np.flatnonzero(bad):
        text = cells.at(col.INVOCATIONS, [int(row)])[0]
        cells.rejects.add(cells.lines[row], col.INVOCATIONS, "is no number of launches", text)
    good &= ~bad
    return cells if good.all() else cells.keep(good)


def _kernels(cells: Cells) -> tuple[Ints, Ints]:
    """Number the kernels: same process, name, block, grid, device and compute capability."""
    key = cells.part.astype(np.int64)
    for name in _KEY:
        codes, values = cells.codes(name)
        key, _ = pd.factorize(key * max(len(values), 1) + codes)
        key = key.astype(np.int64)
    count = int(key.max()) + 1
    first = np.full(count, -1, dtype=np.int64)
    first[key[::-1]] = np.arange(len(key), dtype=np.int64)[::-1]
    return key, first


def _table(cells: Cells, first: Ints) -> pd.DataFrame:
    def column(name: str) -> list[str | None]:
        return [value or None for value in cells.at(name, first)]

    return pd.DataFrame(
        {
            "process_id": column(col.PROCESS),
            "launch_id": [None] * len(first),
            "name": cells.at(col.KERNEL, first),
            "grid": column(col.GRID),
            "block": column(col.BLOCK),
            "cc": column(col.CC),
            "device": column(col.DEVICE),
            "line": cells.lines[first],
        }
    )


def _range(cells: Cells) -> object | None:
    """Keep minimum and maximum as they are printed."""
    if not {col.MINIMUM, col.MAXIMUM} <= cells.has:
        return None
    joined: object = pc.binary_join_element_wise(cells.texts(col.MINIMUM), cells.texts(col.MAXIMUM), " to ")
    return joined
