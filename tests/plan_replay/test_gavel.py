"""Gavel's setting: what was published, and what the replay makes of it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from analysis.ingest.importer import import_paths
from analysis.plan.replay import gavel
from analysis.store.database import Database


def loaded(database: Database, datasets: Path) -> Database:
    reports = import_paths(database, [datasets / "gavel_simulation_throughputs.json"], dataset="gavel-sim")
    assert reports[0].status == "loaded"
    return database


def test_a_light_and_a_full_load_are_as_published(database: Database, datasets: Path) -> None:
    found = gavel.reproduce(loaded(database, datasets), rates=(0.4, 4.8))
    off = {(row["policy"], row["per_hour"]): row["off"] for row in found.rows}
    assert set(off) == {("fifo-best", 0.4), ("fifo-best", 4.8), ("oracle", 4.8)}
    assert abs(off["fifo-best", 0.4]) < 1.0
    assert all(row["within_bar"] for row in found.rows)
    assert not found.kept
    assert "Gavel's setting, reproduced" in gavel.in_words(found)
    assert any("clipped" in note for note in found.notes)


@pytest.mark.skipif(not os.environ.get("STALLSCOPE_SLOW"), reason="minutes; set STALLSCOPE_SLOW=1")
def test_every_published_figure_and_what_predictions_keep(database: Database, datasets: Path) -> None:
    found = gavel.reproduce(loaded(database, datasets))
    assert [row["policy"] for row in found.rows] == ["fifo-best"] * 9 + ["oracle"] * 5
    assert all(row["within_bar"] for row in found.rows)
    assert len(found.kept) == 4
    assert all(row["within_bar"] for row in found.kept)
