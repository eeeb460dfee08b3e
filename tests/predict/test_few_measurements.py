"""Six jobs and the 21 runs of their pairs: everything that can be asked has an answer, and none has a score."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations_with_replacement
from pathlib import Path

import pytest

from analysis.ingest.importer import import_paths
from analysis.interference.joining import COMPOSED_SET, joining
from analysis.plan.sets import LibraryFigures, decide
from analysis.predict.models import models, unanswered
from analysis.predict.models.many import answers
from analysis.report.build import dataset_report
from analysis.store.database import Database
from analysis.ui.parts.next_step import answerable, next_step
from tests.pages.conftest import Open
from tests.pages.conftest import _closed_afterwards as _closed_afterwards
from tests.pages.conftest import app as app

JOBS = ("bert", "gpt2", "resnet", "unet", "vgg", "vit")
HURTS = dict(zip(JOBS, (0.10, 0.05, 0.30, 0.20, 0.25, 0.15), strict=True))
SUFFERS = dict(zip(JOBS, (1.0, 0.5, 1.5, 0.8, 1.2, 0.7), strict=True))
GPU, HOW = "A100-40GB", "CUDA MPS"


def six_jobs(path: Path, without: tuple[str, str] = ("", "")) -> Path:
    """Write the table of a user with six jobs; one pair can be left out."""
    lines = ["run_id,gpu,mechanism,workload,solo_throughput,corun_throughput,unit"]
    pairs = [pair for pair in combinations_with_replacement(JOBS, 2) if pair != without]
    for run, pair in enumerate(pairs):
        for own, other in (pair, pair[::-1]):
            slow = 1 + SUFFERS[own] * HURTS[other]
            lines.append(f"r{run},{GPU},{HOW},{own},100,{100 / slow:.4f},it/s")
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture(scope="module")
def six(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    folder = tmp_path_factory.mktemp("six")
    with Database(folder / "six.duckdb") as opened:
        for name, without in (("all", ("", "")), ("most", ("bert", "vgg"))):
            (report,) = import_paths(opened, [six_jobs(folder / f"{name}.csv", without)], dataset=name)
            assert report.status == "loaded", report
        yield opened


def _ask(database: Database, dataset: str, jobs: tuple[str, ...], limit: float = 1.2) -> models.JobPrediction:
    return models.predict(database, unanswered.model_id_of(dataset), GPU, jobs, HOW, limit=limit)[0]


def test_a_pair_that_ran_is_its_own_answer(six: Database) -> None:
    found = _ask(six, "all", ("bert", "resnet"))
    assert (found.rests_on, found.n) == ("measured", 1)
    assert found.worst == pytest.approx(1.3)
    assert found.verdict == "don't"


def test_a_triple_is_composed_and_carries_no_score(six: Database) -> None:
    found = _ask(six, "all", ("bert", "gpt2", "unet"))
    assert found.rests_on == "composed"
    assert found.worst == pytest.approx(1 + 1.0 * (0.05 + 0.20))
    assert "no score: fewer than 30 runs" in found.why
    assert found.within_limit is None
    planned = decide(LibraryFigures(six, "all", HOW).of(GPU, [("bert", "gpt2", "unet")])["bert", "gpt2", "unet"], 1.2)
    assert planned.worst == pytest.approx(found.worst)
    table = joining(six, "all", GPU, HOW, ("bert", "gpt2"), limit=1.2)
    assert set(table["basis"]) == {COMPOSED_SET}


def test_a_pair_that_never_ran_is_answered_by_effects(six: Database) -> None:
    found = _ask(six, "most", ("bert", "vgg"))
    assert found.rests_on == "effects"
    assert found.worst == pytest.approx(1.25, rel=0.1)
    assert "effects over 20 runs; no score: fewer than 30 runs" in found.why
    many = answers(six, unanswered.model_id_of("most"), GPU, [("bert", "vgg"), ("bert", "gpt2", "vgg")], HOW)
    assert [one.decision.evidence for one in many] == ["effects", "effects"]
    assert many[0].decision.why == found.why


def test_training_is_never_refused(six: Database) -> None:
    card = models.train(six, "all", "effects")
    assert card.runs == 21
    assert card.calibration == {}
    models.delete(six, card.model_id)


def test_the_report_answers(six: Database) -> None:
    said = " ".join(dataset_report(six, "all", limit=1.15).summary)
    assert "At the limit of 1.15 x, of 21 pairs on A100-40GB" in said


def test_no_step_sends_to_training_first() -> None:
    counts = {"sources": 1, "runs": 21, "models": 0, "evaluations": 0, "profiles": 0}
    assert next_step(counts).page == "partners"
    assert answerable(counts)["What will a set that never ran cost?"]


@pytest.mark.parametrize("page", ["home/overview", "explore/partners", "predict/what_if", "predict/train"])
def test_no_page_ends_at_a_model(app: Open, tmp_path: Path, page: str) -> None:
    from analysis.settings import get_settings

    with Database(get_settings().db) as opened:
        import_paths(opened, [six_jobs(tmp_path / "six.csv")])
    shown = app(f"pages/{page}.py")
    assert not shown.error
    text = " ".join(str(one.value) for one in shown.markdown)
    assert "trained first" not in text
    if page == "predict/train":
        assert "9 more" in text
        assert any(button.label == "Train a model" for button in shown.button)
