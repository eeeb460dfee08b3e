"""Reads a table out of a text: fast where it is regular, exactly where it is not."""

from __future__ import annotations

from collections.abc import Callable, Collection

from analysis.errors import InputRefusedError, Where
from analysis.ingest.contract.cells import Cells, Header
from analysis.ingest.contract.format import Opened
from analysis.ingest.text.exact import read_exact
from analysis.ingest.text.fast import read_fast
from analysis.ingest.text.header import check_width
from analysis.ingest.text.mixed import read_mixed
from analysis.ingest.text.refusals import profiler_fault
from analysis.ingest.text.repeats import read_repeats


def read_table(
    opened: Opened,
    header: Header,
    *,
    plain: Collection[str],
    needed: Callable[[tuple[str, ...]], int],
    wanted: Callable[[tuple[str, ...]], bool],
    columns: Collection[str] | None = None,
) -> Cells:
    """Read the rows under a header.

    Parameters
    ----------
    opened : Opened
        The file.
    header : Header
        Where the table begins.
    plain : collection of str
        Columns whose values are mostly distinct.
    needed : callable
        Says for a header how many cells a row must have at least.
    wanted : callable
        Recognises a header that stands among the rows again.
    columns : collection of str, optional
        Columns to keep; by default all.

    Returns
    -------
    Cells
        The rows, and what was wrong.

    Raises
    ------
    InputRefusedError
        If the table is too wide, a line is too long, the file is cut off, or there are no rows.
    """
    check_width(header, opened.name)
    if opened.stats is not None and opened.stats.long_line:
        raise InputRefusedError(
            "a line is longer than a mebibyte, so this is no table of a profiler",
            "Export the profile again with `ncu --import REPORT.ncu-rep --csv`.",
            Where(opened.name),
        )
    cells = read_repeats(opened, header, plain, columns)
    if cells is None:
        cells = read_fast(opened, header, plain, columns)
    if cells is None:
        cells = read_mixed(opened, header, plain, needed=needed, wanted=wanted, columns=columns)
    if cells is None:
        cells = read_exact(opened, header, plain, needed=needed, wanted=wanted, columns=columns)
    if cells.cut_off:
        last = max((fault[0] for fault in cells.rejects.faults), default=header.line)
        raise InputRefusedError(
            "the file is cut off in the middle of a row",
            "Copy or export it again; it may also be that the disk was full or the profiler was stopped.",
            Where(opened.name, last),
        )
    if cells.rows_read == 0:
        fault = profiler_fault(text for _, text in cells.other)
        if fault is not None:
            raise InputRefusedError(*fault, Where(opened.name))
        raise InputRefusedError(
            "the table has a header and no rows",
            "Check that the profiled program launched kernels and that no filter (`--kernel-name`, `--launch-count`) "
            "left them all out.",
            Where(opened.name, header.line),
        )
    return cells


def era(header: Header) -> str:
    """Name the version of a header by its number of columns."""
    return f"{len([name for name in header.names if name])} columns"
