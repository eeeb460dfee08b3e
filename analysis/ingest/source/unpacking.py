"""Unpacks what is packed into the spool directory, with limits on size and ratio that are checked while unpacking."""

from __future__ import annotations

import bz2
import errno
import gzip
import lzma
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import IO, Any, cast

import pyarrow as pa

from analysis.errors import InputRefusedError, Where
from analysis.ingest.contract.magic import Packing
from analysis.settings import get_settings

_CHUNK = 1 << 20
#: Below this many unpacked bytes no ratio is too high: a small file may well be one value repeated.
_RATIO_FREE_BYTES = 64 << 20
#: Most files of an archive.
MAX_MEMBERS = 1000

#: Members that desktop systems add and nobody means.
_CLUTTER = ("__MACOSX/",)


class Budget:
    """Bytes that one given file may become, over all archives within it."""

    def __init__(self) -> None:
        self.spent = 0

    def copy(self, source: IO[bytes], target: Path, packed: int, where: Where) -> None:
        """Write a stream to a file, and stop where it gets too large.

        Parameters
        ----------
        source : file
            What is unpacked.
        target : Path
            Where it goes.
        packed : int
            Bytes that it takes packed.
        where : Where
            For messages.

        Raises
        ------
        InputRefusedError
            If it, or all that was unpacked so far, is larger than the limits allow.
        """
        written = 0
        with target.open("wb") as out:
            while chunk := source.read(_CHUNK):
                written += len(chunk)
                self.spent += len(chunk)
                check_ratio(written, packed, where)
                check_size(self.spent, where)
                out.write(chunk)


def unpack_stream(path: Path, kind: Packing, target: Path, where: Where, budget: Budget) -> None:
    """Unpack a file that holds one other: gzip, bzip2, xz, zstd or lz4.

    Parameters
    ----------
    path, kind, target : Path, str and Path
        Packed file, how it is packed, and where its content goes.
    where : Where
        For messages.
    budget : Budget
        Of the file that was given.

    Raises
    ------
    InputRefusedError
        If the file is damaged, cut off, or larger than the limits allow.
    """
    try:
        with _stream(path, kind) as packed:
            budget.copy(packed, target, path.stat().st_size, where)
    except EOFError as error:
        raise InputRefusedError(
            f"the {kind} file is cut off before its end", "Copy or download it again and load it then.", where
        ) from error
    except (gzip.BadGzipFile, zlib.error, lzma.LZMAError, pa.ArrowException, OSError, ValueError) as error:
        if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise
        # Arrow's readers don't tell the one from the other.
        how = "damaged or cut off" if kind in ("zstd", "lz4") else "damaged"
        raise InputRefusedError(
            f"the {kind} file is {how}", "Copy or download it again, or load the file unpacked.", where
        ) from error


@contextmanager
def _stream(path: Path, kind: Packing) -> Iterator[IO[bytes]]:
    if kind in ("zstd", "lz4"):
        with pa.OSFile(str(path)) as file, pa.CompressedInputStream(file, kind) as packed:
            yield cast("IO[bytes]", packed)
        return
    opener: Any = {"gzip": gzip.open, "bzip2": bz2.open, "xz": lzma.open}[kind]
    with opener(path) as packed:
        yield packed


def unpack_zip(path: Path, folder: Path, where: Where, budget: Budget) -> Iterator[tuple[str, Path]]:
    """Unpack a zip file member by member; the caller may stop early.

    Parameters
    ----------
    path : Path
        The zip file.
    folder : Path
        Where members go, under numbers: names inside an archive are never used as paths.
    where : Where
        For messages.
    budget : Budget
        Of the file that was given.

    Yields
    ------
    tuple of str and Path
        Name of the member in the archive, which is no path to trust, and its content.

    Raises
    ------
    InputRefusedError
        If the archive is damaged, encrypted, no archive of files, or larger than the limits allow.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            members = [info for info in archive.infolist() if not info.is_dir() and wanted(info.filename)]
            _check(archive, members, path.stat().st_size, where)
            for number, info in enumerate(members):
                target = folder / f"member-{number}"
                with archive.open(info) as packed:
                    budget.copy(packed, target, max(info.compress_size, 1), where)
                yield info.filename.replace("\\", "/"), target
    except (zipfile.BadZipFile, ValueError, OverflowError, struct.error) as error:
        raise _damaged(where) from error
    except OSError as error:
        # A damaged directory sends the reader to places that no file has, damaged bzip2 has no number; a full disk is
        # another matter.
        if error.errno not in (None, errno.EINVAL):
            raise
        raise _damaged(where) from error
    except (zlib.error, lzma.LZMAError, EOFError, NotImplementedError, RuntimeError) as error:
        raise InputRefusedError(
            "a file in the zip archive can't be unpacked", "Pack it again with the usual deflate method.", where
        ) from error


def wanted(name: str) -> bool:
    """Say whether a member of an archive is meant, and not what a desktop system adds."""
    return not PurePosixPath(name).name.startswith(".") and not name.startswith(_CLUTTER)


def check_count(count: int, kind: str, where: Where) -> None:
    """Refuse an archive of no files, or of too many.

    Raises
    ------
    InputRefusedError
        If the number of files is 0 or above `MAX_MEMBERS`.
    """
    if not count:
        raise InputRefusedError(
            f"the {kind} archive holds no files", "Pack the exported files and load it again.", where
        )
    if count > MAX_MEMBERS:
        raise InputRefusedError(
            f"the {kind} archive holds {count:,} files", f"Load at most {MAX_MEMBERS} files at once.", where
        )


def check_size(unpacked: int, where: Where) -> None:
    """Refuse what is too large unpacked."""
    most = get_settings().max_unpacked_bytes
    if unpacked > most:
        raise InputRefusedError(
            f"unpacked it would be larger than {most >> 20:,} MiB",
            "Load it in parts, or raise STALLSCOPE_MAX_UNPACKED_BYTES.",
            where,
        )


def check_ratio(unpacked: int, packed: int, where: Where) -> None:
    """Refuse what gets much larger by unpacking than any export does."""
    most = get_settings().max_unpack_ratio
    if unpacked > _RATIO_FREE_BYTES and unpacked > packed * most:
        raise InputRefusedError(
            f"unpacking makes it more than {most} times larger, like an archive meant to harm",
            "If you trust the file, unpack it yourself and load the content.",
            where,
        )


def _damaged(where: Where) -> InputRefusedError:
    return InputRefusedError("the zip file is damaged or cut off", "Copy or download it again and load it then.", where)


def _check(archive: zipfile.ZipFile, members: list[zipfile.ZipInfo], packed: int, where: Where) -> None:
    if "[Content_Types].xml" in set(archive.namelist()):
        raise InputRefusedError(
            "this is an Excel workbook or another Office file", "Save the sheet as CSV and load that.", where
        )
    check_count(len(members), "zip", where)
    if any(info.flag_bits & 1 for info in members):
        raise InputRefusedError("the zip archive is protected by a password", "Unpack it and load the files.", where)
    # The directory of an archive may lie; the sum is checked here, and the truth again while unpacking.
    total = sum(info.file_size for info in members)
    check_size(total, where)
    check_ratio(total, packed, where)


#: Folders, links and other entries beside the files; more than so many are no export.
_MAX_ENTRIES = 20 * MAX_MEMBERS
#: Longest description of an entry: names of files, not more.
_MAX_HEADER = 1 << 20
_BLOCK = 512
_LONG = (tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.SOLARIS_XHDTYPE, tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK)


class _Entry(tarfile.TarInfo):
    """An entry whose description can't fill the memory."""

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> _Entry:
        entry = super().frombuf(buf, encoding, errors)
        if entry.type in _LONG and entry.size > _MAX_HEADER:
            raise tarfile.ReadError("the description of an entry is too long")
        return entry


def unpack_tar(path: Path, folder: Path, where: Where, budget: Budget) -> Iterator[tuple[str, Path]]:
    """Unpack a tar archive file by file; the caller may stop early.

    Parameters
    ----------
    path : Path
        The archive, itself not packed.
    folder : Path
        Where files go, under numbers: names inside an archive are never used as paths, and links are not followed.
    where : Where
        For messages.
    budget : Budget
        Of the file that was given.

    Yields
    ------
    tuple of str and Path
        Name of the file in the archive, which is no path to trust, and its content.

    Raises
    ------
    InputRefusedError
        If the archive is damaged, cut off, without files, or larger than the limits allow.
    """
    try:
        with tarfile.open(path, "r:", tarinfo=_Entry) as archive:
            members = _members(archive, where)
            _check_end(path, archive.offset, where)
            for number, info in enumerate(members):
                target = folder / f"member-{number}"
                content = archive.extractfile(info)
                if content is None:
                    raise tarfile.ReadError("a file without content")
                with content:
                    budget.copy(content, target, max(path.stat().st_size, 1), where)
                yield info.name, target
    except (tarfile.TarError, EOFError, ValueError, OverflowError) as error:
        raise _damaged_tar(where) from error


def _members(archive: tarfile.TarFile, where: Where) -> list[tarfile.TarInfo]:
    found = []
    for count, info in enumerate(archive, start=1):
        if count > _MAX_ENTRIES:
            check_count(count, "tar", where)
        if info.isfile() and wanted(info.name):
            found.append(info)
    check_count(len(found), "tar", where)
    check_size(sum(info.size for info in found), where)
    return found


def _check_end(path: Path, offset: int, where: Where) -> None:
    """An entry that can't be read looks like the end to Python: a real end is a block of zeros, and only those behind.

    Archives are padded with zeros, so nothing of the user's stands there.
    """
    with path.open("rb") as file:
        file.seek(offset)
        block = file.read(_BLOCK)
        if len(block) < _BLOCK or any(block):
            raise _damaged_tar(where)
        while chunk := file.read(1 << 20):
            if chunk.count(0) != len(chunk):
                raise InputRefusedError(
                    "the tar archive goes on behind its end, as when several were put together",
                    "Unpack it with `tar --ignore-zeros -xf` and load the files.",
                    where,
                )


def _damaged_tar(where: Where) -> InputRefusedError:
    return InputRefusedError(
        "the tar archive is damaged or cut off", "Copy or download it again and load it then.", where
    )
