"""Writes what was measured as the plain files that StallScope reads: co-run table, solo table, provenance."""

from __future__ import annotations

import csv
import io
import json
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from analysis.capture.corun import RAN
from analysis.capture.journal import Entry

#: 97.5 % quantiles of Student's t for 1 to 30 degrees of freedom; beyond, the normal's 1.96 with a first-order
#: correction is right to three digits.
_T = (
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131,
    2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
)  # fmt: skip


@dataclass(frozen=True)
class Mean:
    """A mean of repeats.

    Attributes
    ----------
    value : float
        Mean.
    low, high : float or None
        95 % confidence interval; None with a single repeat.
    n : int
        Repeats.
    windows : int
        Windows within them, where each had several.
    """

    value: float
    low: float | None
    high: float | None
    n: int
    windows: int = 0


def t_quantile(freedom: int) -> float:
    """Return the 97.5 % quantile of Student's t."""
    return _T[freedom - 1] if freedom <= len(_T) else 1.95996 + 2.37 / freedom


def mean(values: Sequence[float]) -> Mean:
    """Return the mean of some positive values with its interval.

    Ratios and rates vary in proportion, so the interval is one of the geometric mean's logarithm: with a single value
    none can be given.
    """
    if not values:
        raise ValueError("no values")
    logs = [math.log(value) for value in values]
    centre = sum(logs) / len(logs)
    if len(logs) < 2:
        return Mean(values[0], None, None, 1)
    spread = math.sqrt(sum((one - centre) ** 2 for one in logs) / (len(logs) - 1) / len(logs))
    half = t_quantile(len(logs) - 1) * spread
    return Mean(math.exp(centre), math.exp(centre - half), math.exp(centre + half), len(logs))


def slowdown(solo: Sequence[float], corun: Sequence[float]) -> Mean:
    """Return solo rate / co-run rate with its interval, by Welch's t of the difference of logarithms.

    Parameters
    ----------
    solo, corun : sequence of float
        Rates of the repeats alone and in the co-run.

    Returns
    -------
    Mean
        ``n`` is the smaller number of repeats; no interval unless both have two.
    """
    a, b = [math.log(one) for one in solo], [math.log(one) for one in corun]
    centre = sum(a) / len(a) - sum(b) / len(b)
    n = min(len(a), len(b))
    if n < 2:
        return Mean(math.exp(centre), None, None, n)
    parts = []
    for logs in (a, b):
        middle = sum(logs) / len(logs)
        parts.append(sum((one - middle) ** 2 for one in logs) / (len(logs) - 1) / len(logs))
    variance = sum(parts)
    if variance == 0:
        return Mean(math.exp(centre), math.exp(centre), math.exp(centre), n)
    below = sum(part**2 / (len(logs) - 1) for part, logs in zip(parts, (a, b), strict=True))
    half = t_quantile(max(1, int(variance**2 / below))) * math.sqrt(variance)
    return Mean(math.exp(centre), math.exp(centre - half), math.exp(centre + half), n)


#: Columns of the co-run table, beside those of `data/guide/own-tables.md` what each run was made on.
CORUNS = (
    "run_id", "gpu", "mechanism", "slot", "workload", "solo_throughput", "corun_throughput", "unit", "peak_memory_mib",
    "memory_kind", "thread_percentage", "outcome", "note", "corun_peak_memory_mib", "window_s", "started_at", "driver",
    "cuda", "ecc", "mig", "mps_clients", "sm_clock_mhz",
)  # fmt: skip
SOLOS = ("workload", "gpu", "solo_throughput", "unit", "peak_memory_mib", "memory_kind")


def solo_rates(entries: Sequence[Entry]) -> dict[str, list[float]]:
    """Return the throughputs of each job alone, one a start that ran: the mean of its windows."""
    return {name: _by_start(rates) for name, rates in _solo_windows(entries).items()}


def _solo_windows(entries: Sequence[Entry]) -> dict[str, list[tuple[str, float]]]:
    out: dict[str, list[tuple[str, float]]] = {}
    for entry in entries:
        member = entry.measured.members[0]
        if len(entry.names) == 1 and member.rate:
            out.setdefault(entry.names[0], []).append((entry.key, member.rate))
    return out


def _by_start(rates: Sequence[tuple[str, float]]) -> list[float]:
    """Return one rate a start. Windows of one start share what a start decides, so they are no repeats of it."""
    starts: dict[str, list[float]] = {}
    for key, rate in rates:
        # A start's later windows have its number and theirs: "a #1", "a #1.2".
        names, _, number = key.rpartition(" #")
        starts.setdefault(f"{names} #{number.partition('.')[0]}", []).append(rate)
    return [mean(some).value for some in starts.values()]


def slowdowns(entries: Sequence[Entry]) -> list[dict[str, Any]]:
    """Return the slowdown of every job of every set, with its interval over the starts.

    Returns
    -------
    list of dict
        set, slot, workload, slowdown, low, high (None with fewer than two starts of the set or of the job alone),
        repeats (starts), windows (of all starts), corun (rate), solo, unit, notes.
    """
    solos = solo_rates(entries)
    grouped: dict[tuple[str, int], list[Entry]] = {}
    for entry in entries:
        if len(entry.names) > 1:
            for slot in range(len(entry.names)):
                grouped.setdefault((entry.key.rpartition(" #")[0], slot), []).append(entry)
    out = []
    for (key, slot), some in grouped.items():
        members = [entry.measured.members[slot] for entry in some]
        name = members[0].workload
        windows = [(one.key, rate) for one in some if (rate := one.measured.members[slot].rate)]
        rates = _by_start(windows)
        known = solos.get(name)
        found = slowdown(known, rates) if known and rates else None
        out.append(
            {
                "set": key, "slot": slot, "workload": name, "mechanism": some[0].measured.mechanism,
                "slowdown": found.value if found else None, "low": found.low if found else None,
                "high": found.high if found else None, "repeats": len(rates), "windows": len(windows),
                "corun": mean(rates).value if rates else None, "solo": mean(known).value if known else None,
                "unit": members[0].unit, "notes": sorted({one.note for one in members if one.note}),
            }
        )  # fmt: skip
    return out


def solo_means(entries: Sequence[Entry]) -> dict[str, Mean]:
    """Return the mean throughput of each job alone, with its interval over the starts."""
    return {name: replace(mean(_by_start(rates)), windows=len(rates)) for name, rates in _solo_windows(entries).items()}


def write_session(
    folder: Path, entries: Sequence[Entry], session: int, gpu: str, provenance: Mapping[str, Any]
) -> list[Path]:
    """Write the files of one session: what it measured, with solo values of all sessions.

    Returns
    -------
    list of Path
        Those that hold anything.
    """
    own = [entry for entry in entries if entry.session == session]
    files = []
    solos, coruns = _solo_rows(own, gpu), _corun_rows(own, entries, gpu, provenance)
    for name, columns, rows in ((f"solos-{session}.csv", SOLOS, solos), (f"coruns-{session}.csv", CORUNS, coruns)):
        if rows:
            files.append(_replace(folder / name, _csv(columns, rows)))
    if own:
        document = {
            "format": "stallscope-capture", "version": 1, "gpu": gpu, "session": session,
            "provenance": dict(provenance), "slowdowns": slowdowns(entries),
            "runs": [{"key": one.key, **one.measured.to_json()} for one in own],
        }  # fmt: skip
        files.append(_replace(folder / f"provenance-{session}.json", json.dumps(document, indent=1) + "\n"))
    return files


def written(folder: Path) -> list[Path]:
    """Return the files of all sessions in the order in which to import them: jobs alone before sets."""
    kinds = ("solos-*.csv", "coruns-*.csv", "provenance-*.json")
    return [path for kind in kinds for path in sorted(folder.glob(kind))]


def _solo_rows(own: Sequence[Entry], gpu: str) -> list[dict[str, Any]]:
    rows = []
    for name, found in solo_means(own).items():
        members = [one.measured.members[0] for one in own if one.names == (name,)]
        peak, kind = _peak(own, name)
        rows.append(
            {
                "workload": name, "gpu": gpu, "solo_throughput": f"{found.value:.6g}", "unit": members[0].unit,
                "peak_memory_mib": peak, "memory_kind": kind,
            }
        )  # fmt: skip
    return rows


def _corun_rows(
    own: Sequence[Entry], entries: Sequence[Entry], gpu: str, provenance: Mapping[str, Any]
) -> list[dict[str, Any]]:
    solos = solo_means(entries)
    rows = []
    for entry in own:
        measured = entry.measured
        for slot, member in enumerate(measured.members if len(measured.members) > 1 else ()):
            peak, kind = _peak(entries, member.workload)
            solo = solos.get(member.workload)
            # A set in which one did not run was no co-run of that set: the others' figures stand in the provenance.
            ran = measured.ran
            rows.append(
                {
                    "run_id": entry.key, "gpu": gpu, "mechanism": measured.mechanism, "slot": slot,
                    "workload": member.workload, "solo_throughput": f"{solo.value:.6g}" if solo else "",
                    "corun_throughput": f"{member.rate:.6g}" if ran and member.rate else "", "unit": member.unit,
                    "peak_memory_mib": peak, "memory_kind": kind,
                    "thread_percentage": "" if member.percent is None else f"{member.percent:g}",
                    "outcome": RAN if ran else "did_not_run",
                    "note": member.note or ("" if ran else "its run was not complete"),
                    "corun_peak_memory_mib": _blank(member.peak_memory_mib), "window_s": f"{measured.window:.2f}",
                    "started_at": measured.started_at, "driver": _blank(provenance.get("driver")),
                    "cuda": _blank(provenance.get("cuda")), "ecc": _blank(provenance.get("ecc")),
                    "mig": _blank(provenance.get("mig")), "mps_clients": _clients(measured.mps),
                    "sm_clock_mhz": _blank(measured.means.get("clocks.current.sm")),
                }
            )  # fmt: skip
    return rows


def _peak(entries: Sequence[Entry], name: str) -> tuple[str, str]:
    """Return the largest memory of a job alone, and where the figure is from."""
    members = [one.measured.members[0] for one in entries if one.names == (name,)]
    known = [one for one in members if one.peak_memory_mib]
    if not known:
        return "", ""
    most = max(known, key=lambda one: one.peak_memory_mib or 0.0)
    return f"{most.peak_memory_mib:.1f}", most.memory_kind


def _clients(proven: Mapping[str, Any] | None) -> str:
    return "" if proven is None else str(sum(len(some) for some in proven["of"].values()))


def _blank(value: object) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    return "" if value is None else str(value)


def _csv(columns: Sequence[str], rows: Sequence[Mapping[str, Any]]) -> str:
    out = io.StringIO()
    writer = csv.DictWriter(out, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue()


def _replace(path: Path, text: str) -> Path:
    """Write a file so that it is never seen half written."""
    beside = path.with_name(f".{path.name}.part")
    with beside.open("w", encoding="utf-8", newline="") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    beside.replace(path)
    return path
