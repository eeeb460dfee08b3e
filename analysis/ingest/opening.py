"""Opens what a user gives: first bytes, unpacking, hash, encoding, and the text behind it as clean UTF-8."""

from __future__ import annotations

import codecs
import csv
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from analysis.errors import InputRefusedError, Where
from analysis.ingest.format import Opened
from analysis.ingest.textstats import TextStats, measure
from analysis.ingest.unpacking import unpack_gzip, unpack_zip
from analysis.settings import get_settings

#: How much of a text the formats look at to recognise it.
HEAD_BYTES = 256 << 10

#: Colours and cursor movements that terminals print.
ANSI = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[@-_]")

# Cells may be long: lines of more than a mebibyte are refused by a sentence, not by the module's own limit of 128 KiB.
csv.field_size_limit(1 << 30)

_LONE_RETURN = re.compile(r"\r(?!\n)")
_GZIP = b"\x1f\x8b"
_ZIP = (b"PK\x03\x04", b"PK\x05\x06")
_DEPTH = 2


@contextmanager
def opened_files(path: Path, *, name: str | None = None, spool: Path | None = None) -> Iterator[list[Opened]]:
    """Open a file, or every file inside an archive, for reading.

    Parameters
    ----------
    path : Path
        The file as given. A plain file is read where it lies; an archive is unpacked into the spool directory.
    name : str, optional
        Its name as the user knows it; by default that of the path.
    spool : Path, optional
        Where unpacked bytes may lie; by default that of the settings. They are gone when the context ends.

    Yields
    ------
    list of Opened
        One for a plain or gzipped file, one for every file of a zip archive.

    Raises
    ------
    InputRefusedError
        If the path is missing or no file, or the file is empty, too large, damaged, or packed in an unknown way.
    """
    shown = name or path.name
    where = Where(shown)
    size = _size(path, where)
    folder = spool or get_settings().spool
    folder.mkdir(parents=True, exist_ok=True)
    own = Path(tempfile.mkdtemp(prefix="import-", dir=folder))
    try:
        yield _open(path, shown, size, own, depth=0)
    finally:
        shutil.rmtree(own, ignore_errors=True)


def spool_stream(stream: BinaryIO, folder: Path) -> Path:
    """Write an upload to the spool directory, a piece at a time, and return where it lies.

    Raises
    ------
    InputRefusedError
        If it is larger than the limit.
    """
    limit = get_settings().max_file_bytes
    folder.mkdir(parents=True, exist_ok=True)
    written = 0
    with tempfile.NamedTemporaryFile(prefix="upload-", dir=folder, delete=False) as target:
        try:
            while chunk := stream.read(1 << 20):
                written += len(chunk)
                if written > limit:
                    break
                target.write(chunk)
        except BaseException:
            Path(target.name).unlink(missing_ok=True)
            raise
    if written > limit:
        Path(target.name).unlink(missing_ok=True)
        raise _too_large(Where(), limit)
    return Path(target.name)


def _size(path: Path, where: Where) -> int:
    if not path.exists():
        raise InputRefusedError(
            "there is no such file", "Check the path; it is read on the machine that runs this.", where
        )
    if not path.is_file():
        raise InputRefusedError("this is no file", "Give files, or a folder that holds some.", where)
    try:
        size = path.stat().st_size
        with path.open("rb"):
            pass
    except OSError as error:
        raise InputRefusedError("the file can't be opened", "Check that you may read it.", where) from error
    if size == 0:
        raise InputRefusedError(
            "the file is empty",
            "Export it again; if a profiler wrote it, look at what it printed on the screen.",
            where,
        )
    limit = get_settings().max_file_bytes
    if size > limit:
        raise _too_large(where, limit)
    return size


def _too_large(where: Where, limit: int) -> InputRefusedError:
    return InputRefusedError(
        f"the file is larger than {limit >> 20:,} MiB",
        "Gzip it, profile fewer launches, or raise STALLSCOPE_MAX_FILE_BYTES.",
        where,
    )


def _open(path: Path, name: str, size: int, folder: Path, depth: int) -> list[Opened]:
    with path.open("rb") as file:
        start = file.read(512)
    where = Where(name)
    if start.startswith(_GZIP):
        _not_deeper(depth, where)
        target = folder / f"unpacked-{depth}-{path.name[-20:]}"
        unpack_gzip(path, target, where)
        inner = re.sub(r"\.gz(ip)?$", "", name, flags=re.IGNORECASE)
        return _open(target, inner, size, folder, depth + 1)
    if start.startswith(_ZIP):
        _not_deeper(depth, where)
        below = folder / f"zip-{depth}-{path.name[-20:]}"
        below.mkdir()
        found: list[Opened] = []
        for member, target in list(unpack_zip(path, below, where)):
            shown = f"{name}/{member}"
            found += _open(target, shown, target.stat().st_size, below, depth + 1)
        return found
    stats = measure(path)
    text, counted = path, stats
    if stats.encoding not in ("binary", "unknown") and not stats.plain:
        text = folder / f"text-{depth}-{path.name[-20:]}"
        _clean(path, text, stats.encoding)
        counted = measure(text)
    return [
        Opened(
            name=name,
            path=path,
            sha256=stats.sha256,
            size=size,
            encoding=stats.encoding,
            head=_head(text, counted),
            magic=start[:16],
            text=text,
            stats=counted,
            oddities=_oddities(stats),
        )
    ]


def _clean(path: Path, target: Path, encoding: str) -> None:
    """Write a text again as UTF-8, without colours, with LF for a lone carriage return; lines keep their numbers.

    A NUL byte becomes the replacement character: taking it out could join two halves of a number.
    """
    with (
        path.open(encoding=encoding, errors="replace", newline="") as source,
        target.open("w", encoding="utf-8", newline="") as out,
    ):
        held = ""
        while piece := source.read(1 << 20):
            piece = held + piece
            # What may continue in the next piece waits for it: a carriage return, or the start of an escape sequence.
            cut = len(piece) - 1 if piece.endswith("\r") else len(piece)
            escape = piece.rfind("\x1b", max(0, cut - 64))
            if escape >= 0 and not ANSI.match(piece, escape):
                cut = escape
            if cut == 0:
                cut = len(piece)
            held, piece = piece[cut:], piece[:cut]
            out.write(_cleaned(piece))
        out.write(_cleaned(held.rstrip("\x00")))


def _cleaned(text: str) -> str:
    text = _LONE_RETURN.sub("\n", ANSI.sub("", text))
    return text.replace("\x00", "\ufffd").removeprefix("\ufeff")


def _oddities(stats: TextStats) -> tuple[str, ...]:
    """Say what is unusual about the bytes of a text."""
    found = []
    if stats.encoding == "cp1252":
        found.append("the text isn't UTF-8; it was read as Windows-1252")
    if stats.nuls and not stats.encoding.startswith("utf-16"):
        found.append(f"{stats.nuls:,} NUL bytes stand in the text")
    if stats.escapes:
        found.append("terminal colours were taken out")
    return tuple(found)


def _not_deeper(depth: int, where: Where) -> None:
    if depth >= _DEPTH:
        raise InputRefusedError(
            "archives are packed into one another too deeply", "Unpack it and load the files.", where
        )


def _head(path: Path, stats: TextStats) -> str:
    """Return the first part of a clean text; empty for bytes that are no text."""
    if stats.encoding not in ("utf-8", "utf-8-sig"):
        return ""
    with path.open("rb") as file:
        start = file.read(HEAD_BYTES)
    return codecs.getincrementaldecoder(stats.encoding)(errors="replace").decode(start, final=False)
