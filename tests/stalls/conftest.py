"""Small profiles, written by the tests themselves, and a plain reader of real Nsight Compute tables."""

from __future__ import annotations

import csv
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from analysis.reference import stall_reasons
from analysis.store.database import Database
from analysis.store.loader import SourceInfo, load
from analysis.store.parsed import Parsed

ISSUE = "smsp__average_warps_issue_stalled_{}_per_issue_active.ratio"
ISSUE_PCT = "smsp__average_warps_issue_stalled_{}_per_issue_active.pct"
ACTIVE = "smsp__warp_issue_stalled_{}_per_warp_active.pct"
TOTAL = "smsp__average_warps_active_per_issue_active.ratio"


def metric_rows(launches: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    rows = []
    for number, launch in enumerate(launches):
        for name, value in launch.get("metrics", {}).items():
            unit = None
            if isinstance(value, tuple):
                value, unit = value
            resolved = stall_reasons.resolve(name)
            rows.append(
                {
                    "launch": number,
                    "line": len(rows) + 2,
                    "section": "Command line profiler metrics",
                    "metric": name,
                    "unit": unit,
                    "value": value,
                    "family": resolved.family if resolved else None,
                    "reason": resolved.reason if resolved else None,
                }
            )
    return rows


@pytest.fixture
def profile(database: Database) -> Callable[..., int]:
    """Load launches given as ``{"name": ..., "metrics": {name: value or (value, unit)}, "duration_ns": ...}``."""

    def _load(
        launches: Sequence[Mapping[str, Any]],
        *,
        workload: str = "bert",
        gpu: str = "A100-40GB",
        cc: str | None = "8.0",
        dataset: str = "own",
        name: str = "profile.csv",
        rules: Sequence[Mapping[str, Any]] = (),
        format: str = "ncu-long",
        simulated: bool = False,
    ) -> int:
        kernels = pd.DataFrame(
            [
                {
                    "launch": number,
                    "workload": launch.get("workload", workload),
                    "gpu": gpu,
                    "process_id": "1",
                    "launch_id": str(number),
                    "name": launch["name"],
                    "short_name": launch.get("short_name", launch["name"].split("(")[0]),
                    "grid": launch.get("grid"),
                    "block": launch.get("block"),
                    "cc": cc,
                    "invocations": launch.get("invocations", 1),
                    "duration_ns": launch.get("duration_ns"),
                    "line": number + 2,
                }
                for number, launch in enumerate(launches)
            ]
        ).astype({"duration_ns": float, "grid": "string", "block": "string", "cc": "string"})
        frames: dict[str, pd.DataFrame] = {"kernel": kernels}
        rows = metric_rows(launches)
        if rows:
            metrics = pd.DataFrame(rows)
            frames["kernel_metric"] = metrics.astype(
                {"value": float, "unit": "string", "family": "string", "reason": "string"}
            )
        if rules:
            frames["kernel_rule"] = pd.DataFrame(rules)
        parsed = Parsed(format=format, rows_read=len(rows) + len(rules), frames=frames)
        info = SourceInfo(dataset=dataset, file_name=name, sha256=f"{dataset}/{name}", size=1, simulated=simulated)
        return load(database, parsed, info)

    return _load


def read_ncu(path: Path) -> list[dict[str, Any]]:
    """Read a long Nsight Compute table with Python's csv module alone: one dictionary a launch."""
    lines = path.read_text(encoding="utf-8-sig").splitlines()
    start = next(number for number, line in enumerate(lines) if '"Metric Name"' in line)
    launches: dict[tuple[str, str], dict[str, Any]] = {}
    for row in csv.DictReader(lines[start:]):
        if not row["Metric Name"]:
            continue
        launch = launches.setdefault(
            (row["Process ID"], row["ID"]),
            {
                "name": row["Kernel Name"],
                "grid": row.get("Grid Size"),
                "block": row.get("Block Size"),
                "metrics": {},
            },
        )
        if row["Metric Name"].endswith(".max_rate"):
            continue
        try:
            value: float | None = float(row["Metric Value"].replace(",", ""))
        except ValueError:
            value = None
        if row["Metric Name"] == "gpu__time_duration.sum" and row["Metric Unit"] == "nsecond":
            launch["duration_ns"] = value
        launch["metrics"][row["Metric Name"]] = (value, row["Metric Unit"] or None)
    return list(launches.values())


@pytest.fixture
def real(cases: Path) -> Callable[[str], list[dict[str, Any]]]:
    """Read a real export by name."""
    return lambda name: read_ncu(cases / name)
