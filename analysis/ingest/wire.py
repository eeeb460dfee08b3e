"""Carries what was read from one process to another: frames as Arrow files, the rest as JSON. Never pickle."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa

from analysis.errors import InputRefusedError, StallScopeError, Where
from analysis.ingest.contract.format import Hints
from analysis.ingest.contract.reports import ImportReport
from analysis.ingest.reading import Read
from analysis.store.loader import in_columns
from analysis.store.parsed import Frame, Parsed

#: What of the hints is text; `solos` is asked for when it is needed.
HINTS = ("workload", "gpu", "dataset", "workload_from", "title", "licence", "citation", "mapping")

_REJECTED = "rejected"


def packed(read: Read, folder: Path) -> dict[str, Any]:
    """Write what was read into a folder and return the rest, as JSON has it."""
    return {
        "name": read.name,
        "sha256": read.sha256,
        "size": read.size,
        "format": read.format,
        "simulated": read.simulated,
        "parsed": None if read.parsed is None else _packed(read.parsed, folder),
        "told": None if read.told is None else read.told.model_dump(mode="json"),
        "error": None if read.error is None else _error(read.error),
    }


def unpacked(message: Mapping[str, Any], folder: Path) -> Read:
    """Return what `packed` was given. Frames are Arrow tables that lie in the files until they are let go."""
    told, error = message["told"], message["error"]
    return Read(
        name=message["name"],
        sha256=message["sha256"],
        size=message["size"],
        format=message["format"],
        simulated=message["simulated"],
        parsed=None if message["parsed"] is None else _unpacked(message["parsed"], folder),
        told=None if told is None else ImportReport.model_validate(told),
        error=None if error is None else InputRefusedError(error["what"], error["cure"], Where(**error["where"])),
    )


def hints_of(message: Mapping[str, Any]) -> Hints:
    """Return hints from their fields."""
    return Hints(**{name: message[name] for name in HINTS})


def fields_of(hints: Hints) -> dict[str, Any]:
    """Return the fields of hints that are text."""
    return {name: getattr(hints, name) for name in HINTS}


def put(frame: Frame, path: Path) -> None:
    """Write a frame."""
    table = _table(frame)
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_stream(file, table.schema) as writer:
        writer.write_table(table)


def get(path: Path) -> pa.Table:
    """Return a frame that `put` wrote; its bytes stay in the file."""
    with pa.memory_map(str(path)) as file, pa.ipc.open_stream(file) as reader:
        return reader.read_all()


def _packed(parsed: Parsed, folder: Path) -> dict[str, Any]:
    put(parsed.rejected, folder / _REJECTED)
    for name, frame in parsed.frames.items():
        put(frame, folder / f"frame-{name}")
    return {
        "format": parsed.format,
        "era": parsed.era,
        "rows_read": parsed.rows_read,
        "set_aside": dict(parsed.set_aside),
        "report": dict(parsed.report),
        "warnings": list(parsed.warnings),
        "faulty_rows": parsed.rows_rejected,
        "frames": list(parsed.frames),
    }


def _unpacked(message: Mapping[str, Any], folder: Path) -> Parsed:
    return Parsed(
        format=message["format"],
        era=message["era"],
        rows_read=message["rows_read"],
        set_aside=message["set_aside"],
        report=message["report"],
        warnings=tuple(message["warnings"]),
        faulty_rows=message["faulty_rows"],
        frames={name: get(folder / f"frame-{name}") for name in message["frames"]},
        # The loader shows it to the database as a frame; numbers of lines stay whole beside absent ones.
        rejected=get(folder / _REJECTED).to_pandas(integer_object_nulls=True),
    )


def _table(frame: Frame) -> pa.Table:
    found = in_columns(frame)
    if isinstance(found, pa.Table):
        return found.replace_schema_metadata(None)
    # A column of several types: the database takes numbers and dates from their text as well.
    columns = {}
    for name in found.columns:
        try:
            columns[str(name)] = pa.Array.from_pandas(found[name])
        except (pa.ArrowInvalid, pa.ArrowTypeError):
            texts = [
                None if absent else str(value) for value, absent in zip(found[name], found[name].isna(), strict=True)
            ]
            columns[str(name)] = pa.array(texts, pa.string())
    return pa.table(columns)


def _error(error: StallScopeError) -> dict[str, Any]:
    where = error.where
    line = None if where.line is None or pd.isna(where.line) else int(where.line)
    column = None if where.column is None else str(where.column)
    return {"what": error.what, "cure": error.cure, "where": {"file": where.file, "line": line, "column": column}}
