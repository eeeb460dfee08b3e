"""Archives of many small files of one form, loaded as one source: read by the ordinary formats, written at once."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.compute

from analysis.ingest.contract.format import Hints
from analysis.ingest.contract.reports import ImportReport, of_parsed
from analysis.ingest.contract.simulated import check_dataset, completed, is_simulated
from analysis.ingest.registry import choose
from analysis.ingest.source.opening import opened_files
from analysis.store.database import Database
from analysis.store.loader import SourceInfo, find_duplicate, load
from analysis.store.parsed import Frame, Parsed
from analysis.store.possible import sift

#: Columns that number things within a file.
_NUMBERS = ("launch", "run")
#: Share of the time that reading takes; putting together and writing take the rest.
_READ = 0.8


def import_bundle(
    db: Database, path: Path, hints: Callable[[str], Hints], step: Callable[[float, str], None] | None = None
) -> ImportReport:
    """Import an archive, or a single file, as one source.

    Parameters
    ----------
    db : Database
        Where to load.
    path : Path
        The archive.
    hints : callable
        Gives what is known of a file, from its name within the archive.
    step : callable, optional
        Told the share done and the file that is read.

    Returns
    -------
    ImportReport
        The account of all files together.

    Raises
    ------
    StallScopeError
        If a file is refused; nothing is loaded then.
    """
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    duplicate = find_duplicate(db, digest)
    if duplicate is not None:
        return ImportReport(file=path.name, status="duplicate", source_id=duplicate)
    parts: list[Parsed] = []
    with opened_files(path, spool=db.spool) as files:
        dataset, simulated = "", False
        for number, opened in enumerate(files):
            inner = opened.name.rpartition("/")[2]
            if step:
                step(_READ * number / len(files), inner)
            known = completed(hints(inner), opened)
            if not number:
                dataset, simulated = known.dataset, is_simulated(opened)
                check_dataset(db, dataset, opened.name, simulated=simulated)
            parts.append(choose(opened).parse(opened, known))
    if step:
        step(_READ, f"putting {path.name} together")
    parsed = sift(merge(parts))
    if step:
        step((1 + _READ) / 2, f"writing {path.name}")
    info = SourceInfo(dataset, path.name, digest, path.stat().st_size, simulated=simulated)
    return of_parsed(path.name, parsed, load(db, parsed, info))


def merge(parts: Sequence[Parsed]) -> Parsed:
    """Return parsed files as one; launches and runs are numbered on, lines stay those of their own file."""
    if len(parts) == 1:
        return parts[0]
    frames: dict[str, list[Frame]] = {}
    begin = dict.fromkeys(_NUMBERS, 0)
    for part in parts:
        for name, frame in part.frames.items():
            frames.setdefault(name, []).append(_moved(frame, begin))
        for key, owner in (("launch", "kernel"), ("run", "run")):
            if owner in part.frames:
                begin[key] += len(part.frames[owner])
    set_aside: Counter[str] = Counter()
    for part in parts:
        set_aside.update(part.set_aside)
    return Parsed(
        format=", ".join(sorted({part.format for part in parts})),
        era=parts[0].era,
        rows_read=sum(part.rows_read for part in parts),
        rejected=pd.concat([part.rejected for part in parts], ignore_index=True),
        set_aside=dict(set_aside),
        frames={name: _joined(found) for name, found in frames.items()},
        report={
            "files": len(parts),
            "stall_reasons": sorted({reason for part in parts for reason in part.report.get("stall_reasons", [])}),
        },
        warnings=tuple(dict.fromkeys(warning for part in parts for warning in part.warnings)),
    )


def _moved(frame: Frame, begin: dict[str, int]) -> Frame:
    """Number launches and runs from where the file before ended."""
    for key, first in begin.items():
        if first and isinstance(frame, pa.Table) and key in frame.column_names:
            place = frame.column_names.index(key)
            column = pa.compute.add(frame.column(key), pa.scalar(first, frame.schema.field(key).type))
            frame = frame.set_column(place, key, column)
        elif first and isinstance(frame, pd.DataFrame) and key in frame.columns:
            frame = frame.assign(**{key: frame[key] + first})
    return frame


def _joined(found: Sequence[Frame]) -> Frame:
    if all(isinstance(frame, pa.Table) for frame in found):
        return pa.concat_tables(found, promote_options="permissive")
    return pd.concat(
        [frame.to_pandas() if isinstance(frame, pa.Table) else frame for frame in found], ignore_index=True
    )  # fmt: skip
