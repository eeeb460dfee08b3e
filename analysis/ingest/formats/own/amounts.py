"""Numbers as people type them into tables: ``35 %``, ``1.35x``, ``1m 20s``, ``00:03:24``, ``132 img/s``."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from analysis.ingest.text.delimited import Sheet

#: Unit of time -> seconds.
FACTORS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "sec": 1.0, "secs": 1.0, "second": 1.0,
            "seconds": 1.0, "m": 60.0, "min": 60.0, "mins": 60.0, "minute": 60.0, "minutes": 60.0, "h": 3600.0,
            "hr": 3600.0, "hrs": 3600.0, "hour": 3600.0, "hours": 3600.0, "d": 86400.0, "day": 86400.0,
            "days": 86400.0}  # fmt: skip
_NUMBER = r"[+-]?\d[\d.,]*(?:[eE][+-]?\d+)?"
_WITH_UNIT = re.compile(rf"[~≈]?\s*({_NUMBER})\s*(%|[x×](?![a-z])|[a-zA-Zµ]+(?:\s?/\s?[a-zA-Zµ]+)?)")
_PART = re.compile(r"(\d+(?:\.\d+)?)\s*([a-zA-Zµ]+)\s*")
_CLOCK = re.compile(r"(?:(\d+):)?(\d{1,2}):(\d{2}(?:\.\d+)?)")
#: Of a column's cells that many must say their unit for the column to be read so.
_MOST = 0.6
#: Cells that say that there is no value.
_NOTHING = frozenset({"-", "--", "n/a", "na", "nan", "none", "null", "oom", "failed", "x"})


@dataclass(frozen=True)
class Written:
    """A column of numbers that say their unit in each cell.

    Attributes
    ----------
    unit : str
        ``%``, ``x`` (a ratio), a unit of time such as ``ms``, or one of throughput such as ``img/s``.
    plain : dict of str to str
        Cell as written -> its number alone, in ``unit``.
    """

    unit: str
    plain: Mapping[str, str]


def seconds(text: str) -> float | None:
    """Return a duration of several parts in seconds; None where the text is none.

    Examples
    --------
    >>> seconds("1m 20s"), seconds("00:03:24"), seconds("2:05")
    (80.0, 204.0, 125.0)
    >>> seconds("3 apples") is None
    True
    """
    clock = _CLOCK.fullmatch(text.strip())
    if clock:
        return float(clock[1] or 0) * 3600 + float(clock[2]) * 60 + float(clock[3])
    rest, total = text.strip(), 0.0
    while rest:
        part = _PART.match(rest)
        if part is None or part[2].casefold() not in FACTORS:
            return None
        total += float(part[1]) * FACTORS[part[2].casefold()]
        rest = rest[part.end() :]
    return total if text.strip() else None


def written(cells: Iterable[str]) -> Written | None:
    """Read a column whose cells state their units.

    Parameters
    ----------
    cells : iterable of str
        Its cells; blank ones, and those that say that there is no value, tell nothing.

    Returns
    -------
    Written or None
        None where most cells are plain numbers, names, or of several kinds. Durations in several units are in seconds.

    Examples
    --------
    >>> written(["35 %", "8.5%", ""])
    Written(unit='%', plain={'35 %': '35', '8.5%': '8.5'})
    >>> written(["80 s", "1m 20s"]).plain["1m 20s"]
    '80.0'
    """
    texts = list(dict.fromkeys(text for text in cells if text and text.casefold() not in _NOTHING))
    found: dict[str, tuple[str, str]] = {}
    for text in texts:
        whole = _WITH_UNIT.fullmatch(text)
        if whole:
            unit = re.sub(r"\s", "", whole[2]).casefold()
            found[text] = (whole[1], "x" if unit == "×" else unit)
    units = Counter(unit for _, unit in found.values())
    times = {text: value for text in texts if (value := seconds(text)) is not None}
    if len(times) >= _MOST * len(texts) and times and not (len(units) == 1 and len(found) == len(times)):
        return Written("s", {text: repr(value) for text, value in times.items()})
    if len(units) != 1 or len(found) < _MOST * len(texts):
        return None
    unit = next(iter(units))
    if unit not in ("%", "x") and unit not in FACTORS and not re.fullmatch(r"[a-zµ]+/(?:s|sec|min|h)", unit):
        return None
    return Written(unit, {text: number for text, (number, _) in found.items()})


def without_units(sheet: Sheet, columns: Sequence[str] | None = None) -> tuple[Sheet, dict[str, str]]:
    """Return a table whose cells are numbers alone where they stated their units, and the units by column.

    Parameters
    ----------
    sheet : Sheet
        Text cells.
    columns : sequence of str, optional
        Only these; all when left out.
    """
    units: dict[str, str] = {}
    cells = sheet.cells
    for name in sheet.header if columns is None else columns:
        if (found := written(sheet.cells[name])) is not None:
            units[name] = found.unit
            cells = cells.assign(**{name: cells[name].map(lambda text, plain=found.plain: plain.get(text, text))})
    return (replace(sheet, cells=cells), units) if units else (sheet, {})
