"""Writes a binary report of Nsight Compute as a raw page in CSV, through NVIDIA's package `ncu-report`.

Runs as a program of its own, so that a damaged report can end nothing but this process: ``python ncu_report_table.py
REPORT CSV [FOLDER OF THE PACKAGE]``. It imports nothing of StallScope.
"""

from __future__ import annotations

import csv
import math
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

_IDENTITY = ("ID", "Kernel Name", "Block Size", "Grid Size", "CC")
_CC = ("device__attribute_compute_capability_major", "device__attribute_compute_capability_minor")


def write_table(report: Any, target: Path, demangled: int | None = None) -> int:
    """Write the launches of an opened report.

    Parameters
    ----------
    report : ncu_report.IContext
        What `ncu_report.load_report` returns: ranges, each with its launches, each with its metrics.
    target : Path
        The CSV file: names, a row of units, a row a launch; every cell quoted, as ncu does it.
    demangled : int, optional
        The package's constant for demangled names; its default otherwise.

    Returns
    -------
    int
        Number of launches.
    """
    units: dict[str, str] = {}
    for launch in _launches(report):
        for name in launch.metric_names():
            if not units.get(name):
                metric = launch.metric_by_name(name)
                units[name] = (metric.unit() or "") if metric is not None else ""
    count = 0
    with target.open("w", encoding="utf-8", newline="") as file:
        out = csv.writer(file, quoting=csv.QUOTE_ALL, lineterminator="\n")
        out.writerow([*_IDENTITY, *units])
        out.writerow([""] * len(_IDENTITY) + list(units.values()))
        for count, launch in enumerate(_launches(report), start=1):
            cells = {name: _cell(launch.metric_by_name(name)) for name in launch.metric_names()}
            major, minor = (cells.get(name, "") for name in _CC)
            kernel = launch.name() if demangled is None else launch.name(demangled)
            out.writerow(
                [count - 1, kernel, _size(cells, "block"), _size(cells, "grid"), f"{major}.{minor}" if major else ""]
                + [cells.get(name, "") for name in units]
            )
    return count


def _launches(report: Any) -> Iterator[Any]:
    for part in range(report.num_ranges()):
        found = report.range_by_idx(part)
        for place in range(found.num_actions()):
            yield found.action_by_idx(place)


def _cell(metric: Any) -> str:
    """Return a value as text that reads back as the same number; a metric without one is empty."""
    value = metric.value() if metric is not None else None
    if value is None:
        return ""
    if isinstance(value, float):
        return repr(value) if math.isfinite(value) else "n/a"
    return str(value)


def _size(cells: dict[str, str], what: str) -> str:
    sides = [cells.get(f"launch__{what}_dim_{axis}", "") for axis in "xyz"]
    return f"({', '.join(sides)})" if all(sides) else ""


def _main(arguments: list[str]) -> int:
    source, target, *folder = arguments
    sys.path[:0] = folder
    import ncu_report

    report = ncu_report.load_report(source)
    base = getattr(ncu_report, "IAction", None)
    count = write_table(report, Path(target), getattr(base, "NameBase_DEMANGLED", None))
    if not count:
        sys.stderr.write("there is no launch in the report\n")
    return 0 if count else 3


if __name__ == "__main__":
    sys.exit(_main(sys.argv[1:]))
