"""Samples of GPU metrics in an export of Nsight Systems, there if it was recorded with ``--gpu-metrics-devices``."""

from __future__ import annotations

import re
import sqlite3
from dataclasses import dataclass

import numpy as np
import pandas as pd

from analysis.ingest.contract.format import Hints
from analysis.ingest.formats.shared.samples import Readings
from analysis.reference import gpus
from analysis.store.parsed import REJECTED_COLUMNS, no_rejects

SAMPLES, NAMES, START = "GPU_METRICS", "TARGET_INFO_GPU_METRICS", "TARGET_INFO_SESSION_START_TIME"

#: ``SMs Active [Throughput %]``: the unit is the last word in the brackets.
_NAMED = re.compile(r"^(?P<name>.*?)\s*\[(?:.* )?(?P<unit>[^\s\]]+)\]\s*$")


@dataclass(frozen=True)
class Samples:
    """What the table of samples holds.

    Attributes
    ----------
    readings : Readings
        The samples, counter by counter and device by device.
    read : int
        Rows of the table.
    rejected : pd.DataFrame
        line (row of the table), column, reason, text.
    dated : bool
        Whether the export says when the recording began; otherwise times count from 1970.
    """

    readings: Readings
    read: int
    rejected: pd.DataFrame
    dated: bool


def read_samples(
    connection: sqlite3.Connection, tables: set[str], columns: set[str], devices: pd.DataFrame, hints: Hints
) -> Samples | None:
    """Read the samples of all GPUs.

    Parameters
    ----------
    connection : sqlite3.Connection
        The export.
    tables : set of str
        Names of its tables.
    columns : set of str
        Columns of the table of samples.
    devices : pd.DataFrame
        id and name of the GPUs.
    hints : Hints
        The user's word for workload and GPU.

    Returns
    -------
    Samples or None
        None where the table is absent, empty, or lacks a column.
    """
    if SAMPLES not in tables or not {"timestamp", "typeId", "metricId", "value"} <= columns:
        return None
    rows = pd.read_sql_query(
        f'SELECT rowid AS line, "timestamp" AS at, typeId AS type, metricId AS metric, "value" FROM {SAMPLES} '
        "ORDER BY rowid",
        connection,
    )
    if rows.empty:
        return None
    names = _names(connection, tables)
    begin = _begin(connection, tables)
    value, at = (pd.to_numeric(rows[name], errors="coerce").astype(float) for name in ("value", "at"))
    numbers, times = np.asarray(value, dtype=np.float64), np.asarray(at, dtype=np.float64)
    known = pd.MultiIndex.from_frame(rows[["type", "metric"]]).isin(list(names)) if names else np.zeros(len(rows), bool)
    why = pd.Series("", index=rows.index, dtype=object)
    why[~known] = "no table of the export names this metric"
    why[value.isna()] = "is no number"
    why[at.isna()] = "the time is missing"
    readings = Readings()
    of_device = {int(row["id"]): gpus.canonical(str(row["name"])) for row in devices.to_dict("records") if row["name"]}
    told = gpus.canonical(hints.gpu) if hints.gpu else None
    for kind, metric in sorted(names):
        place = np.flatnonzero((why == "") & (rows["type"] == kind) & (rows["metric"] == metric))
        if not len(place):
            continue
        name, unit = names[kind, metric]
        number = kind & 0xFF  # the lowest byte of the type is the number of the GPU
        readings.add(
            name,
            numbers[place],
            unit=unit,
            at=(times[place].astype("int64") + (begin or 0)).astype("datetime64[ns]"),
            workload=hints.workload,
            gpu=told or of_device.get(number),
            device=str(number),
        )
    return Samples(readings, len(rows), _rejected(rows, why), begin is not None)


def _names(connection: sqlite3.Connection, tables: set[str]) -> dict[tuple[int, int], tuple[str, str | None]]:
    """Return name and unit by type and metric."""
    if NAMES not in tables:
        return {}
    out: dict[tuple[int, int], tuple[str, str | None]] = {}
    for kind, metric, name in connection.execute(f"SELECT typeId, metricId, metricName FROM {NAMES}"):
        if isinstance(kind, int) and isinstance(metric, int) and isinstance(name, str) and name.strip():
            found = _NAMED.match(name)
            out[kind, metric] = (found["name"], found["unit"]) if found and found["name"] else (name.strip(), None)
    return out


def _begin(connection: sqlite3.Connection, tables: set[str]) -> int | None:
    """Return when the recording began, in ns since 1970."""
    if START not in tables:
        return None
    try:
        found = connection.execute(f"SELECT utcEpochNs FROM {START} LIMIT 1").fetchone()
    except sqlite3.OperationalError:  # another schema
        return None
    return int(found[0]) if found and isinstance(found[0], int) and 0 < found[0] < 1 << 62 else None


def _rejected(rows: pd.DataFrame, why: pd.Series[str]) -> pd.DataFrame:
    bad = rows[why != ""]
    if bad.empty:
        return no_rejects()
    table = [
        (int(row["line"]), SAMPLES, reason, f"type {row['type']}, metric {row['metric']}, value {row['value']}"[:500])
        for row, reason in zip(bad.to_dict("records"), why[why != ""], strict=True)
    ]
    return pd.DataFrame(table, columns=list(REJECTED_COLUMNS))
