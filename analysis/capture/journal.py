"""The journal of a campaign: one line a run, on disk before the next begins, so that nothing done is done again."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from analysis.capture.corun import Measured, Member
from analysis.errors import InputRefusedError, Where

#: Hidden, so that importing the whole folder finds tables only.
NAME = ".journal.jsonl"


@dataclass(frozen=True)
class Entry:
    """A run that was done: its key, its names, the session that did it, and what was measured."""

    key: str
    names: tuple[str, ...]
    session: int
    measured: Measured


@dataclass
class Journal:
    """The runs of a folder.

    Attributes
    ----------
    path : Path
        The file.
    digest : str
        Of the plan, see `analysis.capture.plan.Plan.digest`.
    entries : list of Entry
        What is done.
    session : int
        Number of the session that writes now, from 1.
    """

    path: Path
    digest: str
    entries: list[Entry] = field(default_factory=list)
    session: int = 1

    def done(self) -> set[str]:
        """Return the keys of the runs that need not be done again; those that did not run are results too."""
        return {entry.key for entry in self.entries}

    def add(self, key: str, names: tuple[str, ...], measured: Measured) -> None:
        """Write a run down, and wait until it is on disk."""
        entry = Entry(key, names, self.session, measured)
        self._write({"key": key, "names": list(names), "session": self.session, "measured": measured.to_json()})
        self.entries.append(entry)

    def _write(self, line: Mapping[str, Any]) -> None:
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
            file.flush()
            os.fsync(file.fileno())


def open_journal(folder: Path, digest: str) -> Journal:
    """Open the journal of a folder, and drop a last line that was cut off when its writer was killed.

    Raises
    ------
    InputRefusedError
        If the folder holds the journal of other jobs.
    """
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / NAME
    if not path.exists():
        journal = Journal(path, digest)
        journal._write({"stallscope_campaign": 1, "plan": digest})
        return journal
    text = path.read_bytes()
    whole = text[: text.rfind(b"\n") + 1]
    if whole != text:
        path.write_bytes(whole)
    lines = list(_lines(path, whole))
    if not lines:
        path.unlink()
        return open_journal(folder, digest)
    if lines[0].get("plan") != digest:
        raise InputRefusedError(
            "the folder holds a campaign of other jobs, lengths or mechanism",
            "Give another folder with --out, or the campaign as it was begun.",
            Where(str(path)),
        )
    entries = [
        Entry(str(one["key"]), tuple(one["names"]), int(one["session"]), _measured(one["measured"]))
        for one in lines[1:]
    ]
    return Journal(path, digest, entries, 1 + max((entry.session for entry in entries), default=0))


def _lines(path: Path, text: bytes) -> Iterator[dict[str, Any]]:
    for number, line in enumerate(text.decode("utf-8", "replace").splitlines(), start=1):
        try:
            yield json.loads(line)
        except ValueError as error:
            raise InputRefusedError(
                "the journal is damaged",
                "Give another folder with --out, or take the line out.",
                Where(str(path), number),
            ) from error


def _measured(one: Mapping[str, Any]) -> Measured:
    members = tuple(Member(**{**member, "tail": tuple(member["tail"])}) for member in one["members"])
    return Measured(**{**one, "members": members, "throttle": tuple(one["throttle"])})
