"""Rows cut into head, label and value by their bytes, many at once, and nothing believed that is not compared.

A head says which launch of which kernel a row is of, a label what was measured: ``"0","4711","gemm",`` and
``"Section","metric","unit","``. Rows of one launch have the same head, and every launch has much the same labels.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from analysis.ingest.contract.cells import Bytes, Ints, Labels, Parts

#: Bytes before and after the rows of a buffer at which may be looked, whatever they hold.
MARGIN = 1 << 16
#: Heads that agree in so many bytes are compared in full.
_ALIKE = 24
#: Last bytes of all rows that are looked at together for values that are shorter.
_WIDTHS = (16, 32)
#: A row in so many may begin another head; with more of them other readers are quicker.
_FEWEST_ROWS = 4
#: How many times the rows' own size may be needed to compare heads of very different lengths.
_MOST_COPIES = 8
#: For every length the last so many of the bytes that are looked at.
_LAST = {
    width: np.array([[place >= width - size for place in range(width)] for size in range(width)]).view(f"V{width}")[
        :, 0
    ]
    for width in _WIDTHS
}
_ONE = np.uint64(1)
_QUOTE, _FEED, _RETURN = 34, 10, 13
#: All signs below are controls, all above are of more bytes than one in UTF-8.
_FIRST_SIGN, _LAST_ASCII = 32, 126

Bools = npt.NDArray[np.bool_]


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
        and a value in quotes that ends the line, all of them text without control characters.
    """
    codes = np.frombuffer(buffer, dtype=np.uint8)
    feeds = _line_feeds(codes[start:stop]) + start
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
        if int(values.min(initial=_FIRST_SIGN)) < _FIRST_SIGN or np.count_nonzero(heads < _FIRST_SIGN) != len(first):
            return None
        if max(int(values.max(initial=0)), int(heads.max())) > _LAST_ASCII:
            buffer[start:stop].decode()  # an error where it is no text
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


def _line_feeds(codes: Bytes) -> Ints:
    """Return where lines end: as long as most groups of 64 bytes have no end, faster than a look at every byte."""
    signs = np.empty(-(-len(codes) // 64) * 64, dtype=bool)
    signs[len(codes) :] = False
    np.equal(codes, _FEED, out=signs[: len(codes)])
    groups = np.packbits(signs, bitorder="little").view("<u8")
    at = np.flatnonzero(groups)
    left, found = groups[at], []
    while len(at):
        lowest = left & (~left + _ONE)
        found.append(at * 64 + _highest_bit(lowest))
        left ^= lowest
        more = np.flatnonzero(left)
        at, left = at[more], left[more]
    return found[0] if len(found) == 1 else np.sort(np.concatenate(found))


def _highest_bit(words: npt.NDArray[np.uint64]) -> Ints:
    """Return the place of the highest bit of words that have few: no rounding reaches the exponent, which tells it."""
    bits: Ints = (words.astype(np.float64).view(np.int64) >> 52) - 1023
    return bits


def _values(codes: Bytes, buffer: bytearray, begins: Ints, ends: Ints) -> tuple[Ints, Bytes]:
    """Return length and text of what stands between the last two quotes of each row."""
    for width in _WIDTHS:
        signs = _words(codes, ends - width, width // 8).view(np.uint8)
        quotes = (signs == _QUOTE).view(np.uint64)
        # The last quote is the highest byte that is set in the last word that is not zero.
        last = quotes[:, -1].copy()
        sizes = np.full(len(ends), 7, dtype=np.int64)
        for word in range(width // 8 - 2, -1, -1):
            none = np.flatnonzero(last == 0)
            if not len(none):
                break
            last[none] = quotes[none, word]
            sizes[none] += 8
        long = np.flatnonzero(last == 0)
        if not len(long):
            sizes -= _highest_bit(last) >> 3
            return sizes, signs[_LAST[width][sizes].view(bool).reshape(signs.shape)]
    if len(long) * _FEWEST_ROWS > len(ends):
        raise ValueError("most values are long")
    last[long] = 1
    sizes -= _highest_bit(last) >> 3
    for row in long.tolist():
        sizes[row] = ends[row] - 1 - buffer.rindex(b'"', begins[row], ends[row])
    return sizes, _joined(buffer, ends - sizes, sizes)


def _joined(buffer: bytearray, begins: Ints, sizes: Ints) -> Bytes:
    """Return so many bytes from each place on, one behind the other."""
    view = memoryview(buffer)
    pieces = zip(begins.tolist(), (begins + sizes).tolist(), strict=True)
    return np.frombuffer(bytearray().join([view[begin:end] for begin, end in pieces]), dtype=np.uint8)


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
    if int(lengths.min()) < 8 or int(lengths.max()) > MARGIN:
        raise ValueError("no heads, or very long ones")
    lines, ends = _joined(buffer, begins, lengths), np.cumsum(lengths) - 1
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
