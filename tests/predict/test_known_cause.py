"""Simulated jobs that differ in their DRAM traffic alone: DRAM is blamed. Without contention nothing is blamed."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable
from pathlib import Path

import numpy as np

from analysis.ingest.importer import import_paths
from analysis.predict.explain import explain
from analysis.predict.explain.explanation import causes
from analysis.predict.explain.shapley import contributions
from analysis.predict.frame import features
from analysis.predict.predictors.learners import Boosting
from analysis.sharing.sample import Planned, corun_rows, profile_files
from analysis.sharing.simulate import Simulator
from analysis.sharing.work import Kernel, Workload
from analysis.store.database import Database

GPU, JOBS, CASES = "A100-40GB", 16, 200

#: What speaks of DRAM: its own counters, and what warps wait for when it is full.
MEMORY = {"DRAM and caches", "global/local memory wait", "memory pipe"}


def streamer(number: int, traffic: float) -> Workload:
    """A job whose loads reach DRAM with a given part of their bytes.

    Two blocks on each SM that issue now and then: two such jobs have room beside each other, and nothing but DRAM can
    be full. Lengths, launches and latencies differ by lot, for without them every counter would tell the traffic.
    """
    lot = np.random.default_rng(number)
    kernel = Kernel(
        f"stream_{number}", 216, 256, 32, 0.0, float(lot.uniform(2000, 20000)), math=float(lot.uniform(0.05, 0.4)),
        lsu=0.2, bytes=128.0, l1_hit=0.0, l2_hit=1.0 - traffic, footprint_mib=0.1, parallel_loads=8.0,
        dependency=float(lot.uniform(24.0, 60.0)), fetch=float(lot.uniform(0.0, 4.0)),
    )  # fmt: skip
    return Workload(f"job{number:02}_bs8", ((kernel, int(lot.integers(5, 80))),), host_ms=0.0, memory_mib=2000.0)


def fill(folder: Path, traffic: Callable[[int], float]) -> Path:
    """Write profiles and all pairs under CUDA MPS, and load them."""
    simulator = Simulator(GPU, [streamer(number, traffic(number)) for number in range(JOBS)])
    names = simulator.workloads
    sets = [(a, b) for i, a in enumerate(names) for b in names[i:]]
    rows = corun_rows(simulator, [Planned("pair", run) for run in simulator.co_run(sets)])
    paths = []
    for name, text in profile_files(simulator):
        paths.append(folder / name)
        paths[-1].write_text(text)
    out = io.StringIO()
    writer = csv.DictWriter(out, list(dict.fromkeys(key for row in rows for key in row)))
    writer.writeheader()
    writer.writerows(rows)
    (folder / "coruns.csv").write_text(out.getvalue())
    with Database(folder / "cause.duckdb") as database:
        reports = import_paths(database, [*paths, folder / "coruns.csv"], gpu=GPU, dataset="cause")
        assert {report.status for report in reports} == {"loaded"}, [report.error for report in reports]
    return folder / "cause.duckdb"


def explained(path: Path) -> list[explain.Explanation]:
    """Train once and explain rows with the largest effect first."""
    with Database(path) as database:
        frame = features.build(database, "cause", include_flagged=True)
    fitted = Boosting(max_iter=120).fit(frame.X, frame.y)
    parts = contributions(fitted, frame.X)
    found = explain.explanations(frame.X, parts, fitted.predict(frame.X))
    return sorted(found, key=lambda one: -abs(one.prediction - one.base))


def test_dram_is_blamed_where_it_is_the_cause(tmp_path: Path) -> None:
    found = explained(fill(tmp_path, lambda number: 0.02 + 0.9 * (7 * number % JOBS) / (JOBS - 1)))[:CASES]
    assert len(found) == CASES
    assert np.ptp([one.prediction for one in found]) > 0.1
    right = sum(one.contributions[0].group in MEMORY for one in found)
    tops = {one.contributions[0].feature for one in found}
    assert right >= 0.95 * CASES, (right, tops)
    assert max(one.additivity_error for one in found) < 1e-6


def test_nothing_is_blamed_without_contention(tmp_path: Path) -> None:
    found = explained(fill(tmp_path, lambda number: 0.01))[:CASES]
    named = [one for one in found if any(causes([(part.feature, part.shap) for part in one.contributions]))]
    assert named == []
    assert all("No single feature" in one.sentence for one in found)
