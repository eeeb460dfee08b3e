"""What the first bytes of a file say that it is: packed, an archive, or another thing that is no text."""

from __future__ import annotations

import re
import tarfile
from typing import Literal

#: How many bytes at the start are looked at: those of the header of a tar archive.
START_BYTES = 512

Packing = Literal["gzip", "bzip2", "xz", "zstd", "lz4", "zip", "tar"]

#: What can be opened here.
_OPENED: tuple[tuple[bytes, Packing], ...] = (
    (b"\x1f\x8b", "gzip"),
    (b"\xfd7zXZ\x00", "xz"),
    (b"\x5d\x00\x00", "xz"),
    (b"\x28\xb5\x2f\xfd", "zstd"),
    (b"\x04\x22\x4d\x18", "lz4"),
    (b"PK\x03\x04", "zip"),
    (b"PK\x05\x06", "zip"),
)
_BZIP2 = re.compile(rb"BZh[1-9](?:1AY&SY|\x17\x72\x45\x38\x50\x90)")

#: What holds other files and can't be opened here, by the name that people know.
_OTHER_PACKED = (
    (b"7z\xbc\xaf\x27\x1c", "7z"),
    (b"Rar!\x1a\x07", "RAR"),
    (b"LZIP", "lzip"),
    (b"\x89LZO\x00", "lzop"),
    (b"\x1f\x9d", "compress"),
    (b"\x1f\xa0", "compress"),
    (b"MSCF\x00", "a cabinet of Windows"),
    (b"!<arch>\n", "ar"),
    (b"PK\x07\x08", "a zip archive in several parts"),
    (b"xar!", "xar"),
    (b"hsqs", "SquashFS"),
)
_CPIO = re.compile(rb"07070[12][0-9A-Fa-f]{100}|070707[0-7]{60}|\xc7\x71.{24}|\x71\xc7.{24}", re.DOTALL)

#: Other files that are no text, whatever they may hold further on.
_BINARY = (
    b"SQLite format 3\x00", b"PAR1", b"%PDF-", b"\x89PNG", b"\xff\xd8\xff", b"GIF87a", b"GIF89a", b"\x7fELF",
    b"\x80\x02", b"\x80\x03", b"\x80\x04", b"\x80\x05", b"\xd0\xcf\x11\xe0", b"NVR\x00", b"\x89HDF\r\n", b"ARROW1\x00",
    b"FEA1", b"ORC", b"Obj\x01", b"\x93NUMPY", b"MATLAB 5.0 MAT-file", b"\xca\xfe\xba\xbe", b"MZ\x90\x00",
)  # fmt: skip


def packing(start: bytes) -> Packing | None:
    """Say how a file is packed, where it can be opened.

    Parameters
    ----------
    start : bytes
        Its first `START_BYTES`.

    Returns
    -------
    str or None
        None for a plain file, and for what can't be opened.
    """
    for mark, name in _OPENED:
        if start.startswith(mark):
            return name
    if _BZIP2.match(start):
        return "bzip2"
    return "tar" if _is_tar(start) else None


def other_packing(start: bytes) -> str | None:
    """Name the archive that can't be opened here; None for anything else."""
    for mark, name in _OTHER_PACKED:
        if start.startswith(mark):
            return name
    return "cpio" if _CPIO.match(start) else None


def is_binary(start: bytes) -> bool:
    """Say whether the first bytes are those of a kind of file that is no text."""
    return start.startswith(_BINARY) or packing(start) is not None or other_packing(start) is not None


def _is_tar(start: bytes) -> bool:
    """Say whether this is a header of a tar archive: its checksum tells, also of those without a mark."""
    if len(start) < START_BYTES or b"\x00" not in start:
        return False
    try:
        tarfile.TarInfo.frombuf(start[:START_BYTES], "utf-8", "surrogateescape")
    except tarfile.HeaderError:
        return start[257:262] == b"ustar"
    return True
