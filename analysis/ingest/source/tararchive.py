"""Unpacks tar archives: files only, under numbers, within the limits; an archive that ends early is said to."""

from __future__ import annotations

import tarfile
from collections.abc import Iterator
from pathlib import Path

from analysis.errors import InputRefusedError, Where
from analysis.ingest.source.unpacking import MAX_MEMBERS, Budget, check_count, check_size, wanted

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
        raise _damaged(where) from error


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
            raise _damaged(where)
        while chunk := file.read(1 << 20):
            if chunk.count(0) != len(chunk):
                raise InputRefusedError(
                    "the tar archive goes on behind its end, as when several were put together",
                    "Unpack it with `tar --ignore-zeros -xf` and load the files.",
                    where,
                )


def _damaged(where: Where) -> InputRefusedError:
    return InputRefusedError(
        "the tar archive is damaged or cut off", "Copy or download it again and load it then.", where
    )
