"""The white-box predictor beside the others: no training, a column of the frame, no rank where it made the data."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from analysis.charts.explanations import cause_bars
from analysis.errors import NotEnoughDataError, UsageError
from analysis.ingest.bundle import import_bundle
from analysis.ingest.contract.format import Hints
from analysis.ingest.contract.guesses import suggested_workload
from analysis.ingest.importer import import_paths
from analysis.predict.advise.square import predict_pairs
from analysis.predict.evaluate.evaluate import evaluate
from analysis.predict.explain import whitebox_causes
from analysis.predict.explain.explain import explain
from analysis.predict.frame import features, whitebox_sets
from analysis.predict.frame.profiles import collect
from analysis.predict.frame.whitebox_sets import SetQuery, of_members, solve
from analysis.predict.models import modelfile, models, untrained
from analysis.predict.predictors.registry import PREDICTORS
from analysis.predict.predictors.whitebox import SHARES_MODEL
from analysis.report import comparison
from analysis.settings import asset
from analysis.sharing.causes import Cause
from analysis.sharing.whitebox import predict_slowdowns, read_profiles
from analysis.store.database import Database
from analysis.store.filters import Filter
from tests.predict.conftest import make

GPU = "V100-32GB"
JOBS = ("resnet50_bs32_amp_train", "dlrm_bs2048_fp32_train", "bert-base_bs8_amp_train", "ppo-atari_bs256_fp32_train")
OTHER = "dcgan_bs64_fp32_train"


def measured_table(mechanisms: dict[str, int]) -> str:
    """Co-runs of all pairs, so many repeats under each mechanism."""
    lines = ["run_id,gpu,mechanism,workload,slowdown"]
    names = [*JOBS, OTHER]
    run = 0
    for mechanism, repeats in mechanisms.items():
        for _ in range(repeats):
            for first, a in enumerate(names):
                for second, b in enumerate(names[first:], start=first):
                    run += 1
                    slow = 1.2 + 0.05 * first + 0.03 * second + (0.5 if mechanism == "time-slicing" else 0.0)
                    lines += [f"{run},{GPU},{mechanism},{job},{slow}" for job in (a, b)]
    return "\n".join(lines) + "\n"


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Simulated profiles and co-runs of the sample on one GPU, in the data set ``sample``."""
    path = tmp_path_factory.mktemp("white") / "white.duckdb"
    with Database(path) as database:
        for name in (f"profiles_{GPU}.zip", "coruns.csv.gz"):
            import_bundle(
                database,
                asset("data", "samples", name),
                lambda inner: Hints(suggested_workload(inner)[0], GPU, "sample"),
            )
    return path


@pytest.fixture
def simulated(file: Path, tmp_path: Path) -> Database:
    shutil.copy(file, tmp_path / "x.duckdb")
    with Database(tmp_path / "x.duckdb") as database:
        yield database


def test_the_column_is_the_models_own_answer_and_empty_unless_asked_for(simulated: Database) -> None:
    plain = features.build(simulated, "sample", [GPU], ["CUDA MPS"])
    assert plain.X["white_box"].isna().all()
    solved = features.build(simulated, "sample", [GPU], ["CUDA MPS"], white_box=True)
    others = [name for name in solved.schema.names if name != "white_box"]
    pd.testing.assert_frame_equal(plain.X[others], solved.X[others])
    profiles = read_profiles(simulated, Filter(datasets=("sample",)))
    rows = solved.rows[(solved.rows["k"] == 2) & (solved.X["own_thread_percentage"] == 1)].head(40)
    said = predict_slowdowns(profiles, [(row.workload, *row.others) for row in rows.itertuples()], GPU)
    assert len(rows) == 40
    assert solved.X.loc[rows.index, "white_box"].to_numpy() == pytest.approx([np.log(one[0]) for one in said], abs=1e-5)
    # A share of the SMs changes the answer: the same pairs ran with and without.
    capped = solved.X["own_thread_percentage"] < 1
    assert capped.any()
    assert solved.X.loc[capped, "white_box"].notna().all()
    assert solved.schema["white_box"].what == "white box"
    assert solved.X["white_box"].notna().mean() > 0.99
    assert (solved.X["white_box"].dropna() >= 0).all()


def test_it_is_left_out_of_rankings_on_simulated_data(simulated: Database) -> None:
    names = ["white-box", "boosting-white-box", "effects"]
    found = evaluate(simulated, "sample", "unseen-pair", predictors=names, gpu=GPU)
    rows = {row["predictor"]: row for row in found.rows}
    assert rows["effects"]["status"] == "ok"
    for name in names[:2]:
        assert rows[name]["status"] == SHARES_MODEL
        assert rows[name]["mape"] is None
        assert name not in set(found.predictions["predictor"])
    assert any("simulated data" in note and "no rank" in note for note in found.notes)
    assert SHARES_MODEL in comparison.missing_inputs(found.summary())
    # Several mechanisms: one of them, and said.
    assert found.mechanisms == ["CUDA MPS"]
    assert any("never pooled" in note for note in found.notes)


def test_only_it_and_its_boosting_read_the_column() -> None:
    reading = {
        name for name, spec in PREDICTORS.items()
        if hasattr(spec.make(), "candidates") and "white_box" in spec.make().candidates()
    }  # fmt: skip
    assert reading == {"boosting-white-box"}
    assert {name for name, spec in PREDICTORS.items() if spec.white_box} == {"white-box", "boosting-white-box"}


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same profiles as if a GPU had been measured, beside a table of co-runs under two mechanisms."""
    folder = tmp_path_factory.mktemp("measured")
    file = folder / "coruns.csv"
    file.write_text(measured_table({"CUDA MPS": 2, "time-slicing": 1}))
    path = folder / "x.duckdb"
    with Database(path) as database:
        import_bundle(
            database, asset("data", "samples", f"profiles_{GPU}.zip"),
            lambda inner: Hints(suggested_workload(inner)[0], GPU, "own"),
        )  # fmt: skip
        # What the profiles say is what counts here, not where they came from.
        with database.write() as connection:
            for table in ("dataset", "source"):
                connection.execute(f"UPDATE {table} SET simulated = FALSE")
        report = import_paths(database, [file])[0]
        assert report.status == "loaded", report.error
    return path


@pytest.fixture
def own(measured: Path, tmp_path: Path) -> Database:
    shutil.copy(measured, tmp_path / "x.duckdb")
    with Database(tmp_path / "x.duckdb") as database:
        yield database


def test_on_measured_data_it_has_a_figure_and_learns_nothing(own: Database) -> None:
    found = evaluate(own, "own", "unseen-pair", predictors=["white-box"], gpu=GPU)
    row = next(row for row in found.rows if row["predictor"] == "white-box")
    assert row["status"] == "ok"
    assert row["mape"] > 0
    assert found.mechanisms == ["CUDA MPS"]
    # Whatever was measured, its figure for a set is the same.
    frame = features.build(own, "own", [GPU], ["CUDA MPS"], white_box=True)
    first, second = (PREDICTORS["white-box"].make().fit(frame.X, y).predict(frame.X) for y in (frame.y, -frame.y))
    assert np.array_equal(first, second)
    boosted = PREDICTORS["boosting-white-box"].make().fit(frame.X, frame.y)
    assert "white_box" in boosted.columns_
    assert modelfile.to_bytes(boosted)
    card = models.train(own, "own", "white-box", gpu=GPU)
    assert card.columns == ["white_box"]
    assert card.mechanisms == ["CUDA MPS"]
    assert any("never pooled" in note for note in card.notes)
    sliced = models.train(own, "own", "effects", mechanism="TIME-SLICING")
    assert sliced.mechanisms == ["time-slicing"]
    assert sliced.notes == []


def test_it_answers_without_a_single_co_run(own: Database) -> None:
    with own.write() as connection:
        connection.execute("DELETE FROM member")
        connection.execute("DELETE FROM run")
    card = untrained.card(own, "own")
    assert (card.runs, card.gpus, card.notes) == (0, [GPU], [])
    found = models.predict(own, "white-box:own", "V100", JOBS[:2])
    said = predict_slowdowns(read_profiles(own, Filter(datasets=("own",))), [JOBS[:2]], GPU)[0]
    assert [one.slowdown for one in found] == pytest.approx(said)
    assert found[0].low is None
    assert found[0].verdict == "measure first"
    told = explain(own, "white-box:own", GPU, JOBS[:2])[0]
    assert {one.whose for one in told.contributions} == {"co-runners"}
    assert told.additivity_error < 1e-6
    square = predict_pairs(own, "white-box:own", GPU, "CUDA MPS", list(JOBS))
    assert square.values.slowdown[0, 1] == pytest.approx(said[0])
    with pytest.raises(NotEnoughDataError, match="needs: stall profiles"):
        models.predict(own, "white-box:own", "A100", JOBS[:2])
    with pytest.raises(UsageError, match="DATASET"):
        models.predict(own, "white-box", GPU, JOBS[:2])


def test_without_stall_profiles_it_has_no_figure(database: Database) -> None:
    make(database)
    found = evaluate(database, "syn", "unseen-pair", predictors=["white-box", "boosting-white-box"])
    for row in found.rows:
        if row["predictor"] in ("white-box", "boosting-white-box"):
            assert (row["status"], row["mape"]) == ("needs: stall profiles", None)
    assert features.build(database, "syn", white_box=True).X["white_box"].isna().all()
    assert untrained.available(database, "syn") == []
    with pytest.raises(NotEnoughDataError, match="needs: stall profiles"):
        models.train(database, "syn", "white-box")


def test_order_repeats_and_what_is_not_known(own: Database) -> None:
    table = whitebox_sets.attach(collect(own, "own"), own, "own")
    pair = SetQuery(GPU, "CUDA MPS", JOBS[:2])
    turned = SetQuery(GPU, "CUDA MPS", JOBS[1::-1])
    ranked = SetQuery(GPU, "CUDA MPS with priority", JOBS[:2], first=(False, True))
    unknown = [
        SetQuery(GPU, "CUDA MPS with priority", JOBS[:2]), SetQuery(GPU, "MIG", JOBS[:2]),
        SetQuery(GPU, "TGS", JOBS[:2]),
        SetQuery(GPU, "CUDA MPS", (JOBS[0], "nobody")), SetQuery("A100-80GB", "CUDA MPS", JOBS[:2]),
        SetQuery(GPU, "CUDA MPS", (*JOBS, OTHER)), SetQuery("no such GPU", "CUDA MPS", JOBS[:2]),
    ]  # fmt: skip
    said = solve(table, [pair, turned, pair, ranked, *unknown])
    assert said[0] == pytest.approx(said[1][::-1], abs=1e-12)
    assert np.array_equal(said[0], said[2])
    assert said[3][1] < said[0][1] < said[0][0] + said[0][1]
    assert said[3][0] > said[0][0]
    assert all(np.isnan(values).all() for values in said[4:])


def test_runs_say_who_got_what() -> None:
    members = pd.DataFrame(
        {
            "run_id": [1, 1, 2, 2, 3, 3],
            "workload": list("abcdef"),
            "gpu": GPU,
            "mechanism": ["CUDA MPS"] * 2 + ["CUDA MPS with priority"] * 2 + ["MIG"] * 2,
            "thread_percentage": [30.0, np.nan, np.nan, np.nan, np.nan, np.nan],
            "priority": [None, None, "best effort", "high", None, None],
            "mig_profile": [None, None, None, None, "1g.10gb", "2g.20gb"],
        }
    )
    assert of_members(members) == [
        SetQuery(GPU, "CUDA MPS", ("a", "b"), (30.0, 100.0)),
        SetQuery(GPU, "CUDA MPS with priority", ("c", "d"), (100.0, 100.0), (False, True)),
        SetQuery(GPU, "MIG", ("e", "f"), profiles=("1g.10gb", "2g.20gb")),
    ]


def test_it_says_who_takes_what_in_figures_that_add_up(own: Database) -> None:
    for jobs, caps in (((JOBS[1], JOBS[1], JOBS[0]), None), ((JOBS[0], JOBS[1]), (30, 70))):
        found = explain(own, "white-box:own", GPU, jobs, "CUDA MPS", caps=caps)
        predicted = models.predict(own, "white-box:own", GPU, jobs, "CUDA MPS", caps=caps)
        for one, said in zip(found, predicted, strict=True):
            assert one.slowdown == pytest.approx(said.slowdown)
            assert one.base + sum(part.shap for part in one.contributions) == pytest.approx(one.prediction, abs=1e-6)
            assert one.method.startswith("exact")
            assert sum(one.by_group.values()) == pytest.approx(one.prediction, abs=1e-6)
            named = re.findall(r"([\w /]+, taken by \w[\w-]*|its own share of the GPU) \(x (\d+\.\d\d)\)", one.sentence)
            assert named
            factors = {part.feature: part.factor for part in one.contributions}
            assert all(f"{factors[name.strip()]:.2f}" == number for name, number in named)
            assert all(factors[name.strip()] > 1.02 for name, _ in named)
        table = whitebox_causes.table(found)
        assert set(table["resource"]) <= whitebox_causes.PARTS
        assert set(table["by"]) <= {*jobs, ""}
        assert "x" in cause_bars(table).layout.meta["alt"]


def test_only_what_is_asked_for_beyond_what_there_is_is_called_so() -> None:
    jobs = ("a", "b")
    over = [Cause("L2 and DRAM bandwidth", 1, 0.3, 0.7, 0.6), Cause("issue slots", 1, 0.001, 0.9, 0.9)]
    assert whitebox_causes.oversubscribed(jobs, over) == (
        "SetQuery for beyond what there is: L2 and DRAM bandwidth, 130 % (itself 70 %, b 60 %)."
    )
    under = [Cause("L2 and DRAM bandwidth", 1, 0.3, 0.3, 0.6)]
    assert "no resource is asked for beyond" in whitebox_causes.oversubscribed(jobs, under)
    assert whitebox_causes.oversubscribed(jobs, [Cause("issue slots", 1, 0.001, 0.9, 0.9)]) == ""
