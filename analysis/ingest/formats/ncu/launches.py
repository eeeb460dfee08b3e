"""Launches of kernels in a table of Nsight Compute: which rows belong to which, and whether they agree."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd

from analysis.ingest.contract.cells import Cells, Header, Ints
from analysis.ingest.formats.ncu.stall_metrics import Bools
from analysis.ingest.text import repeats

ID = "ID"
PROCESS = "Process ID"
KERNEL = "Kernel Name"
BLOCK = "Block Size"
GRID = "Grid Size"
DEVICE = "Device"
CC = "CC"
SECTION, METRIC, UNIT, VALUE = repeats.SECTION, repeats.METRIC, repeats.UNIT, repeats.VALUE
RULE = "Rule Name"
RULE_TYPE = "Rule Type"
RULE_TEXT = "Rule Description"
SPEEDUP = "Estimated Speedup"
INVOCATIONS = "Invocations"
MINIMUM, MAXIMUM, AVERAGE = "Minimum", "Maximum", "Average"

#: Columns that say which launch a row is of; all others of a wide table are metrics.
IDENTITY = frozenset(
    {
        ID, PROCESS, "Process Name", "Host Name", KERNEL, "Kernel Time", "Context", "Stream", BLOCK, GRID, DEVICE, CC,
        INVOCATIONS, SECTION,
        "thread Domain:Push/Pop_Range:PL_Type:PL_Value:CLR_Type:Color:Msg_Type:Msg",
        "Id:Domain:Start/Stop_Range:PL_Type:PL_Value:CLR_Type:Color:Msg_Type:Msg",
    }
)  # fmt: skip


def is_long(names: tuple[str, ...]) -> bool:
    """Say whether these are the columns of the long form: one row a launch and metric."""
    return {KERNEL, METRIC, VALUE} <= set(names)


def is_summary(names: tuple[str, ...]) -> bool:
    """Say whether these are the columns of the summary by kernel: one row a kernel and metric, over its launches."""
    return {KERNEL, METRIC, AVERAGE} <= set(names) and VALUE not in names


def is_wide(names: tuple[str, ...]) -> bool:
    """Say whether these are the columns of the raw page: one row a launch, one column a metric."""
    known = set(names)
    return {ID, KERNEL} <= known and METRIC not in known and len(known - IDENTITY) > 0


def is_identity(name: str) -> bool:
    """Say whether a column of a wide table identifies the launch, be it one of the ranges that NVTX adds."""
    return name in IDENTITY or "Push/Pop_Range" in name or "Start/Stop_Range" in name or name == ""


def era(header: Header) -> str:
    """Name the age of a table by its columns."""
    names = set(header.names)
    count = len([name for name in header.names if name])
    notes = []
    if "Kernel Time" in names:
        notes.append("2019 to 2022")
    if any("Push/Pop_Range" in name for name in names):
        notes.append("with NVTX ranges")
    if RULE in names:
        notes.append("with rules")
    return f"{count} columns" + (f", {', '.join(notes)}" if notes else "")


#: What a table that went through floating point adds to whole sizes: (768.0, 2.0, 1.0).
_DOUBLE = re.compile(r"(?<=\d)\.0+(?=\s*[,)xX]|$)")
_NUMBER = re.compile(r"^[+-]?[\d.,]*\d[\d.,]*$")


def launches_of(cells: Cells) -> tuple[Ints, Ints]:
    """Number the launches of a file by (table, process, ID), in the order in which they appear.

    Returns
    -------
    tuple of ndarray
        Launch of every row, and first row of every launch.
    """
    if not cells.count:
        empty = np.zeros(0, dtype=np.int64)
        return empty, empty
    starts = cells.starts
    process, number, part = cells.codes_at_starts(PROCESS), cells.codes_at_starts(ID), cells.part[starts]
    # The rows of a launch stand together but for rare exceptions, so it is enough to number the stretches.
    change = _changes(number) | _changes(process) | _changes(part)
    begins = np.concatenate([np.zeros(1, dtype=np.int64), np.flatnonzero(change) + 1])
    key = part[begins] * len(cells.values(PROCESS)) + process[begins].astype(np.int64)
    stretch, distinct = pd.factorize(key * len(cells.values(ID)) + number[begins])
    rows = starts[begins]
    launch = np.repeat(stretch.astype(np.int64), np.diff(rows, append=cells.count))
    first = np.empty(len(distinct), dtype=np.int64)
    first[stretch[::-1]] = rows[::-1]
    return launch, first


def _changes(codes: Ints) -> Bools:
    """Say for every row but the first whether it differs from the one before."""
    differs: Bools = codes[1:] != codes[:-1]
    return differs


def launch_table(cells: Cells, first: Ints) -> pd.DataFrame:
    """Return one row a launch from the first row of each; texts are categories, absent where the cell is empty."""

    def column(name: str) -> pd.Categorical:
        values = cells.values(name)
        chosen, kept = cells.codes_at(name, first), values
        if "" in values:
            kept = [value for value in values if value]
            place = {value: number for number, value in enumerate(kept)}
            chosen = np.array([place.get(value, -1) for value in values], dtype=np.int32)[chosen]
        return pd.Categorical.from_codes(chosen, categories=pd.Index(kept, dtype=object))

    def size(name: str) -> pd.Categorical:
        found = column(name)
        plain = [_DOUBLE.sub("", text) for text in found.categories]
        if plain == list(found.categories):
            return found
        codes, kept = pd.factorize(np.array(plain, dtype=object))
        return pd.Categorical.from_codes(np.append(codes, -1)[found.codes], categories=pd.Index(kept, dtype=object))

    return pd.DataFrame(
        {
            "process_id": column(PROCESS),
            "launch_id": column(ID),
            "name": column(KERNEL),
            "grid": size(GRID),
            "block": size(BLOCK),
            "cc": column(CC),
            "device": column(DEVICE),
            "invocations": 1,
            "line": cells.lines[first],
        }
    )


def identified(cells: Cells) -> Cells:
    """Reject rows that do not say which launch of which kernel they are of."""
    good = np.ones(cells.count, dtype=bool)
    for name, reason, valid in (
        (ID, "the launch has no number", str.isdigit),
        (PROCESS, "the process has no number", str.isdigit),
        (KERNEL, "the kernel has no name", lambda text: bool(text.strip())),
        (UNIT, "the unit is a number, so a cell before it is missing", lambda text: not _NUMBER.match(text)),
    ):
        if name not in cells.has:
            continue
        fine = np.array([valid(value) for value in cells.values(name)], dtype=bool)
        if fine.all():
            continue
        bad = ~fine[cells.codes(name)[0]] & good
        for row in np.flatnonzero(bad):
            cells.rejects.add(cells.lines[row], name, reason, cells.at(name, [int(row)])[0])
        good &= ~bad
    return cells if good.all() else cells.keep(good)


def agreeing(cells: Cells, launch: Ints, first: Ints) -> Bools:
    """Reject rows that name another kernel, grid or block than the first row of their launch."""
    good = np.ones(cells.count, dtype=bool)
    begins = _changes(launch[cells.starts])
    together = int(begins.sum()) + 1 == len(first)
    for name in (KERNEL, GRID, BLOCK):
        if name not in cells.has:
            continue
        if together and not (_changes(cells.codes_at_starts(name)) & ~begins).any():
            continue  # it only changes where another launch begins
        codes, _ = cells.codes(name)
        other = (codes != codes[first[launch]]) & good
        for row in np.flatnonzero(other):
            line = cells.lines[first[launch[row]]]
            cells.rejects.add(
                cells.lines[row], name, f"differs from line {line} of the same launch", cells.at(name, [int(row)])[0]
            )
        good &= ~other
    return good
