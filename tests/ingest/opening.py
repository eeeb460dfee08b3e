"""Opens a file the way an upload is opened, for tests of single formats."""

from __future__ import annotations

import hashlib
from pathlib import Path

from analysis.ingest.contract.format import Format, Hints, Opened
from analysis.store.database import Database
from analysis.store.loader import SourceInfo, load
from analysis.store.parsed import Parsed


def opened(path: Path, encoding: str = "utf-8") -> Opened:
    content = path.read_bytes()
    return Opened(
        name=path.name,
        path=path,
        sha256=hashlib.sha256(content).hexdigest(),
        size=len(content),
        encoding=encoding,
        head=content[: 256 * 1024].decode(encoding, errors="replace"),
        magic=content[:16],
    )


def written(folder: Path, name: str, text: str) -> Opened:
    path = folder / name
    path.write_bytes(text.encode())
    return opened(path)


def load_into(database: Database, form: Format, file: Opened, hints: Hints | None = None) -> Parsed:
    chosen = hints or Hints()
    assert form.sniff(file)
    parsed = form.parse(file, chosen)
    load(database, parsed, SourceInfo(chosen.dataset, file.name, file.sha256, file.size))
    return parsed
