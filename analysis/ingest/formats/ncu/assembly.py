"""From measured rows to frames: launches, metrics in base units, durations, stall marks; for all forms of ncu."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from analysis.ingest.contract.cells import Ints
from analysis.ingest.contract.kernel_names import short_name
from analysis.ingest.formats.ncu.stall_metrics import Bools, Floats, Marks, mark
from analysis.ingest.text.numbers import Numbers
from analysis.ingest.text.units import base

#: Metrics that state how long a launch took, the one to prefer first; all in ns once in base units.
DURATIONS = (
    "gpu__time_duration.sum", "gpu__time_duration.avg", "gpu__time_duration.max", "Duration",
    "gpu__time_duration_measured_user.sum", "gpu__time_duration_measured_wallclock.sum",
    "gpu__time_active.sum", "gpu__time_active.avg", "gpu__time_active.max",
)  # fmt: skip
_CYCLES = (
    "gpc__cycles_elapsed.max", "sm__cycles_elapsed.max", "smsp__cycles_elapsed.max", "sm__cycles_elapsed.avg",
    "smsp__cycles_elapsed.avg", "Elapsed Cycles",
)  # fmt: skip
_CLOCKS = (
    "gpc__cycles_elapsed.avg.per_second", "sm__cycles_elapsed.avg.per_second", "smsp__cycles_elapsed.avg.per_second",
    "SM Frequency",
)  # fmt: skip

#: `--print-metric-name label-name` prints both; the internal name is the one to keep.
_BOTH = re.compile(r"^.*\((?P<name>[a-z]\w*__[\w.]+)\)$|^(?P<first>[a-z]\w*__[\w.]+) \(.*\)$")

#: A name, or a list of them: two letters at the least before anything else.
_WORDS = re.compile(r"\s*[\"'(\[]?[A-Za-z_]{2}")


@dataclass
class Measured:
    """Rows of measurements, whatever form they came in.

    Attributes
    ----------
    launch, line : ndarray of int64
        Launch (a row of `launches`) and line in the file.
    section, metric, unit : ndarray of int64
        Numbers into the lists of names.
    section_names, metric_names, unit_names : list of str
        Distinct texts.
    numbers : Numbers
        Values as printed.
    text : pa.Array
        The cells' text.
    launches : pd.DataFrame
        process_id, launch_id, name, grid, block, cc, device, invocations, line.
    note : pa.Array, optional
        What to keep beside the values, such as the range that a summary prints.
    """

    launch: Ints
    line: Ints
    section: Ints
    section_names: list[str]
    metric: Ints
    metric_names: list[str]
    unit: Ints
    unit_names: list[str]
    numbers: Numbers
    text: pa.Array
    launches: pd.DataFrame
    note: pa.Array | None = None

    def __post_init__(self) -> None:
        self.metric_names = [_internal(name) for name in self.metric_names]


@dataclass(frozen=True)
class Assembled:
    """What the rows became.

    Attributes
    ----------
    kernel : pd.DataFrame
        One row a launch, without workload and GPU.
    metric : pa.Table
        Rows of `kernel_metric`.
    marks : Marks
        Which rows count as stalls.
    values : ndarray of float64
        Values in base units, NaN where missing.
    wrong : ndarray of bool
        Rows that must be rejected: the metric is a number elsewhere and not here.
    max_rate : ndarray of bool
        Rows that the rule ``max_rate`` sets aside.
    duration_from : str or None
        Where the durations come from.
    converted : dict of str to dict of str to int
        Metrics that came in several units: rows by unit.
    """

    kernel: pd.DataFrame
    metric: pa.Table
    marks: Marks
    values: Floats
    wrong: Bools
    max_rate: Bools
    duration_from: str | None
    converted: dict[str, dict[str, int]]


def assemble(rows: Measured) -> Assembled:
    """Turn measured rows into frames.

    Parameters
    ----------
    rows : Measured
        The rows.

    Returns
    -------
    Assembled
        Frames and what is worth telling.
    """
    units = [base(name) for name in rows.unit_names]
    factor = np.array([unit.factor for unit in units])
    values = rows.numbers.values * factor[rows.unit] if np.any(factor != 1.0) else rows.numbers.values
    wrong = damaged(rows)
    max_rate = np.array([name.endswith(".max_rate") for name in rows.metric_names])[rows.metric]
    marks = mark(rows.launch, rows.metric, rows.metric_names, values)
    kernel = rows.launches.copy()
    kernel.insert(0, "launch", np.arange(len(kernel)))
    kernel["short_name"] = _short_names(kernel["name"])
    kernel["duration_ns"], source = _durations(rows, values)
    keep = ~wrong & ~max_rate
    return Assembled(
        kernel=kernel,
        metric=_table(rows, units_of(rows.unit_names), marks, keep),
        marks=marks,
        values=values,
        wrong=wrong,
        max_rate=max_rate & ~wrong,
        duration_from=source,
        converted=_converted(rows),
    )


def _short_names(names: pd.Series[str]) -> pd.Categorical:
    """Shorten names, each distinct one once."""
    codes, distinct = pd.factorize(names)
    places, short = pd.factorize(np.array([short_name(name) for name in distinct], dtype=object))
    return pd.Categorical.from_codes(places[codes], categories=pd.Index(short, dtype=object))


def units_of(names: Sequence[str]) -> list[str | None]:
    """Return the base units of units as printed."""
    return [base(name).name for name in names]


def _internal(name: str) -> str:
    found = _BOTH.match(name)
    return (found["name"] or found["first"]) if found else name.strip()


def damaged(rows: Measured) -> Bools:
    """Tell numbers that were damaged from metrics that are text, such as a cache configuration.

    A cell that is no number is damaged if its metric is a number in another row, or has a unit and does not read as
    words: a breakdown lists names of metrics under the unit of its sum.
    """
    bad = rows.numbers.wrong
    if not bad.any():
        return bad
    numeric = np.bincount(rows.metric[~np.isnan(rows.numbers.values)], minlength=len(rows.metric_names)) > 0
    has_unit = np.array([bool(name.strip()) for name in rows.unit_names])[rows.unit]
    wrong: Bools = bad & (numeric[rows.metric] | has_unit)
    listed = np.flatnonzero(wrong & ~numeric[rows.metric])
    for row in listed:
        wrong[row] = _WORDS.match(str(rows.text[int(row)].as_py())) is None
    return wrong


def _first(rows: Measured, values: Floats, names: Sequence[str], out: Floats) -> list[str]:
    """Fill what is still missing for each launch from the named metrics, in their order; return those used."""
    used = []
    for name in names:
        if name not in rows.metric_names or not np.isnan(out).any():
            continue
        at = np.flatnonzero((rows.metric == rows.metric_names.index(name)) & ~np.isnan(values))
        at = at[np.isnan(out[rows.launch[at]])]
        if len(at):
            out[rows.launch[at]] = values[at]
            used.append(name)
    return used


def _durations(rows: Measured, values: Floats) -> tuple[Floats, str | None]:
    """Return the duration of each launch in ns, from the clock or from cycles and frequency."""
    count = len(rows.launches)
    in_time = np.array([base(name).name == "ns" for name in rows.unit_names])[rows.unit]
    duration = np.full(count, np.nan)
    used = _first(rows, np.where(in_time, values, np.nan), DURATIONS, duration)
    if np.isnan(duration).any():
        cycles, clock = np.full(count, np.nan), np.full(count, np.nan)
        counted = _first(rows, values, _CYCLES, cycles)
        clocked = _first(rows, values, _CLOCKS, clock)
        fits = np.isnan(duration) & (clock > 0)
        duration[fits] = cycles[fits] / clock[fits] * 1e9
        if fits.any() and counted:
            used.append(f"{counted[0]} / {clocked[0]}")
    duration[~(duration > 0)] = np.nan
    return duration, used[0] if used else None


def _converted(rows: Measured) -> dict[str, dict[str, int]]:
    """Find metrics whose unit changes from row to row, as automatic scaling does."""
    key = rows.metric.astype(np.int64) * len(rows.unit_names) + rows.unit
    counts = np.bincount(key, minlength=len(rows.metric_names) * len(rows.unit_names))
    table = counts.reshape(len(rows.metric_names), len(rows.unit_names))
    several = np.flatnonzero((table > 0).sum(axis=1) > 1)
    out: dict[str, dict[str, int]] = {}
    for metric in several:
        found = {rows.unit_names[unit]: int(table[metric, unit]) for unit in np.flatnonzero(table[metric])}
        found.pop("", None)  # rows without a value have no unit
        if len(found) > 1:
            out[rows.metric_names[metric]] = found
    return out


def _dictionary(codes: Ints, names: Sequence[str | None]) -> pa.DictionaryArray:
    """Return codes and names as an array of distinct values; the code -1 and the name None are null."""
    distinct = list(dict.fromkeys(name for name in names if name is not None))
    if len(distinct) == len(names) and codes.dtype == np.int32 and not (len(codes) and codes.min() < 0):
        return pa.DictionaryArray.from_arrays(pa.array(codes), pa.array(distinct, pa.string()))
    place = {name: number for number, name in enumerate(distinct)}
    # Small numbers for a million rows. One more for the code -1, which Python's indexing finds at the end.
    target = np.array([-1 if name is None else place[name] for name in names] + [-1])
    indices = target.astype(np.int8 if len(distinct) < 127 else np.int32)[codes]
    absent = np.less(indices, 0)
    return pa.DictionaryArray.from_arrays(
        pa.array(indices, mask=absent) if absent.any() else pa.array(indices), pa.array(distinct, pa.string())
    )


def _table(rows: Measured, units: list[str | None], marks: Marks, keep: Bools) -> pa.Table:
    """Return the rows of `kernel_metric`."""
    no_number = np.isnan(marks.values)
    beside = rows.note if rows.note is not None else pa.scalar(None, pa.string())
    text = rows.note
    if no_number.any():
        text = pc.if_else(pa.array(no_number), rows.text, beside)
    table = pa.table(
        {
            "launch": rows.launch,
            "line": rows.line,
            "section": _dictionary(rows.section, [name or None for name in rows.section_names]),
            "metric": _dictionary(rows.metric, rows.metric_names),
            "unit": _dictionary(rows.unit, units),
            "value": pa.array(marks.values, from_pandas=bool(no_number.any())),
            **({"text": text} if text is not None else {}),
            "family": _dictionary(marks.family, marks.families),
            "reason": _dictionary(marks.reason, marks.reasons),
        }
    )
    return table if keep.all() else table.filter(pa.array(keep))
