"""Reads what a user gives without touching the database: opened, recognised, parsed, and vouched for, file by file.

What stands in the database and matters for reading (bytes that are there already, saved mappings, solo measurements)
is asked for by `ReadContext`, so that the same reading serves here and in a process of its own.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from analysis.errors import CancelledError, InputRefusedError, NotFoundError, StallScopeError, Where
from analysis.ingest import mapping
from analysis.ingest.contract.format import Format, Hints, Opened
from analysis.ingest.contract.reports import ImportReport, of_parsed
from analysis.ingest.contract.simulated import completed, is_simulated, simulator
from analysis.ingest.mapping import TableMapping
from analysis.ingest.registry import choose
from analysis.ingest.source.opening import opened_files
from analysis.logs import get_logger
from analysis.store.parsed import Parsed
from analysis.store.possible import sift

_log = get_logger(__name__)


@dataclass(frozen=True)
class ReadContext:
    """What reading wants to know of the one who loads.

    Attributes
    ----------
    hints : Hints
        What the user says that the file does not.
    spool : Path or None
        Where unpacked bytes may lie.
    is_known : callable
        Given the hash of a file's plain bytes; whether they are loaded already, so that they need not be read.
    mappings : callable
        Returns the saved mappings.
    """

    hints: Hints
    spool: Path | None
    is_known: Callable[[str], bool]
    mappings: Callable[[], list[TableMapping]]


@dataclass(frozen=True)
class Read:
    """One file, read or refused.

    Attributes
    ----------
    name : str
        As the user knows it.
    sha256 : str
        Hash of its plain bytes; empty where it could not be opened.
    size : int
        Bytes as given.
    format : str or None
        Short name of the format, None where none claims it.
    simulated : bool
        Whether the file says that a simulator wrote it.
    parsed : Parsed or None
        The content; None where it is known already or refused.
    told : ImportReport or None
        The account of the content.
    error : StallScopeError or None
        Why it is refused.
    """

    name: str
    sha256: str = ""
    size: int = 0
    format: str | None = None
    simulated: bool = False
    parsed: Parsed | None = None
    told: ImportReport | None = None
    error: StallScopeError | None = None


class Reader(Protocol):
    """Reads a file, or every file of an archive; bad input never raises but is a `Read` with an error."""

    def __call__(self, path: Path, name: str, asked: ReadContext) -> Iterator[Read]:
        """Yield what each file holds."""
        ...


def read_here(path: Path, name: str, asked: ReadContext) -> Iterator[Read]:
    """Read in this process.

    Parameters
    ----------
    path : Path
        The file.
    name : str
        Its name as the user knows it.
    asked : ReadContext
        What else there is to know.

    Yields
    ------
    Read
        One for a plain file, one for every file of an archive. What was unpacked is gone once all are taken.
    """
    try:
        with opened_files(path, name=name, spool=asked.spool) as files:
            before = _state(path)
            for opened in files:
                yield _read(opened, asked, path, before)
    except CancelledError:
        raise
    except StallScopeError as error:
        yield Read(name, error=error)
    except Exception as error:
        _log.exception("opening failed", file=name)
        yield Read(name, error=unexpected(name, error))


def _read(opened: Opened, asked: ReadContext, path: Path, before: tuple[int, int] | None) -> Read:
    found: Format | None = None
    about = Read(opened.name, opened.sha256, opened.size, simulated=is_simulated(opened))
    try:
        if asked.is_known(opened.sha256):
            return about
        found = _format(opened, asked)
        hints = completed(asked.hints, opened)
        parsed = _named(sift(found.parse(opened, hints)), hints, simulator(opened))
        _check(opened, parsed, path, before)
        return replace(about, format=found.name, parsed=parsed, told=of_parsed(opened.name, parsed, None))
    except CancelledError:
        raise
    except StallScopeError as error:
        return replace(about, format=found.name if found else None, error=error)
    except Exception as error:
        _log.exception("reading failed", file=opened.name, format=found.name if found else None)
        return replace(about, format=found.name if found else None, error=unexpected(opened.name, error))


def unexpected(name: str, error: Exception) -> StallScopeError:
    """Return the sentence for what no reader foresaw, or for a disk that is full."""
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        what = "the disk is full where files are unpacked, so nothing of it was loaded"
        return StallScopeError(what, "Free some space there and load it again.", Where(name))
    if isinstance(error, MemoryError) or type(error).__name__ == "ArrowMemoryError":
        what = "reading it takes more memory than any export of its size, so nothing of it was loaded"
        return InputRefusedError(what, "Load it in parts, or where there is more memory.", Where(name))
    # Whatever stands in a file is a file's matter: its reader met what its beginning does not promise.
    what = f"its content is not what its beginning promises ({_detail(error)}), so nothing of it was loaded"
    return InputRefusedError(what, "Check that it is whole, and export it again.", Where(name))


def _detail(error: Exception) -> str:
    """Return a short word of what was met: the error's own, where it is one line without a place in the program."""
    said = " ".join(str(error).split())
    return said if 0 < len(said) <= 80 and not isinstance(error, KeyError) else "where its values are read"


def _named(parsed: Parsed, hints: Hints, simulated_by: str | None) -> Parsed:
    """Say in the report how the workload of a profile got its name, the era of the format, and which simulator."""
    told = {**parsed.report, "era": parsed.era}
    if simulated_by is not None:
        told["simulator"] = simulated_by
    if "kernel" in parsed.frames and isinstance(parsed.report.get("workload"), str):
        told["workload_from"] = hints.workload_from or ("by you" if hints.workload else "after the file")
    return replace(parsed, report=told)


def _format(opened: Opened, asked: ReadContext) -> Format:
    """Return the user's mapping, the format that claims the file, or the saved mapping that has its columns."""
    wanted = asked.hints.mapping
    if wanted is not None:
        for saved in asked.mappings():
            if saved.name == wanted:
                return mapping.format_of(saved)
        raise NotFoundError(f"there is no mapping {wanted!r}", "`stallscope mappings list` names those that are saved.")
    try:
        return choose(opened)
    except InputRefusedError as error:
        return mapping.choose_mapped(opened, asked.mappings(), error)


def _check(opened: Opened, parsed: Parsed, path: Path, before: tuple[int, int] | None) -> None:
    """Refuse what can't be vouched for: a file that changed meanwhile, or of which nothing could be used."""
    if _state(path) != before:
        raise InputRefusedError(
            "the file changed while it was read",
            "Load it again when nothing writes to it any more.",
            Where(opened.name),
        )
    if parsed.rows_read and parsed.rows_loaded == 0:
        first = parsed.rejected.iloc[0]
        raise InputRefusedError(
            f"none of its {parsed.rows_read:,} rows could be understood; the first one: {first['reason']}",
            "Check that the file is what its header says, and export it again.",
            Where(opened.name, None if first["line"] is None else int(first["line"]), first["column"]),
        )


def _state(path: Path) -> tuple[int, int] | None:
    try:
        stat = path.stat()
    except OSError:
        return None
    return stat.st_size, stat.st_mtime_ns
