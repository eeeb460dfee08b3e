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


def test_two_data_sets_with_identical_numbers_say_so(database: Database, coruns) -> None:
    runs = [{"members": [("a", 1.1), ("b", 1.2)]}, {"members": [("a", 1.3), ("c", 1.4)]}]
    solos = {"a": 10.0, "b": 20.0, "c": 30.0}
    coruns(runs, solos=solos, dataset="first", name="first")
    coruns(runs, solos=solos, dataset="second", name="second")
    coruns([*runs[:1], {"members": [("a", 1.3), ("c", 1.5)]}], solos=solos, dataset="third", name="third")
    (found,) = RULES["identical-data-sets"](database, "second")
    assert "same numbers as those of data set first" in found.sentence
    assert (found.where, found.count) == ("second", 2)
    assert not RULES["identical-data-sets"](database, "third")
    assert len(RULES["identical-data-sets"](database, None)) == 1
