"""Profiles of one's own, no co-run and no model: a report whose verdicts say what to measure."""

from __future__ import annotations

import json
import re
from itertools import combinations
from pathlib import Path

import pytest
from typer.testing import CliRunner

from analysis.cli import app
from analysis.errors import NotEnoughDataError
from analysis.ingest.importer import import_paths
from analysis.predict.advise import unmeasured
from analysis.predict.explain.explain import explain
from analysis.predict.models import models
from analysis.report.document import ReportDocument, Table
from analysis.report.kinds import Wanted, make
from analysis.report.render import to_csv, to_html
from analysis.store.database import Database
from tests.pages.files import GPU, JOBS, profile

NAMES = tuple(JOBS)[:4]


@pytest.fixture
def profiled(tmp_path: Path) -> Path:
    path = tmp_path / "own.duckdb"
    with Database(path) as database:
        for name in NAMES:
            import_paths(database, [profile(tmp_path / f"{name}.csv", name)], workload=name, gpu=GPU)
    return path


def tables(document: ReportDocument) -> dict[str, Table]:
    return {block.title: block for part in document.sections for block in part.blocks if isinstance(block, Table)}


def test_every_pair_has_a_verdict_and_every_job_what_to_measure(profiled: Path) -> None:
    with Database(profiled) as database:
        document = make(database, Wanted("dataset", "own"))
        assert list(unmeasured.profiled(database, "own")) == [GPU]
    found = tables(document)
    pairs = found[f"Every pair on {GPU}"]
    assert len(pairs.rows) == len(NAMES) * (len(NAMES) + 1) // 2
    place = [column.key for column in pairs.columns].index("verdict")
    assert {row[place] for row in pairs.rows} == {"measure first"}
    wanted = found[f"What to measure on {GPU}"]
    said = " ".join(str(cell) for row in wanted.rows for cell in row)
    assert "nvidia-smi --query-gpu" in said
    assert "stallscope capture corun" in said
    assert all(name in said for name in NAMES)
    assert "measure first for 10" in document.summary[0]
    assert "measure first" in to_html(document)
    assert "nvidia-smi" in to_csv(document)


def test_a_set_has_a_report_without_any_model(profiled: Path) -> None:
    out = profiled.with_suffix(".json")
    asked = [part for name in NAMES[:3] for part in ("--job", name)]
    result = CliRunner().invoke(
        app, ["report", "--kind", "prediction", "--dataset", "own", *asked, "--out", str(out), "--db", str(profiled)]
    )
    assert result.exit_code == 0, result.output
    document = json.loads(out.read_text())
    # The white box answers from the profiles; without a co-run behind it the verdict is to measure.
    assert "measure first" in document["summary"][0]
    keys = [part["key"] for part in document["sections"]]
    assert keys[0] == "answer"
    assert "to-measure" in keys
    text = json.dumps(document)
    assert "nvidia-smi --query-gpu" in text
    assert "NaN" not in text
    assert " nan" not in text
    named = re.findall(r"corun --mechanism mps --workload (\w+) --workload (\w+) --", text)
    assert {frozenset(pair) for pair in named} >= {frozenset(pair) for pair in combinations(NAMES[:3], 2)}
    assert "beyond what the model has seen" not in text


def test_without_a_model_nothing_is_predicted_or_explained(profiled: Path) -> None:
    with Database(profiled) as database:
        one = models.predict(database, "no-model:own", GPU, NAMES[:2])[0]
        assert one.to_json()["slowdown"] is None
        assert one.verdict == "measure first"
        with pytest.raises(NotEnoughDataError, match="no model"):
            explain(database, "no-model:own", GPU, NAMES[:2])
