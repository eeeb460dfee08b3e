"""Databases and models that earlier versions wrote open and answer as they did then.

The files were written by the code of their time: the last version of each schema imported one table of 36 co-runs of
eight jobs, and the last before classes moved trained the models. `answers.json` holds what those versions printed.
"""

from __future__ import annotations

import json
import lzma
from pathlib import Path
from typing import Any

import pytest

from analysis.interference.matrix import slowdown_matrix
from analysis.predict.models import models
from analysis.store.database import Database

RELEASED = Path(__file__).parent / "released"
ANSWERS: dict[str, Any] = json.loads((RELEASED / "answers.json").read_text(encoding="utf-8"))
SCHEMAS = sorted(path.name for path in RELEASED.glob("schema-*.duckdb.xz"))


def unpacked(name: str, folder: Path) -> Path:
    path = folder / "old.duckdb"
    path.write_bytes(lzma.decompress((RELEASED / name).read_bytes()))
    return path


def test_there_is_a_file_of_every_schema() -> None:
    migrations = sorted((Path(__file__).parents[2] / "analysis" / "store" / "migrations").glob("*.sql"))
    assert [name.removeprefix("schema-")[:4] for name in SCHEMAS] == [path.name[:4] for path in migrations]


@pytest.mark.parametrize("name", SCHEMAS)
@pytest.mark.parametrize("read_only", [False, True])
def test_a_database_of_an_earlier_version_answers_as_it_did(name: str, read_only: bool, tmp_path: Path) -> None:
    with Database(unpacked(name, tmp_path), read_only=read_only) as database:
        found = slowdown_matrix(database, "own", "V100-32GB")
        assert list(found.workloads) == ANSWERS["workloads"]
        for row, expected in zip(found.slowdown, ANSWERS["slowdown"], strict=True):
            assert list(row) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("model_id", sorted(ANSWERS["predictions"]))
def test_a_model_of_an_earlier_version_predicts_as_it_did(model_id: str, tmp_path: Path) -> None:
    asked = ANSWERS["predictions"][model_id]
    with Database(unpacked("models.duckdb.xz", tmp_path)) as database:
        found = models.predict(database, model_id, "V100-32GB", [row["workload"] for row in asked])
    for row, expected in zip(found, asked, strict=True):
        assert row.slowdown == pytest.approx(expected["slowdown"], rel=1e-6)
        assert (row.low, row.high) == pytest.approx((expected["low"], expected["high"]), rel=1e-6)
