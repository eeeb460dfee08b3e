"""The commands about sharing: partners at a limit, sets that others join, and what copying to another GPU costs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Json = Callable[..., Any]

TABLE = """run_id,gpu,mechanism,workload,slowdown
1,V100-16GB,CUDA MPS,a,1.1
1,V100-16GB,CUDA MPS,b,1.15
2,V100-16GB,CUDA MPS,a,1.3
2,V100-16GB,CUDA MPS,c,1.6
3,V100-16GB,CUDA MPS,b,1.2
3,V100-16GB,CUDA MPS,c,1.4
4,P100,CUDA MPS,a,1.32
4,P100,CUDA MPS,b,1.1
"""


@pytest.fixture
def shared(as_json: Json, db: Path, tmp_path: Path) -> None:
    path = tmp_path / "coruns.csv"
    path.write_text(TABLE)
    as_json("import", str(path), "--dataset", "own")


def test_partners_at_a_limit(as_json: Json, shared: None) -> None:
    rows = as_json("partners", "--dataset", "own", "--gpu", "V100", "--workload", "a", "--limit", "1.2")
    assert [row["partner"] for row in rows] == ["b", "c", "a"]
    assert (rows[0]["verdict"], rows[0]["memory"]) == ("share", "fits"), "nobody knows the peaks, and they ran"
    assert (rows[0]["within"], rows[0]["safe"]) == (True, True)
    assert rows[1]["verdict"] == "don't"
    assert rows[2]["slowdown"] is None


def test_who_could_join(as_json: Json, shared: None) -> None:
    ask = ("partners", "--dataset", "own", "--gpu", "V100", "--workload", "a", "--workload", "b")
    row = next(row for row in as_json(*ask) if row["partner"] == "c")
    assert (row["k"], row["basis"], row["safe"]) == (3, "composed of pairs", False)
    assert row["slowdowns"] == pytest.approx([1.4, 1.35, 2.0])


def test_architectures(as_json: Json, shared: None) -> None:
    rows = {(row["source"], row["target"]): row for row in as_json("architectures", "--dataset", "own")}
    row = rows["P100", "V100-16GB"]
    assert row["cells"] == 2
    assert row["copy_error"] == pytest.approx(100 * ((1.32 / 1.1 - 1) + (1 - 1.1 / 1.15)) / 2)
    assert row["changed"] == 1


def test_tables_for_people(cli: Callable[..., Any], shared: None) -> None:
    text = cli("partners", "--dataset", "own", "--gpu", "V100", "--workload", "a").stdout
    assert "1 may share" in text
    assert "does not travel" in cli("architectures", "--dataset", "own").stdout
    assert cli("partners", "--dataset", "own", "--gpu", "V100", "--limit", "0.5").exit_code == 2


def test_many_sets_in_one_call_without_a_model(as_json: Json, shared: None, tmp_path: Path) -> None:
    wide, long = tmp_path / "wide.csv", tmp_path / "long.csv"
    wide.write_text("job1,job2,job3\na,b,\na,b,c\n")
    long.write_text("set,job\n1,a\n1,b\n2,a\n2,b\n2,c\n")
    ask = ("predict", "--dataset", "own", "--gpu", "V100", "--limit", "1.2", "--sets")
    rows = as_json(*ask, str(wide))
    assert rows == as_json(*ask, str(long))
    assert [row["evidence"] for row in rows] == ["measured", "composed"]
    one = as_json("predict", "--dataset", "own", "--gpu", "V100", "--job", "a", "--job", "b")[0]
    assert [one[name] for name in ("verdict", "why", "worst")] == [
        rows[0][name] for name in ("verdict", "why", "worst")
    ]
