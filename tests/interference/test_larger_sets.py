"""Sets of three and more: metrics by hand, composition of pairs, and one more job on the GPU."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from analysis.errors import NotFoundError, UsageError
from analysis.ingest.importer import import_paths
from analysis.interference.decision import Forecast
from analysis.interference.joining import COMPOSED_SET, MEASURED_SET, PREDICTED_SET, joining
from analysis.interference.matrix import slowdown_matrix
from analysis.interference.sets import by_k, compose, composition, composition_errors, measured_sets
from analysis.store.database import Database

SOLOS = {"a": 10.0, "b": 20.0, "c": 30.0, "d": 40.0}
RUNS = [
    {"members": [("a", 1.2), ("b", 1.5)]},
    {"members": [("a", 1.1), ("c", 1.4)]},
    {"members": [("b", 1.3), ("c", 2.0)]},
    {"members": [("a", 1.5), ("a", 1.7)]},
    {"members": [("a", 1.3), ("d", 1.1)]},
    {"members": [("c", 2.6), ("a", 1.4), ("b", 1.9)]},
    {"members": [("b", None), ("a", None), ("d", None)], "outcome": "did_not_run"},
]


def _row(table, partner):
    return table[table["partner"] == partner].iloc[0]


def test_a_set_of_three_by_hand(database: Database, coruns) -> None:
    coruns(RUNS, solos=SOLOS)
    sets = measured_sets(database, "own", "V100").set_index("jobs")
    one = sets.loc[[("a", "b", "c")]].iloc[0]
    assert one["slowdowns"] == (1.4, 1.9, 2.6)
    assert one["stp"] == pytest.approx(1 / 1.4 + 1 / 1.9 + 1 / 2.6)
    assert one["antt"] == pytest.approx(5.9 / 3)
    assert one["fairness"] == pytest.approx(1.4 / 2.6)
    assert one["worst"] == 2.6
    assert sets.loc[[("a", "a")]].iloc[0]["slowdowns"] == (1.6, 1.6)
    failed = sets.loc[[("a", "b", "d")]].iloc[0]
    assert (failed["ran"], failed["failed"]) == (0, 1)
    table = by_k(sets.reset_index()).set_index("k")
    assert table.loc[3, ["sets", "did_not_run"]].tolist() == [1, 1]
    assert table.loc[3, "antt"] == pytest.approx(5.9 / 3)


def test_pairs_are_added_and_multiplied(database: Database, coruns) -> None:
    coruns(RUNS, solos=SOLOS)
    matrix = slowdown_matrix(database, "own")
    assert compose(matrix, ("a", "b", "c")) == pytest.approx((1 + 0.2 + 0.1, 1 + 0.5 + 0.3, 1 + 0.4 + 1.0))
    assert compose(matrix, ("a", "b", "c"), "product") == pytest.approx((1.2 * 1.1, 1.5 * 1.3, 1.4 * 2.0))
    assert compose(matrix, ("a", "a", "b"))[0] == pytest.approx(1 + 0.6 + 0.2)
    assert math.isnan(compose(matrix, ("a", "b", "d"))[1])  # b and d never met
    members = composition(matrix, measured_sets(database, "own"))
    assert len(members) == 3
    errors = composition_errors(members).set_index("how")
    added = [1.3 / 1.4 - 1, 1.8 / 1.9 - 1, 2.4 / 2.6 - 1]
    assert errors.loc["additive", "mape"] == pytest.approx(-100 * sum(added) / 3)
    assert errors.loc["additive", "bias"] == pytest.approx(100 * sum(added) / 3)


def test_one_more_is_measured_else_predicted_else_composed(database: Database, coruns) -> None:
    coruns(RUNS, solos=SOLOS, memory=dict.fromkeys(SOLOS, 2000.0), gpu="V100-16GB")
    table = joining(database, "own", "V100", None, ["a", "b"], limit=3.0)
    c = _row(table, "c")
    assert (c["basis"], c["worst"], c["verdict"], bool(c["safe"])) == (MEASURED_SET, 2.6, "share", True)
    assert c["slowdowns"] == (1.4, 1.9, 2.6)
    assert c["stp_gain"] == pytest.approx(c["stp"] - (1 / 1.2 + 1 / 1.5))
    assert _row(table, "d")["evidence"] == "did not run"
    a = _row(table, "a")
    assert (a["basis"], a["verdict"], bool(a["safe"])) == (COMPOSED_SET, "measure first", False)
    assert _row(table, "b")["basis"] == "none"  # b was never measured beside itself
    asked = []

    def guess(sets):
        asked.extend(sets)
        return [Forecast((1.1,) * len(one)) for one in sets]

    told = joining(database, "own", "V100", None, ["a", "b"], limit=3.0, guess=guess)
    assert ("a", "b", "c") not in asked
    assert (_row(told, "b")["basis"], bool(_row(told, "b")["safe"])) == (PREDICTED_SET, False)


def test_what_ran_fits_and_nothing_else_joins_with_memory_unknown(database: Database, coruns) -> None:
    coruns(RUNS, solos=SOLOS)
    c = _row(joining(database, "own", "V100", None, ["a", "b"], limit=3.0), "c")
    assert (c["verdict"], c["memory"]) == ("share", "fits"), "these three ran together"
    never = joining(database, "own", "V100", None, ["a", "a"], limit=3.0)
    assert not never[never["memory"] == "unknown"]["safe"].any()
    assert (never["memory"] == "unknown").any()
    with pytest.raises(UsageError):
        joining(database, "own", "V100", None, ["a"], limit=0.5)
    with pytest.raises(NotFoundError):
        joining(database, "own", "V100", None, ["zz"], limit=2)


def test_public_triples_against_their_pairs(database: Database, datasets: Path) -> None:
    import_paths(database, [datasets / "kace_pairs.csv", datasets / "kace_triples_raw.csv"], dataset="kace")
    sets = measured_sets(database, "kace")
    members = composition(slowdown_matrix(database, "kace"), sets)
    assert len(members) == 651
    errors = composition_errors(members).set_index("how")
    assert errors["members"].tolist() == [589, 589]
    assert errors.loc["additive", "mape"] == pytest.approx(11.9, abs=0.2)
    assert errors.loc["product", "mape"] == pytest.approx(11.7, abs=0.2)
    assert by_k(sets).set_index("k").loc[3, ["sets", "did_not_run"]].tolist() == [400, 89]
