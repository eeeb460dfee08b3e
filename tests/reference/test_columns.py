"""One vocabulary of columns: every entry is complete, and no title of its columns stands anywhere else."""

import ast
import csv
from collections import Counter, defaultdict
from pathlib import Path

import pandas as pd
import pytest

from analysis.numbers import UNITS
from analysis.reference.columns import vocabulary
from analysis.report.table import columns_of
from analysis.settings import asset
from analysis.ui.shell.columns import configured

ROOT = Path(__file__).parents[2]
FOLDERS = ("analysis/ui", "analysis/cli", "analysis/report", "pages")


def sources():
    for folder in FOLDERS:
        for file in sorted((ROOT / folder).rglob("*.py")):
            yield file.relative_to(ROOT).as_posix(), file.read_text(encoding="utf-8")


def _text(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str) and bool(node.value.strip())


def _called(node: ast.AST) -> str:
    return ast.unparse(node.func) if isinstance(node, ast.Call) else ""


def titled(source: str) -> set[str]:
    """Return the columns of the vocabulary that get their title in this source."""
    keys = {term.key for term in vocabulary().values()}
    tree = ast.parse(source)
    settings = {
        word.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and not _called(node).endswith(".rename")
        for word in node.keywords
        if word.arg in ("columns", "column_config")
    }
    found = set()
    for node in ast.walk(tree):
        if _called(node) in ("column", "Column", "document.Column") and len(node.args) > 1 and _text(node.args[1]):
            found.add(getattr(node.args[0], "value", ""))
        if isinstance(node, ast.Dict):
            mine = node in settings or any(
                "column_config." in _called(value) or _called(value) == "configured" for value in node.values
            )
            for key, value in zip(node.keys, node.values, strict=True):
                given = mine and _text(value)
                made = "column_config." in _called(value) and any(map(_text, [*value.args, *(
                    word.value for word in value.keywords if word.arg == "label")]))  # fmt: skip
                if key is not None and (given or made):
                    found.add(getattr(key, "value", ""))
    return found & keys


def asked(source: str) -> set[str]:
    """Return the entries that this source asks for."""
    return {
        argument.value
        for node in ast.walk(ast.parse(source))
        if _called(node) in ("configured", "columns_of")
        for argument in node.args
        if isinstance(argument, ast.Constant)
    }


def test_every_entry_is_complete():
    with asset("data", "columns.csv").open(encoding="utf-8", newline="") as file:
        names = [row["name"] for row in csv.DictReader(file)]
    assert [name for name, times in Counter(names).items() if times > 1] == []
    assert names == sorted(names, key=lambda name: name.split("/"))
    for term in vocabulary().values():
        assert term.title == term.title.strip(), term.name
        assert len(term.help) > 8, term.name
        assert term.help[0] == term.help[0].upper() or term.help[0].isdigit(), term.name
        assert term.help.endswith((".", "...")), term.name
        assert term.kind in UNITS, term.name
        assert term.width in ("", "small", "medium", "large"), term.name
        assert not UNITS[term.kind] or term.unit == UNITS[term.kind], f"{term.name}: the unit of its kind"
        assert "(x)" not in term.title, term.name
        assert "(%)" not in term.title, term.name


def test_one_title_has_one_meaning():
    meanings = defaultdict(set)
    for term in vocabulary().values():
        meanings[term.header].add(term.help)
    assert {title: said for title, said in meanings.items() if len(said) > 1} == {}


def test_no_title_stands_outside():
    found = {(path, key) for path, source in sources() for key in titled(source)}
    assert found == set()


@pytest.mark.parametrize(
    "source",
    [
        'column("worst", "worst S", "ratio")',
        'x = {"worst": st.column_config.NumberColumn("Worst S (x)")}',
        'x = {"worst": st.column_config.NumberColumn(label="Worst S (x)")}',
        'frame.data(table, columns={"worst": "Worst"})',
        'x = {**configured("stp"), "worst": "Worst"}',
    ],
)
def test_a_title_outside_is_found(source):
    assert titled(source) == {"worst"}


def test_what_is_asked_for_is_there_and_what_is_there_is_asked_for():
    everything = set().union(*(asked(source) for _, source in sources()))
    assert everything - set(vocabulary()) == set()
    assert set(vocabulary()) - everything == set()


def test_pages_and_reports_say_the_same():
    term = vocabulary()["worst"]
    assert (term.header, columns_of("worst")[0].header) == ("Worst S, x", "worst S (x)")
    assert [one.header for one in columns_of("stp", "ms", "jain", "p99_ms", "slowdown/simulated")] == [
        "STP", "GPU time, ms", "Jain's index", "p99 shared, ms", "S, simulated (x)",
    ]  # fmt: skip


def test_changes_are_of_columns_that_are_there():
    assert columns_of("predicted", predicted={"low": "low", "high": "high"})[0].low == "low"
    with pytest.raises(KeyError):
        columns_of("predicted", measured={"low": "low"})
    with pytest.raises(KeyError):
        columns_of("no such entry")


def test_settings_of_a_page_carry_title_help_and_format():
    made = configured("workload/job", "worst", "safe", "sentence", "loaded_at", workload={"pinned": True})
    assert list(made) == ["workload", "worst", "safe", "sentence", "loaded_at"]
    assert (made["workload"]["label"], made["workload"]["pinned"]) == ("Job", True)
    assert made["worst"]["help"] == vocabulary()["worst"].help
    assert made["worst"]["type_config"]["format"] == "%.2f"
    kinds = [one.get("type_config", {}).get("type") for one in made.values()]
    assert kinds == [None, "number", "checkbox", "text", "datetime"]
    assert list(configured(pd.DataFrame(columns=["stp", "nobody's"]))) == ["stp"]
    with pytest.raises(KeyError):
        configured("stp", worst={"pinned": True})


def test_an_empty_cell_reads_as_a_dash_everywhere():
    tables = [
        (path, node.lineno, {word.arg for word in node.keywords})
        for path, source in sources()
        for node in ast.walk(ast.parse(source))
        if _called(node) in ("st.dataframe", "st.data_editor")
    ]
    assert len(tables) > 12
    assert [(path, line) for path, line, words in tables if "placeholder" not in words] == []


def test_no_title_loses_the_capitals_inside_it():
    changed = [
        (path, node.lineno)
        for folder in ("analysis", "pages")
        for file in sorted((ROOT / folder).rglob("*.py"))
        for path, node in ((file.relative_to(ROOT).as_posix(), node) for node in ast.walk(ast.parse(file.read_text())))
        if isinstance(node, ast.Call)
        and _called(node).split(".")[-1] in ("lower", "capitalize", "title")
        and ast.unparse(node.func).split(".")[-2:-1] == ["title"]
    ]
    assert changed == []
