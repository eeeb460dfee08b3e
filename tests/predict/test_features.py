"""The frame: values by hand, invariance to the order of co-runners, honest gaps, and no way in for a leak."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analysis.errors import NotEnoughDataError, NotFoundError, UsageError
from analysis.predict.frame import features, profiles
from analysis.predict.frame.profiles import step_length_us
from analysis.predict.frame.quantities import QUANTITIES, factor, resolve
from analysis.predict.frame.schema import IDENTITY, FeatureSchema
from analysis.predict.frame.terms import all_terms, schema
from analysis.store.database import Database
from tests.predict.conftest import WORKLOADS, make


def _row(frame: features.TrainingFrame, own: str, others: tuple[str, ...]) -> pd.Series:
    hit = [
        number
        for number, (job, beside) in enumerate(zip(frame.X["workload"], frame.X["others"], strict=True))
        if job == own and beside == others
    ]
    return frame.X.iloc[hit[0]]


def test_columns_of_a_pair_by_hand(shared_syn: Database) -> None:
    frame = features.build(shared_syn, "syn")
    row = _row(frame, "alpha-b8", ("gamma-b8",))
    assert row["own_sm_util"] == pytest.approx(0.55)
    assert row["others_sum_sm_util"] == row["others_max_sm_util"] == pytest.approx(0.95)
    assert row["product_sm_util"] == pytest.approx(0.55 * 0.95)
    assert row["overload_sm_util"] == pytest.approx(0.5)
    assert row["overload_dram_throughput"] == 0.0
    assert row["own_kernel_length"] == pytest.approx(np.log1p(90.0))
    assert row["ratio_kernel_length"] == pytest.approx(np.log1p(300.0) - np.log1p(90.0))
    assert row["fraction_threads"] == pytest.approx(2e5 / 7e5)
    assert row["head_of_line"] == pytest.approx(np.log1p(0.95 * 300.0 / 90.0))
    assert row["own_step_length"] == pytest.approx(np.log1p(1e6 * 90.0 / 1000.0))
    assert row["memory_demand"] == pytest.approx((2500.0 + 9000.0) / 32768.0)
    assert row["k"] == 2
    assert row["mechanism_mps"] == 1
    assert row["mechanism_time_slicing"] == 0
    assert row["own_training"] == 0
    assert row["others_mean_training"] == 1
    assert row["own_thread_percentage"] == 1.0


def test_columns_of_a_triple_by_hand(shared_syn: Database) -> None:
    frame = features.build(shared_syn, "syn")
    row = _row(frame, "alpha-b2", ("alpha-b2", "beta-b8"))
    assert row["k"] == 3
    assert row["others_sum_sm_util"] == pytest.approx(1.0)
    assert row["others_max_sm_util"] == pytest.approx(0.7)
    assert row["overload_sm_util"] == pytest.approx(0.3)
    assert row["others_sum_kernel_length"] == pytest.approx(np.log1p(180.0))
    assert row["others_max_kernel_length"] == pytest.approx(np.log1p(120.0))
    assert row["head_of_line"] == pytest.approx(np.log1p((0.3 * 60 + 0.7 * 120) / 60))
    assert row["others_mean_training"] == pytest.approx(0.5)


def test_every_column_is_documented_and_has_one_owner(shared_syn: Database) -> None:
    frame = features.build(shared_syn, "syn")
    assert list(frame.X.columns) == [*IDENTITY, *frame.schema.names]
    table = frame.schema.table()
    assert not table["name"].duplicated().any()
    assert (table["meaning"].str.len() > 8).all()
    assert (table["unit"].str.len() > 0).all()
    assert set(table["whose"]) == {"target", "co-runners", "pair", "GPU"}
    assert set(table["what"]) == {"stalls", "counters", "duty cycle", "configuration", "white box"}


def test_missing_blocks_are_gaps_not_zeros(shared_syn: Database) -> None:
    frame = features.build(shared_syn, "syn")
    stalls = frame.schema.select(what=["stalls"])
    assert len(stalls) > 50
    assert frame.X[stalls].isna().all().all()
    assert frame.X["own_l2_throughput"].isna().all()


def test_the_order_of_slots_changes_nothing(tmp_path) -> None:
    frames = []
    for reverse in (False, True):
        with Database(tmp_path / f"{reverse}.duckdb") as database:
            make(database, triples=30, reverse=reverse)
            frame = features.build(database, "syn")
            keys = list(zip(frame.rows["run_id"], frame.rows["workload"], frame.rows["others"], strict=True))
            frames.append((keys, frame))
    order = [sorted(range(len(keys)), key=lambda n, keys=keys: keys[n]) for keys, _ in frames]
    left, right = (
        frame.X[frame.schema.names].iloc[rows].to_numpy() for (_, frame), rows in zip(frames, order, strict=True)
    )
    assert np.array_equal(left, right, equal_nan=True)


@settings(max_examples=25, deadline=None)
@given(st.lists(st.sampled_from([row[0] for row in WORKLOADS]), min_size=3, max_size=5))
def test_any_permutation_of_co_runners_gives_the_same_row(shared_syn: Database, jobs: list[str]) -> None:
    table = profiles.collect(shared_syn, "syn")
    own, *others = jobs
    orders = list(permutations(others))[:6]
    X = features.rows_for_sets(table, [(own, *order) for order in orders], "V100-32GB")
    values = X[schema().names].to_numpy()[:: len(jobs)]
    assert (X["workload"].iloc[:: len(jobs)] == own).all()
    for row in values[1:]:
        assert np.array_equal(values[0], row, equal_nan=True)


def test_a_planted_column_is_caught(shared_syn: Database) -> None:
    frame = features.build(shared_syn, "syn")
    assert frame.schema.check(frame.X) is frame.X
    leaking = frame.X.assign(corun_throughput=frame.rows["slowdown"])
    with pytest.raises(UsageError, match="corun_throughput"):
        frame.schema.check(leaking)
    with pytest.raises(UsageError, match="lacks k"):
        frame.schema.check(frame.X.drop(columns="k"))
    with pytest.raises(UsageError, match="no numbers"):
        frame.schema.check(frame.X.assign(k="two"))


def test_nothing_measured_during_a_co_run_reaches_the_frame(tmp_path) -> None:
    """Two campaigns that differ in every co-run value have the same inputs."""
    seen = []
    for number, law in enumerate((lambda jobs, slot: 1.1 + 0.01 * slot, lambda jobs, slot: 3.0 - 0.5 * slot)):
        with Database(tmp_path / f"{number}.duckdb") as database:
            make(database, law=law)
            frame = features.build(database, "syn", include_flagged=True)
            seen.append(frame.X[frame.schema.names].to_numpy())
    assert np.array_equal(seen[0], seen[1], equal_nan=True)


def test_flagged_workloads_are_left_out_with_their_runs(database: Database) -> None:
    def law(jobs, slot):
        return 0.6 if jobs[slot] == "beta-b8" else 1.2

    make(database, law=law)
    frame = features.build(database, "syn")
    assert frame.flagged == {("V100-32GB", "beta-b8")}
    assert frame.left_out == {"flagged workload": 18}
    assert "beta-b8" not in frame.workloads
    assert len(features.build(database, "syn", include_flagged=True)) == 90


def test_what_did_not_run_is_counted_and_never_a_target(database: Database) -> None:
    make(database, names=["alpha-b2", "beta-b2", "gamma-b2"])
    with database.write() as cursor:
        cursor.execute("UPDATE run SET outcome = 'did_not_run' WHERE run_id = 1")
        cursor.execute("UPDATE member SET slowdown = NULL, outcome = 'did_not_run' WHERE run_id = 1")
        cursor.execute("UPDATE member SET slowdown = NULL WHERE run_id = 2 AND slot = 0")
    frame = features.build(database, "syn")
    assert frame.left_out == {"run did not finish": 2, "no target": 1}
    assert len(frame) == 12 - 3
    assert np.isfinite(frame.y).all()


def test_a_slowdown_that_was_clipped_to_one_is_no_target_unless_asked_for(database: Database) -> None:
    make(database, names=["alpha-b2", "beta-b2", "gamma-b2"])
    with database.write() as cursor:
        cursor.execute("UPDATE member SET slowdown = 1.0, flags = ['clipped'] WHERE run_id = 2 AND slot = 0")
    frame = features.build(database, "syn")
    assert frame.left_out == {"clipped to exactly 1": 1}
    assert (len(frame), len(features.build(database, "syn", include_flagged=True))) == (11, 12)
    beside = frame.rows[frame.rows["run_id"] == 2]
    assert len(beside) == 1  # its partner was measured


def test_simulated_and_measured_rows_are_never_mixed(database: Database) -> None:
    make(database, gpu="V100-32GB")
    make(database, gpu="P100", simulated=True)
    frame = features.build(database, "syn")
    assert set(frame.rows["gpu"]) == {"V100-32GB"}
    assert frame.left_out == {"simulated": 90}
    assert not frame.simulated


def test_solo_speed_on_other_gpus_is_a_feature_and_their_co_runs_are_not(database: Database) -> None:
    make(database, gpu="V100-32GB")
    make(database, gpu="P100")
    with database.write() as cursor:
        cursor.execute("UPDATE solo SET value = value / 2 WHERE gpu = 'P100'")
    frame = features.build(database, "syn", ["V100-32GB"])
    assert frame.X["own_speedup_slow"].to_numpy() == pytest.approx(np.full(90, np.log1p(2.0)))


def test_refusals(database: Database) -> None:
    with pytest.raises(NotFoundError, match="no data set 'syn'"):
        features.build(database, "syn")
    make(database, names=["alpha-b2", "beta-b2"])
    with pytest.raises(NotEnoughDataError, match="on K80"):
        features.build(database, "syn", ["K80"])
    with pytest.raises(NotFoundError, match="no workload 'nobody'"):
        features.for_jobs(database, "syn", ["alpha-b2", "nobody"], "V100-32GB")


def test_a_set_that_was_never_run_has_the_same_columns(shared_syn: Database) -> None:
    X = features.for_jobs(shared_syn, "syn", ["alpha-b2", "alpha-b2", "delta-b16", "gamma-b8"], "V100-32GB")
    assert list(X.columns) == [*IDENTITY, *schema().names]
    assert list(X["k"]) == [4.0] * 4
    assert X["others"].iloc[0] == ("alpha-b2", "delta-b16", "gamma-b8")


@pytest.mark.parametrize(
    ("published", "name"),
    [
        ("sm%", "sm_util"), ("mem%", "mem_util"), ("gpu_util", "sm_util"), ("gmem", "peak_memory"),
        ("Compute (SM) Throughput", "compute_throughput"), ("ave_Kernel_Length", "kernel_length"),
        ("long/short_Ratio", "long_short_ratio"), ("PCIe read bandwidth", "pcie_read"),
        ("avg_Thread", "kernel_threads"),
        ("lts__t_sectors.avg.pct_of_peak_sustained_elapsed", "l2_throughput"),
    ],
)  # fmt: skip
def test_published_names_are_resolved(published: str, name: str) -> None:
    found = resolve(published)
    assert found is not None
    assert found.name == name


def test_units_are_brought_to_one() -> None:
    by_name = {quantity.name: quantity for quantity in QUANTITIES}
    assert 45.0 * factor(by_name["sm_util"], "%") == pytest.approx(0.45)
    assert 1.4 * factor(by_name["peak_memory"], "GB") == pytest.approx(1433.6)
    assert 2.0 * factor(by_name["kernel_length"], "ms") == pytest.approx(2000.0)
    assert resolve("loss") is None


def test_step_length_counts_batches_where_the_rate_counts_samples() -> None:
    assert step_length_us("throughput", "samples/s", 100.0, 8) == pytest.approx(80_000.0)
    assert step_length_us("throughput", "it/s", 100.0, 8) == pytest.approx(10_000.0)
    assert step_length_us("time", "ms", 3.0, 8) == pytest.approx(3000.0)
    assert np.isnan(step_length_us("normalised", None, 1.0, 8))


def test_schema_survives_json() -> None:
    assert FeatureSchema.from_json(schema().to_json()) == schema()
    assert len(all_terms()) == len(schema())
