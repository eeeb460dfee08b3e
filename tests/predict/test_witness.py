"""The witness: its data hang together, others' simulators may judge the white box, and its chapter's figures hold."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from analysis.errors import UsageError
from analysis.ingest.catalogue import load_dataset
from analysis.ingest.importer import import_paths
from analysis.interference.checks import run_checks
from analysis.predict.evaluate import witness
from analysis.predict.evaluate.evaluate import evaluate
from analysis.predict.frame.profiles import collect
from analysis.predict.frame.whitebox_sets import launches_of
from analysis.predict.models import untrained
from analysis.report.kinds import Wanted, make
from analysis.settings import asset
from analysis.store.database import Database
from analysis.store.queries.sources import own_simulator

GPU = "RTX 2060, a third (GPGPU-Sim 4)"
SCHEDULERS = 40


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    with Database(tmp_path_factory.mktemp("witness") / "x.duckdb") as database:
        load_dataset(database, "witness")
        yield database


@pytest.fixture(scope="module")
def solos() -> pd.DataFrame:
    return pd.read_csv(asset("data", "witness", "profiles.csv"), comment="#").set_index("workload")


@pytest.fixture(scope="module")
def together() -> pd.DataFrame:
    table = pd.read_csv(asset("data", "witness", "coruns.csv"), comment="#")
    others = {run: part["workload"].tolist() for run, part in table.groupby("run_id")}
    table["others"] = [
        tuple(name for place, name in enumerate(others[run]) if place != slot)
        for run, slot in zip(table["run_id"], table["slot"], strict=True)
    ]
    return table.assign(slowdown=table["corun_time"] / table["solo_time"])


def beside(together: pd.DataFrame, job: str, *others: str) -> list[float]:
    return [float(s) for s in together.loc[(together["workload"] == job) & (together["others"] == others), "slowdown"]]


def test_every_pair_of_sixteen_and_a_dozen_triples_are_there_once(together: pd.DataFrame) -> None:
    sets = together.groupby("run_id")["workload"].agg(lambda names: tuple(sorted(names)))
    pairs, triples = [one for one in sets if len(one) == 2], [one for one in sets if len(one) == 3]
    names = sorted(set(together["workload"]))
    assert len(names) == 16
    assert sorted(pairs) == sorted((a, b) for place, a in enumerate(names) for b in names[place:])
    assert len(triples) == len(set(triples)) == 12
    assert together[["solo_time", "corun_time"]].gt(0).all().all()


def test_what_the_files_say_of_a_job_alone_agrees(solos: pd.DataFrame, together: pd.DataFrame) -> None:
    cycles = solos["smsp__cycles_active.avg [cycle]"]
    assert (together.groupby("workload")["solo_time"].nunique() == 1).all()
    assert together.groupby("workload")["solo_time"].first().to_dict() == pytest.approx(cycles.to_dict())
    assert (solos["duration_us"] * 1365).to_numpy() == pytest.approx(cycles.to_numpy(), rel=1e-5)
    # Every issued instruction is counted once, by the schedulers and by the kernel.
    issued = solos["smsp__inst_executed.sum [inst]"] / cycles / SCHEDULERS * 100
    counted = solos["smsp__issue_active.avg.pct_of_peak_sustained_active"]
    assert issued.to_numpy() == pytest.approx(counted.to_numpy(), abs=0.1)
    shares = solos[[name for name in solos if name.startswith("stall_")]]
    assert shares.sum(axis=1).to_numpy() == pytest.approx(100.0, abs=0.02)


def test_two_of_a_kind_take_at_least_what_their_busiest_resource_asks(
    solos: pd.DataFrame, together: pd.DataFrame
) -> None:
    busiest = solos[[
        "smsp__issue_active.avg.pct_of_peak_sustained_active", "dram__throughput.avg.pct_of_peak_sustained_elapsed"
    ]].max(axis=1) / 100  # fmt: skip
    for name, share in busiest.items():
        both = beside(together, str(name), str(name))
        assert len(both) == 2
        assert np.mean(both) >= max(1.0, 2 * share)


def test_first_trials_come_out_again_where_the_committed_columns_tell(
    solos: pd.DataFrame, together: pd.DataFrame
) -> None:
    # Waits at the end of a launch were no reason of their own there.
    alone = solos.filter(like="stall_").div(100 - solos["stall_drain"], axis=0) * 100
    assert alone.at["fma_ilp", "stall_wait"] == pytest.approx(60, rel=0.05)
    assert alone.at["stream", "stall_long_scoreboard"] == pytest.approx(80, rel=0.05)
    assert alone.at["shconf", "stall_short_scoreboard"] == pytest.approx(70, rel=0.05)
    assert beside(together, "fma_ilp", "stream") == pytest.approx([1.06], rel=0.05)
    assert sorted(beside(together, "fma_ilp", "fma_ilp")) == pytest.approx([1.95, 2.02], rel=0.05)


def test_the_data_checks_find_one_member_that_the_chapter_explains(loaded: Database) -> None:
    found = run_checks(loaded, "witness")
    assert [(one.rule, one.count) for one in found] == [("faster-than-alone", 1)]
    chapter = asset("data", "guide", "witness.md").read_text(encoding="utf-8")
    assert "atomk" in chapter
    assert "faster-than-alone" in chapter


def test_others_simulators_may_judge_the_white_box_and_ours_may_not(loaded: Database, tmp_path: Path) -> None:
    assert not own_simulator(loaded, "witness")
    assert untrained.card(loaded, "witness").notes == []
    assert untrained.card(loaded, "witness").simulated
    found = evaluate(loaded, "witness", "unseen-pair", ["white-box"], save=False, calibrate=False)
    row = next(row for row in found.rows if row["predictor"] == "white-box")
    assert found.simulated
    assert row["status"] == "ok"
    assert row["mape"] < next(row["mape"] for row in found.rows if row["predictor"] == "no-interference")
    # By what a file says of itself, not by the name of its data set.
    ours = tmp_path / "ours.csv"
    ours.write_text(
        "# simulated by StallScope: no GPU was involved\n"
        "run_id,gpu,mechanism,workload,slowdown\n1,A100-40GB,CUDA MPS,a,1.2\n1,A100-40GB,CUDA MPS,b,1.3\n"
    )
    with Database(tmp_path / "x.duckdb") as database:
        assert import_paths(database, [ours], dataset="elsewhere")[0].status == "loaded"
        assert own_simulator(database, "elsewhere")


def test_counters_without_a_unit_and_the_size_of_a_launch_reach_the_predictors(
    loaded: Database, solos: pd.DataFrame
) -> None:
    table = collect(loaded, "witness").loc[GPU]
    shown = solos["dram__throughput.avg.pct_of_peak_sustained_elapsed"] / 100
    assert table["dram_throughput"].to_dict() == pytest.approx(shown.to_dict())
    assert table.at["hash", "threads"] == 10 * 512
    assert table.at["hash", "registers"] == 10 * 512 * 10
    assert table.at["shconf", "shared_memory"] == 4096
    read = launches_of(loaded, "witness").set_index("workload")
    # A share over that of `selected` is cycles for each issue.
    assert read.at["stream", "long_scoreboard"] == pytest.approx(73.464 / 3.107)
    assert read.at["stream", "selected"] == pytest.approx(1.0)


def test_the_main_figures_of_the_chapter_come_out_of_the_committed_data(loaded: Database) -> None:
    found, kept = witness.study(loaded, ["pairs-to-k"], ["boosting", "ridge"], ["white-box"]), witness.kept()
    for name in ("white_box", "named", "sensitivity", "single"):
        assert _numbers(getattr(found, name)) == pytest.approx(_numbers(getattr(kept, name)), rel=1e-6, abs=1e-6)
    of_kept = {row["predictor"]: row for row in kept.evidence if row["protocol"] == "pairs-to-k"}
    for row in found.evidence:
        for kind in witness.EVIDENCE:
            assert row[kind] == pytest.approx(of_kept[row["predictor"]][kind], rel=0.01)
    assert witness.in_words(kept) in asset("data", "guide", "witness.md").read_text(encoding="utf-8").replace("\n", " ")


def _numbers(rows: list[dict[str, object]]) -> list[float]:
    return [float(value) for row in rows for value in row.values() if isinstance(value, int | float)]


@pytest.mark.long
@pytest.mark.parametrize("protocol", witness.PROTOCOLS)
def test_every_table_comes_out_of_the_committed_data(loaded: Database, protocol: str) -> None:
    found, kept = witness.study(loaded, [protocol]), witness.kept()
    for name in ("evidence", "predictors"):
        before = [row for row in getattr(kept, name) if row["protocol"] == protocol]
        after = getattr(found, name)
        assert {row["predictor"] for row in after} == {row["predictor"] for row in before}
        by_name = {row["predictor"]: row for row in before}
        for row in after:
            for key in ("mape", "spearman", *witness.EVIDENCE):
                if row.get(key) is not None:
                    assert row[key] == pytest.approx(by_name[row["predictor"]][key], rel=0.02)


def test_a_protocol_that_one_gpu_cannot_give_is_refused() -> None:
    with pytest.raises(UsageError, match="unseen-gpu"):
        witness.run(["unseen-gpu"])


def test_the_report_shows_every_table_and_its_files_are_the_committed_ones(loaded: Database, tmp_path: Path) -> None:
    from analysis.report import witness as told

    document = make(loaded, Wanted("witness", "witness"))
    titles = [block.title for section in document.sections for block in section.blocks if block.type == "table"]
    assert document.provenance == "simulated"
    assert [section.key for section in document.sections] == list(told.CONTENTS)
    assert titles == [one.title for part in told.CONTENTS for name, one in told.tables(witness.kept()).items()
                      if told.section_of(name) == part]  # fmt: skip
    files = told.write(witness.kept(), tmp_path / "t.csv")
    assert len(files) == len(titles)
    evidence = pd.read_csv(io.BytesIO((tmp_path / "t-evidence.csv").read_bytes()))
    assert evidence["both"].to_list() == pytest.approx([row["both"] for row in witness.kept().evidence])
    told.write(witness.kept(), tmp_path / "t.tex")
    assert (tmp_path / "t.tex").read_text().count(r"\begin{table}") == len(titles)
    with pytest.raises(UsageError, match="csv"):
        told.write(witness.kept(), tmp_path / "t.xls")
