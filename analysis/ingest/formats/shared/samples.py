"""Samples of a GPU over time, whatever tool took them: collected by columns, put together as one long table."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from analysis.errors import InputRefusedError, Where
from analysis.ingest.contract import guesses
from analysis.ingest.contract.format import Hints, Opened
from analysis.ingest.formats.ncu import advice
from analysis.ingest.formats.shared.corun_frames import workload_frame
from analysis.ingest.formats.shared.tool_profile import Account
from analysis.reference import gpus
from analysis.store.parsed import Frame, Parsed

Texts = Sequence[str | None] | str | None
Moments = npt.NDArray[np.datetime64] | None

_TEXT_COLUMNS = ("workload", "gpu", "device", "entity", "reason")
_SCHEMA = pa.schema(
    [
        ("workload", pa.string()), ("gpu", pa.string()), ("device", pa.string()), ("entity", pa.string()),
        ("measured_at", pa.timestamp("us")), ("name", pa.string()), ("value", pa.float64()), ("unit", pa.string()),
        ("reason", pa.string()),
    ]
)  # fmt: skip

_UTILISATION = re.compile(r"^(?:utilization\.gpu|util_gpu|gputl|dcgm_fi_dev_gpu_util|sm$)", re.IGNORECASE)
_FIRST_YEAR, _LAST_YEAR = 1970, 2200
_FORMATS = ("%Y/%m/%d %H:%M:%S.%f", "%Y/%m/%d %H:%M:%S", "ISO8601", "%Y%m%d %H:%M:%S", "%a %b %d %H:%M:%S %Y")


@dataclass
class Readings:
    """Samples, added a counter at a time."""

    parts: list[pa.Table] = field(default_factory=list)

    def add(
        self,
        name: str,
        values: npt.NDArray[np.float64],
        *,
        unit: str | None = None,
        at: Moments = None,
        workload: Texts = None,
        gpu: Texts = None,
        device: Texts = None,
        entity: Texts = None,
        reason: Texts = None,
    ) -> None:
        """Add the samples of a counter; a text stands for all of them, or is one for each."""
        count = len(values)
        given = dict(zip(_TEXT_COLUMNS, (workload, gpu, device, entity, reason), strict=True))
        columns: dict[str, Any] = {key: _column(text, count) for key, text in given.items()}
        columns["measured_at"] = (
            pa.nulls(count, pa.timestamp("us"))
            if at is None
            else pa.array(at.astype("datetime64[us]"), from_pandas=True)
        )
        columns["name"] = _column(name, count)
        columns["unit"] = _column(unit, count)
        columns["value"] = pa.array(values.astype(np.float64), from_pandas=True)
        self.parts.append(pa.table([columns[key] for key in _SCHEMA.names], schema=_SCHEMA))

    def table(self) -> pa.Table:
        """Return all samples, in the columns of the frame ``telemetry``."""
        return pa.concat_tables(self.parts) if self.parts else _SCHEMA.empty_table()


def _column(text: Texts, count: int) -> pa.Array:
    if text is None or isinstance(text, str):
        return pa.repeat(pa.scalar(text, pa.string()), count)
    return pa.array(text, pa.string(), from_pandas=True)


def moments(texts: Sequence[str]) -> tuple[npt.NDArray[np.datetime64], npt.NDArray[np.bool_]]:
    """Read points in time: the first form that fits any of them; numbers are seconds or milliseconds since 1970.

    Returns
    -------
    tuple of ndarray
        Times, NaT where blank or wrong; and where the text is wrong.
    """
    stripped = pd.Series([text.strip() for text in texts], dtype=object)
    blank = stripped == ""
    # Years that no recording has, and that nanoseconds can't hold.
    year = pd.to_numeric(stripped.str.extract(r"^(\d{4})[-/]")[0], errors="coerce")
    outside = (year < _FIRST_YEAR) | (year > _LAST_YEAR)
    out = pd.Series(np.datetime64("NaT", "us"), index=stripped.index)
    if stripped.str.fullmatch(r"\d{9,13}(?:\.\d+)?").fillna(False).astype(bool).any():
        number = pd.to_numeric(stripped, errors="coerce")
        out = pd.Series(pd.to_datetime(number.where(number < 1e11, number / 1e3), unit="s", errors="coerce"))
        # Seconds with a fraction are not exact in binary: a millisecond must not become 999 microseconds.
        out = out.dt.round("us")
    else:
        for form in _FORMATS:
            left = out.isna() & ~blank & ~outside
            if not left.any():
                break
            found = pd.to_datetime(stripped[left], format=form, errors="coerce", utc=True).dt.tz_localize(None)
            out[left] = found.astype("datetime64[us]")
    wrong = (out.isna() & ~blank).to_numpy()
    return out.to_numpy().astype("datetime64[us]"), wrong


def gpu_for(names: Iterable[str | None], opened: Opened, hints: Hints) -> dict[str | None, str | None]:
    """Map the GPU's name as printed to its one name; the user's word goes before what the file says, its name after."""
    if hints.gpu:
        return {name: gpus.canonical(hints.gpu) for name in names}
    located = gpus.locate(guesses.stem(opened.name))
    other = located[0] if located else None
    return {name: (gpus.canonical(name) if name else other) for name in names}


def build(
    name: str,
    opened: Opened,
    hints: Hints,
    readings: Readings,
    account: Account,
    *,
    era: str | None = None,
    report: Mapping[str, Any] | None = None,
    warnings: Sequence[str] = (),
) -> Parsed:
    """Complete samples to a parsed file, and say what they can't tell.

    Raises
    ------
    InputRefusedError
        If no sample is left.
    """
    table = readings.table()
    if not table.num_rows:
        first = account.rejected.iloc[0] if len(account.rejected) else None
        why = (
            f"the first because {first['column'] or 'it'} {first['reason']}" if first is not None else "there are none"
        )
        raise InputRefusedError(
            f"none of its {account.read:,} rows can be used, {why}",
            "Record the GPU again, and load the new file.",
            Where(opened.name, None if first is None or first["line"] is None else int(first["line"])),
        )
    names = sorted(table.column("name").unique().to_pylist())
    absent = _absent(table)
    told = [f"{text[0].upper()}{text[1:]}." for text in opened.oddities]
    told += list(warnings)
    shown = [f"{counter} ({why})" for counter, why in list(absent.items())[:6]]
    if shown:
        told.append(f"Without a value throughout: {', '.join(shown)}; absent, not zero.")
    if any(_UTILISATION.match(counter) for counter in names):
        told.append(
            "The utilisation of the GPU is the part of time with any kernel running; it says neither how much of the "
            "GPU is used nor how much jobs would disturb each other."
        )
    told.append(
        "These are samples of the GPU, without kernels and stall reasons. To get what is missing, profile the job with "
        f"`{advice.COMMAND}`."
    )
    frames: dict[str, Frame] = {"telemetry": table}
    workloads = [text for text in table.column("workload").unique().to_pylist() if text]
    if workloads:
        frames["workload"] = workload_frame(workloads)
    frames |= account.aside.frames(opened)
    times = table.column("measured_at").combine_chunks().drop_null()
    return Parsed(
        format=name,
        era=era,
        rows_read=account.read,
        rejected=account.rejected,
        set_aside=dict(account.aside.counts),
        faulty_rows=account.faulty,
        frames=frames,
        report={
            "encoding": opened.encoding,
            "samples": table.num_rows,
            "counters": names,
            "not_available": absent,
            "devices": sorted(text for text in table.column("device").unique().to_pylist() if text)[:200],
            "from": str(pc.min(times).as_py()) if len(times) else None,
            "to": str(pc.max(times).as_py()) if len(times) else None,
            "missing_for_stalls": ["There are no kernels and no stall reasons in the file."],
            "command": advice.COMMAND,
            **(report or {}),
        },
        warnings=tuple(told),
    )


def _absent(table: pa.Table) -> dict[str, str]:
    """Return the counters that never have a value, and what the tool printed instead."""
    grouped = (
        table.select(["name", "value", "reason"]).group_by("name").aggregate([("value", "count"), ("reason", "max")])
    )
    rows = zip(*(grouped.column(key).to_pylist() for key in ("name", "value_count", "reason_max")), strict=True)
    return {str(name): str(reason or "no value") for name, count, reason in rows if not count}
