"""Small co-run tables, written by the tests themselves."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from analysis.store.database import Database
from analysis.store.loader import SourceInfo, load
from analysis.store.parsed import Parsed

Run = Mapping[str, Any]
Loader = Callable[..., int]


@pytest.fixture
def coruns(database: Database) -> Loader:
    """Load runs given as ``{"members": [("a", 1.2), ("b", None)], "mechanism": ..., ...}`` and so on."""

    def _load(
        runs: Sequence[Run],
        *,
        dataset: str = "own",
        gpu: str = "V100",
        solos: Mapping[str, float] | None = None,
        name: str = "coruns.csv",
        memory: Mapping[str, float] | None = None,
        report: Mapping[str, Any] | None = None,
        set_aside: Mapping[str, int] | None = None,
        simulated: bool = False,
    ) -> int:
        run_rows, member_rows = [], []
        for number, run in enumerate(runs):
            members = run["members"]
            outcome = run.get("outcome", "ran")
            run_rows.append(
                {
                    "run": number,
                    "external_id": str(number),
                    "gpu": run.get("gpu", gpu),
                    "mechanism": run.get("mechanism", "CUDA MPS"),
                    "k": len(members),
                    "outcome": outcome,
                    "line": number + 2,
                }
            )
            for slot, member in enumerate(members):
                workload, slowdown = member[0], member[1]
                extra = member[2] if len(member) > 2 else {}
                member_rows.append(
                    {
                        "run": number,
                        "slot": slot,
                        "workload": workload,
                        "outcome": extra.get("outcome", "did_not_run" if outcome == "did_not_run" else "ran"),
                        "measure": "throughput",
                        "slowdown": slowdown,
                        "solo_value": extra.get("solo_value"),
                        "corun_value": extra.get("corun_value"),
                        "thread_percentage": extra.get("thread_percentage"),
                        "memory_cap_mib": extra.get("memory_cap_mib"),
                        "mig_profile": extra.get("mig_profile"),
                        "peak_memory_mib": extra.get("peak_memory_mib"),
                        "memory_kind": extra.get("memory_kind"),
                        "p99_solo_ms": extra.get("p99_solo_ms"),
                        "p99_corun_ms": extra.get("p99_corun_ms"),
                        "flags": extra.get("flags", []),
                    }
                )
        frames: dict[str, pd.DataFrame] = {}
        if run_rows:
            member_frame = pd.DataFrame(member_rows)
            numbers = [
                "slowdown", "solo_value", "corun_value", "thread_percentage", "memory_cap_mib", "peak_memory_mib",
                "p99_solo_ms", "p99_corun_ms",
            ]  # fmt: skip
            member_frame[numbers] = member_frame[numbers].astype(float)
            for column in ("mig_profile", "memory_kind"):
                member_frame[column] = member_frame[column].astype("string")
            frames = {"run": pd.DataFrame(run_rows), "member": member_frame}
        if solos:
            frames["solo"] = pd.DataFrame(
                {
                    "workload": list(solos),
                    "gpu": gpu,
                    "measure": "throughput",
                    "unit": "it/s",
                    "value": list(solos.values()),
                    "peak_memory_mib": [(memory or {}).get(w) for w in solos],
                    "memory_kind": ["nvidia-smi" if w in (memory or {}) else None for w in solos],
                }
            ).astype({"peak_memory_mib": float, "memory_kind": "string"})
        parsed = Parsed(
            format="own-corun",
            rows_read=len(member_rows) + sum((set_aside or {}).values()),
            set_aside=set_aside or {},
            frames=frames,
            report=report or {},
        )
        return load(
            database,
            parsed,
            SourceInfo(dataset=dataset, file_name=name, sha256=f"{dataset}/{name}", size=1, simulated=simulated),
        )

    return _load


@pytest.fixture
def kace_pairs(datasets: Path) -> list[dict[str, Any]]:
    """The public V100 pairs, read here with pandas alone."""
    table = pd.read_csv(datasets / "kace_pairs.csv")
    return [
        {
            "members": [
                (row["workload1"], row["w1exclusive_throughput"] / row["w1throughput"]),
                (row["workload2"], row["w2exclusive_throughput"] / row["w2throughput"]),
            ],
            "gpu": "V100-32GB",
        }
        for row in table.to_dict("records")
    ]
