"""System metrics of experiment trackers: Weights & Biases (one column a counter) and MLflow (one row a value)."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd

from analysis.errors import InputRefusedError, Where
from analysis.ingest.contract.aside import Aside
from analysis.ingest.contract.format import Hints, Opened
from analysis.ingest.formats.shared import samples
from analysis.ingest.formats.shared.tool_profile import Account
from analysis.ingest.text.delimited import Sheet, header_of, read_sheet
from analysis.store.parsed import Parsed

#: ``system.gpu.0.powerWatts``, ``run-1 - system/gpu.0.temp``, ``system/gpu_0_utilization_percentage``.
_COUNTER = re.compile(r"(?:^|[\s.])system[./](?:gpu\.(\d+)\.|gpu_(\d+)_)([\w.]+)$")
_TIMES = ("_timestamp", "timestamp", "wall time", "time", "date", "relative time (process)", "step", "_step")
_RUNS = ("run_id", "run", "run_name", "name", "id")
_UNITS = (
    (re.compile(r"percent|\.gpu$|^gpu$|^memory$|utili[sz]ation|allocated$", re.I), "%"),
    (re.compile(r"megabytes", re.I), "MB"), (re.compile(r"bytes", re.I), "byte"), (re.compile(r"watts", re.I), "W"),
    (re.compile(r"temp", re.I), "°C"), (re.compile(r"clock|MHz", re.I), "MHz"),
)  # fmt: skip
_TREE = "no_gpu_metric"


def _counters(header: tuple[str, ...]) -> dict[str, re.Match[str]]:
    return {name: found for name in header if (found := _COUNTER.search(name)) is not None}


def _long(header: tuple[str, ...]) -> str | None:
    """Return the column of the counters' names where each row is one value."""
    names = {name.casefold(): name for name in header}
    key = next((names[word] for word in ("key", "metric", "metric_name") if word in names), None)
    return key if key and "value" in names and "timestamp" in names else None


class Tracking:
    """Reads the system metrics that a tracker recorded beside a run, exported as CSV."""

    name = "tracker-metrics"
    title = "System metrics of an experiment tracker (Weights & Biases or MLflow, CSV)"

    def sniff(self, opened: Opened) -> bool:
        """Say whether a column, or the first rows' names, are counters of a GPU as the trackers write them."""
        header = header_of(opened)[0]
        if _counters(header):
            return True
        return _long(header) is not None and bool(re.search(r"system[./]gpu[._]\d", opened.head))

    def parse(self, opened: Opened, hints: Hints) -> Parsed:
        """Read every value of a GPU; other metrics of the run are set aside by rule.

        Raises
        ------
        InputRefusedError
            If no value of a GPU is in it.
        """
        sheet = read_sheet(opened)
        aside = Aside()
        long = _long(sheet.header)
        if _counters(sheet.header):
            readings = _from_columns(sheet, hints)
        elif long is not None:
            readings = _from_rows(sheet, long, aside, hints)
        else:
            raise InputRefusedError("no column is a counter of a GPU", "Export the system metrics.", Where(opened.name))
        return samples.build(
            self.name, opened, hints, readings, Account(sheet.rows_read, sheet.rejected(), aside),
            warnings=["The values are those that the tracker sampled, every few seconds, of the whole GPU."],
        )  # fmt: skip


def _from_columns(sheet: Sheet, hints: Hints) -> samples.Readings:
    counters = _counters(sheet.header)
    numbers = {name: sheet.numbers(name, required=False) for name in counters}
    good = sheet.good().index
    at, run = _moments(sheet, good), _runs(sheet, good, hints)
    readings = samples.Readings()
    for name, found in counters.items():
        values = numbers[name].loc[good]
        there = values.notna().to_numpy()
        counter = found[3]
        readings.add(
            counter, np.asarray(values, dtype=np.float64)[there], unit=_unit(counter), device=found[1] or found[2],
            at=None if at is None else at[there], gpu=hints.gpu,
            workload=run if isinstance(run, str) or run is None else [run[i] for i in np.flatnonzero(there)],
        )  # fmt: skip
    return readings


def _from_rows(sheet: Sheet, key: str, aside: Aside, hints: Hints) -> samples.Readings:
    value = next(name for name in sheet.header if name.casefold() == "value")
    numbers = sheet.numbers(value)
    found = sheet.cells[key].map(lambda text: _COUNTER.search(text))
    good = sheet.good().index
    other = [int(str(line)) for line in good if found[line] is None]
    if other:
        aside.add(_TREE, other)
    kept = pd.Index([line for line in good if found[line] is not None])
    at, run = _moments(sheet, kept), _runs(sheet, kept, hints)
    readings = samples.Readings()
    names = pd.Series({line: (found[line][3], found[line][1] or found[line][2]) for line in kept}, dtype=object)
    for place in dict.fromkeys(names):
        rows = np.flatnonzero([name == place for name in names])
        readings.add(
            place[0], np.asarray(numbers.loc[kept], dtype=np.float64)[rows], unit=_unit(place[0]), device=place[1],
            at=None if at is None else at[rows], gpu=hints.gpu,
            workload=run if isinstance(run, str) or run is None else [run[i] for i in rows],
        )  # fmt: skip
    return readings


def _unit(counter: str) -> str | None:
    return next((unit for pattern, unit in _UNITS if pattern.search(counter)), None)


def _moments(sheet: Sheet, lines: pd.Index[int]) -> samples.Moments:
    names = {name.casefold(): name for name in sheet.header}
    for word in _TIMES:
        if word in names:
            moments, _ = samples.moments(sheet.cells.loc[lines, names[word]].tolist())
            if not np.isnat(moments).all():
                return moments
    return None


def _runs(sheet: Sheet, lines: pd.Index[int], hints: Hints) -> list[str | None] | str | None:
    if hints.workload:
        return hints.workload
    names = {name.casefold(): name for name in sheet.header}
    column = next((names[word] for word in _RUNS if word in names), None)
    return None if column is None else [text or None for text in sheet.cells.loc[lines, column]]
