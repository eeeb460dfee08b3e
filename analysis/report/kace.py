"""The published evaluation of KACE as a table: what stands in each column."""

from __future__ import annotations

from analysis.report.document import Column
from analysis.report.table import columns_of

COLUMNS: tuple[Column, ...] = columns_of(
    "times", "training", "linear", "forest", "linear_sound", "forest_sound", "slowdown_error", "impossible"
)
