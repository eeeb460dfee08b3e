"""Nsight Compute, long form: one row a launch and metric, in the header of any age, with or without rules."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pyarrow as pa

from analysis.errors import InputRefusedError, Where
from analysis.ingest.contract.cells import Cells, Ints
from analysis.ingest.contract.format import Hints, Opened
from analysis.ingest.formats.ncu import launches as col
from analysis.ingest.formats.ncu.advice import top_stall
from analysis.ingest.formats.ncu.assembly import Measured
from analysis.ingest.formats.ncu.launches import agreeing, identified, launch_table, launches_of
from analysis.ingest.formats.ncu.profile import profile
from analysis.ingest.formats.ncu.stall_metrics import Bools
from analysis.ingest.text.header import find_header
from analysis.ingest.text.numbers import Separators, convert, decide
from analysis.ingest.text.reader import read_table
from analysis.store.parsed import Parsed

#: The others (names of process and host, context, stream, ranges of NVTX) are the same for all rows of a launch.
_COLUMNS = frozenset(
    {
        col.ID, col.PROCESS, col.KERNEL, col.BLOCK, col.GRID, col.DEVICE, col.CC, col.SECTION, col.METRIC, col.UNIT,
        col.VALUE, col.RULE, col.RULE_TYPE, col.RULE_TEXT,
    }
)  # fmt: skip


class NcuLong:
    """The long form, printed by ``--page details`` and by every run with ``--metrics``."""

    name = "ncu-long"
    title = "Nsight Compute, one row a launch and metric"

    def sniff(self, opened: Opened) -> bool:
        """Say whether a line of the text is a header of this form."""
        return find_header(opened, col.METRIC, col.is_long) is not None

    def parse(self, opened: Opened, hints: Hints) -> Parsed:
        """Read the file.

        Raises
        ------
        InputRefusedError
            If it is cut off, has no rows, or no row can be understood.
        """
        header = find_header(opened, col.METRIC, col.is_long)
        if header is None:
            raise InputRefusedError("there is no table of Nsight Compute in it", "Export it again.", Where(opened.name))
        if col.ID not in header.names:
            raise InputRefusedError(
                "the column ID is missing, so the launches can't be told apart",
                "Export the profile again with all columns.",
                Where(opened.name, header.line),
            )
        cells = read_table(
            opened,
            header,
            plain=(col.VALUE,),
            needed=lambda names: names.index(col.VALUE) + 1,
            wanted=col.is_long,
            columns=_COLUMNS,
        )
        cells = identified(cells)
        launch, first = launches_of(cells)
        agree = agreeing(cells, launch, first)
        if not agree.all():
            cells = cells.keep(agree)
            launch, first = launches_of(cells)
        codes, names = cells.codes(col.METRIC)
        is_metric = np.array([bool(name.strip()) for name in names], dtype=bool)[codes]
        rule_rows = _rule_rows(cells, is_metric)
        if not is_metric.any() and not len(rule_rows):
            raise InputRefusedError(
                f"none of its {cells.rows_read:,} rows could be understood",
                f"The first one: {_first_fault(cells)}. Export it again with `ncu --import REPORT.ncu-rep --csv`.",
                Where(opened.name),
            )
        measured, separators = _measured(cells, launch, is_metric, launch_table(cells, first))
        rules = _rules(cells, launch, rule_rows)
        return profile(self.name, opened, hints, cells, measured, separators, era=col.era(header), rules=rules)


def _rule_rows(cells: Cells, is_metric: Bools) -> Ints:
    """Return the rows that are advice of a rule; what is neither rule nor metric is rejected."""
    codes, names = cells.codes(col.RULE)
    named = np.array([bool(name.strip()) for name in names], dtype=bool)[codes]
    for row in np.flatnonzero(~is_metric & ~named):
        reason = "the row names neither a metric nor a rule"
        cells.rejects.add(cells.lines[row], col.METRIC, reason, cells.row_text(int(row)))
    return np.flatnonzero(~is_metric & named).astype(np.int64)


def _rules(cells: Cells, launch: Ints, rows: Ints) -> pd.DataFrame | None:
    """Return the rows of rules, with the stall reason that their text names."""
    if not len(rows):
        return None
    names = cells.at(col.RULE, rows)
    texts = cells.at(col.RULE_TEXT, rows)
    tops = [top_stall(name, text) for name, text in zip(names, texts, strict=True)]
    return pd.DataFrame(
        {
            "launch": launch[rows],
            "line": cells.lines[rows],
            "section": cells.at(col.SECTION, rows),
            "rule": names,
            "kind": cells.at(col.RULE_TYPE, rows),
            "text": texts,
            "top_reason": [reason for reason, _ in tops],
            "top_share": [share for _, share in tops],
        }
    ).astype({"top_reason": object, "top_share": float})


def _measured(cells: Cells, launch: Ints, is_metric: Bools, table: pd.DataFrame) -> tuple[Measured, Separators]:
    """Return the rows of metrics, and how their numbers are written."""
    section, sections = cells.codes(col.SECTION)
    metric, metrics = cells.codes(col.METRIC)
    unit, units = cells.codes(col.UNIT)
    text = cells.texts(col.VALUE)
    every = bool(is_metric.all())
    pick = slice(None) if every else is_metric
    if not every:
        text = text.filter(pa.array(is_metric))
    separators = decide([text])
    measured = Measured(
        launch=launch[pick],
        line=cells.lines[pick],
        section=section[pick],
        section_names=sections,
        metric=metric[pick],
        metric_names=metrics,
        unit=unit[pick],
        unit_names=units,
        numbers=convert(text, separators, cells.plain() if every and cells.plain else None),
        text=text,
        launches=table,
    )
    return measured, separators


def _first_fault(cells: Cells) -> str:
    return cells.rejects.faults[0][2] if cells.rejects.faults else "names neither a metric nor a rule"
