"""Cuts the rows of a large profile while its bytes are hashed, so that the file is read once.

What the pass over the bytes is to count follows from the parts then: every row is a head, a label and a value that were
looked at. A file that isn't as regular as that is measured and read as any other.
"""

from __future__ import annotations

import codecs
import hashlib
import io
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue

from analysis.ingest.contract.cells import CutRows, Header, Labels, Parts
from analysis.ingest.contract.textstats import Counts, TextStats, measure
from analysis.ingest.formats.ncu import launches as col
from analysis.ingest.text.header import header_in, table_end
from analysis.ingest.text.rowparts import MARGIN, cut_rows

#: Bytes from which on looking for what repeats costs less than it saves.
WORTH = 4 << 20

#: Columns of which a label consists: they say what a value is of.
_LABEL = (col.SECTION, col.METRIC, col.UNIT)
#: Bytes that are cut together. With less, the two threads wait for the interpreter more often; more are far in memory.
_PIECE = 4 << 20
#: One piece is hashed, one is cut, and one may wait.
_BUFFERS = 3
#: Where a piece begins in its buffer: in front of it is room for the line that the piece before began.
_BEFORE = 2 * MARGIN
#: How far from the start the header is looked for.
_HEAD = 256 << 10
_FEED = 10


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
    if col.METRIC.encode() not in start:
        return None
    head = io.BytesIO(start)
    if start.startswith(codecs.BOM_UTF8):
        head.seek(len(codecs.BOM_UTF8))
    found = header_in(head, col.METRIC, col.is_long)
    return found if found is not None and start[found.start - 1 : found.start] == b"\n" else None


def _is_cut(header: Header, labels: tuple[str, ...]) -> bool:
    """Say whether heads, labels and values stand in this order."""
    split = len(header.names) - len(labels) - 1
    return (
        bool(labels)
        and split > 0
        and header.quoted
        and header.names[split:] == (*labels, col.VALUE)
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
