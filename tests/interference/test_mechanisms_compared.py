"""The comparison of mechanisms: figures against hand computation, and on the measured Tally table."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from analysis.ingest.importer import import_paths
from analysis.interference.mechanisms import answer, common_sets, compare, summary
from analysis.store.database import Database

HEADER = "run_id,gpu,mechanism,workload,slowdown,p99_solo_ms,p99_corun_ms,thread_percentage,outcome\n"
ROWS = (
    ("1", "CUDA MPS", "serve", "1.25", "10", "30", "", "ran"),
    ("1", "CUDA MPS", "train", "2.0", "", "", "", "ran"),
    ("2", "time-slicing", "serve", "2.0", "10", "20", "", "ran"),
    ("2", "time-slicing", "train", "2.0", "", "", "", "ran"),
    ("3", "CUDA MPS", "serve", "1.6", "10", "50", "50", "ran"),
    ("3", "CUDA MPS", "train", "1.6", "", "", "50", "ran"),
    # Only measured under MPS: nothing to compare.
    ("4", "CUDA MPS", "serve", "1.1", "10", "11", "", "ran"),
    ("4", "CUDA MPS", "other", "1.1", "", "", "", "ran"),
    # Ran under one mechanism only.
    ("5", "CUDA MPS", "train", "1.5", "", "", "", "ran"),
    ("5", "CUDA MPS", "other", "1.5", "", "", "", "ran"),
    ("6", "time-slicing", "train", "", "", "", "", "did_not_run"),
    ("6", "time-slicing", "other", "", "", "", "", "did_not_run"),
)


@pytest.fixture
def runs(database: Database, tmp_path: Path) -> pd.DataFrame:
    path = tmp_path / "mechanisms.csv"
    lines = [",".join((run, "V100-32GB", *rest)) for run, *rest in ROWS]
    path.write_text(HEADER + "\n".join(lines) + "\n")
    reports = import_paths(database, [path])
    assert reports[0].status == "loaded", reports[0]
    return compare(database, "own")


def test_sets_under_one_mechanism_only_stay_out(runs: pd.DataFrame) -> None:
    assert set(runs["jobs"]) == {("serve", "train"), ("other", "train")}


def test_figures_of_a_run(runs: pd.DataFrame) -> None:
    mps = runs[(runs["jobs"] == ("serve", "train")) & (runs["setting"] == "") & (runs["mechanism"] == "CUDA MPS")].iloc[
        0
    ]
    assert mps["stp"] == pytest.approx(0.8 + 0.5)
    assert mps["together"] == pytest.approx(100 / 1.3)
    assert mps["antt"] == pytest.approx(1.625)
    assert mps["fairness"] == pytest.approx(1.25 / 2)
    assert mps["worst"] == 2
    assert mps["p99_inflation"] == pytest.approx(3)


def test_a_share_of_the_sms_is_a_setting_of_its_own(runs: pd.DataFrame) -> None:
    assert set(runs.loc[runs["mechanism"] == "CUDA MPS", "setting"]) == {"", "50 % / 50 %"}
    table = summary(runs).set_index(["mechanism", "setting"])
    assert table.loc[("CUDA MPS", "50 % / 50 %"), "p99_inflation"] == pytest.approx(5)


def test_what_did_not_run_counts_and_has_no_figure(runs: pd.DataFrame) -> None:
    out = runs[runs["outcome"] == "did_not_run"].iloc[0]
    assert pd.isna(out["stp"])
    table = summary(runs).set_index(["mechanism", "setting"])
    assert table.loc[("time-slicing", ""), "did_not_run"] == 1
    assert table.loc[("time-slicing", ""), "sets"] == 1


def test_equal_terms_are_sets_that_ran_everywhere(runs: pd.DataFrame) -> None:
    assert common_sets(runs) == [("V100-32GB", ("serve", "train"))]


def test_the_answer_names_most_done_and_least_latency(runs: pd.DataFrame) -> None:
    only = runs[runs["jobs"] == ("serve", "train")]
    text = answer(summary(only))
    assert text.startswith("CUDA MPS gets most done: 77 min")
    assert "least under time-slicing: 2.00 x" in text
    assert "most under CUDA MPS (50 % / 50 %): 5.00 x" in text


def test_one_set_on_request(runs: pd.DataFrame, database: Database) -> None:
    one = compare(database, "own", "V100-32GB", ("train", "serve"))
    assert set(one["jobs"]) == {("serve", "train")}
    assert compare(database, "own", "A100").empty
    assert compare(database, "nothing").empty


def test_nothing_ran() -> None:
    columns = ["mechanism", "setting", "stp", "together", "p99_inflation"]
    assert "None" in answer(pd.DataFrame([("MIG", "", float("nan"), float("nan"), float("nan"))], columns=columns))


@pytest.fixture
def tally(database: Database, datasets: Path) -> pd.DataFrame:
    reports = import_paths(database, [datasets / "tally_priority_aware_perf.csv"], dataset="tally")
    assert reports[0].status == "loaded"
    return compare(database, "tally")


@pytest.mark.parametrize(
    ("mechanism", "inflation"),
    [("CUDA MPS", 3.90), ("CUDA MPS with priority", 2.96), ("time-slicing", 2.38), ("TGS", 2.77)],
)
def test_tallys_mean_p99_inflation(tally: pd.DataFrame, mechanism: str, inflation: float) -> None:
    row = summary(tally).set_index("mechanism").loc[mechanism]
    assert row["sets"] == 12
    assert row["p99_inflation"] == pytest.approx(inflation, abs=0.005)


def test_tallys_settings_stay_apart(tally: pd.DataFrame) -> None:
    table = summary(tally)
    own = table[table["mechanism"] == "block-level priority (Tally)"]
    assert len(own) == 3
    assert own["setting"].str.contains("latency limit").all()
    assert own["p99_inflation"].min() < 1.1
    assert len(common_sets(tally)) == 12
