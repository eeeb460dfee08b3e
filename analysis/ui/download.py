"""Tables as files that are safe to open in a spreadsheet."""

from __future__ import annotations

import pandas as pd

from analysis.report.spreadsheet import defuse


def csv_bytes(frame: pd.DataFrame) -> bytes:
    """Write a table as UTF-8 CSV, text that a spreadsheet would run as a formula defused."""
    safe = frame.copy()
    for name in safe.columns:
        if not pd.api.types.is_numeric_dtype(safe[name]) and not pd.api.types.is_datetime64_any_dtype(safe[name]):
            safe[name] = safe[name].map(_written)
    safe.columns = pd.Index([defuse(str(name)) for name in safe.columns])
    return safe.to_csv(index=False).encode("utf-8")


def _written(value: object) -> object:
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, list | tuple):
        value = "; ".join(str(item) for item in value)
    return defuse(value) if isinstance(value, str) else value
