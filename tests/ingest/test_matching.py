"""Profiles find the co-runs that they belong to, and nothing is lost when the two are joined."""

from __future__ import annotations

from pathlib import Path

import pytest
from opening import load_into, written

from analysis.errors import NotFoundError, UsageError
from analysis.ingest import matching
from analysis.ingest.formats.own.coruns import OwnCoruns
from analysis.ingest.formats.own.profiles import OwnProfiles
from analysis.store.database import Database
from analysis.store.filters import Filter
from analysis.store.loader import remove_source
from analysis.store.merge import aliases
from analysis.store.queries import coruns, profiles, sources

_CORUNS = """run_id,gpu,mechanism,workload,solo_throughput,corun_throughput
1,A100,MPS,ResNet-50 (batch size 64),100,50
1,A100,MPS,bert-base-cased_batch8-train,20,16
2,A100,MPS,ResNet-50 (batch size 128),90,50
2,A100,MPS,gpt2_bs4,9,5
"""
_PROFILES = "workload,gpu,kernel,duration_us,stall_wait\n"


def _profile(database: Database, tmp_path: Path, name: str, workload: str, gpu: str = "A100") -> int:
    text = f"{_PROFILES}{workload},{gpu},gemm,5,10\n{workload},{gpu},{name},6,20\n"
    load_into(database, OwnProfiles(), written(tmp_path, f"{name}.csv", text))
    return int(database.scalar("SELECT max(source_id) FROM source"))


@pytest.fixture
def filled(database: Database, tmp_path: Path) -> Database:
    load_into(database, OwnCoruns(), written(tmp_path, "coruns.csv", _CORUNS))
    return database


@pytest.mark.parametrize(
    ("workload", "match", "words"),
    [
        ("resnet50_bs64_train", "ResNet-50 (batch size 64)", "batch size 64, phase training"),
        ("resnet50_bs128", "ResNet-50 (batch size 128)", "not known on both sides: phase"),
        ("bert_b8_training", "bert-base-cased_batch8-train", "model bert is part of bert-base-cased"),
        ("gpt2", "gpt2_bs4", "model gpt2"),
        ("resnet50", "ResNet-50 (batch size 128)", "ResNet-50 (batch size 64) fits as well"),
        ("resnet50_bs256_train", None, ""),
        ("bert-base-cased_batch8-inf", None, ""),
        ("whisper_bs8", None, ""),
    ],
)
def test_proposals(filled: Database, tmp_path: Path, workload: str, match: str | None, words: str) -> None:
    _profile(filled, tmp_path, "p", workload)
    found = matching.propose(filled, "own")
    assert list(found.columns) == list(matching.COLUMNS)
    if match is None:
        assert found.empty
    else:
        assert found[["profile_workload", "corun_workload"]].values.tolist() == [[workload, match]]
        assert words in found["reason"].iloc[0]
        assert matching.LEAST <= found["score"].iloc[0] <= 1


def test_the_same_name_needs_no_proposal(filled: Database, tmp_path: Path) -> None:
    _profile(filled, tmp_path, "p", "gpt2_bs4")
    assert matching.propose(filled, "own").empty
    assert matching.propose(filled, "other").empty


def test_joining_keeps_every_launch_and_its_source(filled: Database, tmp_path: Path) -> None:
    first = _profile(filled, tmp_path, "p", "resnet50_bs64")
    other_gpu = _profile(filled, tmp_path, "q", "resnet50_bs64", gpu="V100")
    target = "ResNet-50 (batch size 64)"
    matching.apply(filled, "own", {"resnet50_bs64": target})
    kernels = profiles.kernels(filled)
    assert set(kernels["workload"]) == {target}
    assert kernels.groupby("source_id").size().to_dict() == {first: 2, other_gpu: 2}
    assert "resnet50_bs64" not in set(sources.workloads(filled)["workload"])
    # A second profile of the same workload and GPU joins the launches that are there.
    _profile(filled, tmp_path, "r", "resnet50_bs64")
    again = matching.propose(filled, "own")
    assert again[["corun_workload", "score"]].values.tolist() == [[target, 1.0]]
    matching.apply(filled, "own", dict(zip(again["profile_workload"], again["corun_workload"], strict=True)))
    assert len(profiles.kernels(filled, Filter(gpus=("A100",)))) == 4
    assert filled.scalar("SELECT count(*) FROM profile") == 2
    assert len(profiles.stall_metrics(filled)) == 6
    remove_source(filled, first)
    assert len(profiles.kernels(filled)) == 4
    assert len(coruns.members(filled)) == 4


def test_a_new_name_and_what_is_remembered(filled: Database, tmp_path: Path) -> None:
    source = _profile(filled, tmp_path, "p", "resnet50_bs64")
    matching.apply(filled, "own", {"resnet50_bs64": "my job"})
    matching.apply(filled, "own", {"my job": "ResNet-50 (batch size 64)"})
    table = aliases(filled, "own").set_index("alias")
    assert table["workload"].to_dict() == {
        "my job": "ResNet-50 (batch size 64)", "resnet50_bs64": "ResNet-50 (batch size 64)",
    }  # fmt: skip
    assert list(table.loc["resnet50_bs64", "sources"]) == [source]
    # Renaming back and forth leaves no alias that points to itself.
    matching.apply(filled, "own", {"gpt2_bs4": "gpt2"})
    matching.apply(filled, "own", {"gpt2": "gpt2_bs4"})
    assert "gpt2_bs4" not in aliases(filled, "own").set_index("alias").index


def test_attributes_are_filled_in_and_never_overwritten(filled: Database, tmp_path: Path) -> None:
    _profile(filled, tmp_path, "p", "gpt2_bs4_fp16")
    matching.apply(filled, "own", {"gpt2_bs4_fp16": "gpt2_bs4"})
    row = sources.workloads(filled).set_index("workload").loc["gpt2_bs4"]
    assert (row["precision"], row["batch_size"]) == ("fp16", 4)


@pytest.mark.parametrize(
    ("mapping", "error"),
    [({"nobody": "gpt2_bs4"}, NotFoundError), ({"a": "b", "b": "c"}, UsageError), ({"gpt2_bs4": " "}, UsageError)],
)
def test_refusals_change_nothing(filled: Database, mapping: dict[str, str], error: type[Exception]) -> None:
    before = sources.workloads(filled)
    with pytest.raises(error):
        matching.apply(filled, "own", mapping)
    assert sources.workloads(filled).equals(before)
