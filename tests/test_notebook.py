"""StallScope from Python: a session answers what the commands answer, and its answers show themselves."""

from __future__ import annotations

import json
import sys
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import analysis as stallscope
from analysis.cli import app
from analysis.errors import InputRefusedError, NotFoundError, UsageError
from analysis.report.plain import plain
from tests.pages.files import GPU, JOBS, all_files

PAIR = list(JOBS)[:2]


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("notebook")
    with stallscope.open(folder / "own.duckdb") as session:
        session.load(*all_files(folder))
    return folder / "own.duckdb"


@pytest.fixture
def session(path: Path) -> Iterator[stallscope.Session]:
    with stallscope.open(path, read_only=True) as opened:
        yield opened


ASKED: dict[str, tuple[Callable[[stallscope.Session], stallscope.Answer], list[str]]] = {
    "stalls": (lambda db: db.stalls(), []),
    "matrix": (lambda db: db.matrix(GPU), ["--dataset", "own", "--gpu", GPU]),
    "predict": (
        lambda db: db.predict(PAIR, gpu=GPU),
        ["--dataset", "own", "--gpu", GPU, "--job", PAIR[0], "--job", PAIR[1]],
    ),
    "evaluate": (
        lambda db: db.evaluate(predictors=["train-median", "no-interference"]),
        ["--dataset", "own", "--protocol", "unseen-pair", "--predictor", "train-median", "--predictor",
         "no-interference"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("command", ASKED)
def test_an_answer_is_the_document_of_the_command(command: str, path: Path) -> None:
    ask, options = ASKED[command]
    with stallscope.open(path) as opened:
        mine = plain(ask(opened).to_json())
    shown = CliRunner().invoke(app, [command, *options, "--db", str(path), "--json"])
    printed = json.loads(shown.stdout)
    if isinstance(printed, dict):
        assert mine == printed
        return
    assert len(mine) == len(printed)
    for own, theirs in zip(mine, printed, strict=True):
        for name in (set(own) & set(theirs)) - {"evaluation_id"}:
            if name.endswith("seconds"):
                continue
            assert own[name] == theirs[name], name


def test_answers_show_words_table_and_picture(session: stallscope.Session, monkeypatch: pytest.MonkeyPatch) -> None:
    answer = session.matrix(GPU)
    assert answer.sentences[0].endswith(f"on {GPU}.")
    assert "and " in repr(answer)
    assert repr(answer).splitlines()[0] == "Who slows whom"
    assert answer._repr_html_().count("<tr>") == 41
    shown: list[Any] = []
    display = types.ModuleType("IPython.display")
    display.HTML = lambda text: ("html", text)  # type: ignore[attr-defined]
    display.display = shown.append  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "IPython", types.ModuleType("IPython"))
    monkeypatch.setitem(sys.modules, "IPython.display", display)
    answer._ipython_display_()
    assert shown[0] == ("html", answer._repr_html_())
    assert shown[1].data
    assert session.predict(PAIR, gpu=GPU).figure is None


def test_names_are_escaped(tmp_path: Path) -> None:
    lines = ["gpu,mechanism,run_id,slot,workload,solo_time_ms,corun_time_ms"]
    lines += [f"T4,CUDA MPS,r,{slot},<script>{slot}</script>,10,1{slot}" for slot in range(2)]
    (tmp_path / "coruns.csv").write_text("\n".join(lines) + "\n")
    with stallscope.load(tmp_path / "coruns.csv") as session:
        html = session.matrix()._repr_html_()
    assert "<script>" not in html
    assert "&lt;script&gt;" in html


def test_refusals_are_the_commands_errors(tmp_path: Path, session: stallscope.Session) -> None:
    (tmp_path / "notes.txt").write_text("hello\n")
    with pytest.raises(InputRefusedError, match=r"notes\.txt"):
        stallscope.load(tmp_path / "notes.txt")
    with stallscope.open(tmp_path / "x.duckdb") as other:
        answer = other.load(tmp_path / "notes.txt", strict=False)
        assert list(answer.table["status"]) == ["rejected"]
        with pytest.raises(UsageError):
            other.load()
    with pytest.raises(NotFoundError):
        session.predict(["nobody", PAIR[0]], gpu=GPU)
    with pytest.raises(NotFoundError):
        session.stalls("nobody")


def test_explaining_and_reporting(path: Path, tmp_path: Path) -> None:
    copy = tmp_path / "own.duckdb"
    copy.write_bytes(path.read_bytes())
    with stallscope.open(copy) as session:
        card = session.train(predictor="effects")
        why = session.explain(PAIR, gpu=GPU, model=card.model_id)
        assert why.figure is not None
        assert {one["workload"] for one in why.to_json()} == set(PAIR)
        out = session.report(tmp_path / "report.html", kind="prediction", jobs=PAIR, gpu=GPU)
        assert out.read_text(encoding="utf-8").startswith("<!DOCTYPE html>")
        board = session.plan([*PAIR, PAIR[0]], {GPU: 3})
        assert len(board) == 3
        assert board.to_json()["placements"]


def test_importing_the_name_costs_nothing() -> None:
    import subprocess

    code = "import analysis, sys; print(sorted({'pandas', 'duckdb', 'plotly', 'numpy'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
