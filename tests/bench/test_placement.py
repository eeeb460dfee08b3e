"""How long large plans take, and how far from the best they may be."""

from __future__ import annotations

import time

import numpy as np
import pytest

from analysis.plan.problem import GpuKind, Job, Problem
from analysis.plan.sets import of_matrix
from analysis.plan.solve import Plan, solve


def _plan(count: int, gpus: int, k: int = 2, seed: int = 0, time_limit: float = 60.0) -> tuple[Plan, float, float]:
    draw = np.random.default_rng(seed)
    names = [f"w{number:04d}" for number in range(count)]
    hurts, suffers = draw.random(count), draw.random(count)
    slow = 1 + np.outer(suffers, hurts) + 0.1 * draw.random((count, count))
    jobs = tuple(Job(name, name, memory_mib=float(draw.uniform(1000, 12000))) for name in names)
    problem = Problem(jobs, (GpuKind("G", gpus, 20_480.0),), k=k, over_limit=True)
    figures = of_matrix(names, slow)
    wall, cpu = time.perf_counter(), time.process_time()
    found = solve(problem, figures, time_limit=time_limit)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    print(f"{count} jobs on {gpus} GPUs: {found.considered:,} sets, gap {found.gap} %, {cpu:.1f} CPU s, {wall:.1f} s")
    return found, wall, cpu


def test_200_jobs_on_100_gpus() -> None:
    found, _, cpu = _plan(200, 100)
    assert found.gap is not None
    assert found.gap <= 0.01
    assert not found.waiting
    # Three CPU seconds on a quiet machine; the bar here leaves room for a busy one.
    assert cpu < 12


@pytest.mark.long
def test_1000_jobs_on_500_gpus() -> None:
    found, _, _ = _plan(1000, 500)
    assert found.gap is not None
    assert found.gap < 1
    assert not found.stopped
    assert len(found.waiting) <= 5
