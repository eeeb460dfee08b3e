"""What every importer hands to the store: frames with natural keys, and the account of every row."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import pandas as pd
import pyarrow as pa

Frame: TypeAlias = pd.DataFrame | pa.Table

#: Columns of each frame that an importer may fill. The first group is the natural key that the store resolves to ids:
#: ``workload`` is a name within the data set, ``launch`` and ``run`` number the launches and runs within the file.
FRAME_COLUMNS: Mapping[str, tuple[str, ...]] = {
    "workload": ("name", "model", "family", "training_data", "batch_size", "precision", "phase"),
    "kernel": (
        "launch", "workload", "gpu", "process_id", "launch_id", "name", "short_name", "grid", "block", "cc", "device",
        "invocations", "duration_ns", "line",
    ),
    "kernel_metric": ("launch", "line", "section", "metric", "unit", "value", "text", "family", "reason"),
    "kernel_rule": ("launch", "line", "section", "rule", "kind", "text", "top_reason", "top_share"),
    "solo": ("workload", "gpu", "measure", "unit", "value", "peak_memory_mib", "memory_kind"),
    "feature": ("workload", "gpu", "name", "value", "unit"),
    "run": ("run", "external_id", "gpu", "mechanism", "k", "outcome", "line", "note"),
    "member": (
        "run", "slot", "workload", "outcome", "measure", "unit", "solo_value", "corun_value", "slowdown",
        "p99_solo_ms", "p99_corun_ms", "peak_memory_mib", "memory_kind", "thread_percentage", "memory_cap_mib",
        "mig_profile", "priority", "flags",
    ),
    "member_latency": ("run", "slot", "statistic", "solo_ms", "corun_ms"),
    "telemetry": ("workload", "gpu", "device", "entity", "measured_at", "name", "value", "unit", "reason"),
    "set_aside_row": ("rule", "line", "text"),
}  # fmt: skip

REJECTED_COLUMNS = ("line", "column", "reason", "text")


def no_rejects() -> pd.DataFrame:
    """Return an empty frame of rejected rows."""
    return pd.DataFrame({name: pd.Series(dtype=object) for name in REJECTED_COLUMNS})


@dataclass(frozen=True)
class Parsed:
    """One file, read and validated, not yet loaded.

    Attributes
    ----------
    format : str
        Name of the format, such as ``ncu-long``.
    era : str or None
        Version of the format where it has several, such as ``12 columns``.
    rows_read : int
        Data rows of the file: those after the header, without blank lines.
    rejected : pd.DataFrame
        Rows that could not be understood: line, column, reason, text.
    set_aside : mapping of str to int
        Rows that were understood and left out by a rule, counted by rule. They count as loaded.
    frames : mapping of str to Frame
        The content, by the names and columns of `FRAME_COLUMNS`; absent columns are NULL.
    report : mapping
        What the user should know: encoding, separators, skipped lines, n/a metrics, accounted share ...
    warnings : tuple of str
        One sentence each.
    faulty_rows : int, optional
        Number of rejected rows, for formats in which one line can hold several rows; by default the distinct lines
        of ``rejected``.
    """

    format: str
    rows_read: int
    frames: Mapping[str, Frame]
    era: str | None = None
    rejected: pd.DataFrame = field(default_factory=no_rejects)
    set_aside: Mapping[str, int] = field(default_factory=dict)
    report: Mapping[str, Any] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    faulty_rows: int | None = None

    def __post_init__(self) -> None:
        for name, frame in self.frames.items():
            unknown = set(_columns(frame)) - set(FRAME_COLUMNS[name])
            if unknown:
                raise ValueError(f"frame {name!r} has unknown columns {sorted(unknown)}")
        if self.rows_rejected + self.rows_set_aside > self.rows_read:
            raise ValueError("more rows are rejected or set aside than were read")

    @property
    def rows_rejected(self) -> int:
        """Number of rejected rows; several faults in one row count once."""
        if self.faulty_rows is not None:
            return self.faulty_rows
        return int(self.rejected["line"].nunique(dropna=False)) if len(self.rejected) else 0

    @property
    def rows_set_aside(self) -> int:
        """Number of rows that rules set aside."""
        return int(sum(self.set_aside.values()))

    @property
    def rows_loaded(self) -> int:
        """Rows that were understood, those set aside included."""
        return self.rows_read - self.rows_rejected


def _columns(frame: Frame) -> list[str]:
    return list(frame.column_names) if isinstance(frame, pa.Table) else [str(name) for name in frame.columns]
