"""All pairs of the sample on one GPU, at once."""

from __future__ import annotations

import time

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from analysis.sharing.simulate import Simulator
from analysis.sharing.workloads import sample_workloads


def test_all_pairs_take_less_than_two_seconds_and_less_than_a_loop() -> None:
    with threadpool_limits(1):
        Simulator("V100", sample_workloads()[:2]).pairs()  # what is read from files once
        begin = time.process_time()
        simulator = Simulator("V100", sample_workloads())
        together = simulator.pairs()
        batch = time.process_time() - begin
        begin = time.process_time()
        single = [simulator.co_run([run.workloads])[0] for run in together]
        loop = time.process_time() - begin
    print(
        f"{len(together)} pairs of {len(simulator.workloads)} workloads: {batch:.2f} s at once, {loop:.2f} s one by one"
    )
    assert len(together) == 300
    assert batch < 2
    assert batch < loop
    for one, other in zip(together, single, strict=True):
        assert one.outcome == other.outcome
        assert np.nan_to_num(one.slowdown) == pytest.approx(np.nan_to_num(other.slowdown), rel=1e-3)
