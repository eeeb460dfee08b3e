"""Rows of a profile in parts: what the rows of a launch share, what was measured, and the values.

A head says which launch of which kernel a row is of, a label what was measured: ``"0","4711","gemm",`` and
``"Section","metric","unit","``. Rows of one launch have the same head, and every launch has much the same labels.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from analysis.ingest.contract.cells import Header, Ints

Bytes = npt.NDArray[np.uint8]

_QUOTE, _FEED = 34, 10


@dataclass(frozen=True)
class Parts:
    """Rows without what they repeat.

    Attributes
    ----------
    first : ndarray of int64
        First row of every stretch of rows with the same head.
    heads : ndarray of uint8
        Head of every stretch, a line feed in place of the delimiter at its end.
    label : ndarray of int32
        Label of every row, a number of `Labels`.
    sizes : ndarray of int64
        Length of every value in bytes.
    values : ndarray of uint8
        The values, one behind the other.
    """

    first: Ints
    heads: Bytes
    label: Ints
    sizes: Ints
    values: Bytes

    @property
    def counts(self) -> Ints:
        """Number of rows of every stretch."""
        counts: Ints = np.diff(self.first, append=len(self.label))
        return counts

    @property
    def texts(self) -> pa.Array:
        """The values as an array of text."""
        bounds = np.zeros(len(self.sizes) + 1, dtype=np.int32)
        np.cumsum(self.sizes, out=bounds[1:])
        return pa.StringArray.from_buffers(len(self.sizes), pa.py_buffer(bounds), pa.py_buffer(self.values))


class Labels:
    """Labels met so far, numbered.

    Parameters
    ----------
    count : int
        Number of cells in a label.
    delimiter : str
        What separates cells.
    """

    def __init__(self, count: int, delimiter: str) -> None:
        cell = rb'"([^"\x00-\x1f]*)"' + re.escape(delimiter.encode())
        self._form = re.compile(cell * count + b'"')
        self._number: dict[bytes, int] = {}
        #: The cells of every label.
        self.cells: list[tuple[str, ...]] = []
        #: Quotes in a label: two a cell, and the one that opens the value.
        self.quotes = 2 * count + 1

    def number(self, label: bytes) -> int:
        """Return the number of a label.

        Raises
        ------
        ValueError
            If it is none, or no clean text.
        """
        known = self._number.get(label)
        if known is not None:
            return known
        form = self._form.fullmatch(label)
        if form is None:
            raise ValueError("not as many quoted cells as a label has")
        self.cells.append(tuple(cell.decode() for cell in form.groups()))
        self._number[label] = len(self.cells) - 1
        return self._number[label]


@dataclass(frozen=True)
class CutRows:
    """All rows of a table, cut while its bytes were hashed.

    Attributes
    ----------
    header : Header
        Where the table begins.
    names : tuple of str
        Columns of the labels.
    labels : Labels
        The labels of the rows.
    parts : list of Parts
        The rows, in the order of the file.
    other_after : int
        Lines of other output below them.
    """

    header: Header
    names: tuple[str, ...]
    labels: Labels
    parts: list[Parts]
    other_after: int

    @property
    def count(self) -> int:
        """Number of rows."""
        return sum(len(part.label) for part in self.parts)

    @property
    def quotes(self) -> int:
        """Number of double quotes in the rows."""
        of_rows = self.count * (self.labels.quotes + 1)
        return of_rows + sum(_quotes_of_heads(part) for part in self.parts)


def _quotes_of_heads(part: Parts) -> int:
    ends = np.flatnonzero(part.heads == _FEED)
    begins = np.concatenate([np.zeros(1, dtype=np.int64), ends[:-1] + 1])
    return int((np.add.reduceat((part.heads == _QUOTE).astype(np.int64), begins) * part.counts).sum())
