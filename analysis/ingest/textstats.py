"""One pass over a file's bytes: hash, encoding, and counts that later check what a reader made of it."""

from __future__ import annotations

import codecs
import hashlib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np

#: Small enough to stay in a core's cache over the several looks at it.
_CHUNK = 1 << 18
_LONG_LINE = 1 << 20
#: Bytes that Windows-1252 leaves undefined; a file that holds one is written in something else.
_UNDEFINED_1252 = (b"\x81", b"\x8d", b"\x8f", b"\x90", b"\x9d")
#: Control bytes that text does not hold: all below 32 but tab, line ends, form feed, escape and NUL.
_CONTROLS = bytes(sorted(set(range(1, 32)) - {9, 10, 11, 12, 13, 27, 26}))
#: So many NUL bytes, and more than one of so many bytes, stand in no text; those at its very end don't count.
_MOST_NULS, _NULS_IN = 16, 1000


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


def measure(path: Path) -> TextStats:
    """Read a file once and return its statistics.

    Parameters
    ----------
    path : Path
        The file; text or not.

    Returns
    -------
    TextStats
        The counts; for a file that is no text all but hash, size and encoding are as they come.
    """
    utf8: codecs.IncrementalDecoder | None = codecs.getincrementaldecoder("utf-8")()
    size = newlines = quotes = nuls = escapes = controls = gap = 0
    undefined = lone_returns = long_line = False
    first, last = b"", b""
    even_nuls = odd_nuls = last_nuls = 0
    # The hash is the slower half and needs no interpreter: a second thread works on it meanwhile.
    with path.open("rb") as file, ThreadPoolExecutor(1) as hasher:
        hashing = hasher.submit(_hash, path)
        while chunk := file.read(_CHUNK):
            if not size:
                first = chunk[:4]
            codes = np.frombuffer(chunk, dtype=np.uint8)
            found = int(np.count_nonzero(codes == 10))
            newlines += found
            quotes += int(np.count_nonzero(codes == 34))
            gap = 0 if found else gap + len(chunk)
            long_line = long_line or gap > _LONG_LINE
            if b"\x00" not in chunk:
                last_nuls = 0
            else:
                nuls += chunk.count(b"\x00")
                ends = len(chunk) - len(chunk.rstrip(b"\x00"))
                last_nuls = last_nuls + ends if ends == len(chunk) else ends
                offset = size & 1
                zero = np.flatnonzero(codes == 0)
                even = int(np.count_nonzero((zero + offset) % 2 == 0))
                even_nuls, odd_nuls = even_nuls + even, odd_nuls + len(zero) - even
            if b"\x1b" in chunk:
                escapes += chunk.count(b"\x1b")
            if last == b"\r" and chunk[:1] != b"\n":
                lone_returns = True
            returns = 0 if lone_returns else int(np.count_nonzero(codes == 13))
            # As many of them as line feeds are pairs, but for the odd file in which both stand alone equally often.
            if returns and returns != found:
                at = np.flatnonzero(codes[:-1] == 13)
                lone_returns = bool((codes[at + 1] != 10).any())
            ascii_only = chunk.isascii()
            if utf8 is not None and (not ascii_only or utf8.getstate()[0]):
                utf8 = _still_utf8(utf8, chunk)
            if not ascii_only:
                undefined = undefined or any(byte in chunk for byte in _UNDEFINED_1252)
            # Control characters are looked for in the first part only: binary files show themselves there.
            if size < 16 * _CHUNK:
                controls += len(chunk) - len(chunk.translate(None, _CONTROLS))
            size += len(chunk)
            last = chunk[-1:]
        digest = hashing.result()
    if utf8 is not None and utf8.getstate()[0]:
        utf8 = None
    return TextStats(
        sha256=digest,
        size=size,
        encoding=_encoding(first, size, even_nuls, odd_nuls, nuls, last_nuls, controls, utf8 is not None, undefined),
        newlines=newlines,
        quotes=quotes,
        nuls=nuls,
        escapes=escapes,
        lone_returns=lone_returns or last == b"\r",
        long_line=long_line,
        ends_with_newline=last in (b"\n", b"\r"),
        last_nuls=last_nuls,
    )


def _hash(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _still_utf8(decoder: codecs.IncrementalDecoder, chunk: bytes) -> codecs.IncrementalDecoder | None:
    try:
        decoder.decode(chunk)
    except UnicodeDecodeError:
        return None
    return decoder


def _encoding(
    first: bytes, size: int, even_nuls: int, odd_nuls: int, nuls: int, last_nuls: int, controls: int, utf8: bool,
    undefined: bool,
) -> str:  # fmt: skip
    """Name the encoding, from the mark at the start, then from the bytes."""
    if first.startswith((b"\xff\xfe\x00\x00", b"\x00\x00\xfe\xff")):
        return "binary"
    if first.startswith((b"\xff\xfe", b"\xfe\xff")):
        return "utf-16"
    inside, written = nuls - last_nuls, size - last_nuls
    # Text in UTF-16 without its mark: every other byte of Latin text is NUL.
    if size >= 4 and inside > written * 0.3:
        if odd_nuls > 20 * even_nuls:
            return "utf-16-le"
        if even_nuls > 20 * odd_nuls:
            return "utf-16-be"
        return "binary"
    if controls > max(8, min(written, 16 * _CHUNK) * 0.01) or inside > max(_MOST_NULS, written / _NULS_IN):
        return "binary"
    if utf8:
        return "utf-8-sig" if first.startswith(b"\xef\xbb\xbf") else "utf-8"
    return "unknown" if undefined else "cp1252"
