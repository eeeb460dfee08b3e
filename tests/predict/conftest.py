"""Small data sets with a known law of slowdown, made through the store's own loader."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import combinations_with_replacement
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from analysis.store.database import Database
from analysis.store.loader import SourceInfo, load
from analysis.store.parsed import Parsed

#: (name, family, batch, phase, busy %, DRAM %, SM %, kernel length in us, threads, memory in MiB)
WORKLOADS = [
    ("alpha-b2", "alpha", 2, "inference", 30.0, 15.0, 30.0, 60.0, 1e5, 1500.0),
    ("alpha-b8", "alpha", 8, "inference", 55.0, 25.0, 45.0, 90.0, 2e5, 2500.0),
    ("alpha-b16", "alpha", 16, "training", 80.0, 35.0, 60.0, 150.0, 4e5, 5000.0),
    ("beta-b2", "beta", 2, "inference", 40.0, 45.0, 20.0, 50.0, 3e5, 1800.0),
    ("beta-b8", "beta", 8, "training", 70.0, 70.0, 35.0, 120.0, 6e5, 4200.0),
    ("gamma-b2", "gamma", 2, "training", 60.0, 20.0, 70.0, 200.0, 2e5, 3000.0),
    ("gamma-b8", "gamma", 8, "training", 95.0, 30.0, 85.0, 300.0, 5e5, 9000.0),
    ("delta-b4", "delta", 4, "inference", 20.0, 60.0, 15.0, 40.0, 8e5, 1200.0),
    ("delta-b16", "delta", 16, "training", 90.0, 80.0, 40.0, 250.0, 1e6, 7000.0),
]

FEATURES = ("sm%", "DRAM Throughput", "Compute (SM) Throughput", "ave_Kernel_Length", "Threads")

Law = Callable[[Sequence[str], int], float]


def known_law(jobs: Sequence[str], slot: int) -> float:
    """S grows with the demand beyond the GPU and with the queue behind the others' longer kernels."""
    by_name = {row[0]: row for row in WORKLOADS}
    own = by_name[jobs[slot]]
    others = [by_name[name] for number, name in enumerate(jobs) if number != slot]
    busy = max(own[4] + sum(other[4] for other in others) - 100.0, 0.0) / 100.0
    dram = max(own[5] + sum(other[5] for other in others) - 100.0, 0.0) / 100.0
    queue = np.log1p(sum(other[4] / 100.0 * other[7] for other in others) / own[7])
    return float(1.0 + 0.5 * busy + 0.8 * dram + 0.25 * queue)


def make(
    database: Database,
    *,
    dataset: str = "syn",
    gpu: str = "V100-32GB",
    mechanism: str = "CUDA MPS",
    law: Law = known_law,
    triples: int = 0,
    names: Sequence[str] | None = None,
    features: Sequence[str] = FEATURES,
    simulated: bool = False,
    reverse: bool = False,
    caps: Sequence[float] = (),
) -> None:
    """Load all pairs of the workloads, self pairs too, and some triples; `reverse` swaps the slots of every run.

    With `caps`, runs of two take turns in giving their clients these thread percentages.
    """
    chosen = [row for row in WORKLOADS if names is None or row[0] in names]
    listed = [row[0] for row in chosen]
    sets: list[tuple[str, ...]] = list(combinations_with_replacement(listed, 2))
    sets += list(combinations_with_replacement(listed, 3))[:triples]
    runs, members = [], []
    for run, jobs in enumerate(sets):
        runs.append(
            {"run": run, "gpu": gpu, "mechanism": mechanism, "k": len(jobs), "outcome": "ran", "external_id": str(run)}
        )
        for slot, job in enumerate(jobs):
            members.append(
                {
                    "run": run,
                    "slot": len(jobs) - 1 - slot if reverse else slot,
                    "workload": job,
                    "outcome": "ran",
                    "measure": "throughput",
                    "unit": "it/s",
                    "slowdown": law(jobs, slot),
                    "flags": [],
                    "thread_percentage": caps[(run + slot) % len(caps)] if caps and len(jobs) == 2 else np.nan,
                }
            )
    values = {"sm%": 4, "DRAM Throughput": 5, "Compute (SM) Throughput": 6, "ave_Kernel_Length": 7, "Threads": 8}
    feature = pd.DataFrame(
        [
            {"workload": row[0], "gpu": gpu, "name": name, "value": row[values[name]], "unit": None}
            for row in chosen
            for name in features
        ],
        columns=["workload", "gpu", "name", "value", "unit"],
    )
    solo = pd.DataFrame(
        [
            {
                "workload": row[0], "gpu": gpu, "measure": "throughput", "unit": "it/s", "value": 1000.0 / row[7],
                "peak_memory_mib": row[9], "memory_kind": "nvidia-smi",
            }
            for row in chosen
        ]
    )  # fmt: skip
    workload = pd.DataFrame(
        [{"name": row[0], "family": row[1], "batch_size": row[2], "phase": row[3]} for row in chosen]
    )
    frames = {"workload": workload, "run": pd.DataFrame(runs), "member": pd.DataFrame(members), "solo": solo}
    if len(feature):
        frames["feature"] = feature
    parsed = Parsed(format="own-corun", rows_read=len(runs), frames=frames)
    name = f"{dataset}-{gpu}-{mechanism}-{reverse}"
    load(database, parsed, SourceInfo(dataset=dataset, file_name=name, sha256=name, size=1, simulated=simulated))


@pytest.fixture
def syn(database: Database) -> Database:
    """Nine workloads of four families, all 45 pairs, 30 triples."""
    make(database, triples=30)
    return database


@pytest.fixture(scope="module")
def shared_syn(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    """The same, made once for tests that only read."""
    with Database(tmp_path_factory.mktemp("syn") / "syn.duckdb") as opened:
        make(opened, triples=30)
        yield opened


@pytest.fixture(scope="session")
def real(datasets: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    """The public data sets, read by the project's own importers."""
    from analysis.ingest.importer import import_paths

    files = {
        "kace": ("kace_pairs.csv", "kace_triples_raw.csv", "kace_kernel_lengths.csv"),
        "lucid": ("lucid_single_data.csv", "lucid_colocate_info.csv"),
        "gavel-sim": ("gavel_simulation_throughputs.json",),
        "gavel-oracle": ("gavel_oracle_throughputs.json",),
    }
    with Database(tmp_path_factory.mktemp("real") / "real.duckdb") as opened:
        for name, listed in files.items():
            import_paths(opened, [datasets / file for file in listed], dataset=name)
        yield opened
