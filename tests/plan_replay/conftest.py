"""Small truths for replays: made up, so that every figure can be worked out by hand."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from analysis.plan.replay.pairtable import PairTable

Table = Callable[..., PairTable]


@pytest.fixture
def table() -> Table:
    """Make a table of jobs a, b, c ... on GPUs; one slowdown for all pairs unless an array is given."""

    def make(jobs: int = 3, slowdown: float | np.ndarray = 1.3, speeds: tuple[float, ...] = (1.0,)) -> PairTable:
        names = tuple("abcdefgh"[:jobs])
        speed = np.repeat(np.array(speeds)[:, None], jobs, axis=1)
        pairs = np.broadcast_to(np.asarray(slowdown, dtype=float), (len(speeds), jobs, jobs)).copy()
        gpus = tuple(f"G{number}" for number in range(len(speeds)))
        return PairTable(names, gpus, speed, pairs, dataset="made-up", mechanism="CUDA MPS", reference="G0")

    return make
