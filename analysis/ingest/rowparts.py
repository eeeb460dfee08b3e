"""Rows cut into head, label and value by their bytes, many at once, and nothing believed that is not compared.

A head says which launch of which kernel a row is of, a label what was measured: ``"0","4711","gemm",`` and
``"Section","metric","unit","``. Rows of one launch have the same head, and every launch has much the same labels.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from analysis.ingest.cells import Ints

#: Bytes before and after the rows of a buffer at which may be looked, whatever they hold.
MARGIN = 1 << 16
#: Heads that agree in so many bytes are compared in full.
_ALIKE = 24
#: Longest value that is looked for among the last bytes of all rows at once.
_WIDTH = 32
#: A row in so many may begin another head; with more of them other readers are quicker.
_FEWEST_ROWS = 4
#: How many times the rows' own size may be needed to compare heads of very different lengths.
_MOST_COPIES = 8
#: For every length the last so many of the bytes that are looked at.
_LAST = np.array([[place >= _WIDTH - size for place in range(_WIDTH)] for size in range(_WIDTH)]).view(f"V{_WIDTH}")
_LAST = _LAST[:, 0]
_QUOTE, _FEED, _RETURN = 34, 10, 13

Bytes = npt.NDArray[np.uint8]
Bools = npt.NDArray[np.bool_]


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
        cell = rb'"([^"\r\n]*)"' + re.escape(delimiter.encode())
        self._form = re.compile(cell * count + b'"')
        self._number: dict[bytes, int] = {}
        #: The cells of every label.
        self.cells: list[tuple[bytes, ...]] = []
        #: Quotes in a label: two a cell, and the one that opens the value.
        self.quotes = 2 * count + 1

    def number(self, label: bytes) -> int:
        """Return the number of a label.

        Raises
        ------
        ValueError
            If it is none.
        """
        known = self._number.get(label)
        if known is not None:
            return known
        form = self._form.fullmatch(label)
        if form is None:
            raise ValueError("not as many quoted cells as a label has")
        self.cells.append(form.groups())
        self._number[label] = len(self.cells) - 1
        return self._number[label]


def cut_rows(buffer: bytearray, start: int, stop: int, labels: Labels, delimiter: int) -> Parts | None:
    """Cut rows.

    Parameters
    ----------
    buffer : bytearray
        Whole lines from `start` to `stop`, at least `MARGIN` bytes before and after them.
    start, stop : int
        Where the lines begin, and where the last line feed ends.
    labels : Labels
        The labels met so far.
    delimiter : int
        What separates cells.

    Returns
    -------
    Parts or None
        None where some line isn't proved to be a head that the line before has too or that begins a stretch, a label,
        and a value in quotes that ends the line.
    """
    codes = np.frombuffer(buffer, dtype=np.uint8)
    feeds = np.flatnonzero(codes[start:stop] == _FEED) + start
    begins = np.empty_like(feeds)
    begins[0], begins[1:] = start, feeds[:-1] + 1
    ends = feeds - 1
    ends -= codes[ends] == _RETURN
    if not (codes[ends] == _QUOTE).all():
        return None
    try:
        sizes, values = _values(codes, buffer, begins, ends)
        at = ends - sizes
        new = _stretches(codes, begins)
        first = np.flatnonzero(new)
        if len(first) * _FEWEST_ROWS > len(begins) + 2 * _FEWEST_ROWS:
            return None
        lengths, heads = _heads(codes, buffer, begins[first], at[first], labels, delimiter)
        counts = np.diff(first, append=len(begins))
        length = np.repeat(lengths, counts)
        if not _same_heads(codes, begins, length, new):
            return None
        label = _labels(codes, buffer, at, at - begins - length, first, labels)
    except ValueError:
        return None
    return Parts(first, heads, label, sizes, values)


def _words(codes: Bytes, at: Ints, count: int) -> npt.NDArray[np.uint64]:
    """Return so many words of eight bytes from each place on."""
    places = len(codes) - 8 * count + 1
    pieces = np.ndarray((places,), dtype=f"V{8 * count}", buffer=codes, strides=(1,))[at]
    return pieces.view(np.uint64).reshape(len(at), count)


def _word(codes: Bytes, at: Ints) -> npt.NDArray[np.uint64]:
    """Return the eight bytes from each place on."""
    found: npt.NDArray[np.uint64] = np.ndarray((len(codes) - 7,), dtype=np.uint64, buffer=codes, strides=(1,))[at]
    return found


def _values(codes: Bytes, buffer: bytearray, begins: Ints, ends: Ints) -> tuple[Ints, Bytes]:
    """Return length and text of what stands between the last two quotes of each row."""
    signs = _words(codes, ends - _WIDTH, _WIDTH // 8).view(np.uint8)
    quotes = (signs == _QUOTE).view(np.uint64)
    # The last quote is the highest byte that is set in the last word that is not zero.
    last = quotes[:, -1].copy()
    sizes = np.full(len(ends), 7, dtype=np.int64)
    for word in range(_WIDTH // 8 - 2, -1, -1):
        none = np.flatnonzero(last == 0)
        if not len(none):
            break
        last[none] = quotes[none, word]
        sizes[none] += 8
    long = np.flatnonzero(last == 0)
    # Bytes are 0 or 1, so no rounding reaches the exponent, which tells the highest bit.
    sizes -= ((last.astype(np.float64).view(np.int64) >> 52) - 1023) >> 3
    if not len(long):
        return sizes, signs[_LAST[sizes].view(bool).reshape(signs.shape)]
    if len(long) * _FEWEST_ROWS > len(ends):
        raise ValueError("most values are long")
    for row in long.tolist():
        sizes[row] = ends[row] - 1 - buffer.rindex(b'"', begins[row], ends[row])
    view = memoryview(buffer)
    joined = b"".join([view[end - size : end] for end, size in zip(ends.tolist(), sizes.tolist(), strict=True)])
    return sizes, np.frombuffer(joined, dtype=np.uint8)


def _stretches(codes: Bytes, begins: Ints) -> Bools:
    """Say for every row whether its first bytes are others than those of the row before."""
    words = _words(codes, begins, _ALIKE // 8)
    new = np.ones(len(begins), dtype=bool)
    differ = words[1:] != words[:-1]
    new[1:] = differ[:, 0] | differ[:, 1] | differ[:, 2]
    return new


def _heads(
    codes: Bytes, buffer: bytearray, begins: Ints, values: Ints, labels: Labels, delimiter: int
) -> tuple[Ints, Bytes]:
    """Find where the heads of some rows end, and return these as lines."""
    lengths = _head_lengths(codes, buffer, begins, values, labels)
    ends = np.cumsum(lengths) - 1
    most = int(lengths.max())
    if int(lengths.min()) < 8 or most > MARGIN or most * len(lengths) > len(codes):
        raise ValueError("no heads, or of lengths too different")
    places = np.ndarray((len(codes) - most + 1,), dtype=f"V{most}", buffer=codes, strides=(1,))
    lines = places[begins].view(np.uint8).reshape(-1, most)[np.arange(most, dtype=np.int32) < lengths[:, None]]
    if not (lines[ends] == delimiter).all():
        raise ValueError("no delimiter between head and label")
    lines[ends] = _FEED
    return lengths, lines


def _head_lengths(codes: Bytes, buffer: bytearray, begins: Ints, values: Ints, labels: Labels) -> Ints:
    """Return how long heads are: the quotes of the labels behind them are counted from the values back."""

    def start(begin: int, end: int) -> int:
        for _ in range(labels.quotes):
            end = buffer.rindex(b'"', begin, end)
        return end

    lengths = values - begins
    usual = buffer[start(int(begins[-1]), int(values[-1])) : int(values[-1])]
    odd = np.ones(len(begins), dtype=bool)
    if 8 <= len(usual) < MARGIN:
        full = np.frombuffer(usual, dtype=np.uint64, count=len(usual) >> 3)
        odd = (_words(codes, values - len(usual), len(full)) != full).any(axis=1)
        odd |= _word(codes, values - 8) != np.frombuffer(usual[-8:], dtype=np.uint64)
        lengths -= len(usual)
    for row in np.flatnonzero(odd).tolist():
        lengths[row] = start(int(begins[row]), int(values[row])) - begins[row]
    return lengths


def _same_heads(codes: Bytes, begins: Ints, length: Ints, new: Bools) -> bool:
    """Say whether every row begins with the head of its stretch."""
    words = length >> 3
    least, most = int(words.min()), int(words.max())
    if most * 8 * len(begins) > _MOST_COPIES * len(codes) or int(begins[-1]) + 8 * most > len(codes):
        return False
    found = _words(codes, begins, most)
    differ = found[1:] != found[:-1]
    differ[new[1:]] = False
    if most > least:
        differ[:, least:] &= np.arange(least, most) < words[1:, None]
    if differ.any():
        return False
    # What is left of a head that is no multiple of eight bytes long stands in its last eight.
    end = _word(codes, begins + length - 8)
    return not ((end[1:] != end[:-1]) & ~new[1:]).any()


def _labels(codes: Bytes, buffer: bytearray, at: Ints, size: Ints, first: Ints, labels: Labels) -> Ints:
    """Return the number of the label in front of each place."""
    if int(size.min()) < 8:
        raise ValueError("a row ends where its label should be")
    view = memoryview(buffer)

    def numbers(begin: int, end: int) -> list[int]:
        rows = zip(at[begin:end].tolist(), size[begin:end].tolist(), strict=True)
        return [labels.number(bytes(view[place - length : place])) for place, length in rows]

    label = np.empty(len(at), dtype=np.int32)
    begin, end = _regular(codes, at, size, first)
    label[:begin] = numbers(0, begin)
    if begin < end:
        period = int(first[2] - first[1])
        label[begin:end].reshape(-1, period)[:] = numbers(begin, begin + period)
    label[end:] = numbers(end, len(at))
    return label


def _regular(codes: Bytes, at: Ints, size: Ints, first: Ints) -> tuple[int, int]:
    """Find rows, from and to, whose stretches have the same labels in the same order; all but the outer, or none."""
    if len(first) < 4:
        return 0, 0
    begin, end = int(first[1]), int(first[-1])
    period = int(first[2]) - begin
    if (np.diff(first[1:]) != period).any():
        return 0, 0
    sizes = size[begin:end].reshape(-1, period)
    if (sizes != sizes[0]).any():
        return 0, 0
    most = int(sizes[0].max()) >> 3
    if 8 * most > MARGIN:
        return 0, 0
    found = _words(codes, at[begin:end] - 8 * most, most).reshape(-1, period, most)
    differ = found[1:] != found[:-1]
    differ &= np.arange(most) >= most - (sizes[0] >> 3)[:, None]
    start = _word(codes, at[begin:end] - size[begin:end]).reshape(-1, period)
    return (0, 0) if differ.any() or (start[1:] != start[:-1]).any() else (begin, end)
