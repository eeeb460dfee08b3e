"""Scoring, training, asking and explaining, from the form to the figures on the page."""

from __future__ import annotations

import json
import re
import shutil
import threading
from pathlib import Path
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from analysis.ingest.importer import import_paths
from analysis.predict.evaluate.evaluate import evaluate
from analysis.predict.explain import importance
from analysis.predict.explain.explain import explain
from analysis.predict.models import missing, models
from analysis.settings import get_settings
from analysis.store.database import Database
from analysis.ui.parts import train, what_if
from analysis.ui.shell import resources
from tests.pages.conftest import Open
from tests.pages.files import GPU, MECHANISM, profile

PAIR = ("bert_bs8_amp", "gnn_bs1024_fp32")


@pytest.fixture(scope="session")
def trained_file(filled_file: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The filled database with one comparison and one model."""
    path = tmp_path_factory.mktemp("trained") / "trained.duckdb"
    shutil.copy(filled_file, path)
    with Database(path) as database:
        evaluate(database, "own", "unseen-pair", predictors=["effects", "ridge", "kace-linear"])
        models.train(database, "own", "ridge")
    return path


@pytest.fixture
def trained(trained_file: Path) -> Path:
    """Put the trained database where the application looks for it."""
    path = get_settings().db
    path.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(trained_file, path)
    return path


def words(page: AppTest) -> str:
    return (
        "\n".join(text.value for text in [*page.markdown, *page.caption, *page.subheader])
        .replace("\\", "")
        .replace("\xa0", " ")
    )


def test_predictors_are_scored_from_the_form(app: Open, filled: Path) -> None:
    page = app("pages/predict/train.py")
    page.multiselect(key="predictors").set_value(["effects"])
    next(button for button in page.button if button.label == "Score the predictors").click()
    page.run()
    job = resources.jobs().latest(train.EVALUATE)
    assert job is not None
    assert job.request["predictors"] == ["effects"]
    status = resources.jobs().wait(job.job_id, 120)
    assert status.state == "done", status.message
    page.run()
    assert not page.exception
    text = words(page)
    assert re.search(r"\*\*Victim and aggressor effects\*\* is off by \*\*[\d.]+ %\*\* under unseen-pair", text)
    assert "the train median" in text
    assert "protocol unseen-pair" in text


def test_a_closed_tab_loses_nothing(app: Open, filled: Path) -> None:
    page = app("pages/predict/train.py")
    page.button(key="train-model").click()
    page.selectbox(key="train-predictor").select("ridge")
    page.run()
    job = resources.jobs().latest(train.TRAIN)
    assert job is not None
    assert resources.jobs().wait(job.job_id, 120).state == "done"
    other = app("pages/predict/what_if.py")
    assert "This rests on" in words(other)


def test_comparison_shows_baselines_and_what_is_missing(app: Open, trained: Path) -> None:
    page = app("pages/predict/compare.py")
    table = next(frame.value for frame in page.dataframe if "mape" in frame.value.columns)
    titles = list(table["title"])
    assert {"No interference (S = 1)", "Median of the training rows", "Ridge regression"} <= set(titles)
    missing = table[table["title"] == "KACE, linear regression"].iloc[0]
    assert missing["status"].startswith("needs: ")
    assert missing["mape"] is None or missing["mape"] != missing["mape"]
    members = next(frame.value for frame in page.dataframe if "predicted" in frame.value.columns)
    assert len(members) == 84, "each of the 42 runs' members once"


def test_the_answer_to_a_set_is_the_models(app: Open, trained: Path) -> None:
    page = app("pages/predict/what_if.py", job1=PAIR[0], job2=PAIR[1])
    database = resources.database()
    expected = models.predict(database, models.list_models(database)[0].model_id, GPU, PAIR, MECHANISM)
    table = next(frame.value for frame in page.dataframe if "verdict" in frame.value.columns)
    assert list(table["workload"]) == list(PAIR)
    assert list(table["slowdown"]) == pytest.approx([one.slowdown for one in expected])
    assert "Memory: they fit." in words(page)


def test_contributions_on_the_page_add_up(app: Open, trained: Path) -> None:
    page = app("pages/predict/explain.py", job1=PAIR[0], job2=PAIR[1])
    database = resources.database()
    expected = explain(database, models.list_models(database)[0].model_id, GPU, PAIR, MECHANISM)[0]
    table = next(frame.value for frame in page.dataframe if "feature" in frame.value.columns)
    assert expected.base + table["shap"].sum() == pytest.approx(expected.prediction, abs=1e-6)
    assert f"{PAIR[0]} beside {PAIR[1]}" in words(page)


def test_the_report_of_a_set_stands_on_the_page(app: Open, trained: Path) -> None:
    page = app("pages/report/report.py", kind="prediction", jobs="2", job1=PAIR[0], job2=PAIR[1])
    text = words(page)
    assert not page.error, [one.value for one in page.error]
    assert f"{PAIR[0]} + {PAIR[1]} on {GPU}" in text
    assert "Verdict: " in text
    assert {button.label for button in page.get("download_button")} >= {
        "Download HTML",
        "Download PDF",
        "Download CSV",
        "Download Parquet",
        "Download JSON",
    }
    for kind in ("Model card", "Comparison of predictors", "Stalls of one workload"):
        page.selectbox(key="kind").select(kind).run(timeout=120)
        assert not page.exception
        assert not page.error
        assert words(page) != text


def test_scenarios_are_put_side_by_side_and_stand_in_the_address(app: Open, trained: Path) -> None:
    page = app("pages/predict/what_if.py", job1=PAIR[0], job2=PAIR[1])
    page.button(key="keep-scenario").click().run()
    page.selectbox(key="jobs").select("3").run()
    table = next(frame.value for frame in page.dataframe if "scenario" in frame.value.columns)
    assert list(table["scenario"]) == ["this one", "A"]
    assert table["jobs"].iloc[1] == " + ".join(PAIR)
    kept = page.query_params["scenarios"]
    assert json.loads(kept if isinstance(kept, str) else kept[0])[3] == list(PAIR)
    assert table["together"].iloc[1] == pytest.approx(100 / table["stp"].iloc[1])


@pytest.mark.parametrize("name", ["what_if", "explain"])
def test_profiles_alone_lead_to_what_to_measure(app: Open, tmp_path: Path, name: str) -> None:
    path = get_settings().db
    path.parent.mkdir(parents=True, exist_ok=True)
    with Database(path) as database:
        import_paths(database, [profile(tmp_path / "bert_bs8_amp_A100-40GB.csv", "bert_bs8_amp")])
    page = app(f"pages/predict/{name}.py")
    assert not page.exception
    shown = words(page) + "".join(code.value for code in page.code)
    if name == "explain":
        # The white box explains a profile that holds what it reads.
        assert "is predicted to take" in shown
        return
    assert "Measure first" in shown
    assert "stallscope capture corun" in shown
    assert "ncu --csv --page raw" in shown


def test_the_global_view_is_worked_out_beside_the_page(
    app: Open, trained: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = threading.Event()
    real = importance.global_importance

    def slow(*args: Any, **kwargs: Any) -> Any:
        gate.wait(30)
        return real(*args, **kwargs)

    slow.__qualname__ = f"slow-{trained}"  # asked for once in this process
    monkeypatch.setattr(importance, "global_importance", slow)
    monkeypatch.setattr(resources, "PATIENCE_SECONDS", 0.05)
    page = app("pages/predict/explain.py", explain="What the model looks at")
    assert not page.exception
    assert "Explaining the predictions of the training data" in words(page)
    assert "The rest of the page can be used meanwhile." in "".join(one.value for one in page.caption)
    gate.set()
    for _ in range(60):
        monkeypatch.setattr(resources, "PATIENCE_SECONDS", 1.0)
        page.run(timeout=60)
        if "Most of all it looks at" in words(page):
            break
    assert "Most of all it looks at" in words(page)
    table = next(frame.value for frame in page.dataframe if "mean_abs" in frame.value.columns)
    assert set(table["whose"]) <= {"own", "co-runners", "all together", "GPU"}


@pytest.mark.parametrize("kind", ["counters", "duty cycle"])
def test_what_to_measure_stands_as_a_command(kind: str) -> None:
    for text in (f"something, with commas: {missing._COMMANDS[kind]}", f"a co-run: {missing.CORUN}, or a table"):
        parts = what_if._COMMAND.fullmatch(text)
        assert parts is not None
        assert parts["command"].split()[0] in ("ncu", "nvidia-smi", "stallscope")
        assert "while" not in parts["command"]
        assert " or " not in parts["command"]
