"""The data set report says what the database holds, labels what is simulated, and survives hostile names."""

from __future__ import annotations

import csv
import io
import itertools
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from analysis.errors import NotFoundError, UsageError
from analysis.ingest.importer import import_paths
from analysis.interference.matrix import slowdown_matrix
from analysis.predict.evaluate.evaluate import evaluate
from analysis.report.build import dataset_report
from analysis.report.document import Matrix, ReportDocument, Table
from analysis.report.render import from_json, to_csv, to_html, to_json
from analysis.report.spreadsheet import defuse
from analysis.store.database import Database
from analysis.store.loader import SourceInfo, load
from analysis.store.parsed import Parsed
from tests.pages import files
from tests.report.conftest import HOSTILE
from tests.report.test_render import _Elements

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def _blocks(document: ReportDocument, kind: type[Any]) -> list[Any]:
    return [block for section in document.sections for block in section.blocks if isinstance(block, kind)]


def _coruns(names: tuple[str, ...], gpu: str = "V100", slowdown: float = 1.2) -> Parsed:
    pairs = list(itertools.combinations_with_replacement(names, 2))
    return Parsed(
        format="own-corun",
        rows_read=2 * len(pairs),
        frames={
            "run": pd.DataFrame(
                {"run": range(len(pairs)), "gpu": gpu, "mechanism": "CUDA MPS", "k": 2, "outcome": "ran"}
            ),
            "member": pd.DataFrame(
                {
                    "run": [run for run in range(len(pairs)) for _ in range(2)],
                    "slot": [slot for _ in pairs for slot in range(2)],
                    "workload": [name for pair in pairs for name in pair],
                    "outcome": "ran",
                    "slowdown": [slowdown + 0.01 * place for place in range(2 * len(pairs))],
                }
            ),
        },
    )


def _info(name: str, dataset: str = "own", **more: Any) -> SourceInfo:
    return SourceInfo(dataset=dataset, file_name=name, sha256=name, size=1, **more)


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Profiles, co-runs and one comparison."""
    folder = tmp_path_factory.mktemp("filled")
    with Database(folder / "own.duckdb") as database:
        for job in files.PROFILED:
            import_paths(database, [files.profile(folder / f"{job}.csv", job)], workload=job, gpu=files.GPU)
        import_paths(database, [files.coruns(folder / "coruns.csv")])
        evaluate(database, "own", "unseen-pair", ["effects"])
        yield database


@pytest.fixture(scope="module")
def document(filled: Database) -> ReportDocument:
    return dataset_report(filled, "own", now=NOW)


def test_the_matrix_is_that_of_the_engine(filled: Database, document: ReportDocument) -> None:
    (matrix,) = _blocks(document, Matrix)
    engine = slowdown_matrix(filled, "own", "A100")
    assert matrix.workloads == engine.workloads
    assert [list(row) for row in matrix.slowdown] == engine.slowdown.tolist()
    assert [list(row) for row in matrix.state] == engine.state.tolist()


def test_every_part_is_there_with_what_it_rests_on(document: ReportDocument) -> None:
    keys = [section.key for section in document.sections]
    assert keys == ["verdicts", "interference", "stalls", "checks", "evaluation"]
    assert {source.file for source in document.sources} == {"coruns.csv", *(f"{job}.csv" for job in files.PROFILED)}
    assert all(len(source.sha256) == 64 for source in document.sources)
    assert document.provenance == "measured"
    assert document.filters == ("data set own",)
    assert document.created_at == NOW
    assert {"stallscope", "duckdb", "scikit-learn"} <= set(document.software)
    assert document.reproduce[-1] == "stallscope report --dataset own --limit 1.2 --out report.html"
    assert "stallscope evaluate --dataset own --protocol unseen-pair" in document.reproduce


def test_no_figure_of_a_predictor_stands_without_protocol_interval_and_baselines(document: ReportDocument) -> None:
    table = next(block for block in _blocks(document, Table) if block.title.startswith("Prediction error"))
    assert "unseen-pair" in table.title
    assert "unseen-pair" in table.caption
    names = [row[0] for row in table.rows]
    assert {"Median of the training rows", "No interference (S = 1)"} <= set(names)
    keys = [column.key for column in table.columns]
    for row in table.rows:
        low, mape, high = (row[keys.index(key)] for key in ("mape_low", "mape", "mape_high"))
        assert low <= mape <= high  # type: ignore[operator]


def test_the_same_data_give_the_same_bytes(filled: Database, document: ReportDocument) -> None:
    again = dataset_report(filled, "own", now=NOW)
    assert to_json(again) == to_json(document)
    page = to_html(document)
    assert to_html(from_json(to_json(document))) == page
    assert "1.0" in page
    assert len(page.encode()) < 8_000_000


def test_a_choice_is_said_and_kept(database: Database) -> None:
    load(database, _coruns(("a", "b", "c"), "V100"), _info("v"))
    load(database, _coruns(("a", "b", "c"), "H100", 2.0), _info("h"))
    both, one = dataset_report(database, "own"), dataset_report(database, "own", gpus=("H100",))
    assert [block.gpu for block in _blocks(both, Matrix)] == ["H100", "V100"]
    assert [block.gpu for block in _blocks(one, Matrix)] == ["H100"]
    assert one.filters == ("data set own; GPU H100",)
    assert "--gpu H100" in one.reproduce[-1]
    assert "V100" not in " ".join(one.summary)
    with pytest.raises(NotFoundError, match="T4"):
        dataset_report(database, "own", gpus=("T4",))
    with pytest.raises(NotFoundError, match="MIG"):
        dataset_report(database, "own", mechanisms=("MIG",))
    with pytest.raises(NotFoundError, match="nonsense"):
        dataset_report(database, "nonsense")
    with pytest.raises(UsageError, match="model"):
        dataset_report(database, "own", jobs=("a", "b"))


def test_simulated_figures_are_labelled(database: Database) -> None:
    load(database, _coruns(("a", "b", "c")), _info("s", simulated=True))
    document = dataset_report(database, "own")
    assert document.provenance == "simulated"
    assert '<span class="badge simulated">simulated</span></h1>' in to_html(document)
    assert "figures,simulated" in to_csv(document)
    (matrix,) = _blocks(document, Matrix)
    assert "simulated" in matrix.caption


def test_a_flagged_baseline_is_left_out_of_what_is_said(database: Database) -> None:
    parsed = _coruns(("a", "b", "c", "d"))
    member = parsed.frames["member"]
    member.loc[member["workload"] == "d", "slowdown"] = 9.0
    load(database, parsed, _info("f"))
    document = dataset_report(database, "own")
    pairs = [row for block in _blocks(document, Table) if "pairs" in block.title for row in block.rows]
    assert pairs
    assert not [row for row in pairs if "d" in row]
    assert "9.00" not in " ".join(document.summary)
    assert "doubtful" in to_html(document)


def test_profiles_alone_make_a_report_that_says_what_is_missing(tmp_path: Path, database: Database) -> None:
    path = files.profile(tmp_path / "x.csv", "bert_bs8_amp")
    import_paths(database, [path], workload="bert", gpu="A100-40GB")
    document = dataset_report(database, "own")
    assert [section.key for section in document.sections] == ["unmeasured", "stalls", "checks"]
    assert "yet to be measured" in " ".join(document.summary)
    assert "long_scoreboard" in to_html(document)


def test_hostile_names_do_nothing_from_end_to_end(database: Database) -> None:
    names = tuple(dict.fromkeys(name.strip("\r\t") for name in HOSTILE))
    load(database, _coruns(names), _info("=cmd|' /C calc'!A0<script>.csv", licence="<b>@x</b>"))
    hostile = dataset_report(database, "own", now=NOW)
    with Database(None) as other:
        load(other, _coruns(tuple(f"name {place:02}" for place in range(len(names)))), _info("tame.csv", licence="x"))
        tame = dataset_report(other, "own", now=NOW)
    seen, wanted = _Elements(to_html(hostile)), _Elements(to_html(tame))
    assert seen.tags == wanted.tags
    charts = [script for script in seen.scripts if script.startswith('{"data"')]
    assert len(charts) == 2
    for chart in charts:
        assert "<" not in chart
        # Plotly makes links of these; the names must reach it as text.
        assert "\\u003ca " not in chart.lower()
    cells = {cell for row in csv.reader(io.StringIO(to_csv(hostile), newline="")) for cell in row}
    for name in names:
        assert defuse(name) in cells
    assert not [cell for cell in cells if cell.startswith(("=", "+", "-", "@", "\t", "\r"))]
