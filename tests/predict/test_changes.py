"""What would keep every job within a limit: the smallest change, and where none does, the closest."""

from __future__ import annotations

import pytest

from analysis.predict.advise import changes
from analysis.predict.models import models
from analysis.store.database import Database

JOBS = ("gamma-b8", "delta-b16")


def test_changes_keep_the_limit_or_the_closest_is_named(shared_syn: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(models, "CALIBRATED", ())
    card = models.train(shared_syn, "syn", "ridge")
    asked = (shared_syn, card.model_id, "V100", JOBS, "CUDA MPS")
    found = changes.smallest_changes(*asked, 1.6)
    assert found.within
    assert found.closest is None
    assert all(one.worst <= 1.6 for one in found.within)
    assert found.within[0].what in changes.sentence(found, 1.6)
    none = changes.smallest_changes(*asked, 1.0)
    assert none.within == ()
    assert none.closest is not None
    assert none.closest.worst > 1.0
    text = changes.sentence(none, 1.0)
    assert text.startswith("No single change")
    assert f"Closest comes {none.closest.what}: the worst then pays" in text
