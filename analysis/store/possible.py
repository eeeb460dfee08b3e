"""What a number of each column can be: beyond that it is damaged, and no measurement.

A file's numbers are held to this before they are loaded, whatever its format; the schema holds every writer to the same
limits. They are wide: a value within them may still be wrong, which is for the checks to say.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from analysis.store.parsed import REJECTED_COLUMNS, Frame, Parsed

_Rows: TypeAlias = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Range:
    """What a column may hold; an absent value is always possible.

    Attributes
    ----------
    least, most : float
        Smallest and largest value.
    tiny : float
        Smallest size of a value that is not zero: below it lie the leavings of damaged bytes.
    """

    least: float
    most: float
    tiny: float = 0.0

    def impossible(self, values: npt.NDArray[np.float64]) -> npt.NDArray[np.bool_]:
        """Say of each value whether it can't be; NaN stands for an absent one."""
        with np.errstate(invalid="ignore"):
            bad: npt.NDArray[np.bool_] = (values < self.least) | (values > self.most)
            return bad | ((np.abs(values) < self.tiny) & (values != 0)) if self.tiny else bad

    def condition(self, column: str) -> str:
        """Return the same in SQL: true of a value that can be, and of an absent one."""
        held = f'"{column}" BETWEEN {self.least!r} AND {self.most!r}'
        tiny = f' AND ("{column}" = 0 OR abs("{column}") >= {self.tiny!r})' if self.tiny else ""
        return f'"{column}" IS NULL OR ({held}{tiny})'


#: Of any kind: a counter, a temperature, a rate.
_ANY = Range(-1e30, 1e30, 1e-30)
#: Throughputs, times, latencies; and memory.
AMOUNT = Range(0.0, 1e18, 1e-18)
MIB = Range(0.0, 1e9, 1e-9)
#: A slowdown of zero would be a job that is done in no time.
_SLOWDOWN = Range(1e-12, 1e12)

#: By table and column.
POSSIBLE: Mapping[str, Mapping[str, Range]] = {
    "kernel": {"duration_ns": AMOUNT, "invocations": Range(0.0, 1e15)},
    "kernel_metric": {"value": _ANY},
    "kernel_rule": {"top_share": Range(0.0, 1e6)},
    "solo": {"value": AMOUNT, "peak_memory_mib": MIB},
    "feature": {"value": _ANY},
    "run": {"k": Range(1, 1_000_000)},
    "member": {
        "slot": Range(0, 1_000_000), "solo_value": AMOUNT, "corun_value": AMOUNT, "slowdown": _SLOWDOWN,
        "p99_solo_ms": AMOUNT, "p99_corun_ms": AMOUNT, "peak_memory_mib": MIB, "memory_cap_mib": MIB,
        "thread_percentage": Range(0.0, 100.0),
    },
    "member_latency": {"solo_ms": AMOUNT, "corun_ms": AMOUNT},
    "telemetry": {"value": _ANY},
}  # fmt: skip

#: Times of samples: an export that names no beginning counts from 1970.
EARLIEST, LATEST = pd.Timestamp("1970-01-01"), pd.Timestamp("2200-01-01")

#: Attributes that a name or a file gives a job; one beyond this is none.
_BATCH = Range(1, 1e9)

#: Columns that name a row to whoever looks for it.
_NAMING = ("run", "workload", "launch", "name", "metric", "slot", "measure")

#: Where a value is one of several that a row of the file holds: the launch stays, and the value is gone.
_VALUE_OF_MANY = ("ncu-",)

REASON = "can't be: no measurement gives that"


def sift(parsed: Parsed) -> Parsed:
    """Return a file's content without the rows whose numbers can't be; these are among the rejected ones.

    A co-run goes as a whole, as the slowdown of one member says nothing where that of another is damaged; a launch goes
    with its values.

    Parameters
    ----------
    parsed : Parsed
        As a reader returned it.

    Returns
    -------
    Parsed
        The same object where nothing is wrong, which costs one look at the smallest and largest value of each column.
    """
    frames = dict(parsed.frames)
    faults: list[tuple[int | None, str, str, str]] = []
    gone = {"run": np.empty(0, np.int64), "launch": np.empty(0, np.int64)}
    lines = _lines(frames)
    for name, columns in POSSIBLE.items():
        frame = frames.get(name)
        if frame is None or not len(frame):
            continue
        frame = frames[name] = _absent(frame, columns)
        bad: npt.NDArray[np.bool_] = np.zeros(len(frame), bool)
        for column, allowed in columns.items():
            values = _suspects(frame, column, allowed)
            if values is None:
                continue
            wrong = allowed.impossible(values)
            if not wrong.any():
                continue
            faults += [_fault(frame, name, column, int(row), lines) for row in np.flatnonzero(wrong)]
            if column == "duration_ns" and parsed.format.startswith(_VALUE_OF_MANY):
                frame = frames[name] = _blanked(frame, column, wrong)
            else:
                bad |= wrong
        if name == "telemetry":
            wrong = _undatable(frame)
            faults += [_fault(frame, name, "measured_at", int(row), lines) for row in np.flatnonzero(wrong)]
            bad |= wrong
        if not bad.any():
            continue
        key = {"kernel": "launch", "run": "run", "member": "run", "member_latency": "run"}.get(name)
        if key is None:
            frames[name] = _kept(frame, ~bad)
        else:
            gone[key] = np.union1d(gone[key], _column(frame, key)[bad].astype(np.int64))
    frames = _without(frames, gone)
    frames = _named(frames)
    # What the reader rejected already is told once.
    told = set(zip(parsed.rejected["line"], parsed.rejected["column"], strict=True))
    faults = [one for one in faults if one[0] is None or one[:2] not in told]
    if not faults:
        return parsed if all(frames[name] is parsed.frames[name] for name in frames) else replace(parsed, frames=frames)
    # Values of one line are faults of one row; what has no line is a row of its own.
    known = {line for line, *_ in faults if line is not None} - set(parsed.rejected["line"])
    more = len(known) + sum(line is None for line, *_ in faults)
    most = parsed.rows_read - parsed.rows_set_aside
    rejected = pd.DataFrame(faults, columns=list(REJECTED_COLUMNS)).astype(object)
    both = [frame for frame in (parsed.rejected, rejected) if len(frame)]
    return replace(
        parsed,
        frames=frames,
        rejected=pd.concat(both, ignore_index=True),
        faulty_rows=min(parsed.rows_rejected + more, most),
    )


def _absent(frame: Frame, columns: Mapping[str, Range]) -> Frame:
    """Return a table in which what is no number is absent, as in a data frame."""
    if not isinstance(frame, pa.Table):
        return frame
    for column in columns:
        place = frame.schema.get_field_index(column)
        if place >= 0 and pa.types.is_floating(frame.schema.field(place).type):
            nan = pc.is_nan(frame.column(place))
            if pc.any(nan).as_py():
                held = pc.if_else(nan, pa.scalar(None, frame.schema.field(place).type), frame.column(place))
                frame = frame.set_column(place, column, held)
    return frame


def _suspects(frame: Frame, column: str, allowed: Range) -> npt.NDArray[np.float64] | None:
    """Return a column as numbers, or None where its smallest and largest value show that all are possible."""
    if column not in (frame.column_names if isinstance(frame, pa.Table) else frame.columns):
        return None
    if isinstance(frame, pa.Table) and not allowed.tiny:
        ends = pc.min_max(frame.column(column)).as_py()
        if ends["min"] is None or allowed.least <= ends["min"] <= ends["max"] <= allowed.most:
            return None
    return _column(frame, column)


def _column(frame: Frame, column: str) -> npt.NDArray[np.float64]:
    if isinstance(frame, pa.Table):
        held = frame.column(column)
        held = held.cast(pa.float64(), safe=False) if not pa.types.is_null(held.type) else held.cast(pa.float64())
        return np.asarray(held.to_numpy(), dtype=np.float64)
    series = frame[column]
    if series.dtype == object:
        # A whole number beyond what a column of numbers holds is as good as infinite.
        series = series.map(lambda value: np.inf if isinstance(value, int) and abs(value) > 1 << 62 else value)
    return pd.to_numeric(series, errors="coerce").to_numpy(dtype=np.float64, na_value=np.nan)


def _undatable(frame: Frame) -> npt.NDArray[np.bool_]:
    names = frame.column_names if isinstance(frame, pa.Table) else list(frame.columns)
    if "measured_at" not in names:
        return np.zeros(len(frame), bool)
    if isinstance(frame, pa.Table):
        held = frame.column("measured_at")
        if not pa.types.is_timestamp(held.type):
            return np.zeros(len(frame), bool)
        unit = held.type.unit
        whole = held.cast(pa.int64()).to_numpy()
        per = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[unit]
        seconds = np.asarray(whole, dtype=np.float64) / per
        return (seconds < EARLIEST.timestamp()) | (seconds > LATEST.timestamp())
    held = pd.to_datetime(frame["measured_at"], errors="coerce", utc=True).dt.tz_localize(None)
    return np.asarray((held < EARLIEST) | (held > LATEST), dtype=bool)


def _lines(frames: Mapping[str, Frame]) -> dict[str, dict[int, int]]:
    """Return the line of each run and launch of the file, looked up only once something is wrong."""
    return _Lazy(frames)


class _Lazy(dict[str, dict[int, int]]):
    """Lines by key, made when first asked for: most files have nothing wrong."""

    def __init__(self, frames: Mapping[str, Frame]) -> None:
        super().__init__()
        self._frames = frames

    def __missing__(self, key: str) -> dict[int, int]:
        frame = self._frames.get({"run": "run", "launch": "kernel"}[key])
        found: dict[int, int] = {}
        if frame is not None:
            names = frame.column_names if isinstance(frame, pa.Table) else list(frame.columns)
            if "line" in names:
                lines = _column(frame, "line")
                found = {
                    int(number): int(line)
                    for number, line in zip(_column(frame, key), lines, strict=True)
                    if line == line
                }
        self[key] = found
        return found


def _fault(
    frame: Frame, table: str, column: str, row: int, lines: Mapping[str, dict[int, int]]
) -> tuple[int | None, str, str, str]:
    one = frame.slice(row, 1).to_pylist()[0] if isinstance(frame, pa.Table) else frame.iloc[row].to_dict()
    line = one.get("line")
    if line is None or line != line:
        key = "run" if table in ("member", "member_latency", "run") else "launch" if "launch" in one else None
        line = lines[key].get(int(one[key])) if key is not None else None
    text = ", ".join(f"{name} {one[name]}" for name in _NAMING if one.get(name) is not None)
    named = one["name"] if table in ("feature", "telemetry") else one.get("metric") or column
    reason = f"{one[column]} {REASON}" if column != "measured_at" else f"{one[column]} is no time of a measurement"
    return None if line is None else int(line), str(named), reason, text[:500]


def _kept(frame: Frame, keep: npt.NDArray[np.bool_]) -> Frame:
    return frame.filter(pa.array(keep)) if isinstance(frame, pa.Table) else frame[keep].reset_index(drop=True)


def _blanked(frame: Frame, column: str, wrong: npt.NDArray[np.bool_]) -> Frame:
    if not isinstance(frame, pa.Table):
        return frame.assign(**{column: frame[column].mask(wrong)})
    held = frame.column(column)
    place = frame.column_names.index(column)
    return frame.set_column(place, column, pc.if_else(pa.array(wrong), pa.scalar(None, held.type), held))


def _without(frames: dict[str, Frame], gone: Mapping[str, _Rows]) -> dict[str, Frame]:
    """Take out runs and launches with all that belongs to them."""
    for key, tables in (
        ("run", ("run", "member", "member_latency")),
        ("launch", ("kernel", "kernel_metric", "kernel_rule")),
    ):
        if not len(gone[key]):
            continue
        for name in tables:
            if name in frames and len(frames[name]):
                frames[name] = _kept(frames[name], ~np.isin(_column(frames[name], key).astype(np.int64), gone[key]))
    return frames


def _named(frames: dict[str, Frame]) -> dict[str, Frame]:
    """Blank batch sizes that a name states and no job has."""
    frame = frames.get("workload")
    if frame is None or not len(frame):
        return frames
    values = _suspects(frame, "batch_size", _BATCH)
    if values is None or not (wrong := _BATCH.impossible(values)).any():
        return frames
    return {**frames, "workload": _blanked(frame, "batch_size", wrong)}
