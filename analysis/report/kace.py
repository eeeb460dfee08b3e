"""The published evaluation of KACE as a table: what stands in each column."""

from __future__ import annotations

from analysis.report.document import Column
from analysis.report.table import column

COLUMNS: tuple[Column, ...] = (
    column("times", "each workload in training", "count"),
    column("training", "pairs in training", "percent"),
    column("linear", "linear, MSE as published", "number"),
    column("forest", "forest, MSE as published", "number"),
    column("linear_sound", "linear, MSE without the leak", "number"),
    column("forest_sound", "forest, MSE without the leak", "number"),
    column("slowdown_error", "left as slowdown error, median", "percent"),
    column("impossible", "pairs with a throughput of 0 or less", "percent"),
)
