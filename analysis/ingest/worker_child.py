"""The process that reads large files for another one: told what to read by lines of JSON, answering by lines of JSON.

It ends with the one that started it, whatever ends that.
"""

from __future__ import annotations

import json
import os
import queue
import shutil
import signal
import sys
import threading
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, TextIO

from analysis.ingest import wire
from analysis.ingest.mapping import TableMapping
from analysis.ingest.preview import preview
from analysis.ingest.reading import Read, ReadContext, read_here, unexpected
from analysis.logs import configure_logs

#: How far it stands back where it would hardly get a turn otherwise.
NICE = 5

_TRIES = 20


class Line:
    """What the two processes say to each other, from this end."""

    def __init__(self, heard: TextIO, said: TextIO) -> None:
        self._said = said
        self._queue: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
        self.folder: Path | None = None
        self._listening = threading.Thread(target=self._listen, args=(heard,), daemon=True)
        self._listening.start()

    def _listen(self, heard: TextIO) -> None:
        for line in heard:
            message = json.loads(line)
            # Noted as soon as it is heard: the other end may be gone before anything comes of it.
            self.folder = Path(message["folder"]) if "folder" in message else self.folder
            self._queue.put(message)
        # The other end is gone, be it by a signal that nobody can catch: nobody wants this any more. Again, as long as
        # the reading puts something new there meanwhile.
        for _ in range(_TRIES):
            if self.folder is not None and self.folder.exists():
                shutil.rmtree(self.folder, ignore_errors=True)
        os._exit(0)

    def wait(self) -> dict[str, Any]:
        """Return what is said next."""
        return self._queue.get()

    def say(self, message: Mapping[str, Any]) -> None:
        """Say something; to nobody, this is where the process ends."""
        try:
            self._said.write(json.dumps(message) + "\n")
            self._said.flush()
        except OSError:
            self._listening.join()

    def ask(self, what: str, **more: Any) -> Any:
        """Ask something that only the other end knows."""
        self.say({"ask": what, **more})
        return self.wait()["answer"]


def serve(line: Line) -> None:
    """Do what is asked, until nobody is there to ask."""
    while True:
        wanted = line.wait()
        folder = Path(wanted["folder"])
        if wanted["do"] == "preview":
            mappings = [TableMapping.model_validate(one) for one in wanted["mappings"]]
            seen = preview(Path(wanted["path"]), name=wanted["name"], mappings=mappings)
            line.say({"preview": seen.model_dump(mode="json")})
        else:
            _read(line, wanted, folder)
        line.say({"end": True})


def _read(line: Line, wanted: Mapping[str, Any], folder: Path) -> None:
    def solos() -> Any:
        line.ask("solos")
        return wire.get(folder / "solos").to_pandas()

    asked = ReadContext(
        replace(wire.hints_of(wanted["hints"]), solos=solos),
        folder,
        lambda sha256: bool(line.ask("known", sha256=sha256)),
        lambda: [TableMapping.model_validate(one) for one in line.ask("mappings")],
    )
    for number, read in enumerate(read_here(Path(wanted["path"]), wanted["name"], asked)):
        if number < wanted["taken"]:
            continue
        try:
            message = wire.packed(read, folder)
        except Exception as error:
            message = wire.packed(Read(read.name, format=read.format, error=unexpected(read.name, error)), folder)
        # What comes next may rest on what this one brings to the database.
        line.say({"read": message})
        line.wait()


def _stand_back(*, idle: bool) -> None:
    """Let those who answer readers have the processors first; where `idle`, take them only while nobody wants them."""
    try:
        if idle:
            os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
        else:
            os.nice(NICE)
    except (OSError, AttributeError):
        # Not a system that knows the difference.
        return


def _bound(memory: int) -> None:
    """Take no more memory than this: where more is asked for, reading ends and not the machine."""
    try:
        import resource
    except ImportError:
        # Not a system that knows limits.
        return
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
        # Libraries set memory aside when they are imported, most of which nobody touches.
        own = next(int(line.split()[1]) << 10 for line in lines if line.startswith("VmData"))
    except (OSError, StopIteration):
        return
    held = resource.getrlimit(resource.RLIMIT_DATA)[1]
    most = own + memory if held == resource.RLIM_INFINITY else min(own + memory, held)
    resource.setrlimit(resource.RLIMIT_DATA, (most, held))


def main() -> None:
    """Run as a process of its own."""
    _bound(int(sys.argv[1]))
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _stand_back(idle="--idle" in sys.argv)
    # Whatever is printed meanwhile must not come between.
    said = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    sys.stdout = sys.stderr
    configure_logs(verbose=False)
    serve(Line(sys.stdin, said))


if __name__ == "__main__":
    main()
