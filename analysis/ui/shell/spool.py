"""Uploads written to disk while they are hashed, so that the server need not hold them in memory."""

from __future__ import annotations

import hashlib
import shutil
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, cast

from streamlit.runtime.uploaded_file_manager import UploadedFile

from analysis.errors import InputRefusedError, StallScopeError, Where
from analysis.ingest.contract.format import Opened
from analysis.ingest.source.opening import is_packed, opened_files
from analysis.settings import get_settings
from analysis.ui.shell import access
from analysis.ui.shell.resources import database, uploads

_CHUNK = 1 << 20

#: An archive of more files than these is loaded as a whole.
MOST_APART = 100


@dataclass(frozen=True)
class Spooled:
    """An upload on disk.

    Attributes
    ----------
    name : str
        The file's name, as the user knows it; never used as a path.
    path : Path
        Where the bytes are.
    sha256 : str
        Their hash; empty where nobody wanted it.
    size : int
        Their number.
    """

    name: str
    path: Path
    sha256: str
    size: int

    def discard(self) -> None:
        """Delete the bytes."""
        self.path.unlink(missing_ok=True)


@access.editing
def spool(uploads: Sequence[UploadedFile]) -> list[Spooled]:
    """Write uploads to the spool, each under a name of its own, and every file of an archive as one.

    Raises
    ------
    InputRefusedError
        If there are more files, or larger ones, than the settings allow.
    NotAllowedError
        If the reader may not write.
    """
    most = get_settings().max_files
    if len(uploads) > most:
        raise InputRefusedError(
            f"{len(uploads):,} files at once are too many", f"Give at most {most:,}, or raise STALLSCOPE_MAX_FILES."
        )
    stored = [store(cast("BinaryIO", upload), upload.name) for upload in uploads]
    return [file for item in stored for file in unpacked(item)]


def unpacked(item: Spooled) -> list[Spooled]:
    """Return the files of an archive, each to be looked at and named on its own; anything else as it is.

    What can't be unpacked stays as it is, for the reader to say why; so does an archive of more than `MOST_APART`
    files, of which a page can't ask one by one.
    """
    if not is_packed(item.path):
        return [item]
    try:
        with opened_files(item.path, name=item.name, spool=database().spool) as files:
            if not 1 < len(files) <= MOST_APART:
                return [item]
            apart = [_moved(file) for file in files]
    except InputRefusedError:
        return [item]
    item.discard()
    return apart


def _moved(file: Opened) -> Spooled:
    """Keep an unpacked file beyond the life of its archive."""
    path = _folder() / uuid.uuid4().hex
    shutil.move(file.path, path)
    return Spooled(file.name, path, file.sha256, file.size)


def store(stream: BinaryIO, name: str, *, hashed: bool = True) -> Spooled:
    """Write one file to the spool.

    Parameters
    ----------
    stream : binary file
        What to read.
    name : str
        As the user knows it.
    hashed : bool
        Whether the hash is wanted; whoever loads the file at once learns it then.

    Raises
    ------
    InputRefusedError
        If it is larger than the settings allow.
    """
    folder = _folder()
    # The name on disk is ours: the user's may hold a path, or be too long for the file system.
    path = folder / uuid.uuid4().hex
    digest, size, limit = hashlib.sha256(), 0, get_settings().max_file_bytes
    with path.open("wb") as file:
        while chunk := stream.read(_CHUNK):
            size += len(chunk)
            if size > limit:
                path.unlink(missing_ok=True)
                raise InputRefusedError(
                    f"the file is larger than {limit >> 20:,} MiB",
                    "Compress it with gzip, export fewer metrics, or raise STALLSCOPE_MAX_FILE_BYTES.",
                    Where(file=name),
                )
            if hashed:
                digest.update(chunk)
            file.write(chunk)
    return Spooled(name, path, digest.hexdigest() if hashed else "", size)


def _folder() -> Path:
    folder = uploads(database())
    if folder is None:
        raise StallScopeError("a database in memory takes no uploads", "Start StallScope with a database file.")
    folder.mkdir(parents=True, exist_ok=True)
    return folder
