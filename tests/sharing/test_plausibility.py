"""The simulator against the literature, and the guide's table against the simulator."""

from __future__ import annotations

import pytest

from analysis.settings import asset
from analysis.sharing.demands import machines
from analysis.sharing.plausibility import Row, costliest_twin, markdown, table


@pytest.fixture(scope="module")
def rows() -> list[Row]:
    return table()


def test_every_comparison_holds(rows: list[Row]) -> None:
    print("\n" + markdown(rows))
    assert [row.claim for row in rows if not row.holds] == []
    assert len(rows) >= 3


def test_a_twin_costs_hardly_more_than_turns_on_any_gpu() -> None:
    most, where, gpus = costliest_twin()
    assert gpus == len(machines()) > 25
    assert 2 < most < 2.1, where


def test_the_guide_prints_what_is_computed(rows: list[Row]) -> None:
    guide = asset("data", "guide", "simulator.md").read_text(encoding="utf-8")
    assert markdown(rows) in guide
