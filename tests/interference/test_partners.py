"""Partners are safe only where every member stays within the limit and the memory is known to fit."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from analysis.errors import NotFoundError, UsageError
from analysis.interference.joining import joining
from analysis.interference.matrix import slowdown_matrix
from analysis.interference.memory import UNKNOWN_YET_RAN, comparable, memory_fit, memory_sentence, peaks
from analysis.interference.partners import did_not_run_pairs, safe_partners, sensitivity_and_pressure
from analysis.store.database import Database

SOLOS = {"a": 10.0, "b": 20.0, "c": 30.0, "d": 40.0}
RUNS = [
    {"members": [("a", 1.1), ("b", 1.15)]},
    {"members": [("a", 1.05), ("c", 1.6)]},
    {"members": [("b", None), ("c", None)], "outcome": "did_not_run"},
    {"members": [("a", 1.3), ("a", 1.5)]},
]


def _pair(table, partner):
    rows = table[table["partner"] == partner]
    assert len(rows) == 1
    return rows.iloc[0]


def test_both_members_count_against_the_limit(database: Database, coruns) -> None:
    coruns(RUNS, solos=SOLOS, memory={"a": 4000.0, "b": 5000.0, "c": 5000.0}, gpu="V100-16GB")
    table = safe_partners(database, "own", "V100", limit=1.2, workload="a")
    assert table["partner"].tolist() == ["b", "a", "c", "d"]  # by the worse of the two, the unmeasured last
    assert bool(_pair(table, "b")["safe"])
    assert not _pair(table, "c")["within"]  # a itself is fine, but c pays
    assert _pair(table, "c")["worst"] == 1.6
    assert _pair(table, "d")["state"] == "not_measured"
    assert not table["safe"].iloc[1:].any()


def test_what_ran_fits_and_nothing_else_is_safe_with_memory_unknown(database: Database, coruns) -> None:
    coruns(RUNS, solos=SOLOS, memory={"a": 4000.0}, gpu="V100-16GB")
    found = safe_partners(database, "own", "V100", limit=1.2, workload="a")
    row = _pair(found, "b")
    assert (row["within"], row["safe"], row["memory"]) == (True, True, "fits")
    # No figure stands there, as there is none.
    assert row["sentence"].endswith(UNKNOWN_YET_RAN)
    assert "–" not in row["sentence"]
    assert not found[(found["memory"] == "unknown") & found["safe"].astype(bool)].any(axis=None)


@pytest.mark.parametrize(
    ("peak", "memory", "safe"),
    [
        (4000.0, "fits", True),
        (7500.0, "tight", True),
        (9000.0, "fits", True),
    ],  # it ran: that counts before an estimate
)
def test_memory_decides(database: Database, coruns, peak: float, memory: str, safe: bool) -> None:
    coruns(RUNS, solos=SOLOS, memory=dict.fromkeys(SOLOS, peak), gpu="V100-16GB")
    row = _pair(safe_partners(database, "own", "V100", limit=1.2, workload="a"), "b")
    assert (row["memory"], bool(row["safe"])) == (memory, safe)
    assert row["needed_mib"] == 2 * peak
    # What ran is not said not to fit.
    assert ("ran together, though their peaks" in row["sentence"]) == (peak == 9000.0)


def test_other_kinds_of_peaks_are_said() -> None:
    assert comparable(["nvidia-smi", "nvidia-smi"]) == ""
    assert "lower bound" in comparable(["allocated", "nvidia-smi"])
    assert "not stated" in comparable([None])
    assert memory_sentence("fits", 1024, 4096, ["reserved"]).count("500 MiB") == 1
    assert "ran together" not in memory_sentence("does_not_fit", 9000, 4096)


def test_the_context_of_a_process_is_added_to_what_a_framework_reports() -> None:
    assert memory_fit([8000.0, 8000.0], ["nvidia-smi", "nvidia-smi"], 16384.0) == "tight"
    assert memory_fit([8000.0, 8000.0], ["allocated", "allocated"], 16384.0) == "does_not_fit"


def test_peaks_prefer_the_solo_and_take_the_largest(database: Database, coruns) -> None:
    member = {"peak_memory_mib": 9000.0, "memory_kind": "nvidia-smi"}
    coruns([{"members": [("a", 1.1, member), ("b", 1.1, member)]}], solos=SOLOS, memory={"a": 4000.0})
    found = peaks(database, "own", "V100")
    assert found["peak_memory_mib"].to_dict() == {"a": 4000.0, "b": 9000.0}


def test_all_pairs_are_judged_once(database: Database, coruns) -> None:
    coruns(RUNS, solos=SOLOS)
    table = safe_partners(database, "own", "V100", limit=1.2)
    assert len(table) == 10
    assert did_not_run_pairs(slowdown_matrix(database, "own", "V100")).values.tolist() == [["b", "c"]]
    assert table.set_index(["workload", "partner"]).loc[("b", "c"), "state"] == "did_not_run"


def test_limits_and_names_that_make_no_sense_are_refused(database: Database, coruns) -> None:
    coruns(RUNS, solos=SOLOS)
    with pytest.raises(UsageError, match="at least 1"):
        safe_partners(database, "own", "V100", limit=0.9)
    with pytest.raises(UsageError, match="limit"):
        safe_partners(database, "own", "V100", limit=float("nan"))
    with pytest.raises(NotFoundError, match="'zz'"):
        safe_partners(database, "own", "V100", limit=1.2, workload="zz")


def test_sensitivity_and_pressure_by_hand(database: Database, coruns) -> None:
    coruns(RUNS, solos=SOLOS)
    table = sensitivity_and_pressure(slowdown_matrix(database, "own", "V100")).set_index("workload")
    assert table.loc["a", "suffers"] == pytest.approx(np.median([1.1, 1.05, 1.4]))
    assert table.loc["a", ["suffers_low", "suffers_high"]].tolist() == [1.05, pytest.approx(1.4)]
    assert table.loc["a", "hurts"] == pytest.approx((1.15 + 1.6) / 2)
    assert table.loc["b", "hurts"] == 1.1
    assert (table.loc["b", "partners"], table.loc["b", "failed"]) == (1, 1)
    assert np.isnan(table.loc["d", "suffers"])


def test_public_campaign_at_a_limit(database: Database, coruns, datasets: Path) -> None:
    """Seven partners of Transformer (batch size 16) stay within 1.2 on a V100, none of ResNet-50 (batch size 64)."""
    table = json.loads((datasets / "gavel_oracle_throughputs.json").read_text())["v100"]
    runs = []
    for a in table:
        for b, pair in table[a].items():
            if b == "null" or a > b:
                continue
            if pair[0] == 0:
                runs.append({"members": [(a, None), (b, None)], "outcome": "did_not_run"})
            else:
                runs.append({"members": [(a, table[a]["null"] / pair[0]), (b, table[b]["null"] / pair[1])]})
    coruns(runs, dataset="gavel-oracle", solos={name: row["null"] for name, row in table.items()})
    found = safe_partners(database, "gavel-oracle", "V100", limit=1.2, workload="Transformer (batch size 16)")
    assert int(found["within"].sum()) == 7
    # Nobody published peaks: what ran together fits, and nothing else is safe.
    assert int(found["safe"].sum()) == 7
    assert set(found.loc[found["safe"].astype(bool), "memory"]) == {"fits"}
    none = safe_partners(database, "gavel-oracle", "V100", limit=1.2, workload="ResNet-50 (batch size 64)")
    assert not none["within"].any()
    assert none["worst"].min() == pytest.approx(1.39, abs=0.005)
    assert len(did_not_run_pairs(slowdown_matrix(database, "gavel-oracle", "V100"))) == 23


def test_the_worse_of_a_job_and_its_twin_decides(database: Database, coruns) -> None:
    coruns(RUNS, solos=SOLOS, memory=dict.fromkeys(SOLOS, 1000.0), gpu="V100-16GB")
    row = _pair(safe_partners(database, "own", "V100", limit=1.45, workload="a"), "a")
    assert row["slowdown"] == pytest.approx(1.4), "a cell holds the mean of both"
    assert (row["worst"], bool(row["within"]), bool(row["safe"])) == (1.5, False, False)
    joined = joining(database, "own", "V100", None, ["a"], limit=1.45)
    twin = _pair(joined, "a")
    assert (twin["worst"], bool(twin["within"])) == (1.5, False)


def test_faster_than_alone_is_doubtful_and_never_safe(database: Database, coruns) -> None:
    runs = [
        {"members": [("a", 0.85), ("b", 1.0)]},
        *({"members": [("a", 1.1), (name, 1.1)]} for name in "cd"),
        *({"members": [("b", 1.1), (name, 1.1)]} for name in "cd"),
        {"members": [("c", 1.1), ("d", 1.1)]},
    ]
    coruns(runs, solos=SOLOS, memory=dict.fromkeys(SOLOS, 1000.0), gpu="V100-16GB")
    table = safe_partners(database, "own", "V100", limit=1.2)
    fast = table[(table["workload"] == "a") & (table["partner"] == "b")].iloc[0]
    assert not fast["safe"]
    assert fast["doubtful"]
    assert table["doubtful"].iloc[0] == False, "what is sound comes first"  # noqa: E712 - a numpy bool
    matrix = slowdown_matrix(database, "own", "V100")
    assert not matrix.sound[0, 1]
    assert not matrix.sound[1, 0]
    assert matrix.sound[2, 3]
