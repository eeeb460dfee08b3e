"""Launches of kernels in a table of Nsight Compute: which rows belong to which, and whether they agree."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd

from analysis.ingest import ncu_columns as col
from analysis.ingest.cells import Cells, Ints
from analysis.ingest.ncu_stalls import Bools

_NUMBER = re.compile(r"^[+-]?[\d.,]*\d[\d.,]*$")


def launches_of(cells: Cells) -> tuple[Ints, Ints]:
    """Number the launches of a file by (table, process, ID), in the order in which they appear.

    Returns
    -------
    tuple of ndarray
        Launch of every row, and first row of every launch.
    """
    process, process_names = cells.codes(col.PROCESS)
    number, numbers = cells.codes(col.ID)
    key = (cells.part * len(process_names) + process) * max(len(numbers), 1) + number
    launch, _ = pd.factorize(key)
    count = int(launch.max()) + 1 if len(launch) else 0
    first = np.full(count, -1, dtype=np.int64)
    rows = np.arange(len(launch), dtype=np.int64)
    first[launch[::-1]] = rows[::-1]
    return launch.astype(np.int64), first


def launch_table(cells: Cells, first: Ints) -> pd.DataFrame:
    """Return one row a launch from the first row of each."""

    def column(name: str) -> list[str | None]:
        return [value or None for value in cells.at(name, first)]

    return pd.DataFrame(
        {
            "process_id": column(col.PROCESS),
            "launch_id": column(col.ID),
            "name": cells.at(col.KERNEL, first),
            "grid": column(col.GRID),
            "block": column(col.BLOCK),
            "cc": column(col.CC),
            "device": column(col.DEVICE),
            "invocations": 1,
            "line": cells.lines[first],
        }
    )


def identified(cells: Cells) -> Cells:
    """Reject rows that do not say which launch of which kernel they are of."""
    good = np.ones(cells.count, dtype=bool)
    for name, reason, valid in (
        (col.ID, "the launch has no number", str.isdigit),
        (col.PROCESS, "the process has no number", str.isdigit),
        (col.KERNEL, "the kernel has no name", lambda text: bool(text.strip())),
        (col.UNIT, "the unit is a number, so a cell before it is missing", lambda text: not _NUMBER.match(text)),
    ):
        if name not in cells.columns:
            continue
        codes, values = cells.codes(name)
        fine = np.array([valid(value) for value in values], dtype=bool)
        bad = ~fine[codes] & good
        for row in np.flatnonzero(bad):
            cells.rejects.add(cells.lines[row], name, reason, cells.at(name, [int(row)])[0])
        good &= ~bad
    return cells if good.all() else cells.keep(good)


def agreeing(cells: Cells, launch: Ints, first: Ints) -> Bools:
    """Reject rows that name another kernel, grid or block than the first row of their launch."""
    good = np.ones(cells.count, dtype=bool)
    for name in (col.KERNEL, col.GRID, col.BLOCK):
        if name not in cells.columns:
            continue
        codes, _ = cells.codes(name)
        other = (codes != codes[first[launch]]) & good
        for row in np.flatnonzero(other):
            line = cells.lines[first[launch[row]]]
            cells.rejects.add(
                cells.lines[row], name, f"differs from line {line} of the same launch", cells.at(name, [int(row)])[0]
            )
        good &= ~other
    return good
