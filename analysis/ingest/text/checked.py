"""Rows of a table, checked cell by cell: a fault costs its row, and its reason is kept with the text."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from analysis.ingest.contract.cells import Cells
from analysis.ingest.text.numbers import Separators, decide
from analysis.ingest.text.units import Quantities, number_texts, read

Bools = npt.NDArray[np.bool_]


class Checked:
    """Collects faults of a table's rows.

    Parameters
    ----------
    cells : Cells
        The table; faults go to its rejects when `kept` is asked for.
    numeric : tuple of str
        Columns that hold numbers: together they decide how numbers are written.
    """

    def __init__(self, cells: Cells, numeric: tuple[str, ...]) -> None:
        self.cells = cells
        self.good: Bools = np.ones(cells.count, dtype=bool)
        self.separators: Separators = decide([number_texts(cells.texts(name)) for name in numeric if name in cells.has])
        self._read: dict[str, Quantities] = {}

    def number(
        self, column: str, *, required: bool = True, above: float | None = None, least: float | None = None,
        whole: bool = False,
    ) -> Quantities:  # fmt: skip
        """Read a column of numbers, and reject the rows in which it is wrong, or missing and required."""
        found = self._read.setdefault(column, read(self.cells.texts(column), self.separators))
        self.reject(column, found.wrong, f"is no number; {self.separators.why}")
        if required:
            self.reject(column, found.missing, "has no value")
        with np.errstate(invalid="ignore"):
            if above is not None:
                self.reject(column, found.values <= above, f"must be above {above:g}")
            if least is not None:
                self.reject(column, found.values < least, f"must not be below {least:g}")
            if whole:
                self.reject(column, found.values != np.floor(found.values), "is no whole number", where=~found.missing)
        return found

    def text(self, column: str) -> None:
        """Reject the rows in which a text is blank."""
        codes, values = self.cells.codes(column)
        blank = np.array([not value.strip() for value in values], dtype=bool)[codes]
        self.reject(column, blank, "is empty")

    def reject(self, column: str, bad: Bools, reason: str, *, where: Bools | None = None) -> None:
        """Note a fault for rows that are still good."""
        rows = np.flatnonzero(bad & self.good if where is None else bad & self.good & where)
        if not len(rows):
            return
        texts = self.cells.at(column, rows)
        for row, text in zip(rows, texts, strict=True):
            self.cells.rejects.add(int(self.cells.lines[row]), column, reason, text)
        self.good[rows] = False

    def strings(self, column: str) -> pa.Array:
        """Return a column of the good rows, blanks around it taken off, null where blank."""
        if column not in self.cells.has:
            return pa.nulls(int(self.good.sum()), pa.string())
        text = pc.utf8_trim_whitespace(self.cells.texts(column).filter(pa.array(self.good)))
        return pc.if_else(pc.equal(text, ""), pa.scalar(None, pa.string()), text)
