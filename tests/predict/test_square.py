"""All pairs at once: the same as one by one, whatever the size of a block."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from analysis.predict.advise import square
from analysis.predict.frame import profiles
from analysis.predict.models import models
from analysis.store.database import Database
from tests.predict.conftest import WORKLOADS, make

NAMES = [row[0] for row in WORKLOADS]
GPU, MPS = "V100-32GB", "CUDA MPS"


@pytest.mark.parametrize("predictor", ["ridge", "effects"])
def test_blocks_change_nothing_and_agree_with_single_sets(
    database: Database, monkeypatch: pytest.MonkeyPatch, predictor: str
) -> None:
    make(database, names=NAMES[:8])
    card = models.train(database, "syn", predictor)
    whole = square.predict_pairs(database, card.model_id, GPU, MPS, NAMES[:8]).values
    monkeypatch.setattr(square.blocks_of_pairs, "__defaults__", (24,))
    parts = square.predict_pairs(database, card.model_id, GPU, MPS, NAMES[:8]).values
    for name in ("slowdown", "low", "high"):
        assert getattr(parts, name) == pytest.approx(getattr(whole, name), rel=1e-12, nan_ok=True), name
    for own, beside in ((0, 3), (5, 1)):
        pair = models.predict(database, card.model_id, GPU, [NAMES[own], NAMES[beside]])
        assert whole.slowdown[own, beside] == pytest.approx(pair[0].slowdown, rel=1e-9)
        assert whole.low[own, beside] == pytest.approx(pair[0].low if pair[0].low else np.nan, rel=1e-9, nan_ok=True)


def test_a_block_holds_whole_targets(database: Database) -> None:
    make(database)
    table = profiles.collect(database, "syn")
    found = list(square.blocks_of_pairs(table, GPU, MPS, ["own_threads"], 20))
    assert [targets for targets, _ in found] == [slice(n, min(n + 2, 9)) for n in range(0, 9, 2)]
    joined = pd.concat([X for _, X in found])
    assert len(joined) == 81
    assert list(joined["workload"])[:9] == [str(table.index[0][1])] * 9
    assert "own_threads" in joined
    assert "own_registers" not in joined
