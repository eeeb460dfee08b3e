"""A campaign of all pairs: n workloads, each beside each and beside itself, as an own co-run table.

`plain` is what a benchmark of growth reads; `awkward` has what makes answers differ: repeats, runs that failed, capped
clients, baselines that are off, marks, unknown peaks, and sets of three.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

GPU, MECHANISM = "A100-40GB", "CUDA MPS"


def names(count: int) -> list[str]:
    """Return names of workloads as files write them."""
    models = ("resnet50", "bert", "vit", "gpt2", "lstm", "unet", "dlrm")
    return [f"{models[at % len(models)]}-{at:04d}" for at in range(count)]


def plain(count: int, path: Path, seed: int = 0) -> int:
    """Write every pair of ``count`` workloads, n (n + 1) members; return the number of members."""
    draw = np.random.default_rng(seed)
    name = np.array(names(count), dtype=object)
    solo, peak = draw.uniform(50, 2000, count).round(1), draw.uniform(1500, 24_000, count).round(0)
    hurts, suffers = draw.uniform(0.0, 1.0, count), draw.uniform(0.0, 1.0, count)
    first, second = np.triu_indices(count)
    own = np.column_stack([first, second]).ravel()
    beside = np.column_stack([second, first]).ravel()
    slow = np.maximum(1.0 + suffers[own] * hurts[beside] + draw.normal(0.0, 0.01, len(own)), 0.985)
    run = np.repeat(np.arange(len(first)), 2)
    table = pd.DataFrame(
        {
            "run_id": run,
            "gpu": GPU,
            "mechanism": MECHANISM,
            "workload": name[own],
            "solo_throughput": solo[own],
            "corun_throughput": (solo[own] / slow).round(4),
            "unit": "samples/s",
            "peak_memory_mib": peak[own],
            "memory_kind": "nvidia-smi",
        }
    )
    table.to_csv(path, index=False)
    return len(table)


def awkward(count: int, path: Path, seed: int = 1) -> int:
    """Write pairs and triples of ``count`` workloads with everything that an answer must mind; return the members."""
    draw = np.random.default_rng(seed)
    name = names(count)
    solo = draw.uniform(50, 2000, count).round(1)
    peak: list[float | None] = [float(value) for value in draw.uniform(1500, 24_000, count).round(0)]
    for at in range(0, count, 7):
        peak[at] = None
    hurts, suffers = draw.uniform(0.0, 1.0, count), draw.uniform(0.0, 1.0, count)
    off = np.ones(count)
    off[3], off[4] = 0.7, 1.6  # baselines that are wrong
    rows: list[dict[str, object]] = []
    number = 0

    def add(jobs: list[int], *, cap: float | None = None, failed: tuple[int, ...] = (), round_to: int = 4) -> None:
        nonlocal number
        number += 1
        for slot, own in enumerate(jobs):
            others = [job for place, job in enumerate(jobs) if place != slot]
            slow = 1.0 + suffers[own] * float(hurts[others].sum()) + draw.normal(0.0, 0.02)
            slow = max(slow, 0.9) * off[own] * (1.3 if cap else 1.0)
            out = slot in failed
            rows.append(
                {
                    "run_id": number,
                    "gpu": GPU,
                    "mechanism": MECHANISM if number % 11 else "time-slicing",
                    "workload": name[own],
                    "solo_throughput": solo[own],
                    "corun_throughput": None if out else round(solo[own] / slow, round_to),
                    "unit": "samples/s",
                    "peak_memory_mib": peak[own],
                    "memory_kind": ("nvidia-smi", "reserved", "allocated")[own % 3],
                    "thread_percentage": cap,
                    "outcome": "did_not_run" if out else "ran",
                    "p99_solo_ms": 10.0 if own % 2 else None,
                    "p99_corun_ms": round(10.0 * slow, 3) if own % 2 and not out else None,
                }
            )

    for first in range(count):
        for second in range(first, count):
            dice = draw.random()
            if dice < 0.1:
                continue
            if dice < 0.16:
                add([first, second], failed=(0, 1) if dice < 0.13 else (1,))
                if dice < 0.14:
                    add([first, second])
                continue
            for _ in range(1 + (dice > 0.7) + (dice > 0.85)):
                add([first, second])
            if dice > 0.9:
                add([second, first], cap=50.0)
        if first % 5 == 2:
            add([first, (first + 1) % count], cap=30.0)
    for _ in range(3 * count):
        add([int(job) for job in draw.integers(0, count, 3)], failed=(0,) if draw.random() < 0.1 else ())
    table = pd.DataFrame(rows)
    table.loc[table.index % 37 == 5, "corun_throughput"] = table["solo_throughput"]
    out = table["outcome"] == "did_not_run"
    table.loc[out, "corun_throughput"] = None
    table.to_csv(path, index=False)
    return len(table)
