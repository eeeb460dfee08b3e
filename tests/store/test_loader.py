"""Loading keeps the account of every row, and removing a source removes exactly what it brought."""

from __future__ import annotations

import duckdb
import pandas as pd
import pytest

from analysis.errors import NotFoundError, StallScopeError
from analysis.store.database import Database
from analysis.store.filters import Filter
from analysis.store.loader import SOURCE_TABLES, SourceInfo, find_duplicate, load, remove_source
from analysis.store.parsed import Parsed
from analysis.store.queries import coruns, profiles, sources


def _profile(workload: str = "bert", gpu: str = "A100-40GB") -> Parsed:
    return Parsed(
        format="ncu-long",
        rows_read=4,
        rejected=pd.DataFrame({"line": [5], "column": ["Metric Value"], "reason": ["not a number"], "text": ["x"]}),
        set_aside={"max_rate": 1},
        frames={
            "workload": pd.DataFrame({"name": [workload], "model": ["BERT"], "batch_size": [8]}),
            "kernel": pd.DataFrame(
                {"launch": [0, 1], "workload": workload, "gpu": gpu, "name": ["a", "b"], "short_name": ["a", "b"]}
            ),
            "kernel_metric": pd.DataFrame(
                {"launch": [0, 1], "line": [2, 3], "metric": ["m", "m"], "value": [1.0, None], "family": ["f", None]}
            ),
        },
    )


def _pair() -> Parsed:
    return Parsed(
        format="own-corun",
        rows_read=2,
        frames={
            "run": pd.DataFrame({"run": [0], "gpu": ["V100"], "mechanism": ["CUDA MPS"], "k": [2], "outcome": ["ran"]}),
            "member": pd.DataFrame(
                {
                    "run": [0, 0],
                    "slot": [0, 1],
                    "workload": ["bert", "gnn"],
                    "outcome": ["ran", "ran"],
                    "slowdown": [1.5, None],
                    "flags": [["clipped"], None],
                }
            ),
            "solo": pd.DataFrame({"workload": ["bert"], "gpu": ["V100"], "measure": ["throughput"], "value": [3.0]}),
            "feature": pd.DataFrame({"workload": ["gnn"], "gpu": ["V100"], "name": ["sm"], "value": [40.0]}),
        },
    )


def _info(name: str, dataset: str = "own") -> SourceInfo:
    return SourceInfo(dataset=dataset, file_name=name, sha256=name, size=1)


def _counts(database: Database) -> dict[str, int]:
    return {
        table: database.scalar(f"SELECT count(*) FROM {table}")
        for table in (*SOURCE_TABLES, "workload", "profile", "dataset")
    }


def test_rows_are_accounted_for(database: Database) -> None:
    load(database, _profile(), _info("a.csv"))
    row = sources.sources(database).iloc[0]
    assert (row.rows_read, row.rows_loaded, row.rows_rejected, row.rows_set_aside) == (4, 3, 1, 1)
    assert list(sources.rejected_rows(database, 1)["line"]) == [5]
    assert len(profiles.kernels(database)) == 2
    assert list(profiles.stall_metrics(database)["value"]) == [1.0]


def test_profile_and_coruns_meet_on_the_workload(database: Database) -> None:
    load(database, _profile(), _info("a.csv"))
    load(database, _pair(), _info("b.csv"))
    frame = sources.workloads(database).set_index("workload")
    assert frame.loc["bert", ["profiles", "solos", "runs"]].tolist() == [1, 1, 1]
    assert frame.loc["bert", "model"] == "BERT"
    assert list(frame.loc["bert", "gpus"]) == ["A100-40GB", "V100"]
    members = coruns.members(database)
    assert members["slowdown"].isna().tolist() == [False, True]
    assert [list(flags) for flags in members["flags"]] == [["clipped"], []]
    assert len(coruns.with_partners(database, Filter(workloads=("gnn",)))) == 2
    assert coruns.features(database)["value"].tolist() == [40.0]


def test_removing_a_source_restores_what_was_there(database: Database) -> None:
    load(database, _profile(), _info("a.csv"))
    before = _counts(database)
    second = load(database, _pair(), _info("b.csv"))
    third = load(database, _profile("bert"), _info("c.csv"))
    assert remove_source(database, third) == "c.csv"
    remove_source(database, second)
    assert _counts(database) == before
    with pytest.raises(NotFoundError):
        remove_source(database, second)


def test_a_failing_load_leaves_nothing(database: Database) -> None:
    parsed = _pair()
    broken = {**parsed.frames, "member": parsed.frames["member"].assign(outcome="exploded")}
    before = _counts(database)
    with pytest.raises(Exception, match="CHECK"):
        load(database, Parsed(format="own-corun", rows_read=2, frames=broken), _info("b.csv"))
    assert _counts(database) == before


def test_same_bytes_are_found(database: Database) -> None:
    assert find_duplicate(database, "a.csv") is None
    assert find_duplicate(database, "a.csv") is None
    source = load(database, _profile(), _info("a.csv"))
    assert find_duplicate(database, "a.csv") == source


def test_unknown_columns_are_a_programming_error() -> None:
    with pytest.raises(ValueError, match="unknown columns"):
        Parsed(format="x", rows_read=0, frames={"solo": pd.DataFrame({"oops": []})})


def test_a_load_is_news_for_its_own_data_set_only(database: Database) -> None:
    before = [database.version, database.version_of("a"), database.version_of("b")]
    source = load(database, _profile(), SourceInfo("a", "x.csv", "1" * 64, 1))
    after = [database.version, database.version_of("a"), database.version_of("b")]
    assert [new > old for new, old in zip(after, before, strict=True)] == [True, True, False]
    remove_source(database, source)
    assert database.version_of("b") > after[2]
    with database.write(content=False, dataset="a"):
        pass
    assert database.version_of("a") == after[1] + 1


def test_a_full_disk_is_said_in_words(database: Database) -> None:
    full = duckdb.IOException("IO Error: Could not write file: No space left on device")
    with (
        pytest.raises(StallScopeError, match=r"the disk is full.*nothing was changed.*Free some space"),
        database.write(),
    ):
        raise full
    with database.write() as cursor:  # and it goes on
        cursor.execute("SELECT 1")
    with pytest.raises(duckdb.IOException), database.write():
        raise duckdb.IOException("something else")
