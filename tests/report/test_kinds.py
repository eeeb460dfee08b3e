"""Every kind of report, in every form, with the parts that were chosen; hostile names do nothing on paper either."""

from __future__ import annotations

import io
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pypdf import PdfReader

from analysis.errors import NotEnoughDataError, NotFoundError, StallScopeError, UsageError
from analysis.ingest.importer import import_paths
from analysis.plan.jobs import JobList
from analysis.plan.problem import Job
from analysis.predict.evaluate.evaluate import evaluate
from analysis.predict.models import models
from analysis.report import render
from analysis.report.document import ReportDocument, Table
from analysis.report.kinds import KINDS, Wanted, make
from analysis.report.render import as_bytes, from_json, to_html, to_json
from analysis.report.still import picture
from analysis.stalls.shares import stall_shares
from analysis.store.database import Database
from tests.pages import files
from tests.report.conftest import HOSTILE, chart, make_document
from tests.report.test_build import _coruns, _info

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
PAIR = ("bert_bs8_amp", "gnn_bs1024_fp32")


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """Profiles, co-runs, a comparison and a model."""
    folder = tmp_path_factory.mktemp("kinds")
    path = folder / "kinds.duckdb"
    with Database(path) as database:
        import_paths(database, files.all_files(folder))
        evaluate(database, "own", "unseen-pair", predictors=["effects"])
        return path, models.train(database, "own", "ridge").model_id


def _tables(document: ReportDocument) -> list[Table]:
    return [block for section in document.sections for block in section.blocks if isinstance(block, Table)]


def test_every_kind_renders_the_same_from_its_json(asked: tuple[Path, str]) -> None:
    path, model = asked
    with Database(path) as database:
        profiled = stall_shares(database)["workload"].iloc[0]
        for kind in KINDS:
            jobs = PAIR if kind == "prediction" else (profiled,) if kind == "stalls" else ()
            needed = model if kind in ("prediction", "model") else None
            wanted = Wanted(kind, "own", model_id=needed, jobs=jobs)
            if kind == "placement":
                listed = JobList(tuple(Job(job, job, "ada", memory_mib=4000.0) for job in PAIR), "table")
                wanted = replace(wanted, gpus=("A100-40GB=1",), listed=listed, limit=2.0)
            document = make(database, wanted, now=NOW)
            assert document.kind == {"dataset": "data set"}.get(kind, kind)
            assert document.summary
            assert document.filters
            assert all(len(source.sha256) == 64 for source in document.sources)
            assert document.sources
            assert document.reproduce[-1].startswith("stallscope report")
            page = to_html(document)
            assert to_html(from_json(to_json(document))) == page
            assert not any(section.key == "rows" for section in document.sections)


def test_the_prediction_report_says_what_the_engine_says(asked: tuple[Path, str]) -> None:
    path, model = asked
    with Database(path) as database:
        document = make(database, Wanted("prediction", "own", model_id=model, jobs=PAIR), now=NOW)
        expected = models.predict(database, model, "A100-40GB", PAIR)
    table = next(one for one in _tables(document) if one.title == "Predicted slowdowns")
    keys = [column.key for column in table.columns]
    assert [row[keys.index("slowdown")] for row in table.rows] == pytest.approx([one.slowdown for one in expected])
    assert "protocol" in table.caption
    assert [section.key for section in document.sections][:2] == ["answer", "why"]
    assert f"--job {PAIR[0]}" in document.reproduce[-1]


def test_parts_are_chosen_and_rows_only_when_asked_for(asked: tuple[Path, str]) -> None:
    path, _ = asked
    with Database(path) as database:
        document = make(database, Wanted("dataset", "own", contents=("checks", "rows")), now=NOW)
        with pytest.raises(UsageError, match="nonsense"):
            make(database, Wanted("dataset", "own", contents=("nonsense",)))
        with pytest.raises(UsageError, match="model"):
            make(database, Wanted("model", "own"))
        with pytest.raises(UsageError, match="set of jobs"):
            make(database, Wanted("prediction", "own", jobs=PAIR[:1]))
        with pytest.raises(NotFoundError, match="stall profile"):
            make(database, Wanted("stalls", "own", jobs=("nobody",)))
    assert [section.key for section in document.sections] == ["checks", "rows"]
    assert "--contents rows" in document.reproduce[-1]
    members = pq.read_table(io.BytesIO(as_bytes(document, ".parquet"))).to_pandas()
    members = members[members["section"] == "rows"]
    assert len(members) == len(_tables(document)[-1].rows)
    assert members["slowdown"].dtype == float


def test_nothing_compared_is_said(database: Database) -> None:
    load_pairs(database, ("a", "b"))
    with pytest.raises(NotEnoughDataError, match="evaluate"):
        make(database, Wanted("comparison", "own"))


def load_pairs(database: Database, names: tuple[str, ...]) -> None:
    from analysis.store.loader import load

    load(database, _coruns(names), _info("pairs"))


def test_sixty_workloads_stay_below_eight_megabytes(database: Database) -> None:
    load_pairs(database, tuple(f"model-number-{number:02}/dataset/64/1" for number in range(60)))
    assert len(as_bytes(make(database, Wanted("dataset", "own"), now=NOW), ".html")) < 8_000_000


def test_hostile_names_are_text_in_parquet_and_pdf(hostile: ReportDocument) -> None:
    table = pq.read_table(io.BytesIO(as_bytes(hostile, ".parquet"))).to_pandas()
    assert set(HOSTILE) <= set(table["workload"])
    document = hostile.model_copy(update={"sections": hostile.sections[:1]})
    made = PdfReader(io.BytesIO(as_bytes(document, ".pdf")))
    names = {str(key) for page in made.pages for key in page}
    assert "/Annots" not in names or all(
        "/URI" not in str(note.get_object()) for page in made.pages for note in page.get("/Annots", [])
    )
    assert "/OpenAction" not in made.trailer["/Root"]
    assert "/JavaScript" not in str(made.trailer["/Root"])
    text = "".join(page.extract_text() for page in made.pages)
    assert "<script>window.hacked=1</script>" in text.replace("\n", "")


def test_a_still_chart_holds_names_as_text_only() -> None:
    drawn = picture(chart(*HOSTILE))
    assert drawn.count("<rect") == len(HOSTILE)
    assert "<script" not in drawn
    assert "<a" not in drawn
    assert "<img" not in drawn
    assert picture({"data": [{"type": "heatmap", "z": [[1.0]]}], "layout": {}}) == ""


def test_without_the_extra_one_sentence_says_how(monkeypatch: pytest.MonkeyPatch) -> None:
    import builtins

    usual = builtins.__import__

    def without(name: str, *rest: object, **more: object) -> object:
        if name == "weasyprint":
            raise ImportError(name)
        return usual(name, *rest, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(builtins, "__import__", without)
    assert not render.available()
    with pytest.raises(StallScopeError, match="pip install"):
        render.to_pdf(make_document("a", "b"))
