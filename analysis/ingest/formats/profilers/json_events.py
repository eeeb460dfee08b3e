"""Reads a trace in JSON an event at a time: such files are often larger than the memory that holds them twice."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from analysis.errors import InputRefusedError, Where

_PIECE = 1 << 20
_LONGEST = 64 << 20
_EVENTS = re.compile(r'"traceEvents"\s*:\s*\[')
_BLANK = re.compile(r"[\s,]*")


class TraceFile:
    """A trace: its events one by one, and what stands around them once they are read.

    Parameters
    ----------
    path : Path
        The text.
    name : str
        The file's name, for errors.
    """

    def __init__(self, path: Path, name: str) -> None:
        self._path, self._name = path, name
        #: Everything beside the events, once they are read.
        self.around: dict[str, Any] = {}

    def events(self) -> Iterator[tuple[int, dict[str, Any]]]:
        """Yield line and content of every event.

        Raises
        ------
        InputRefusedError
            If the text is cut off, or no JSON.
        """
        decoder = json.JSONDecoder()
        with self._path.open(encoding="utf-8-sig", errors="replace") as file:
            text, line = "", 1
            start = None
            while start is None:
                piece = file.read(_PIECE)
                if not piece or len(text) > _LONGEST:
                    raise self._broken(line, "the list of events (traceEvents) is missing")
                text += piece
                start = _begin(text)
            before, at = text[:start], start
            line += text.count("\n", 0, at)
            while True:
                blank = _BLANK.match(text, at)
                stop = blank.end() if blank else at
                line += text.count("\n", at, stop)
                at = stop
                if at < len(text) and text[at] == "]":
                    break
                try:
                    event, end = decoder.raw_decode(text, at)
                except RecursionError as error:
                    raise self._broken(line, "an event is nested too deeply") from error
                except ValueError as error:
                    piece = file.read(_PIECE)
                    if not piece:
                        raise self._broken(
                            line, "the text ends, or stops being JSON, in the middle of an event"
                        ) from error
                    if len(text) - at > _LONGEST:
                        raise self._broken(line, "an event is longer than 64 MiB, or no JSON") from error
                    text, at = text[at:] + piece, 0
                    continue
                if isinstance(event, dict):
                    yield line, event
                line += text.count("\n", at, end)
                at = end
                if len(text) - at < 1 << 12:
                    text, at = text[at:] + file.read(_PIECE), 0
            rest = text[at:] + file.read()
        self.around = self._outside(before, rest)

    def _outside(self, before: str, rest: str) -> dict[str, Any]:
        try:
            found = json.loads(before + rest)
        except (ValueError, RecursionError) as error:
            raise self._broken(None, "the text behind the events is cut off or no JSON") from error
        return found if isinstance(found, dict) else {}

    def _broken(self, line: int | None, what: str) -> InputRefusedError:
        return InputRefusedError(
            what,
            "Export the trace again, and let the profiler finish before the program ends.",
            Where(self._name, line),
        )


def _begin(text: str) -> int | None:
    """Return the place of the first event: in the list of events, or in a bare list."""
    bare = text.lstrip()
    if bare.startswith("["):
        return len(text) - len(bare) + 1
    found = _EVENTS.search(text)
    return found.end() if found else None
