"""Matrices and stall tables that charts are drawn from, made without a database."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest

from analysis.interference.matrix import SlowdownMatrix
from analysis.reference import stall_reasons

HOSTILE = '<script>alert(1)</script> "quoted" $x^2$ [b](http://x) \u202e=cmd' + "very_long_name_" * 30


def make_matrix(
    slowdown: np.ndarray, names: list[str] | None = None, state: np.ndarray | None = None
) -> SlowdownMatrix:
    size = len(slowdown)
    names = names or [f"job {i}" for i in range(size)]
    if state is None:
        state = np.where(np.isnan(slowdown), "not_measured", "measured")
    other = slowdown.T
    return SlowdownMatrix(
        dataset="own", gpu="A100-40GB", mechanism="CUDA MPS", workloads=tuple(names), families=("f",) * size,
        slowdown=slowdown, low=slowdown, high=slowdown, state=state.astype("<U12"),
        runs=(~np.isnan(slowdown)).astype(np.int64), stp=1 / slowdown + 1 / other, antt=(slowdown + other) / 2,
        fairness=np.minimum(slowdown, other) / np.maximum(slowdown, other), p99=np.full_like(slowdown, np.nan),
        jain=(slowdown + other) ** 2 / (2 * (slowdown**2 + other**2)), worst=np.maximum(slowdown, other),
        failed=np.zeros((size, size), dtype=np.int64), capped=np.zeros((size, size), dtype=np.bool_),
        flagged=frozenset(), n=3, sources=1, simulated=False,
    )  # fmt: skip


@pytest.fixture
def matrix() -> Callable[..., SlowdownMatrix]:
    return make_matrix


@pytest.fixture
def shares() -> pd.DataFrame:
    """Two kernels: one with all cycles accounted for, one with a quarter open."""
    rows = []
    for kernel, accounted, parts in (
        ("gemm", 100.0, {"long_scoreboard": 60.0, "wait": 30.0, "selected": 10.0}),
        (HOSTILE, 75.0, {"barrier": 70.0, "not_selected": 5.0}),
    ):
        for reason, share in parts.items():
            rows.append(
                {
                    "dataset": "own", "workload": "bert", "gpu": "V100", "kernel": kernel, "short_name": kernel,
                    "grid": "(1, 1, 1)", "block": "(32, 1, 1)", "stall_family": "per_issue_active", "reason": reason,
                    "group": stall_reasons.group_of(reason), "share": share, "cycles": share / 10,
                    "accounted": accounted, "total": 10.0, "launches": 1, "simulated": False,
                }
            )  # fmt: skip
    return pd.DataFrame(rows)


@pytest.fixture
def hostile() -> str:
    return HOSTILE
