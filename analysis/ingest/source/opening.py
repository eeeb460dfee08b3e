"""Opens what a user gives: first bytes, unpacking, hash, encoding, and the text behind it as clean UTF-8."""

from __future__ import annotations

import codecs
import csv
import re
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path, PurePosixPath

from analysis.errors import InputRefusedError, Where
from analysis.ingest.contract.filenames import unique_names
from analysis.ingest.contract.format import Opened
from analysis.ingest.contract.magic import START_BYTES, is_binary, packing
from analysis.ingest.contract.textstats import TextStats
from analysis.ingest.source.unpacking import Budget, unpack_stream, unpack_tar, unpack_zip
from analysis.ingest.text.repeats import measure_ahead
from analysis.settings import get_settings

#: How much of a text the formats look at to recognise it.
HEAD_BYTES = 256 << 10

#: Colours and cursor movements that terminals print.
ANSI = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[@-_]")

# Cells may be long: lines of more than a mebibyte are refused by a sentence, not by the module's own limit of 128 KiB.
csv.field_size_limit(1 << 30)

_LONE_RETURN = re.compile(r"\r(?!\n)")
_SUFFIX = re.compile(r"\.(?:gz|gzip|bz2|bzip2|xz|lzma|zst|zstd|lz4)$", re.IGNORECASE)
_DEPTH = 2
#: Seconds after which a folder of unpacked files has no owner any more.
_KEPT = 24 * 3600


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
        One for a plain or packed file, one for every file of a zip or tar archive.

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
    _sweep(folder)
    own = Path(tempfile.mkdtemp(prefix="import-", dir=folder))
    try:
        yield _open(path, shown, size, own, 0, Budget())
    finally:
        shutil.rmtree(own, ignore_errors=True)


def _sweep(folder: Path) -> None:
    """Take out what imports that were killed left behind, a day later: nothing reads for so long."""
    oldest = time.time() - _KEPT
    for left in folder.glob("import-*"):
        with suppress(OSError):
            if left.stat().st_mtime < oldest:
                shutil.rmtree(left, ignore_errors=True)


def is_packed(path: Path) -> bool:
    """Whether a file is an archive or packed, by its first bytes."""
    return packing(_start(path)) is not None


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


def _open(path: Path, name: str, size: int, folder: Path, depth: int, budget: Budget) -> list[Opened]:
    start = _start(path)
    where = Where(name)
    kind = packing(start)
    if kind is not None and depth >= _DEPTH:
        raise InputRefusedError(
            "archives are packed into one another too deeply", "Unpack it and load the files.", where
        )
    if kind in ("zip", "tar"):
        unpack = unpack_zip if kind == "zip" else unpack_tar
        below = folder / f"{kind}-{depth}-{path.name[-20:]}"
        below.mkdir()
        found: list[Opened] = []
        members = list(unpack(path, below, where, budget))
        names = unique_names([PurePosixPath(member) for member, _ in members])
        for member, (_, target) in zip(names, members, strict=True):
            found += _open(target, f"{name}/{member}", target.stat().st_size, below, depth + 1, budget)
        return found
    if kind is not None:
        target = folder / f"unpacked-{depth}-{path.name[-20:]}"
        unpack_stream(path, kind, target, where, budget)
        # A packed tar archive is one archive to those who made it.
        if packing(_start(target)) == "tar":
            return _open(target, name, size, folder, depth, budget)
        return _open(target, _SUFFIX.sub("", name), size, folder, depth + 1, budget)
    stats, rows = measure_ahead(path)
    if is_binary(start):
        stats = replace(stats, encoding="binary")
    text, counted = path, stats
    if stats.encoding not in ("binary", "unknown") and not stats.plain:
        text = folder / f"text-{depth}-{path.name[-20:]}"
        _clean(path, text, stats.encoding)
        counted, rows = measure_ahead(text)
    return [
        Opened(
            name=name,
            path=path,
            sha256=stats.sha256,
            size=size,
            encoding=stats.encoding,
            head=_head(text, counted),
            magic=start,
            text=text,
            stats=counted,
            oddities=_oddities(stats),
            rows=rows,
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
        held, nuls = "", 0
        while piece := source.read(1 << 20):
            # NUL bytes at the very end are room that was set aside for more, and no text.
            ends = len(piece) - len(piece.rstrip("\x00"))
            if ends == len(piece):
                nuls += ends
                continue
            piece, nuls = held + "\x00" * nuls + piece[: len(piece) - ends], ends
            # What may continue in the next piece waits for it: a carriage return, or the start of an escape sequence.
            cut = len(piece) - 1 if piece.endswith("\r") else len(piece)
            escape = piece.rfind("\x1b", max(0, cut - 64))
            if escape >= 0 and not ANSI.match(piece, escape):
                cut = escape
            if cut == 0:
                cut = len(piece)
            held, piece = piece[cut:], piece[:cut]
            out.write(_cleaned(piece))
        out.write(_cleaned(held))


def _cleaned(text: str) -> str:
    text = _LONE_RETURN.sub("\n", ANSI.sub("", text))
    return text.replace("\x00", "\ufffd").removeprefix("\ufeff")


def _oddities(stats: TextStats) -> tuple[str, ...]:
    """Say what is unusual about the bytes of a text."""
    found: list[str] = []
    if stats.encoding == "binary":
        return ()
    if stats.encoding == "cp1252":
        found.append("the text isn't UTF-8; it was read as Windows-1252")
    inside = 0 if stats.encoding.startswith("utf-16") else stats.nuls - stats.last_nuls
    if inside:
        found.append(f"{inside:,} NUL {'byte stands' if inside == 1 else 'bytes stand'} in the text")
    if inside < stats.nuls and not stats.encoding.startswith("utf-16"):
        found.append(f"{stats.last_nuls:,} NUL bytes at its end were left out")
    if stats.escapes:
        found.append("terminal colours were taken out")
    return tuple(found)


def _start(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(START_BYTES)


def _head(path: Path, stats: TextStats) -> str:
    """Return the first part of a clean text; empty for bytes that are no text."""
    if stats.encoding not in ("utf-8", "utf-8-sig"):
        return ""
    with path.open("rb") as file:
        start = file.read(HEAD_BYTES)
    return codecs.getincrementaldecoder(stats.encoding)(errors="replace").decode(start, final=False)
