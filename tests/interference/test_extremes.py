"""Slowdowns that no sharing explains are findings; sound ones are not."""

from __future__ import annotations

import pytest

from analysis.interference.checks import RULES
from analysis.store.database import Database


@pytest.mark.parametrize(
    ("slowdowns", "rule"),
    [((11.0, 1.2), "starved"), ((2.0, 2.0), "turn-taking"), ((0.9, 0.95), "too-much-work"), ((1.2, 1.5), None)],
)
def test_each_is_found_and_no_other(database: Database, coruns, slowdowns: tuple[float, float], rule: str) -> None:
    coruns([{"members": [("a", slowdowns[0]), ("b", slowdowns[1])]}], solos={"a": 10.0, "b": 10.0})
    found = [name for name in ("starved", "turn-taking", "too-much-work") if RULES[name](database, "own")]
    assert found == ([rule] if rule else [])
