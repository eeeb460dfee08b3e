"""Damaged tables: an importer raises nothing but its own refusals, accounts for every row, and invents none."""

from __future__ import annotations

import json
import random
import re
from pathlib import Path

import pytest
from opening import opened

from analysis.errors import InputRefusedError
from analysis.ingest.contract.format import Hints
from analysis.ingest.formats.own.templates import CORUNS, PROFILES
from analysis.ingest.registry import TABLE_FORMATS
from analysis.store.database import Database
from analysis.store.loader import SourceInfo, load, remove_source
from analysis.store.parsed import Parsed
from analysis.store.possible import sift

_LUCID = "model{0},dataset{0},gpu_num{0},batchsize{0},amp{0},speed{0}"
_TALLY = ",".join(
    f"{role}_{system}_throughput" for system in ("mps", "tally") for role in ("high_priority", "best_effort")
)
_GAVEL = {
    "p100": {"A": {"null": 10.0, "A": [5.0, 4.0], "B": [9.0, 2.0]}, "B": {"null": 4.0, "A": [2.0, 9.0], "B": [0, 0]}}
}
_SCALED = {"v100": {"('A', 1)": {"null": 10.0, "('A', 1)": [5.0, 5.0]}, "('A', 2)": {"null": 3.0}}}

#: A small valid file of each format.
FILES = {
    "kace-pairs": "workload1,workload2,w1throughput,w2throughput,w1exclusive_throughput,w2exclusive_throughput,"
    "w1memcap\n"
    "a_batch1-inf,b_batch1-inf,5,5,10,10,1.5\na_batch1-inf,c_batch1-inf,5,5,10,8,1.5\n",
    "kace-kernel-lengths": "Threads,ave_Kernel_Length,long/short_Ratio,Type\n10,20.5,0.5,a_batch1-inf\n"
    "9,2,1,b_batch1-inf\n",
    "kace-triples": 'workload1,workload2,workload3,"(w1_100, w2_100, w3_100)"\na,b,c,"(2.0, None, 3.0)"\n'
    'a,b,b,"(1, 2, 3)"\n',
    "gavel-oracle": json.dumps(_GAVEL, indent=1),
    "gavel-sim": json.dumps(_SCALED, indent=1),
    "lucid-pairs": f",{_LUCID.format(1)},{_LUCID.format(2)},gmem\n"
    "0,VGG,CIFAR,1,32,0,0.8,PPO,Lunar,1,64,0,1.0,51\n1,VGG,CIFAR,1,32,0,0.9,VGG,CIFAR,1,32,0,0.7,50\n",
    "lucid-solo": "model,dataset,batchsize,amp,speed,gpu_util,gmem_util,gmem\nVGG,CIFAR,32,0,299.7,44.0,23.0,3386\n",
    "tally-coruns": f"high_priority_job,best_effort_job,{_TALLY},"
    "high_priority_orig_99th_latency,high_priority_mps_99th_latency\n"
    "x_infer_1,y_train_2,1.0,0.9,1.0,0.5,4.0,9.5\nx_infer_1,y_train_2,1.0,0.9,0.9,0.6,4.0,9.5\n",
    "tally-solo": "exp_key,workload_type,mem,gpu_util,original_avg_latency,original_throughput\nx,training,97,50,,1\n"
    "y,inf,9,5,4.1,1\n",
    "own-coruns": CORUNS.csv(),
    "own-profiles": PROFILES.csv(),
}  # fmt: skip


def _damage(content: bytes, chance: random.Random) -> bytes:
    """Cut, flip, duplicate, insert or swap a few bytes."""
    data = bytearray(content)
    for _ in range(chance.randint(1, 3)):
        if not data:
            break
        at = chance.randrange(len(data))
        length = chance.randint(1, 20)
        match chance.randrange(5):
            case 0:
                del data[at : at + length]
            case 1:
                data[at] ^= 1 << chance.randrange(8)
            case 2:
                data[at:at] = data[at : at + length]
            case 3:
                data[at:at] = chance.choice(
                    [b'"', b",", b"\n", b"\r", b";", b"\x00", b"9" * 30, b"-", b"1e999", b"nan", b"{"]
                )
            case _:
                del data[at:]
    return bytes(data)


def _numbers(parsed: Parsed) -> list[float]:
    """Values that a file must hold as they are."""
    member = parsed.frames.get("member")
    values = [] if member is None else [*member["corun_value"].dropna()]
    solo = parsed.frames.get("solo")
    return values if solo is None else [*values, *solo.loc[solo["measure"] != "normalised", "value"].dropna()]


def _try(database: Database, tmp_path: Path, name: str, content: bytes) -> str:
    path = tmp_path / "file"
    path.write_bytes(content)
    form = next(form for form in TABLE_FORMATS if form.name == name)
    file = opened(path, "utf-8")
    if not form.sniff(file):
        return "other"
    try:
        parsed = sift(form.parse(file, Hints(gpu="T4")))
    except InputRefusedError as refused:
        return "refused" if refused.cure else "no cure"
    assert parsed.rows_read == parsed.rows_loaded + parsed.rows_rejected
    assert len(parsed.rejected) >= parsed.rows_rejected
    assert parsed.rejected["reason"].notna().all()
    if not name.startswith("gavel"):
        lines = re.split(r"\r\n|\n|\r", content.decode())
        assert parsed.rows_read <= sum(bool(line.strip(", \t;")) for line in lines) - 1
    text = content.decode().replace('"', "")
    stated = {float(found) for found in re.findall(r"\d+(?:\.\d*)?(?:[eE][+-]?\d+)?|\.\d+", text)}
    medians = {(low + high) / 2 for low in stated for high in stated} if len(stated) < 200 else stated
    assert all(value in stated or value in medians for value in _numbers(parsed))
    # Nothing that was parsed may fail to load.
    remove_source(database, load(database, parsed, SourceInfo("own", "file", path.name, len(content))))
    return "parsed"


def _run(database: Database, tmp_path: Path, name: str, times: int) -> dict[str, int]:
    chance = random.Random(name)
    counts: dict[str, int] = {}
    for _ in range(times):
        content = _damage(FILES[name].encode(), chance)
        try:
            outcome = _try(database, tmp_path, name, content)
        except UnicodeDecodeError:
            outcome = "no text"
        except Exception as error:
            raise AssertionError(f"{name}: {content!r}") from error
        counts[outcome] = counts.get(outcome, 0) + 1
    return counts


def test_every_format_has_a_sample() -> None:
    assert set(FILES) == {form.name for form in TABLE_FORMATS}


@pytest.mark.parametrize("name", sorted(FILES))
def test_the_samples_are_valid(database: Database, tmp_path: Path, name: str) -> None:
    assert _try(database, tmp_path, name, FILES[name].encode()) == "parsed"


@pytest.mark.parametrize("name", sorted(FILES))
def test_damaged_files(database: Database, tmp_path: Path, name: str) -> None:
    counts = _run(database, tmp_path, name, 25)
    assert "no cure" not in counts
    assert counts.get("parsed", 0) > 0, counts


@pytest.mark.long
@pytest.mark.parametrize("name", sorted(FILES))
def test_damaged_files_many_times(database: Database, tmp_path: Path, name: str) -> None:
    assert "no cure" not in _run(database, tmp_path, name, 400)
