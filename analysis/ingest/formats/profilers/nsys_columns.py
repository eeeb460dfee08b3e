"""Names of columns in the tables of `nsys stats` and nvprof: all ages, all time units, one meaning."""

from __future__ import annotations

import re

from analysis.ingest.text.blocks import Names
from analysis.ingest.text.units import BaseUnit, base

_UNIT = re.compile(r"^(?P<name>.*?)\s*[\[(](?P<unit>[^()\[\]]*)[\])]$")

#: Plain name -> meaning.
_MEANING = {
    "time": "share", "total time": "total", "instances": "instances", "calls": "instances", "avg": "avg",
    "average": "avg", "med": "median", "median": "median", "min": "min", "minimum": "min", "max": "max",
    "maximum": "max", "stddev": "stddev", "name": "name", "operation": "name", "category": "category", "type": "type",
    "gridxyz": "grid", "blockxyz": "block", "start": "start", "duration": "duration", "corrid": "correlation",
    "correlation_id": "correlation", "grdx": "gx", "grdy": "gy", "grdz": "gz", "blkx": "bx", "blky": "by",
    "blkz": "bz", "grid x": "gx", "grid y": "gy", "grid z": "gz", "block x": "bx", "block y": "by", "block z": "bz",
    "reg/trd": "registers", "registers per thread": "registers", "stcsmem": "static_smem", "static smem": "static_smem",
    "dymsmem": "dynamic_smem", "dynamic smem": "dynamic_smem", "bytes": "bytes", "size": "bytes",
    "throughput": "throughput", "device": "device", "ctx": "context", "context": "context", "strm": "stream",
    "stream": "stream",
}  # fmt: skip

#: Tables that list launches.
TRACE = frozenset({"start", "duration", "gx", "bx", "name"})
#: Tables that list kernels with their times; nvprof's have a type, those of nsys do not.
SUMMARY = frozenset({"share", "total", "instances", "name"})


def meaning(name: str) -> tuple[str, str]:
    """Return what a column means, and its unit as printed.

    Examples
    --------
    >>> meaning("Total Time (ns)"), meaning("Time(%)"), meaning("GrdX")
    (('total', 'ns'), ('share', '%'), ('gx', ''))
    """
    found = _UNIT.match(name.strip())
    plain, unit = (found["name"], found["unit"]) if found else (name.strip(), "")
    return _MEANING.get(plain.strip().casefold(), ""), unit


def meanings(names: Names) -> dict[str, str]:
    """Return meaning -> name as written; of several columns of one meaning the first."""
    out: dict[str, str] = {}
    for name in names:
        key, _ = meaning(name)
        if key:
            out.setdefault(key, name)
    return out


def is_trace(names: Names) -> bool:
    """Say whether these are the columns of a list of launches."""
    return set(meanings(names)) >= TRACE


def is_summary(names: Names) -> bool:
    """Say whether these are the columns of nsys's summary by kernel."""
    found = meanings(names)
    return set(found) >= SUMMARY and "type" not in found


def is_nvprof_summary(names: Names) -> bool:
    """Say whether these are the columns of nvprof's summary: the total is called time, beside its share in percent."""
    found = meanings(names)
    return {"type", "share", "instances", "avg", "name"} <= set(found) and "Time" in names


def time_unit(names: Names, column: str, units: Names | None = None) -> BaseUnit:
    """Return the unit of a column of times: from the row of units, its own name, another time column's, else ns.

    Parameters
    ----------
    names : tuple of str
        All columns.
    column : str
        The one in question.
    units : tuple of str, optional
        The row of units below them.
    """
    candidates = [units[names.index(column)]] if units is not None else []
    candidates += [meaning(column)[1]] + [meaning(name)[1] for name in names]
    for unit in candidates:
        found = base(unit) if unit else None
        if found is not None and found.name == "ns":
            return found
    return BaseUnit("ns")
