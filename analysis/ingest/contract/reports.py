"""What is told about every file: whether it was loaded, how many rows, and what was noticed."""

from __future__ import annotations

from typing import Any, Literal

import pandas as pd
import pyarrow as pa
from pydantic import BaseModel, ConfigDict, Field

from analysis.store.parsed import Frame, Parsed

Status = Literal["loaded", "duplicate", "rejected"]


class ImportReport(BaseModel):
    """The account of one file.

    Attributes
    ----------
    file : str
        Its name as the user knows it.
    format : str or None
        Short name of the format; None when no format claims it.
    status : {"loaded", "duplicate", "rejected"}
        What happened. Nothing of a duplicate or rejected file is in the database because of this import.
    rows_read, rows_loaded, rows_rejected : int
        Rows of the table; those read are those loaded and those rejected.
    set_aside : dict of str to int
        Rows that were understood and left out by a rule; they count as loaded.
    launches, kernels : int
        Launches of kernels, and distinct kernel names.
    runs, members : int
        Co-runs, and jobs in them.
    stall_reasons : list of str
        Canonical names of the stall reasons that have a value, sorted.
    gpus : list of str
        GPUs that the file is about.
    warnings : list of str
        One sentence each.
    error : str or None
        Why it was rejected, and the cure.
    source_id : int or None
        Its source in the database; for a duplicate the one that holds the same bytes.
    report : dict
        Encoding, separators, skipped lines, metrics without values, accounted share, what is missing ...
    """

    model_config = ConfigDict(frozen=True)

    file: str
    format: str | None = None
    status: Status
    rows_read: int = 0
    rows_loaded: int = 0
    rows_rejected: int = 0
    set_aside: dict[str, int] = Field(default_factory=dict)
    launches: int = 0
    kernels: int = 0
    runs: int = 0
    members: int = 0
    stall_reasons: list[str] = Field(default_factory=list)
    gpus: list[str] = Field(default_factory=list)
    warnings: list[str] = Field(default_factory=list)
    error: str | None = None
    source_id: int | None = None
    report: dict[str, Any] = Field(default_factory=dict)


def of_parsed(name: str, parsed: Parsed, source_id: int | None) -> ImportReport:
    """Return the report of a file that was read."""
    return ImportReport(
        file=name,
        format=parsed.format,
        status="loaded",
        rows_read=parsed.rows_read,
        rows_loaded=parsed.rows_loaded,
        rows_rejected=parsed.rows_rejected,
        set_aside=dict(parsed.set_aside),
        launches=_launches(parsed),
        kernels=len(_distinct(parsed, "kernel", "name")),
        runs=_count(parsed, "run"),
        members=_count(parsed, "member"),
        stall_reasons=sorted(parsed.report.get("stall_reasons", [])),
        gpus=gpus_of(parsed),
        warnings=list(parsed.warnings),
        source_id=source_id,
        report=dict(parsed.report),
    )


def gpus_of(parsed: Parsed) -> list[str]:
    """Return the GPUs that a file is about, sorted."""
    names: set[str] = set()
    for name in ("kernel", "run", "solo", "feature", "telemetry"):
        names |= _distinct(parsed, name, "gpu")
    return sorted(names)


def _count(parsed: Parsed, name: str) -> int:
    frame = parsed.frames.get(name)
    return 0 if frame is None else len(frame)


def _launches(parsed: Parsed) -> int:
    frame = parsed.frames.get("kernel")
    if frame is None:
        return 0
    values = _column(frame, "invocations")
    return len(frame) if values is None else int(values.fillna(1).sum())


def _distinct(parsed: Parsed, frame: str, column: str) -> set[str]:
    found = parsed.frames.get(frame)
    values = None if found is None else _column(found, column)
    return set() if values is None else {str(value) for value in values.dropna().unique()}


def _column(frame: Frame, name: str) -> pd.Series | None:
    if isinstance(frame, pa.Table):
        return frame.column(name).to_pandas() if name in frame.column_names else None
    return frame[name] if name in frame.columns else None
