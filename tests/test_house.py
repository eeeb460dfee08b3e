"""The layout of the code: sizes of folders, first lines of packages, the contributors' chapter and its recipes."""

from __future__ import annotations

import ast
import doctest
import importlib
import tomllib
from pathlib import Path
from typing import Self

import numpy as np
import pandas as pd
import pytest
from streamlit.testing.v1 import AppTest

from analysis.ingest import importer, registry
from analysis.ingest.contract.format import Hints, Opened
from analysis.predict.evaluate.evaluate import evaluate
from analysis.predict.frame.schema import Floats
from analysis.predict.predictors import registry as predictors
from analysis.predict.predictors.base import Predictor
from analysis.settings import asset
from analysis.store.database import Database
from analysis.store.parsed import REJECTED_COLUMNS, Parsed
from analysis.ui.shell import navigation
from tests.conftest import ROOT
from tests.predict.conftest import make

PACKAGES = sorted(path.parent for path in (ROOT / "analysis").rglob("__init__.py") if "_bundle" not in path.parts)
MODULES = sorted(path for path in (ROOT / "analysis").rglob("*.py") if "_bundle" not in path.parts)
CHAPTER = asset("data", "guide", "contributing.md").read_text(encoding="utf-8")

#: Most entries of a folder, without ``__init__.py``. The commands are one module each, so that their room has more.
MOST, MOST_COMMANDS = 24, 30


@pytest.mark.parametrize("folder", PACKAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_folder_can_be_taken_in_at_a_glance(folder: Path) -> None:
    held = [entry.name for entry in folder.iterdir() if not entry.name.startswith("__") and entry.name != "_bundle"]
    assert len(held) <= (MOST_COMMANDS if folder.name == "cli" else MOST), sorted(held)


@pytest.mark.parametrize("folder", PACKAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_package_says_what_is_in_it(folder: Path) -> None:
    said = ast.get_docstring(ast.parse((folder / "__init__.py").read_text(encoding="utf-8")))
    assert said
    assert "TODO" not in said


def test_no_file_is_longer_than_a_concept() -> None:
    long = {str(path.relative_to(ROOT)): len(path.read_text(encoding="utf-8").splitlines()) for path in MODULES}
    assert {name: lines for name, lines in long.items() if lines > 700} == {}


def diagram() -> str:
    """Return the rooms as the import contracts have them, the top floor first."""
    held = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]["contracts"]
    lines: list[str] = []
    for contract in held:
        if contract["type"] == "layers":
            lines.append(f"{contract['containers'][0]}/")
            lines += [
                "    " + "  ".join(room.strip(" ()") for room in floor.split(":")) for floor in contract["layers"]
            ]
    return "\n".join(lines)


def test_the_diagram_of_the_chapter_is_that_of_the_contracts() -> None:
    assert f"```text\n{diagram()}\n```" in CHAPTER


def test_rooms_and_files_that_the_chapter_names_are_there() -> None:
    for named in (part for part in CHAPTER.split("`")[1::2] if "/" in part and " " not in part and "<" not in part):
        assert any((ROOT / start / named).exists() for start in ("", "analysis")), named


@pytest.mark.parametrize(
    "module",
    [path for path in MODULES if ">>>" in path.read_text(encoding="utf-8")],
    ids=lambda path: str(path.relative_to(ROOT)),
)
def test_examples_in_docstrings_run(module: Path) -> None:
    name = ".".join(module.relative_to(ROOT).with_suffix("").parts)
    found = doctest.testmod(importlib.import_module(name))
    assert found.attempted
    assert not found.failed


class Diary:
    """A format made by the recipe: a line a job, its name and its GPU."""

    name, title = "toy-diary", "A diary of jobs"

    def sniff(self, opened: Opened) -> bool:
        return opened.head.startswith("# diary of jobs\n")

    def parse(self, opened: Opened, hints: Hints) -> Parsed:
        lines = [line.split(",") for line in opened.head.splitlines()[1:]]
        good = [line for line in lines if len(line) == 2]
        names = pd.DataFrame({"name": [line[0] for line in good]})
        wrong = [(number, None, "no GPU", ",".join(line)) for number, line in enumerate(lines, 2) if len(line) != 2]
        rejected = pd.DataFrame(wrong, columns=list(REJECTED_COLUMNS))
        return Parsed(self.name, len(lines), {"workload": names}, rejected=rejected)


class Middle(Predictor):
    """A predictor made by the recipe: the mean of ln S."""

    def fit(self, X: pd.DataFrame, y: Floats) -> Self:
        self.mean_ = float(np.mean(y))
        return self

    def predict(self, X: pd.DataFrame) -> Floats:
        return np.full(len(X), self.mean_)


def test_a_predictor_added_by_the_recipe_stands_beside_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    spec = predictors.PredictorSpec("middle", "Mean of ln S", "reference", Middle)
    monkeypatch.setattr(predictors, "_SPECS", (*predictors._SPECS, spec))
    monkeypatch.setitem(predictors.PREDICTORS, "middle", spec)  # type: ignore[misc]
    with Database(None) as database:
        make(database)
        rows = evaluate(database, "syn", "unseen-pair", ["middle"]).rows
    named = {row["predictor"]: row for row in (vars(one) if not isinstance(one, dict) else one for one in rows)}
    assert named["middle"]["status"] == "ok"
    assert named["middle"]["mape"] > 0
    assert f"{Middle.__module__}.Middle" in predictors.storable()


def test_a_page_added_by_the_recipe_opens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = tmp_path / "toy.py"
    script.write_text(
        '"""Does a toy open?"""\nfrom analysis.ui.shell import frame\n\nframe.header("Does a toy open?")\n'
    )
    spec = navigation.PageSpec("toy", "", "Toy", str(script), "toys")
    monkeypatch.setattr(navigation, "PAGES", (spec, *navigation.PAGES))
    test = AppTest.from_file(str(ROOT / "app.py"), default_timeout=60)
    test.run()
    assert not test.exception
    assert [title.value for title in test.title] == ["Does a toy open?"]


def test_a_format_added_by_the_recipe_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "FORMATS", (Diary(), *registry.FORMATS))
    file = tmp_path / "jobs.txt"
    file.write_text("# diary of jobs\nbert,T4\nresnet\n")
    with Database(None) as database:
        (report,) = importer.import_paths(database, [file])
        assert (report.format, report.status) == ("toy-diary", "loaded")
        assert (report.rows_read, report.rows_loaded, report.rows_rejected) == (2, 1, 1)
