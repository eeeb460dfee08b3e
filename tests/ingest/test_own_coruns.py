"""The own co-run table: what it takes, what it refuses, and that a wrong row costs itself only."""

from __future__ import annotations

import io
from pathlib import Path

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from opening import load_into, opened, written

from analysis.errors import InputRefusedError
from analysis.ingest.contract.format import Hints
from analysis.ingest.formats.own.coruns import OwnCoruns
from analysis.store.database import Database
from analysis.store.queries import coruns, sources

_TABLE = """run_id,gpu,mechanism,slot,workload,solo_throughput,corun_throughput,unit,peak_memory_mib,memory_kind,outcome
r1,NVIDIA A100-SXM4-40GB,mps,0,resnet50_bs64_amp,100,50,samples/s,9000,nvidia-smi,ran
r1,NVIDIA A100-SXM4-40GB,mps,1,bert_b8_train,20,16,samples/s,7000,nvidia-smi,ran
r2,A100-40GB,MPS,0,resnet50_bs64_amp,100,,samples/s,,,oom
r2,A100-40GB,MPS,1,gpt2-large,4,0,samples/s,30000,reserved,did_not_run
"""


def _load(database: Database, tmp_path: Path, text: str, hints: Hints | None = None):
    return load_into(database, OwnCoruns(), written(tmp_path, "own.csv", text), hints)


def test_a_small_table(database: Database, tmp_path: Path) -> None:
    parsed = _load(database, tmp_path, _TABLE)
    assert (parsed.rows_read, parsed.rows_loaded, parsed.warnings) == (4, 4, ())
    members = coruns.members(database)
    assert members["slowdown"].fillna(-1).tolist() == [2.0, 1.25, -1, -1]
    assert members["gpu"].unique().tolist() == ["A100-40GB"]
    assert members["mechanism"].unique().tolist() == ["CUDA MPS"]
    assert members["k"].tolist() == [2, 2, 2, 2]
    assert members["external_id"].tolist() == ["r1", "r1", "r2", "r2"]
    assert members["run_outcome"].tolist() == ["ran", "ran", "did_not_run", "did_not_run"]
    assert members["line"].tolist() == [2, 2, 4, 4]
    first = members.iloc[0]
    assert (first["batch_size"], first["precision"], first["measure"]) == (64, "amp", "throughput")
    solos = coruns.solos(database).set_index("workload")
    assert solos.loc["resnet50_bs64_amp", ["value", "unit", "peak_memory_mib"]].tolist() == [100, "samples/s", 9000]
    assert solos.loc["gpt2-large", "memory_kind"] == "reserved"


def test_semicolons_decimal_commas_and_other_spellings(database: Database, tmp_path: Path) -> None:
    text = (
        "Run;GPU name;Sharing;Job;Solo time;Co-run time;Unit;Thread percentage\r\n"
        "1;V100;time slicing;a;10,5;21,0;s;50%\r\n1;V100;time slicing;b;1.000,5;2.001,0;s;50 %\r\n;;;;;;;\r\n"
    )
    parsed = _load(database, tmp_path, text)
    assert parsed.report["decimal_mark"] == ","
    assert parsed.rows_read == 2
    members = coruns.members(database)
    assert members["slowdown"].tolist() == [2.0, 2.0]
    assert members["thread_percentage"].tolist() == [50, 50]
    assert members["measure"].tolist() == ["time", "time"]
    assert members["slot"].tolist() == [0, 1]


def test_workloads_made_from_their_parts(database: Database, tmp_path: Path) -> None:
    text = (
        "run_id,gpu,mechanism,model,family,dataset,batch_size,precision,phase,slowdown\n"
        "1,T4,MPS,resnet50,ResNet,ImageNet,64,amp,train,1.5\n1,T4,MPS,gcn,,,,,,1.2\n"
    )
    _load(database, tmp_path, text)
    frame = sources.workloads(database).set_index("workload")
    row = frame.loc["resnet50/ImageNet_bs64_amp_training"]
    assert row[["model", "family", "training_data", "batch_size", "precision", "phase"]].tolist() == [
        "resnet50", "ResNet", "ImageNet", 64, "amp", "training",
    ]  # fmt: skip
    assert frame.loc["gcn", "family"] == "gcn"
    # Where only slowdowns are known the job alone is the unit of measure.
    assert coruns.solos(database)[["measure", "value"]].drop_duplicates().values.tolist() == [["normalised", 1.0]]


_HEAD = (
    "run_id,gpu,mechanism,slot,workload,solo_throughput,corun_throughput,solo_time,corun_time,slowdown,unit,outcome\n"
)
_GOOD = "g,T4,MPS,0,a,10,5,,,,,\ng,T4,MPS,1,b,10,5,,,,,\n"


@pytest.mark.parametrize(
    ("row", "column", "words"),
    [
        ("x,T4,MPS,1,b,ten,5,,,,,", "solo_throughput", "isn't a number"),
        ("x,T4,MPS,1,b,10,0,,,,,", "corun_throughput", "did_not_run"),
        ("x,T4,MPS,1,b,-10,5,,,,,", "solo_throughput", "above 0"),
        ("x,T4,MPS,1,b,,,,,-1,,", "slowdown", "above 0"),
        ("x,T4,MPS,1,b,10,5,,,3,,", "slowdown", "contradicts"),
        ("x,T4,MPS,1,b,10,5,,,0.5,,", "slowdown", "wrong way round"),
        ("x,T4,MPS,1,b,10,5,1,3,,,", "corun_time", "time says 3"),
        ("x,T4,MPS,1,b,10,5,,,,ms,", "unit", "is a time"),
        ("x,T4,MPS,1,b,,,1,2,,it/s,", "unit", "is a rate"),
        ("x,T4,MPS,1,b,10,,,,,,", "slowdown", "is empty"),
        ("x,T4,MPS,1,b,10,5,,,,,did_not_run", "outcome", "did not run"),
        ("x,T4,MPS,1,b,10,,,,1.5,,oom", "outcome", "did not run"),
        ("x,T4,MPS,1,b,10,5,,,,,maybe", "outcome", "isn't one of"),
        ("x,T4,MPS,0,b,10,5,,,,,", "slot", "second time"),
        ("x,T4,MPS,0.5,b,10,5,,,,,", "slot", "whole number"),
        ("x,T4,MPS,1,,10,5,,,,,", "workload", "is empty"),
        ("x,,MPS,1,b,10,5,,,,,", "gpu", "is empty"),
        (",T4,MPS,1,b,10,5,,,,,", "run_id", "is empty"),
        ("x,T4,MPS", None, "3 fields"),
        ('x,T4,"MPS,1,b,10,5,,,,,', None, "quotation mark"),
    ],
)
def test_a_wrong_row_is_rejected_with_its_reason(
    database: Database, tmp_path: Path, row: str, column: str | None, words: str
) -> None:
    other = "x,T4,MPS,0,a,10,5,,,,,\n"
    parsed = _load(database, tmp_path, _HEAD + other + row + "\n" + _GOOD)
    rejected = sources.rejected_rows(database, 1)
    ours = rejected[rejected["line"] == 3]
    assert len(ours), rejected
    assert any(words in reason for reason in ours["reason"])
    assert column in ours["column"].tolist() or (column is None and ours["column"].isna().all())
    assert ours["text"].iloc[0] == row
    # The good run is untouched; the row beside the wrong one is kept off the analyses, as its co-runner isn't known.
    assert coruns.members(database)["external_id"].tolist() == ["g", "g"]
    assert parsed.rows_read == 4
    assert parsed.rows_rejected + parsed.rows_set_aside == 2


def test_a_run_of_one_is_no_co_run(database: Database, tmp_path: Path) -> None:
    parsed = _load(database, tmp_path, _HEAD + _GOOD + "solo,T4,exclusive,0,a,10,10,,,,,\n")
    assert parsed.rejected["column"].tolist() == ["run_id"]
    assert len(coruns.members(database)) == 2


def test_a_run_number_may_start_anew_on_the_next_gpu(database: Database, tmp_path: Path) -> None:
    parsed = _load(database, tmp_path, _HEAD + _GOOD + _GOOD.replace("T4", "L4"))
    assert parsed.rows_rejected == 0
    assert coruns.members(database).groupby("gpu")["run_id"].nunique().to_dict() == {"L4": 1, "T4": 1}


def test_three_in_one_run(database: Database, tmp_path: Path) -> None:
    text = "run_id,gpu,mechanism,workload,slowdown\n" + "".join(f"1,T4,MPS,w{i},1.{i}\n" for i in range(3))
    _load(database, tmp_path, text)
    members = coruns.members(database)
    assert members["k"].tolist() == [3, 3, 3]
    assert members["slot"].tolist() == [0, 1, 2]


def test_solos_from_other_rows_and_from_the_data_set(database: Database, tmp_path: Path) -> None:
    known = pd.DataFrame(
        {"workload": ["c"], "gpu": ["T4"], "measure": ["throughput"], "unit": ["it/s"], "value": [30.0]}
    )
    text = _HEAD + _GOOD + "h,T4,MPS,0,a,,4,,,,,\nh,T4,MPS,1,c,,10,,,,,\ni,T4,MPS,0,a,,2,,,,,\ni,T4,MPS,1,d,,1,,,,,\n"
    parsed = _load(database, tmp_path, text, Hints(solos=lambda: known))
    assert coruns.members(database)["slowdown"].fillna(-1).tolist() == [2, 2, 2.5, 3, 5, -1]
    assert parsed.report["solos_filled_in"] == 3
    assert any("no solo value is known for d" in warning for warning in parsed.warnings)


def test_two_campaigns_and_swapped_columns_are_said(database: Database, tmp_path: Path) -> None:
    text = _HEAD + "g,T4,MPS,0,a,10,20,,,,,\ng,T4,MPS,1,a,13,25,,,,,\n"
    parsed = _load(database, tmp_path, text)
    assert any("two campaigns" in warning for warning in parsed.warnings)
    assert any("wrong way round" in warning for warning in parsed.warnings)


def test_parquet_says_the_same_as_csv(database: Database, tmp_path: Path) -> None:
    frame = pd.read_csv(io.StringIO(_TABLE))
    path = tmp_path / "own.parquet"
    frame.to_parquet(path)
    file = opened(path, "utf-8")
    parsed = load_into(database, OwnCoruns(), file)
    again = OwnCoruns().parse(written(tmp_path, "own.csv", _TABLE), Hints())
    for name in ("workload", "member", "solo"):
        pd.testing.assert_frame_equal(parsed.frames[name], again.frames[name])
    pd.testing.assert_frame_equal(parsed.frames["run"].drop(columns="line"), again.frames["run"].drop(columns="line"))


def test_a_broken_parquet_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "own.parquet"
    path.write_bytes(b"PAR1" + b"x" * 100)
    assert not OwnCoruns().sniff(opened(path))
    with pytest.raises(InputRefusedError, match="Parquet"):
        OwnCoruns().parse(opened(path), Hints())


@pytest.mark.parametrize(
    "text", [_HEAD, _HEAD + "x,T4,MPS,0,a,x,5,,,,,\n", "run_id,run,gpu,workload,slowdown\n1,1,T4,a,1\n"]
)
def test_nothing_usable_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(InputRefusedError):
        OwnCoruns().parse(written(tmp_path, "own.csv", text), Hints())


_values = st.floats(0.01, 1e6).map(lambda value: float(f"{value:.6g}"))


@settings(max_examples=40, deadline=None)
@given(
    st.lists(
        st.lists(st.tuples(st.sampled_from("abcd"), _values, _values), min_size=2, max_size=4), min_size=1, max_size=6
    ),
    st.sampled_from([(",", "."), (";", ","), ("\t", "."), (";", ".")]),
    st.sampled_from(["\n", "\r\n"]),
    st.booleans(),
    st.booleans(),
)
def test_any_table_is_read_back(
    tmp_path_factory: pytest.TempPathFactory,
    runs: list[list[tuple[str, float, float]]],
    marks: tuple[str, str],
    end: str,
    quoted: bool,
    blank: bool,
) -> None:
    delimiter, mark = marks
    quote = (lambda cell: f'"{cell}"') if quoted else (lambda cell: cell)
    lines = [["run_id", "gpu", "mechanism", "workload", "solo_time", "corun_time"]]
    for number, members in enumerate(runs):
        for name, solo, shared in members:
            numbers = [f"{value!r}".replace(".", mark) for value in (solo, shared)]
            lines.append([f"r{number}", "T4", "MPS", name, *numbers])
    text = (end * 2 if blank else end).join(delimiter.join(map(quote, line)) for line in lines)
    parsed = OwnCoruns().parse(written(tmp_path_factory.mktemp("own"), "own.csv", text), Hints())
    assert parsed.rows_read == parsed.rows_loaded == len(lines) - 1
    member = parsed.frames["member"]
    assert member["workload"].tolist() == [name for members in runs for name, _, _ in members]
    if parsed.report["decimal_mark"] == mark:
        assert member["slowdown"].tolist() == [shared / solo for members in runs for _, solo, shared in members]
    else:
        assert any("decimal mark" in warning for warning in parsed.warnings)
