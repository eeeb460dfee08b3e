"""StallScope's own table of profiles: kernels of a workload alone, or figures of the whole workload."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import pandas as pd

from analysis.errors import InputRefusedError, Where
from analysis.ingest.contract.format import Hints, Opened
from analysis.ingest.contract.kernel_names import short_name
from analysis.ingest.formats.own.columns import PROFILE_COLUMNS, is_profile
from analysis.ingest.formats.own.naming import name_rows, solo_rows, workloads
from analysis.ingest.formats.own.reading import check, header, read_own, typed
from analysis.ingest.text.decimals import Decimals
from analysis.ingest.text.delimited import Sheet
from analysis.ingest.text.units import base
from analysis.reference import stall_reasons
from analysis.store.parsed import Parsed

_UNIT = re.compile(r"\s*[\[(](?P<unit>[^\[\]()]{0,30})[\])]\s*$")
_SHORT = re.compile(r"^stall[_ ](?P<reason>[a-z_]+)$", re.IGNORECASE)


@dataclass(frozen=True)
class Metric:
    """A metric column.

    Attributes
    ----------
    name : str
        The metric's name, without the unit.
    unit : str or None
        From brackets behind the name: ``dram_throughput [%]``.
    family, reason : str or None
        Where the name is a stall metric that carries the quantity.
    """

    name: str
    unit: str | None
    family: str | None
    reason: str | None

    @property
    def base(self) -> str | None:
        """The base unit."""
        return base(self.unit or "").name

    @property
    def factor(self) -> float:
        """What takes a value to the base unit."""
        return base(self.unit or "").factor


def metric(column: str) -> Metric:
    """Say what a column stands for.

    Parameters
    ----------
    column : str
        As written. ``stall_<reason>`` with a canonical reason is the percentage of warp cycles in that state.

    Returns
    -------
    Metric
        Its parts.

    Examples
    --------
    >>> metric("stall_long_scoreboard [%]").name
    'smsp__warp_issue_stalled_long_scoreboard_per_warp_active.pct'
    """
    found = _UNIT.search(column)
    name = column[: found.start()].strip() if found else column.strip()
    unit = (found["unit"].strip() or None) if found else None
    short = _SHORT.match(name)
    if short and short["reason"].lower() in _percentages():
        name, unit = _percentages()[short["reason"].lower()] + ".pct", "%"
    stall = stall_reasons.resolve(name)
    if stall is None or stall.rank is None:
        return Metric(name, unit, None, None)
    return Metric(name, unit, stall.family, stall.reason)


@lru_cache(maxsize=1)
def _percentages() -> dict[str, str]:
    table = stall_reasons.load()["per_warp_active"]
    return {str(reason): str(name) for reason, name in table.items() if name}


class OwnProfiles:
    """Reads the own profile table; see ``data/guide/own-tables.md``."""

    name = "own-profiles"
    title = "StallScope profile table (CSV or Parquet)"

    def read(self, opened: Opened) -> tuple[Sheet, Decimals, dict[str, str]]:
        """Read the text cells under the documented names, the decimal mark, and which column was which."""
        return read_own(opened, PROFILE_COLUMNS)

    def sniff(self, opened: Opened) -> bool:
        """Say whether the header names a workload and something measured of it alone, and no run."""
        return is_profile(header(opened))

    def parse(self, opened: Opened, hints: Hints) -> Parsed:
        """Read and check the rows.

        Raises
        ------
        InputRefusedError
            If the file can't be read, or no row of it can be used.
        """
        sheet, decimals, written = self.read(opened)
        extra = [name for name in sheet.header if name not in written]
        frame = typed(sheet, PROFILE_COLUMNS, decimals)
        check(sheet, frame, PROFILE_COLUMNS)
        frame = name_rows(frame, hints)
        values, ignored = _metrics(sheet, extra, decimals)
        _check(sheet, frame, values)
        good = frame.loc[sheet.good().index]
        if good.empty:
            first = sheet.rejected().iloc[0]
            raise InputRefusedError(
                f"none of {sheet.rows_read} rows can be used, the first because {first['column']} {first['reason']}",
                "Compare the table with the template.",
                Where(opened.name, int(first["line"]), first["column"]),
            )
        metrics = {name: metric(name) for name in values}
        solo, warnings = solo_rows(good)
        if not decimals.sure:
            warnings.append(f"the decimal mark is not certain: {decimals.reason}")
        kernels = good[good["kernel"] != ""]
        if len(kernels) and kernels["duration_us"].isna().any():
            warnings.append("some kernels have no duration: stall shares over them can't be weighted by time")
        return Parsed(
            format=self.name,
            era="Parquet" if sheet.delimiter == "Parquet" else None,
            rows_read=sheet.rows_read,
            rejected=sheet.rejected(),
            frames={
                "workload": workloads(good),
                "solo": solo,
                "feature": _features(good[good["kernel"] == ""], values, metrics),
                **_kernels(kernels, values, metrics),
            },
            report={
                "encoding": opened.encoding,
                "separator": sheet.delimiter,
                "decimal_mark": decimals.mark,
                "decimal_reason": decimals.reason,
                **sheet.skipped,
                "columns": written,
                "metrics": [found.name for found in metrics.values()],
                "columns_not_read": ignored,
            },
            warnings=tuple(warnings),
        )


def _metrics(sheet: Sheet, extra: Sequence[str], decimals: Decimals) -> tuple[dict[str, pd.Series[float]], list[str]]:
    """Take the columns in which every filled cell but a few is a number; the others are names or remarks."""
    values: dict[str, pd.Series[float]] = {}
    ignored = []
    for name in extra:
        text = sheet.cells[name]
        empty = text.str.casefold().isin(["", "n/a", "na", "nan", "-"])
        parsed = {cell: decimals.number(cell) for cell in set(text[~empty])}
        numbers = text.map(parsed).astype(float)
        wrong = numbers.isna() & ~empty
        if not name or wrong.sum() * 2 > (~empty).sum() or empty.all():
            ignored.append(name)
            continue
        sheet.reject(wrong.index[wrong], name, "isn't a number")
        values[name] = numbers
    return values, ignored


def _check(sheet: Sheet, frame: pd.DataFrame, values: dict[str, pd.Series[float]]) -> None:
    sheet.reject(frame.index[frame["workload"] == ""], "workload", "is empty, and so is the model")
    sheet.reject(frame.index[frame["gpu"] == ""], "gpu", "is empty")
    measured = frame[["solo_throughput", "solo_time", "peak_memory_mib", "duration_us"]].notna().any(axis=1)
    for numbers in values.values():
        measured |= numbers.notna()
    sheet.reject(frame.index[~measured & (frame["kernel"] == "")], None, "holds no figure")
    whole = frame[frame["kernel"] == ""]
    again = whole.index[whole.duplicated(["workload", "gpu"])]
    sheet.reject(again, "workload", "has figures of the whole workload a second time on this GPU")


def _kernels(
    rows: pd.DataFrame, values: dict[str, pd.Series[float]], metrics: dict[str, Metric]
) -> dict[str, pd.DataFrame]:
    if rows.empty:
        return {}
    launch = pd.Series(range(len(rows)), index=rows.index)
    kernel = pd.DataFrame(
        {
            "launch": launch,
            "workload": rows["workload"],
            "gpu": rows["gpu"],
            "launch_id": launch.astype(str),
            "name": rows["kernel"],
            "short_name": rows["kernel"].map(short_name),
            "grid": rows["grid"].mask(rows["grid"] == "", None),
            "block": rows["block"].mask(rows["block"] == "", None),
            "invocations": rows["invocations"].fillna(1).astype("int64"),
            "duration_ns": rows["duration_us"] * 1e3,
            "line": rows.index,
        }
    )
    blocks = [
        pd.DataFrame(
            {
                "launch": launch, "line": rows.index, "section": "own table", "metric": metrics[name].name,
                "unit": metrics[name].base, "value": numbers.reindex(rows.index) * metrics[name].factor,
                "family": metrics[name].family, "reason": metrics[name].reason,
            }
        ).dropna(subset=["value"])
        for name, numbers in values.items()
    ]  # fmt: skip
    frames = {"kernel": kernel.reset_index(drop=True)}
    if blocks:
        frames["kernel_metric"] = pd.concat(blocks, ignore_index=True)
    return frames


def _features(rows: pd.DataFrame, values: dict[str, pd.Series[float]], metrics: dict[str, Metric]) -> pd.DataFrame:
    blocks = [
        pd.DataFrame(
            {
                "workload": rows["workload"], "gpu": rows["gpu"], "name": metrics[name].name,
                "value": numbers.reindex(rows.index), "unit": metrics[name].unit,
            }
        ).dropna(subset=["value"])
        for name, numbers in values.items()
    ]  # fmt: skip
    columns = ["workload", "gpu", "name", "value", "unit"]
    return pd.concat(blocks, ignore_index=True) if blocks else pd.DataFrame(columns=columns)
