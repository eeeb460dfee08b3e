"""One pass over a file's bytes: hash, encoding, and counts that later check what a reader made of it."""

from __future__ import annotations

import codecs
import hashlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

#: Small enough to stay in a core's cache over the several looks at it.
_CHUNK = 1 << 18
_LONG_LINE = 1 << 20
#: Bytes that Windows-1252 leaves undefined; a file that holds one is written in something else.
_UNDEFINED_1252 = (b"\x81", b"\x8d", b"\x8f", b"\x90", b"\x9d")
#: Control bytes that text does not hold: all below 32 but tab, line ends, form feed, escape and NUL.
_CONTROLS = bytes(sorted(set(range(1, 32)) - {9, 10, 11, 12, 13, 27, 26}))
#: So many NUL bytes, and more than one of so many bytes, stand in no text; those at its very end don't count.
_MOST_NULS, _NULS_IN = 16, 1000
#: Bytes in which control characters are looked for.
_LOOKED_AT = 16 * _CHUNK


@dataclass(frozen=True)
class TextStats:
    """What one pass over the bytes found.

    Attributes
    ----------
    sha256 : str
        Hash of the bytes.
    size : int
        Number of bytes.
    encoding : str
        ``utf-8``, ``utf-8-sig``, ``utf-16`` (with a mark), ``utf-16-le``, ``utf-16-be``, ``cp1252``, or ``binary``.
    newlines, quotes, nuls, escapes : int
        Line feeds, double quotes, NUL bytes and escape bytes.
    last_nuls : int
        NUL bytes behind everything else, as a file has them that was set aside larger than what was written.
    lone_returns : bool
        Whether a carriage return stands without a line feed somewhere.
    long_line : bool
        Whether a stretch of more than a mebibyte has no line feed.
    ends_with_newline : bool
        Whether the last byte ends a line.
    """

    sha256: str
    size: int
    encoding: str
    newlines: int = 0
    quotes: int = 0
    nuls: int = 0
    escapes: int = 0
    lone_returns: bool = False
    long_line: bool = False
    ends_with_newline: bool = False
    last_nuls: int = 0

    @property
    def plain(self) -> bool:
        """Whether the bytes can be cut into lines and cells as they are."""
        return self.encoding in ("utf-8", "utf-8-sig") and not (self.nuls or self.escapes or self.lone_returns)


class Counts:
    """Counts over the bytes of a file, given in order, piece by piece."""

    def __init__(self) -> None:
        self._utf8: codecs.IncrementalDecoder | None = codecs.getincrementaldecoder("utf-8")()
        self._size = self._newlines = self._quotes = self._nuls = self._escapes = self._controls = self._gap = 0
        self._undefined = self._lone_returns = self._long_line = False
        self._first = self._last = b""
        self._even_nuls = self._odd_nuls = self._last_nuls = 0

    def add(self, chunk: bytes) -> None:
        """Count what the next bytes hold."""
        if not chunk:
            return
        if not self._size:
            self._first = chunk[:4]
        codes = np.frombuffer(chunk, dtype=np.uint8)
        found = int(np.count_nonzero(codes == 10))
        self._newlines += found
        self._quotes += int(np.count_nonzero(codes == 34))
        self._gap = 0 if found else self._gap + len(chunk)
        self._long_line = self._long_line or self._gap > _LONG_LINE
        if b"\x00" in chunk:
            self._count_nuls(chunk, codes)
        else:
            self._last_nuls = 0
        if b"\x1b" in chunk:
            self._escapes += chunk.count(b"\x1b")
        if self._last == b"\r" and chunk[:1] != b"\n":
            self._lone_returns = True
        returns = 0 if self._lone_returns else int(np.count_nonzero(codes == 13))
        # As many of them as line feeds are pairs, but for the odd file in which both stand alone equally often.
        if returns and returns != found:
            at = np.flatnonzero(codes[:-1] == 13)
            self._lone_returns = bool((codes[at + 1] != 10).any())
        ascii_only = chunk.isascii()
        if self._utf8 is not None and (not ascii_only or self._utf8.getstate()[0]):
            self._utf8 = _still_utf8(self._utf8, chunk)
        if not ascii_only:
            self._undefined = self._undefined or any(byte in chunk for byte in _UNDEFINED_1252)
        # Control characters are looked for in the first part only: binary files show themselves there.
        if self._size < _LOOKED_AT:
            self._controls += len(chunk) - len(chunk.translate(None, _CONTROLS))
        self._size += len(chunk)
        self._last = chunk[-1:]

    def add_lines(self, size: int, lines: int, quotes: int, *, ended: bool) -> None:
        """Count bytes of lines that are known to be UTF-8 without other control characters than those that end them.

        Parameters
        ----------
        size, lines, quotes : int
            Number of bytes, of lines (at least one), and of double quotes.
        ended : bool
            Whether the last one ends in a line feed.
        """
        self._newlines += lines if ended else lines - 1
        self._quotes += quotes
        self._gap = self._last_nuls = 0
        self._size += size
        self._last = b"\n" if ended else b'"'

    def _count_nuls(self, chunk: bytes, codes: npt.NDArray[np.uint8]) -> None:
        self._nuls += chunk.count(b"\x00")
        ends = len(chunk) - len(chunk.rstrip(b"\x00"))
        self._last_nuls = self._last_nuls + ends if ends == len(chunk) else ends
        offset = self._size & 1
        zero = np.flatnonzero(codes == 0)
        even = int(np.count_nonzero((zero + offset) % 2 == 0))
        self._even_nuls, self._odd_nuls = self._even_nuls + even, self._odd_nuls + len(zero) - even

    def stats(self, sha256: str) -> TextStats:
        """Return the counts, all bytes given, beside their hash."""
        utf8 = self._utf8 is not None and not self._utf8.getstate()[0]
        return TextStats(
            sha256=sha256,
            size=self._size,
            encoding=self._encoding(utf8),
            newlines=self._newlines,
            quotes=self._quotes,
            nuls=self._nuls,
            escapes=self._escapes,
            lone_returns=self._lone_returns or self._last == b"\r",
            long_line=self._long_line,
            ends_with_newline=self._last in (b"\n", b"\r"),
            last_nuls=self._last_nuls,
        )

    def _encoding(self, utf8: bool) -> str:
        """Name the encoding, from the mark at the start, then from the bytes."""
        if self._first.startswith((b"\xff\xfe\x00\x00", b"\x00\x00\xfe\xff")):
            return "binary"
        if self._first.startswith((b"\xff\xfe", b"\xfe\xff")):
            return "utf-16"
        inside, written = self._nuls - self._last_nuls, self._size - self._last_nuls
        # Text in UTF-16 without its mark: every other byte of Latin text is NUL.
        if self._size >= 4 and inside > written * 0.3:
            if self._odd_nuls > 20 * self._even_nuls:
                return "utf-16-le"
            if self._even_nuls > 20 * self._odd_nuls:
                return "utf-16-be"
            return "binary"
        if self._controls > max(8, min(written, _LOOKED_AT) * 0.01) or inside > max(_MOST_NULS, written / _NULS_IN):
            return "binary"
        if utf8:
            return "utf-8-sig" if self._first.startswith(b"\xef\xbb\xbf") else "utf-8"
        return "unknown" if self._undefined else "cp1252"


def measure(path: Path, hashing: Callable[[], str] | None = None) -> TextStats:
    """Read a file once and return its statistics.

    Parameters
    ----------
    path : Path
        The file; text or not.
    hashing : callable, optional
        Returns the hash of its bytes, where that is under way; by default they are hashed from the first on.

    Returns
    -------
    TextStats
        The counts; for a file that is no text all but hash, size and encoding are as they come.
    """
    counts = Counts()
    # The hash is the slower half and needs no interpreter: a second thread works on it meanwhile.
    with path.open("rb") as file, ThreadPoolExecutor(1) as hasher:
        hashed = hasher.submit(hashing) if hashing else hasher.submit(_hash, path)
        while chunk := file.read(_CHUNK):
            counts.add(chunk)
        return counts.stats(hashed.result())


def _hash(path: Path) -> str:
    """Return the SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _still_utf8(decoder: codecs.IncrementalDecoder, chunk: bytes) -> codecs.IncrementalDecoder | None:
    try:
        decoder.decode(chunk)
    except UnicodeDecodeError:
        return None
    return decoder
