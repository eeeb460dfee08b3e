"""Has large files read by a process of its own, so that the one that answers readers keeps its interpreter for them.

Reading is most of the work of a load, and Python runs one thread at a time: twenty readers of a server would wait for
every step of it. What the other process read comes back as Arrow files; writing them to the database is DuckDB's work,
which needs no interpreter.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Protocol, cast

from analysis.errors import InputRefusedError, StallScopeError, Where
from analysis.ingest import wire
from analysis.ingest.mapping import TableMapping
from analysis.ingest.preview import Preview, preview
from analysis.ingest.reading import Read, ReadContext, read_here
from analysis.ingest.source.opening import is_packed
from analysis.logs import get_logger
from analysis.settings import get_settings

#: Bytes from which on another process is worth its start, which takes about a second.
WORTH = 8 << 20

#: How much larger a packed file is taken to be than it looks.
_PACKED = 8

#: Seconds over which the other process must get a least share of a processor, if it is to go on with what is left over.
_PATIENCE = 20.0
_LEAST = 0.2

#: What reading a file may take, wherever it comes from: bytes of memory and seconds of a processor, and for each of its
#: bytes as many more. Well beyond what any export takes; a file that needs more was made to.
MEMORY, MEMORY_A_BYTE = 1 << 30, 40
SECONDS, BYTES_A_SECOND = 20.0, 100 << 10

#: Beginnings of files that are small and unfold to anything: they are never read by the process that answers readers.
_UNFOLDING = (b"SQLite format 3\x00", b"PAR1")

#: Seconds between two looks at whether the work is still wanted.
_LOOK = 0.1

_log = get_logger(__name__)


class FileReader(Protocol):
    """What reads files: this process or another."""

    def read(self, path: Path, name: str, asked: ReadContext) -> Iterator[Read]:
        """Yield what each file holds."""
        ...

    def preview(self, path: Path, name: str, mappings: Sequence[TableMapping]) -> Preview:
        """Return what a file looks like."""
        ...


class InProcess:
    """Reads in this process."""

    def read(self, path: Path, name: str, asked: ReadContext) -> Iterator[Read]:
        """Yield what each file holds."""
        return read_here(path, name, asked)

    def preview(self, path: Path, name: str, mappings: Sequence[TableMapping]) -> Preview:
        """Return what a file looks like."""
        return preview(path, name=name, mappings=mappings)


class _GoneError(Exception):
    """The other process ended before it had answered."""


class _OverTimeError(Exception):
    """The other process has worked longer than any file of that size takes."""


class _StarvedError(Exception):
    """The other process hardly ever got a turn, as others keep the processors busy."""


@contextmanager
def reader_for(
    paths: Sequence[Path], *, spool: Path | None = None, wanted: Callable[[], None] | None = None
) -> Iterator[FileReader]:
    """Choose who reads these files: another process where they are large, else this one.

    Parameters
    ----------
    paths : sequence of Path
        All files that will be read.
    spool : Path, optional
        Where the bytes that go between may lie; by default that of the settings.
    wanted : callable, optional
        Called every tenth of a second while another process reads; raises to end it.

    Yields
    ------
    FileReader
        Good until the context ends.
    """
    if weight(paths) < WORTH and not any(unfolds(path) for path in paths):
        yield InProcess()
        return
    apart = Worker(spool or get_settings().spool, wanted, memory=MEMORY + MEMORY_A_BYTE * weight(paths))
    try:
        yield apart
    finally:
        apart.close()


def weight(paths: Sequence[Path]) -> int:
    """Return about how many bytes there are to read; what is packed counts as more than it looks."""
    total = 0
    for path in paths:
        try:
            total += path.stat().st_size * (_PACKED if is_packed(path) else 1)
        except OSError:
            continue
    return total


def unfolds(path: Path) -> bool:
    """Whether a file's size says nothing of what reading it takes: a database, or a table that is packed inside."""
    try:
        with path.open("rb") as file:
            return file.read(16).startswith(_UNFOLDING)
    except OSError:
        return False


class Worker:
    """Reads in a process of its own, which is started when it is first needed.

    Parameters
    ----------
    spool : Path
        Where the bytes that go between may lie.
    wanted : callable, optional
        Called while one waits; raises to end the reading.
    idle : bool
        Whether to begin with what the processors have left over.
    memory : int
        Bytes that it may take; beyond them reading ends.
    """

    def __init__(
        self, spool: Path, wanted: Callable[[], None] | None = None, *, idle: bool = True, memory: int = MEMORY
    ) -> None:
        self._spool = spool
        self._memory = memory
        self._end = float("inf")
        self._wanted = wanted or (lambda: None)
        self._process: subprocess.Popen[bytes] | None = None
        self._rest = b""
        self._idle = idle
        self._looked = 0.0, 0.0

    def read(self, path: Path, name: str, asked: ReadContext) -> Iterator[Read]:
        """Yield what each file holds; as `read_here`, and refused if the other process does not live through it."""
        taken = 0
        with self._folder() as folder:
            begin: dict[str, Any] = {"do": "read", "path": str(path.absolute()), "name": name, "folder": str(folder)}
            begin["hints"] = wire.fields_of(asked.hints)
            most = self._within(path)
            while True:
                try:
                    for message in self._answers({**begin, "taken": taken}):
                        if "read" in message:
                            yield wire.unpacked(message["read"], folder)
                            taken += 1
                            self._say({"next": True})
                        else:
                            self._say({"answer": _answer(message, asked, folder)})
                except _StarvedError:
                    self._within(path)
                    continue
                except _OverTimeError:
                    self.close()
                    yield Read(name, error=_over_time(name, most))
                except _GoneError:
                    yield Read(name, error=self._why(name))
                except BaseException:
                    # In the middle of its work it can't be asked anything else.
                    self.close()
                    raise
                return

    def preview(self, path: Path, name: str, mappings: Sequence[TableMapping]) -> Preview:
        """Return what a file looks like."""
        with self._folder() as folder:
            begin: dict[str, Any] = {"do": "preview", "path": str(path.absolute()), "name": name, "folder": str(folder)}
            begin["mappings"] = [one.model_dump(mode="json") for one in mappings]
            most = self._within(path)
            while True:
                try:
                    found = [Preview.model_validate(message["preview"]) for message in self._answers(begin)]
                except _StarvedError:
                    self._within(path)
                    continue
                except _OverTimeError:
                    self.close()
                    return Preview(file=name, error=_over_time(name, most).sentence)
                except _GoneError:
                    return Preview(file=name, error=self._why(name).sentence)
                except BaseException:
                    self.close()
                    raise
                return found[0]

    def _within(self, path: Path) -> float:
        """Set the limit of a file's reading, and return it in seconds of a processor."""
        most = SECONDS + weight([path]) / BYTES_A_SECOND
        used = self._used()
        self._end = (used if used < float("inf") else 0.0) + most
        return most

    def close(self) -> None:
        """End the other process, whatever it is doing."""
        process, self._process, self._rest = self._process, None, b""
        if process is None:
            return
        process.kill()
        for pipe in (process.stdin, process.stdout):
            with contextlib.suppress(OSError):
                pipe.close()  # type: ignore[union-attr]
        process.wait()

    @contextmanager
    def _folder(self) -> Iterator[Path]:
        self._spool.mkdir(parents=True, exist_ok=True)
        folder = Path(tempfile.mkdtemp(prefix="import-", dir=self._spool))
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def _say(self, message: dict[str, Any]) -> None:
        process = self._started()
        try:
            process.stdin.write(json.dumps(message).encode() + b"\n")  # type: ignore[union-attr]
            process.stdin.flush()  # type: ignore[union-attr]
        except OSError as error:
            raise _GoneError from error
        # It may have waited for this a good while; from here on it has something to do.
        self._looked = time.monotonic(), self._used()

    def _answers(self, wanted: dict[str, Any]) -> Iterator[dict[str, Any]]:
        """Ask for a piece of work and yield what is said until its end."""
        self._say(wanted)
        while "end" not in (message := self._heard()):
            yield message

    def _heard(self) -> dict[str, Any]:
        out = cast("IO[bytes]", self._started().stdout)
        while b"\n" not in self._rest:
            self._wanted()
            if not select.select([out.fileno()], [], [], _LOOK)[0]:
                self._check_share()
                continue
            data = os.read(out.fileno(), 1 << 20)
            if not data:
                raise _GoneError
            self._rest += data
        line, _, self._rest = self._rest.partition(b"\n")
        message: dict[str, Any] = json.loads(line)
        return message

    def _check_share(self) -> None:
        """End one that works for too long.

        Begin again with a process that asks for more, once one that takes what is left over gets next to nothing.
        """
        if self._end < self._used() < float("inf"):
            raise _OverTimeError
        since, before = self._looked
        now = time.monotonic()
        if not self._idle or now - since < _PATIENCE:
            return
        used = self._used()
        self._looked = now, used
        if used - before < _LEAST * (now - since):
            self.close()
            self._idle = False
            raise _StarvedError

    def _used(self) -> float:
        """Return the seconds of a processor that the other process had, where the system tells."""
        try:
            parts = Path(f"/proc/{self._started().pid}/stat").read_text().rpartition(")")[2].split()
            return (int(parts[11]) + int(parts[12])) / os.sysconf("SC_CLK_TCK")
        except (OSError, IndexError, ValueError):
            return float("inf")

    def _started(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            # Found as this process found it, and nothing of the folder that the user happens to be in.
            root = str(Path(__file__).resolve().parents[2])
            path = os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH", "")]))
            options = [str(self._memory), *(["--idle"] if self._idle else [])]
            # Arrow's own allocator sets aside a gibibyte at a time, which would count as taken.
            own = {"PYTHONPATH": path, "ARROW_DEFAULT_MEMORY_POOL": "system"}
            self._process = subprocess.Popen(  # noqa: S603 - this very program, with fixed options
                [sys.executable, "-P", "-m", "analysis.ingest.worker_child", *options],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={**os.environ, **own},
            )  # fmt: skip
        return self._process

    def _why(self, name: str) -> StallScopeError:
        """Say how the other process ended, and let go of it; the next file gets a new one."""
        process = self._process
        code = None
        if process is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                code = process.wait(5)
        self.close()
        _log.error("the process that reads files ended", file=name, code=code)
        how = f" by signal {-code}" if code is not None and code < 0 else ""
        return InputRefusedError(
            f"the process that read the file was ended{how}",
            "Nothing of it was loaded. If memory is short, load it in parts or where there is more.",
            Where(name),
        )


def _over_time(name: str, most: float) -> StallScopeError:
    return InputRefusedError(
        f"reading it took more than {most:,.0f} s of a processor, which no export of its size takes",
        "Nothing of it was loaded. Export it again, or load it in parts.",
        Where(name),
    )


def _answer(message: dict[str, Any], asked: ReadContext, folder: Path) -> Any:
    """Answer what only the one who loads can know."""
    if message["ask"] == "known":
        return asked.is_known(message["sha256"])
    if message["ask"] == "mappings":
        return [one.model_dump(mode="json") for one in asked.mappings()]
    if asked.hints.solos is not None:
        wire.put(asked.hints.solos(), folder / "solos")
    return True
