"""Nsight Compute, raw page: one row a launch, one column a metric, and a row of units under the header."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from analysis.errors import InputRefusedError, Where
from analysis.ingest.contract.cells import Cells, Ints
from analysis.ingest.contract.format import Hints, Opened
from analysis.ingest.formats.ncu import launches as col
from analysis.ingest.formats.ncu.assembly import Measured, damaged
from analysis.ingest.formats.ncu.launches import identified, launch_table, launches_of
from analysis.ingest.formats.ncu.profile import profile
from analysis.ingest.text.header import find_header
from analysis.ingest.text.numbers import Separators, convert, decide
from analysis.ingest.text.reader import read_table
from analysis.store.parsed import Parsed


class NcuWide:
    """What ``--page raw --csv`` prints."""

    name = "ncu-raw"
    title = "Nsight Compute, raw page, one row a launch"

    def sniff(self, opened: Opened) -> bool:
        """Say whether a line of the text is a header of this form."""
        return find_header(opened, col.KERNEL, col.is_wide) is not None

    def parse(self, opened: Opened, hints: Hints) -> Parsed:
        """Read the file; a damaged cell is left out and named, its launch stays.

        Raises
        ------
        InputRefusedError
            If it is cut off, has no rows, or no row can be understood.
        """
        header = find_header(opened, col.KERNEL, col.is_wide)
        if header is None:
            raise InputRefusedError(
                "there is no raw page of Nsight Compute in it", "Export it again.", Where(opened.name)
            )
        plain = frozenset(name for name in header.names if not col.is_identity(name))
        cells = read_table(opened, header, plain=plain, needed=len, wanted=col.is_wide)
        # A second table below may have other metrics.
        metrics = [name for name in cells.columns if not col.is_identity(name)]
        cells, units = _units(cells, metrics)
        if cells.rows_read == 0:
            raise InputRefusedError(
                "the table has a header and units but no rows",
                "Check that the profiled program launched kernels and that no filter left them all out.",
                Where(opened.name, header.line),
            )
        cells = _once(identified(cells))
        # Constants of the hardware, printed beside every ratio.
        metrics = [name for name in metrics if not name.endswith(".max_rate")]
        separators = decide([cells.texts(name) for name in metrics])
        measured = _measured(cells, metrics, units, separators)
        measured, faults = _without_faults(measured, separators)
        if cells.count == 0:
            raise InputRefusedError(
                f"none of its {cells.rows_read:,} rows could be understood: {cells.rejects.faults[0][2]}",
                "Export it again with `ncu --import REPORT.ncu-rep --csv --page raw`.",
                Where(opened.name, cells.rejects.faults[0][0]),
            )
        missing = any(int(part) not in units for part in np.unique(cells.part))
        notes: tuple[str, ...] = ("The row of units is missing: values were taken as they are.",) if missing else ()
        notes += (*faults, *_texts_under_units(measured))
        return profile(self.name, opened, hints, cells, measured, separators, era=col.era(header), extra_warnings=notes)


#: The unit of each metric, by the number of the table in the file.
_Units = dict[int, dict[str, str]]


def _units(cells: Cells, metrics: list[str]) -> tuple[Cells, _Units]:
    """Take the rows of units out of the rows: they have no launch and no kernel."""
    number, numbers = cells.codes(col.ID)
    kernel, kernels = cells.codes(col.KERNEL)
    blank = np.array([not text.strip() for text in numbers], dtype=bool)[number]
    blank &= np.array([not text.strip() for text in kernels], dtype=bool)[kernel]
    rows = np.flatnonzero(blank)
    if not len(rows):
        return cells, {}
    units: _Units = {}
    for row in rows.tolist():
        units.setdefault(int(cells.part[row]), {name: str(cells.column(name)[row].as_py()).strip() for name in metrics})
    kept = cells.keep(~blank)
    kept.rows_read = cells.rows_read - len(rows)
    return kept, units


def _without_faults(measured: Measured, separators: Separators) -> tuple[Measured, tuple[str, ...]]:
    """Take damaged cells as missing, and say which they are."""
    wrong = damaged(measured)
    rows = np.flatnonzero(wrong)
    if not len(rows):
        return measured, ()
    numbers = measured.numbers
    plain = replace(numbers, missing=numbers.missing | wrong, wrong=numbers.wrong & ~wrong)
    named = [
        f"{measured.metric_names[measured.metric[row]]} is {str(measured.text[int(row)].as_py())[:60]!r} in line "
        f"{measured.line[row]:,}"
        for row in rows[:_NAMED]
    ]
    rest = len(rows) - len(named)
    what = "1 cell is no number and was" if len(rows) == 1 else f"{len(rows):,} cells are no numbers and were"
    more = f", and {rest:,} more" if rest else ""
    return replace(measured, numbers=plain), (f"{what} left out: {'; '.join(named)}{more} ({separators.why}).",)


def _texts_under_units(measured: Measured) -> tuple[str, ...]:
    """Name the metrics whose cells are words though their column has a unit."""
    units = np.array([bool(name.strip()) for name in measured.unit_names])
    rows = np.flatnonzero(measured.numbers.wrong & units[measured.unit])
    names = [measured.metric_names[code] for code in np.unique(measured.metric[rows])]
    if not names:
        return ()
    shown = ", ".join(names[:_NAMED]) + (f" and {len(names) - _NAMED} more" if len(names) > _NAMED else "")
    return (f"Words stand under a unit and were kept as texts, not as values: {shown}.",)


#: Damaged cells that a warning names.
_NAMED = 5


def _once(cells: Cells) -> Cells:
    """Reject rows of a launch that stands in the table already."""
    launch, first = launches_of(cells)
    again = first[launch] != np.arange(cells.count)
    for row in np.flatnonzero(again):
        line = cells.lines[first[launch[row]]]
        cells.rejects.add(cells.lines[row], col.ID, f"the launch stands in line {line} already", "")
    return cells.keep(~again) if again.any() else cells


def _measured(cells: Cells, metrics: list[str], units: _Units, separators: Separators) -> Measured:
    """Turn columns into rows of measurements, without those that a launch does not have."""
    launch, first = launches_of(cells)
    names = sorted({unit for of_part in units.values() for unit in of_part.values()} | {""})
    parts = range(int(cells.part.max(initial=0)) + 1)
    texts, at, metric, unit = [], [], [], []
    for code, name in enumerate(metrics):
        text = pc.utf8_trim_whitespace(cells.texts(name))
        there: Ints = np.flatnonzero(pc.not_equal(text, "").to_numpy(zero_copy_only=False)).astype(np.int64)
        texts.append(text.take(pa.array(there)))
        at.append(there)
        metric.append(np.full(len(there), code, dtype=np.int64))
        by_part = np.array([names.index(units.get(part, {}).get(name, "")) for part in parts], dtype=np.int64)
        unit.append(by_part[cells.part[there]])
    empty = np.zeros(0, dtype=np.int64)
    rows = np.concatenate(at) if at else empty
    joined = pa.concat_arrays(texts) if texts else pa.array([], pa.string())
    return Measured(
        launch=launch[rows],
        line=cells.lines[rows],
        section=np.zeros(len(rows), dtype=np.int64),
        section_names=[""],
        metric=np.concatenate(metric) if metric else empty,
        metric_names=metrics,
        unit=np.concatenate(unit) if unit else empty,
        unit_names=names,
        numbers=convert(joined, separators),
        text=joined,
        launches=launch_table(cells, first),
    )
