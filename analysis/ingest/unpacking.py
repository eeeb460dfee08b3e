"""Unpacks .gz and .zip into the spool directory, with limits on size and ratio that are checked while unpacking."""

from __future__ import annotations

import errno
import gzip
import struct
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import IO

from analysis.errors import InputRefusedError, Where
from analysis.settings import get_settings

_CHUNK = 1 << 20
#: Below this many unpacked bytes no ratio is too high: a small file may well be one value repeated.
_RATIO_FREE_BYTES = 64 << 20
_MAX_MEMBERS = 1000

#: Members that desktop systems add and nobody means.
_CLUTTER = ("__MACOSX/",)


def unpack_gzip(path: Path, target: Path, where: Where) -> None:
    """Unpack a gzip file.

    Parameters
    ----------
    path, target : Path
        Packed file and where its content goes.
    where : Where
        For messages.

    Raises
    ------
    InputRefusedError
        If the file is damaged, cut off, or larger than the limits allow.
    """
    try:
        with gzip.open(path) as packed:
            _copy(packed, target, path.stat().st_size, where)
    except EOFError as error:
        raise InputRefusedError(
            "the gzip file is cut off before its end", "Copy or download it again and load it then.", where
        ) from error
    except (gzip.BadGzipFile, zlib.error, OSError) as error:
        raise InputRefusedError(
            "the gzip file is damaged", "Copy or download it again, or load the file unpacked.", where
        ) from error


def unpack_zip(path: Path, folder: Path, where: Where) -> Iterator[tuple[str, Path]]:
    """Unpack a zip file member by member; the caller may stop early.

    Parameters
    ----------
    path : Path
        The zip file.
    folder : Path
        Where members go, under numbers: names inside an archive are never used as paths.
    where : Where
        For messages.

    Yields
    ------
    tuple of str and Path
        Name of the member without its folders, and its content.

    Raises
    ------
    InputRefusedError
        If the archive is damaged, encrypted, no archive of files, or larger than the limits allow.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            members = [info for info in archive.infolist() if _wanted(info)]
            _check(archive, members, path.stat().st_size, where)
            for number, info in enumerate(members):
                target = folder / f"member-{number}"
                with archive.open(info) as packed:
                    _copy(packed, target, max(info.compress_size, 1), where)
                yield PurePosixPath(info.filename).name, target
    except (zipfile.BadZipFile, ValueError, OverflowError, struct.error) as error:
        raise _damaged(where) from error
    except OSError as error:
        # A damaged directory sends the reader to places that no file has; a full disk is another matter.
        if error.errno != errno.EINVAL:
            raise
        raise _damaged(where) from error
    except (zlib.error, EOFError, NotImplementedError, RuntimeError) as error:
        raise InputRefusedError(
            "a file in the zip archive can't be unpacked", "Pack it again with the usual deflate method.", where
        ) from error


def _damaged(where: Where) -> InputRefusedError:
    return InputRefusedError("the zip file is damaged or cut off", "Copy or download it again and load it then.", where)


def _wanted(info: zipfile.ZipInfo) -> bool:
    name = PurePosixPath(info.filename).name
    return not info.is_dir() and not name.startswith(".") and not info.filename.startswith(_CLUTTER)


def _check(archive: zipfile.ZipFile, members: list[zipfile.ZipInfo], packed: int, where: Where) -> None:
    names = set(archive.namelist())
    if "[Content_Types].xml" in names:
        raise InputRefusedError(
            "this is an Excel workbook or another Office file", "Save the sheet as CSV and load that.", where
        )
    if not members:
        raise InputRefusedError("the zip archive holds no files", "Pack the exported files and load it again.", where)
    if len(members) > _MAX_MEMBERS:
        raise InputRefusedError(
            f"the zip archive holds {len(members):,} files", f"Load at most {_MAX_MEMBERS} files at once.", where
        )
    if any(info.flag_bits & 1 for info in members):
        raise InputRefusedError("the zip archive is protected by a password", "Unpack it and load the files.", where)
    # The directory of an archive may lie; the sum is checked here, and the truth again while unpacking.
    _limit(sum(info.file_size for info in members), packed, where)


def _copy(source: IO[bytes] | gzip.GzipFile, target: Path, packed: int, where: Where) -> None:
    written = 0
    with target.open("wb") as out:
        while chunk := source.read(_CHUNK):
            written += len(chunk)
            _limit(written, packed, where)
            out.write(chunk)


def _limit(unpacked: int, packed: int, where: Where) -> None:
    settings = get_settings()
    if unpacked > settings.max_unpacked_bytes:
        raise InputRefusedError(
            f"unpacked it would be larger than {settings.max_unpacked_bytes >> 20:,} MiB",
            "Load it in parts, or raise STALLSCOPE_MAX_UNPACKED_BYTES.",
            where,
        )
    if unpacked > _RATIO_FREE_BYTES and unpacked > packed * settings.max_unpack_ratio:
        raise InputRefusedError(
            f"unpacking makes it more than {settings.max_unpack_ratio} times larger, like an archive meant to harm",
            "If you trust the file, unpack it yourself and load the content.",
            where,
        )
