"""What training the default predictor costs as workloads grow: time, peak memory, and the exponent between them.

All pairs of n workloads ran on one GPU, two members a pair. Run with ``-m long -n 0 -s``; a thousand workloads are
added with ``STALLSCOPE_BENCH_LARGE=1``, as they take minutes.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from analysis.store.database import Database
from analysis.store.loader import SourceInfo, load
from analysis.store.parsed import Parsed

pytestmark = pytest.mark.long

#: Largest exponent of the time in workloads, and MiB that training may take.
MOST_EXPONENT, MOST_MEMORY = 2.2, 2048

#: Trains in a process of its own and prints processor seconds and peak memory.
PROGRAM = """
import json, resource, sys, time
from pathlib import Path
from analysis.predict.models import models
from analysis.store.database import Database
with Database(Path(sys.argv[1])) as database:
    models.train(database, "many")
used = resource.getrusage(resource.RUSAGE_SELF)
print(json.dumps({"seconds": used.ru_utime + used.ru_stime, "memory": used.ru_maxrss / 1024}))
"""


def many(database: Database, n: int, dataset: str = "many") -> None:
    """Load all pairs of n workloads, a fifth as many models, with hidden traits beside the measured ones."""
    lot = np.random.default_rng(n)
    model = lot.integers(0, max(n // 5, 4), n)
    traits = lot.normal(size=(int(model.max()) + 1, 6))[model] + 0.4 * lot.normal(size=(n, 6))
    hidden = 0.2 * lot.normal(size=(n, 4))
    names = np.array([f"m{number:03d}-w{place:04d}" for place, number in enumerate(model)], dtype=object)
    i, j = np.triu_indices(n)
    own, other = np.stack([i, j], axis=1).ravel(), np.stack([j, i], axis=1).ravel()
    demand = np.maximum(0.0, traits[own, 2] + traits[other, 3] + hidden[own, 2] + hidden[other, 3])
    level = 0.25 * np.tanh(traits[own, 0]) + 0.25 * np.tanh(traits[other, 1]) + hidden[own, 0] + hidden[other, 1]
    slowdown = np.exp(0.4 + 0.5 * level + 0.08 * demand + 0.02 * lot.standard_t(4, len(own)))
    runs = len(i)
    run = pd.DataFrame({"run": np.arange(runs), "gpu": "V100-32GB", "mechanism": "CUDA MPS", "k": 2, "outcome": "ran",
                        "external_id": np.arange(runs).astype(str)})  # fmt: skip
    member = pd.DataFrame(
        {
            "run": np.repeat(np.arange(runs), 2), "slot": np.tile([0, 1], runs), "workload": names[own],
            "outcome": "ran", "measure": "throughput", "unit": "it/s", "slowdown": slowdown, "flags": [[]] * len(own),
        }
    )  # fmt: skip
    measured = {
        "sm%": 50 + 15 * traits[:, 0], "DRAM Throughput": 40 + 12 * traits[:, 1],
        "Compute (SM) Throughput": 40 + 12 * traits[:, 2], "ave_Kernel_Length": np.exp(4 + 0.5 * traits[:, 3]),
        "Threads": np.exp(12 + 0.5 * traits[:, 4]),
    }  # fmt: skip
    feature = pd.concat(
        [
            pd.DataFrame({"workload": names, "gpu": "V100-32GB", "name": name, "unit": None,
                          "value": np.clip(values, 1.0, 99.0 if "%" in name or "put" in name else None)})
            for name, values in measured.items()
        ],
        ignore_index=True,
    )  # fmt: skip
    solo = pd.DataFrame({"workload": names, "gpu": "V100-32GB", "measure": "throughput", "unit": "it/s",
                         "value": np.exp(2 + 0.4 * traits[:, 5]), "peak_memory_mib": np.exp(8 + 0.4 * traits[:, 4]),
                         "memory_kind": "nvidia-smi"})  # fmt: skip
    workload = pd.DataFrame({"name": names, "family": [f"f{number % 12}" for number in model],
                             "batch_size": 2 ** lot.integers(0, 6, n), "phase": "training"})  # fmt: skip
    frames = {"workload": workload, "run": run, "member": member, "solo": solo, "feature": feature}
    parsed = Parsed(format="own-corun", rows_read=runs, frames=frames)
    load(database, parsed, SourceInfo(dataset=dataset, file_name=f"{n}", sha256=f"{n}", size=1, simulated=False))


def test_training_grows_with_workloads(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sizes = [100, 300, *([1000] if os.environ.get("STALLSCOPE_BENCH_LARGE") else [])]
    one_thread = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    used = []
    for n in sizes:
        path = tmp_path / f"{n}.duckdb"
        with Database(path) as database:
            many(database, n)
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM, str(path)], env={**os.environ, **one_thread}, capture_output=True,
            text=True, check=True,
        )  # fmt: skip
        used.append(json.loads(done.stdout.splitlines()[-1]))
    seconds = [one["seconds"] for one in used]
    exponents = np.diff(np.log(seconds)) / np.diff(np.log(sizes))
    with capsys.disabled():
        for n, one in zip(sizes, used, strict=True):
            print(f"\ntrain, {n:,} workloads: {one['seconds']:.1f} CPU s, {one['memory']:,.0f} MiB at most", end="")
        print(f"\nexponents in workloads: {', '.join(f'{one:.2f}' for one in exponents)}")
    assert max(exponents) <= MOST_EXPONENT
    assert max(one["memory"] for one in used) <= MOST_MEMORY
