"""All ordered pairs of a thousand workloads: what the rows around the estimator cost, and how much memory they take."""

from __future__ import annotations

import resource
import time

import numpy as np
import pandas as pd
import pytest

from analysis.predict.advise.square import blocks_of_pairs
from analysis.predict.frame import features, profiles
from analysis.predict.frame.quantities import QUANTITIES
from analysis.predict.models.manifest import used_columns
from analysis.predict.predictors.ensemble import StallScope
from analysis.store.database import Database
from tests.predict.conftest import make

pytestmark = pytest.mark.long

COUNT = 1000
GPU, MPS = "V100-32GB", "CUDA MPS"
GIB = 2**20  # ru_maxrss counts KiB


def test_a_million_pairs(database: Database, capsys: pytest.CaptureFixture[str]) -> None:
    """The estimator's own time and that of the rows are taken on the same blocks, in one run, in CPU seconds."""
    make(database)
    frame = features.build(database, "syn")
    estimator = StallScope().fit(frame.X, frame.y)
    known = profiles.collect(database, "syn")
    draw = np.random.default_rng(0)
    pick = draw.integers(0, len(known), COUNT)
    table = known.iloc[pick].copy()
    names = [f"job-{number}" for number in range(COUNT)]
    table.index = pd.MultiIndex.from_arrays([[GPU] * COUNT, names], names=["gpu", "workload"])
    numbers = [quantity.name for quantity in QUANTITIES]
    table[numbers] = table[numbers].to_numpy() * np.exp(draw.normal(0.0, 0.05, (COUNT, len(numbers))))
    building = predicting = 0.0
    rows = 0
    start = time.process_time()
    for _, X in blocks_of_pairs(table, GPU, MPS, used_columns(estimator)):
        built = time.process_time()
        values = estimator.predict(X)
        done = time.process_time()
        building, predicting = building + built - start, predicting + done - built
        rows += int(np.isfinite(values).sum())
        start = time.process_time()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / GIB
    with capsys.disabled():
        print(f"\n1,000,000 pairs: {building:.1f} CPU s for the rows, {predicting:.1f} to predict, peak {peak:.2f} GiB")
    assert rows == COUNT * COUNT
    assert building <= 1.0 * predicting, "building the rows takes at most as long as predicting them"
    assert peak < 3.0
