"""The simulator against the literature, and the guide's table against the simulator."""

from __future__ import annotations

import pytest

from analysis.settings import asset
from analysis.sharing.plausibility import Row, markdown, table


@pytest.fixture(scope="module")
def rows() -> list[Row]:
    return table()


def test_every_comparison_holds(rows: list[Row]) -> None:
    print("\n" + markdown(rows))
    assert [row.claim for row in rows if not row.holds] == []
    assert len(rows) >= 3


def test_the_guide_prints_what_is_computed(rows: list[Row]) -> None:
    guide = asset("data", "guide", "simulator.md").read_text(encoding="utf-8")
    assert markdown(rows) in guide
