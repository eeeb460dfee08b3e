"""Cells of the matrix equal what plain Python computes from the runs, and every kind of gap keeps its own look."""

from __future__ import annotations

import json
import random
import statistics

import numpy as np
import pytest

from analysis.errors import NotFoundError, UsageError
from analysis.interference.cell import cell
from analysis.interference.matrix import slowdown_matrix
from analysis.interference.matrix_order import ORDERS, order
from analysis.store.database import Database

SOLOS = {"a": 10.0, "b": 20.0, "c": 30.0, "d": 40.0}


def _at(matrix, victim, aggressor, values="slowdown"):
    return getattr(matrix, values)[matrix.workloads.index(victim), matrix.workloads.index(aggressor)]


def test_rows_are_slowed_and_columns_slow(database: Database, coruns) -> None:
    coruns([{"members": [("a", 1.5), ("b", 1.1)]}], solos=SOLOS)
    matrix = slowdown_matrix(database, "own", "V100")
    assert matrix.workloads == ("a", "b", "c", "d")
    assert _at(matrix, "a", "b") == 1.5
    assert _at(matrix, "b", "a") == 1.1
    assert _at(matrix, "a", "b", "stp") == _at(matrix, "b", "a", "stp") == pytest.approx(1 / 1.5 + 1 / 1.1)
    assert _at(matrix, "a", "b", "antt") == pytest.approx(1.3)
    assert _at(matrix, "a", "b", "fairness") == pytest.approx(1.1 / 1.5)


def test_each_gap_has_its_own_state(database: Database, coruns) -> None:
    runs = [
        {"members": [("a", 1.5), ("b", 1.1)]},
        {"members": [("a", None), ("c", None)], "outcome": "did_not_run"},
        {"members": [("a", 1.2), ("d", None, {"outcome": "did_not_run"})], "outcome": "partial"},
        {"members": [("b", None, {"flags": ["hard_coded"]}), ("c", 1.3)]},
        {"members": [("b", 1.0, {"flags": ["clipped"]}), ("d", 1.3)]},
    ]
    coruns(runs, solos=SOLOS)
    matrix = slowdown_matrix(database, "own", "V100")
    assert _at(matrix, "a", "b", "state") == "measured"
    assert _at(matrix, "a", "c", "state") == "did_not_run"
    assert _at(matrix, "a", "d", "state") == "did_not_run"  # alone for most of the run, so no slowdown of a pair
    assert np.isnan(_at(matrix, "a", "d"))
    assert _at(matrix, "b", "c", "state") == "flagged"
    assert np.isnan(_at(matrix, "b", "c"))
    assert _at(matrix, "c", "b", "state") == "measured"
    assert (_at(matrix, "b", "d", "state"), _at(matrix, "b", "d")) == ("flagged", 1.0)
    assert _at(matrix, "c", "d", "state") == "not_measured"


def test_repeats_are_their_median_and_the_diagonal_the_mean_of_both(database: Database, coruns) -> None:
    runs = [{"members": [("a", s), ("b", 1.0)]} for s in (1.1, 1.9, 1.2)]
    runs += [{"members": [("a", 1.4), ("a", 1.8)]}, {"members": [("a", 2.0), ("a", 2.2)]}]
    coruns(runs, solos=SOLOS)
    matrix = slowdown_matrix(database, "own", "V100")
    assert _at(matrix, "a", "b") == 1.2
    assert (_at(matrix, "a", "b", "low"), _at(matrix, "a", "b", "high")) == (1.1, 1.9)
    assert _at(matrix, "a", "b", "runs") == 3
    assert _at(matrix, "a", "a") == pytest.approx((1.6 + 2.1) / 2)
    assert _at(matrix, "a", "a", "runs") == 2
    assert matrix.n == 5


def test_a_pair_that_ran_once_and_failed_once_counts_the_run(database: Database, coruns) -> None:
    failed = {"members": [("a", None), ("b", None)], "outcome": "did_not_run"}
    coruns([failed, {"members": [("a", 1.5), ("b", 1.1)]}], solos=SOLOS)
    matrix = slowdown_matrix(database, "own")
    assert (_at(matrix, "a", "b", "state"), _at(matrix, "a", "b"), _at(matrix, "a", "b", "runs")) == (
        "measured",
        1.5,
        1,
    )


def test_triples_are_not_pairs(database: Database, coruns) -> None:
    coruns([{"members": [("a", 3.0), ("b", 3.0), ("c", 3.0)]}], solos=SOLOS)
    matrix = slowdown_matrix(database, "own")
    assert matrix.n == 0
    assert set(matrix.state.ravel()) == {"not_measured"}


def test_mechanisms_are_never_mixed(database: Database, coruns) -> None:
    runs = [{"members": [("a", 1.5), ("b", 1.1)]}, {"members": [("a", 1.4), ("c", 1.1)]}]
    coruns([*runs, {"members": [("a", 2.5), ("b", 2.0)], "mechanism": "time-slicing"}], solos=SOLOS)
    matrix = slowdown_matrix(database, "own", "V100")
    assert matrix.mechanism == "CUDA MPS"
    assert _at(matrix, "a", "b") == 1.5
    assert "time-slicing" in matrix.notes[0]
    sliced = slowdown_matrix(database, "own", "V100", "Time-Slicing")
    assert _at(sliced, "a", "b") == 2.5
    assert sliced.notes == ()


def test_runs_without_caps_count_where_both_exist(database: Database, coruns) -> None:
    half = {"thread_percentage": 50.0}
    runs = [
        {"members": [("a", 1.5), ("b", 1.1)]},
        {"members": [("a", 2.5, half), ("b", 2.0, half)]},
        {"members": [("a", 2.4, half), ("c", 2.0, half)]},
    ]
    coruns(runs, solos=SOLOS)
    matrix = slowdown_matrix(database, "own")
    assert _at(matrix, "a", "b") == 1.5
    assert _at(matrix, "a", "c") == 2.4
    assert "Left out: 1 run with" in matrix.notes[0]
    assert "Shown: 1 run with" in matrix.notes[0]


def test_flagged_workloads_mark_their_row(database: Database, coruns) -> None:
    names = list("abcdefgh")
    pairs = [(x, y) for i, x in enumerate(names) for y in names[i + 1 :]]
    value = {name: 0.5 if name == "c" else 1.2 for name in names}
    coruns([{"members": [(x, value[x]), (y, value[y])]} for x, y in pairs])
    matrix = slowdown_matrix(database, "own")
    assert matrix.flagged == {"c"}
    assert _at(matrix, "c", "a", "state") == "flagged"
    assert _at(matrix, "c", "a") == 0.5
    assert _at(matrix, "a", "c", "state") == "measured"
    without = slowdown_matrix(database, "own", include_flagged=False)
    assert np.isnan(_at(without, "c", "a"))
    assert np.isnan(_at(without, "a", "c"))
    assert _at(without, "a", "b") == 1.2


def test_json_has_null_for_no_value(database: Database, coruns) -> None:
    coruns([{"members": [("a", 1.5), ("b", 1.1)]}], solos=SOLOS)
    document = json.loads(json.dumps(slowdown_matrix(database, "own", "V100").to_json(), allow_nan=False))
    assert document["slowdown"][0][:2] == [None, 1.5]
    assert document["state"][0][:2] == ["not_measured", "measured"]
    assert document["n"] == 1


def test_cell_gives_both_members_of_its_runs(database: Database, coruns) -> None:
    coruns([{"members": [("b", 1.1), ("a", 1.5)]}, {"members": [("a", 1.7), ("c", 1.1)]}], solos=SOLOS)
    members = cell(database, "own", "V100", None, "a", "b")
    assert members[["workload", "role", "slowdown"]].values.tolist() == [["b", "beside it", 1.1], ["a", "slowed", 1.5]]
    assert cell(database, "own", "V100", None, "c", "b").empty
    with pytest.raises(NotFoundError, match="'nobody'"):
        cell(database, "own", "V100", None, "nobody", "b")


def test_unknown_and_ambiguous_names_are_refused(database: Database, coruns) -> None:
    coruns([{"members": [("a", 1.5), ("b", 1.1)]}], gpu="V100-16GB")
    coruns([{"members": [("a", 1.5), ("b", 1.1)]}], gpu="V100-32GB", name="second.csv")
    assert slowdown_matrix(database, "own", "V100-32GB").gpu == "V100-32GB"
    with pytest.raises(UsageError, match="several GPUs"):
        slowdown_matrix(database, "own", "V100")
    with pytest.raises(NotFoundError, match="V100-16GB"):
        slowdown_matrix(database, "own", "K80")
    with pytest.raises(NotFoundError, match="CUDA MPS"):
        slowdown_matrix(database, "own", "V100-32GB", "MIG")
    with pytest.raises(NotFoundError, match="no data set"):
        slowdown_matrix(database, "other")


@pytest.mark.parametrize("by", ORDERS)
def test_every_order_is_a_permutation_even_with_gaps(database: Database, coruns, by: str) -> None:
    coruns([{"members": [("a", 1.5), ("b", 1.1)]}, {"members": [("c", 3.0), ("b", 1.1)]}], solos=SOLOS)
    matrix = slowdown_matrix(database, "own")
    assert sorted(order(matrix, by)) == [0, 1, 2, 3]


def test_orders_put_first_what_they_promise(database: Database, coruns) -> None:
    coruns([{"members": [("a", 1.5), ("b", 1.1)]}, {"members": [("c", 3.0), ("b", 1.2)]}], solos=SOLOS)
    matrix = slowdown_matrix(database, "own")
    assert matrix.workloads[order(matrix, "sensitivity")[0]] == "c"
    assert matrix.workloads[order(matrix, "pressure")[0]] == "b"
    turned = matrix.reordered(order(matrix, "sensitivity"))
    assert _at(turned, "c", "b") == 3.0
    assert turned.workloads[0] == "c"


def test_clusters_put_like_beside_like(database: Database, coruns) -> None:
    kind = {"a1": 3.0, "b1": 1.1, "a2": 3.1, "b2": 1.15, "a3": 2.9, "b3": 1.05}
    names = list(kind)
    pairs = [(x, y) for i, x in enumerate(names) for y in names[i:]]
    coruns([{"members": [(x, kind[x]), (y, kind[y])]} for x, y in pairs])
    matrix = slowdown_matrix(database, "own")
    sequence = "".join(matrix.workloads[i][0] for i in order(matrix, "cluster"))
    assert sequence in ("aaabbb", "bbbaaa")


def test_twenty_cells_of_the_public_v100_pairs(database: Database, coruns, kace_pairs) -> None:
    names = sorted({name for run in kace_pairs for name, _ in run["members"]})
    coruns(kace_pairs, dataset="kace", gpu="V100-32GB", solos=dict.fromkeys(names, 1.0))
    matrix = slowdown_matrix(database, "kace", "V100")
    assert len(matrix.workloads) == 21
    assert matrix.n == 181
    by_cell: dict[tuple[str, str], list[float]] = {}
    for run in kace_pairs:
        (x, sx), (y, sy) = run["members"]
        if x == y:
            by_cell.setdefault((x, x), []).append((sx + sy) / 2)
        else:
            by_cell.setdefault((x, y), []).append(sx)
            by_cell.setdefault((y, x), []).append(sy)
    for victim, aggressor in random.Random(7).sample(sorted(by_cell), 20):
        assert _at(matrix, victim, aggressor) == pytest.approx(statistics.median(by_cell[victim, aggressor]))
    assert (~np.isnan(matrix.slowdown)).sum() == len(by_cell)
