"""Rows that repeat the row before but for a few cells, as Nsight Compute's long form has them, read in pieces.

Rows are cut into head, label and value while the file is hashed, so that it is read once: a head says which launch of
which kernel a row is of, a label what was measured (``"0","4711","gemm",`` and ``"Section","metric","unit","``), and
nothing is believed that is not compared. Where that fails, the other readers read the table.

What it brings, for a file of 1.04 million rows and 340 MB (``tests/bench/test_ncu_import.py``): 1.8 to 2.3 times
DuckDB's bare scan, where the fast reader takes 3.4 times; it is faster than pandas with a pivot (0.85 to 1.00 s against
0.94 to 1.23 s), and the fast reader is not.
"""

from __future__ import annotations

import codecs
import hashlib
import io
from collections.abc import Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from analysis.ingest.contract.cells import Bytes, Cells, CutRows, Header, Ints, Labels, Parts, Rejects, Shared, numbered
from analysis.ingest.contract.format import Opened
from analysis.ingest.contract.textstats import Counts, TextStats, measure
from analysis.ingest.text.fast import is_odd, read_regular
from analysis.ingest.text.header import header_in, table_end
from analysis.ingest.text.numbers import Floats, plain_numbers

#: The columns of a label, and that of the value, in a table of one row a launch and metric.
SECTION, METRIC, UNIT, VALUE = "Section Name", "Metric Name", "Metric Unit", "Metric Value"
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


#: Values that are read together: enough that the threads seldom wait for the interpreter.
_TOGETHER = 1 << 16


def read_repeats(
    opened: Opened, header: Header, plain: Collection[str], columns: Collection[str] | None = None
) -> Cells | None:
    """Read a table of rows that begin as the row before does.

    Parameters
    ----------
    opened, header, plain, columns
        As for the fast reader.

    Returns
    -------
    Cells or None
        None where the rows were not cut when the file was opened, or anything isn't proved to be as expected.
    """
    rows = opened.rows
    if rows is None or rows.header != header or header.names[-1] not in plain:
        return None
    kept = [name for name in header.names if columns is None or name in columns]
    split = len(header.names) - len(rows.names) - 1
    texts = pa.concat_arrays([part.texts for part in rows.parts])
    # Reading numbers goes on beside everything that is done before they are needed.
    with_numbers = ThreadPoolExecutor(1)
    numbers = with_numbers.submit(_plain_numbers, texts)
    with_numbers.shutdown(wait=False)
    heads = _heads_of_all(rows.parts, header, split, [name for name in kept if name in header.names[:split]])
    if heads is None:
        return None
    shared = {name: numbered(heads.column(name)) for name in heads.column_names}
    found = _label_columns(rows)
    value = header.names[-1]
    if any(name in found[name][1] for name in rows.names) or pc.any(pc.equal(texts, value)).as_py():
        return None  # a header among the rows, as after appending one export to another
    cells = Cells(
        header=header,
        columns={
            name: _dictionary(*found[name]) if name in found else pa.chunked_array([texts])
            for name in kept
            if name not in shared
        },
        lines=np.arange(rows.count, dtype=np.int64) + header.line + 1,
        part=np.zeros(rows.count, dtype=np.int64),
        rows_read=rows.count,
        rejects=Rejects(),
        other=[(number, line) for number, line in enumerate(header.before, start=1)],
        other_count=header.line - 1 + rows.other_after,
        reader="fast",
        plain=numbers.result,
        shared=Shared(_starts(rows.parts), shared),
    )
    cells.know(found)
    return cells


def _heads_of_all(parts: list[Parts], header: Header, split: int, kept: list[str]) -> pa.Table | None:
    """Read the heads as a table of their own; None where one isn't a row of it."""
    codes = np.concatenate([part.heads for part in parts])
    begins = np.concatenate([np.zeros(1, dtype=np.int64), np.flatnonzero(codes == 10)[:-1] + 1])
    # As many quotes stand in front of each head as belong to pairs.
    if (np.searchsorted(np.flatnonzero(codes == 34), begins) % 2).any():
        return None
    table = read_regular(pa.BufferReader(pa.py_buffer(codes)), header.names[:split], kept, (), header.delimiter)
    return None if table is None or table.num_rows != len(begins) or is_odd(table) else table


def _plain_numbers(texts: pa.Array) -> Floats | None:
    found = []
    for at in range(0, len(texts), _TOGETHER):
        numbers = plain_numbers(texts.slice(at, _TOGETHER))
        if numbers is None:
            return None
        found.append(numbers)
    return np.concatenate(found)


def _starts(parts: list[Parts]) -> Ints:
    """Return the first row of every stretch."""
    before = np.cumsum([0, *(len(part.label) for part in parts)])
    return np.concatenate([part.first + rows for part, rows in zip(parts, before, strict=False)])


def _label_columns(rows: CutRows) -> dict[str, tuple[Ints, list[str]]]:
    """Return the columns of labels as numbers into distinct values, in the order in which these appear."""
    order: dict[int, None] = {}
    for part in rows.parts:
        if len(order) < len(rows.labels.cells):
            new, at = np.unique(part.label, return_index=True)
            order |= dict.fromkeys(new[np.argsort(at)].tolist())
    label = np.concatenate([part.label for part in rows.parts])
    found: dict[str, tuple[Ints, list[str]]] = {}
    for place, name in enumerate(rows.names):
        number: dict[str, int] = {}
        target = np.zeros(len(rows.labels.cells), dtype=np.int32)
        for code in order:
            target[code] = number.setdefault(rows.labels.cells[code][place], len(number))
        found[name] = target[label], list(number)
    return found


def _dictionary(codes: Ints, names: list[str]) -> pa.ChunkedArray:
    return pa.chunked_array([pa.DictionaryArray.from_arrays(pa.array(codes), pa.array(names, pa.string()))])


#: Bytes from which on looking for what repeats costs less than it saves.
WORTH = 4 << 20

#: Columns of which a label consists: they say what a value is of.
_LABEL = (SECTION, METRIC, UNIT)
#: Bytes that are cut together. With less, the two threads wait for the interpreter more often; more are far in memory.
_PIECE = 4 << 20
#: One piece is hashed, one is cut, and one may wait.
_BUFFERS = 3
#: Where a piece begins in its buffer: in front of it is room for the line that the piece before began.
_BEFORE = 2 * MARGIN
#: How far from the start the header is looked for.
_HEAD = 256 << 10


def measure_ahead(path: Path) -> tuple[TextStats, CutRows | None]:
    """Return what the bytes of a file are and, of a large and regular profile, its rows.

    Parameters
    ----------
    path : Path
        The file; text or not.

    Returns
    -------
    tuple of TextStats and CutRows or None
        Statistics as of `measure`, and the rows; None where some row isn't proved to be as they all should be.
    """
    size = path.stat().st_size
    if size < WORTH or (header := _header(path)) is None:
        return measure(path), None
    stop, _, other_after, suspicious = table_end(path, header)
    names = tuple(name for name in _LABEL if name in header.names)
    if suspicious or stop <= header.start or not _is_cut(header, names):
        return measure(path), None
    labels, counts, pieces = Labels(len(names), header.delimiter), Counts(), _Pieces(path, size)
    # One thread cuts: two would wait for each other's turn more than they gain. The hash needs no interpreter.
    with ThreadPoolExecutor(1) as hasher:
        hashed = hasher.submit(pieces.read)
        try:
            parts = _cut(pieces.lines(header.start, stop), labels, ord(header.delimiter))
        finally:
            pieces.enough()
        if parts is None:
            return measure(path, hashed.result), None
        rows = CutRows(header, names, labels, parts, other_after)
        with path.open("rb") as file:
            counts.add(file.read(header.start))
            file.seek(stop - 1)
            counts.add_lines(stop - header.start, rows.count, rows.quotes, ended=file.read(1) == b"\n")
            counts.add(file.read())
        stats = counts.stats(hashed.result())
    return stats, rows if stats.plain else None


class _Pieces:
    """Reads and hashes a file in one thread and hands its pieces to another."""

    def __init__(self, path: Path, size: int) -> None:
        self._path = path
        self._piece = min(_PIECE, size)
        self._handed: SimpleQueue[tuple[bytearray, int] | None] = SimpleQueue()
        self._free: SimpleQueue[bytearray] = SimpleQueue()
        self._wanted = True
        for _ in range(_BUFFERS):
            self._free.put(bytearray(_BEFORE + self._piece + 1 + MARGIN))

    def read(self) -> str:
        """Read the file to its end and return its SHA-256."""
        hashed, buffer = hashlib.sha256(), self._free.get()
        try:
            with self._path.open("rb", buffering=0) as file:
                while got := _fill(file, memoryview(buffer)[_BEFORE : _BEFORE + self._piece]):
                    hashed.update(memoryview(buffer)[_BEFORE : _BEFORE + got])
                    if self._wanted:
                        self._handed.put((buffer, got))
                        buffer = self._free.get()
        finally:
            self._handed.put(None)
        return hashed.hexdigest()

    def enough(self) -> None:
        """Ask for no more pieces."""
        self._wanted = False
        self._free.put(bytearray(_BEFORE + self._piece))  # it may be waiting for one

    def lines(self, start: int, stop: int) -> Iterator[tuple[bytearray, int, int]]:
        """Yield buffers, and from where to where whole lines stand in them; each is good until the next is asked for.

        Parameters
        ----------
        start, stop : int
            The part of the file that is wanted; the last line may lack its end.

        Raises
        ------
        ValueError
            If the file is shorter than it was, or a line longer than fits.
        """
        offset, rest = 0, b""
        while offset < stop:
            handed = self._handed.get()
            if handed is None:
                raise ValueError("the file has become shorter")
            buffer, got = handed
            begin, end = _BEFORE + max(0, start - offset), _BEFORE + min(got, stop - offset)
            offset += got
            if begin < end:
                begin -= len(rest)
                buffer[begin : begin + len(rest)] = rest
                if offset >= stop and buffer[end - 1] != _FEED:
                    buffer[end], end = _FEED, end + 1
                after = buffer.rfind(b"\n", begin, end) + 1
                rest = bytes(buffer[max(after, begin) : end])
                if not after or len(rest) > MARGIN:
                    raise ValueError("a line is longer than a piece")
                yield buffer, begin, after
            self._free.put(buffer)


def _header(path: Path) -> Header | None:
    """Return the header of a profile in its long form, if it stands near the start."""
    with path.open("rb") as file:
        start = file.read(_HEAD)
    if METRIC.encode() not in start:
        return None
    head = io.BytesIO(start)
    if start.startswith(codecs.BOM_UTF8):
        head.seek(len(codecs.BOM_UTF8))
    found = header_in(head, METRIC, lambda names: {METRIC, VALUE} <= set(names))
    return found if found is not None and start[found.start - 1 : found.start] == b"\n" else None


def _is_cut(header: Header, labels: tuple[str, ...]) -> bool:
    """Say whether heads, labels and values stand in this order."""
    split = len(header.names) - len(labels) - 1
    return (
        bool(labels)
        and split > 0
        and header.quoted
        and header.names[split:] == (*labels, VALUE)
        and len(set(header.names)) == len(header.names)
    )


def _fill(file: io.FileIO, view: memoryview) -> int:
    got = 0
    while got < len(view) and (more := file.readinto(view[got:])):
        got += more
    return got


def _cut(lines: Iterator[tuple[bytearray, int, int]], labels: Labels, delimiter: int) -> list[Parts] | None:
    """Cut rows; None where some can't be."""
    found: list[Parts] = []
    try:
        for buffer, begin, end in lines:
            parts = cut_rows(buffer, begin, end, labels, delimiter)
            if parts is None:
                return None
            found.append(parts)
    except ValueError:
        return None
    return found
