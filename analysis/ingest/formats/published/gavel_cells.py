"""The cells of a Gavel throughput file: GPU -> job -> partner -> two throughputs, each with the line that it stands on.

Python's JSON reader tells neither lines nor repeated keys, and both matter here: a reject must say where it stands, and
a key that stands twice must not vanish. So the objects are walked by hand and the values are left to the reader.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from json.decoder import scanstring  # type: ignore[attr-defined]
from typing import Any

from analysis.errors import InputRefusedError, Where
from analysis.ingest.contract.format import Opened
from analysis.ingest.text.delimited import read_text

SOLO = "null"

_SPACE = re.compile(r"[ \t\n\r]*")
_START = re.compile(
    r'\s*\{\s*"(?P<gpu>[^"]{1,80})"\s*:\s*\{\s*"(?P<job>[^"]{1,200})"\s*:\s*\{\s*"[^"]{1,200}"\s*:\s*[\[\d]', re.DOTALL
)
_SCALED = re.compile(r"^\('(?P<name>.+)', (?P<scale>\d+)\)$")


@dataclass(frozen=True)
class Cell:
    """One entry of the file.

    Attributes
    ----------
    gpu, job, partner : str
        Keys as written; the partner ``null`` is the job alone.
    value : object
        What JSON holds: a number for a job alone, two numbers for a pair.
    line : int
        Where the partner's key stands.
    """

    gpu: str
    job: str
    partner: str
    value: Any
    line: int


def first_keys(head: str) -> tuple[str, str] | None:
    """Return the first GPU and job of a text that begins like such a file, else None."""
    match = _START.match(head)
    if match is None or f'"{SOLO}"' not in head:
        return None
    return match["gpu"], match["job"]


def unscale(job: str) -> tuple[str, int]:
    """Split ``('ResNet-18 (batch size 16)', 1)`` into the name and the number of GPUs; other names have one."""
    match = _SCALED.match(job)
    return (match["name"], int(match["scale"])) if match else (job, 1)


def read_cells(opened: Opened) -> list[Cell]:
    """Return all cells in the order of the file.

    Raises
    ------
    InputRefusedError
        If the file is too large, isn't valid JSON, or is nested in another way; with the line.
    """
    return _Walk(read_text(opened), opened.name).cells()


class _Walk:
    """Goes through the text once, from key to key."""

    def __init__(self, text: str, name: str) -> None:
        self._text = text
        self._name = name
        self._ends = [match.start() for match in re.finditer("\n", text)]
        self._decode = json.JSONDecoder().raw_decode

    def cells(self) -> list[Cell]:
        found = []
        end = 0
        for gpu, at in self._keys(self._skip(0)):
            for job, inner in self._keys(at):
                for partner, place in self._keys(inner):
                    line = self._line(place)
                    value, self._end = self._value(place)
                    found.append(Cell(gpu, job, partner, value, line))
        end = self._skip(self._end)
        if end != len(self._text):
            raise self._refuse("there is text after the last brace", end)
        return found

    def _keys(self, at: int) -> Iterator[tuple[str, int]]:
        """Yield every key of the object at a place, with the place of its value; the caller moves ``_end`` past it."""
        self._expect("{", at)
        at = self._skip(at + 1)
        if self._peek(at) == "}":
            self._end = at + 1
            return
        while True:
            self._expect('"', at)
            try:
                key, at = scanstring(self._text, at + 1, True)
            except ValueError as error:
                raise self._refuse("a text isn't closed", at) from error
            at = self._skip(at)
            self._expect(":", at)
            yield key, self._skip(at + 1)
            at = self._skip(self._end)
            if self._peek(at) == "}":
                self._end = at + 1
                return
            self._expect(",", at)
            at = self._skip(at + 1)

    def _value(self, at: int) -> tuple[Any, int]:
        try:
            return self._decode(self._text, at)
        except (ValueError, RecursionError) as error:
            raise self._refuse("a value isn't valid JSON", at) from error

    def _expect(self, character: str, at: int) -> None:
        if self._peek(at) != character:
            raise self._refuse(f"{character!r} is expected" if self._peek(at) else "the file ends in the middle", at)

    def _peek(self, at: int) -> str:
        return self._text[at : at + 1]

    def _skip(self, at: int) -> int:
        match = _SPACE.match(self._text, at)
        return match.end() if match else at

    def _line(self, at: int) -> int:
        return bisect_right(self._ends, at - 1) + 1

    def _refuse(self, what: str, at: int) -> InputRefusedError:
        return InputRefusedError(
            what,
            "Download the throughput file again; it is GPU, then job, then partner.",
            Where(self._name, self._line(at)),
        )
