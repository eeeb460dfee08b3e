"""A report renders the same from its JSON, and no name in it acts, in HTML or in a spreadsheet."""

from __future__ import annotations

import csv
import io
import json
import math
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from analysis.errors import InputRefusedError, StallScopeError, UsageError
from analysis.report.document import Column, Matrix, ReportDocument, Table
from analysis.report.render import from_json, to_csv, to_html, to_json, write
from analysis.report.spreadsheet import defuse
from tests.report.conftest import HOSTILE, make_document


class _Elements(HTMLParser):
    """Counts elements and collects the text that a browser would run or show."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.scripts: list[str] = []
        self.shown: list[str] = []
        self._open: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs
        self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        while self._open and self._open.pop() != tag:
            pass

    def handle_data(self, data: str) -> None:
        where = self._open[-1] if self._open else ""
        if where == "script":
            self.scripts.append(data)
        elif where != "style":
            self.shown.append(data)


def test_the_json_is_the_document(hostile: ReportDocument) -> None:
    again = from_json(to_json(hostile))
    assert again == hostile
    assert to_html(again) == to_html(hostile)
    assert to_csv(again) == to_csv(hostile)
    assert json.loads(to_json(hostile))["schema_version"] == "1"


def test_hostile_names_add_no_element_and_no_attribute(hostile: ReportDocument) -> None:
    tame = make_document(*(f"name {index}" for index in range(len(HOSTILE))))
    seen, wanted = _Elements(to_html(hostile)), _Elements(to_html(tame))
    assert seen.tags == wanted.tags
    # How long a name is decides about line breaks, by a class of ours.
    names = [[name for name, _ in page.attributes if name != "class"] for page in (seen, wanted)]
    assert names[0] == names[1]
    assert len(seen.scripts) == len(wanted.scripts)
    assert not [value for name, value in seen.attributes if name == "href" and not str(value).startswith("#")]


def test_hostile_names_are_shown_as_they_are(hostile: ReportDocument) -> None:
    shown = "".join(_Elements(to_html(hostile)).shown)
    assert "<script>window.hacked=1</script>" in shown
    assert "{{ 7 * 7 }}{% raw %}" in shown
    assert r"\u202egnp.exe\u202c" in shown
    assert "\u202e" not in shown
    # A name of 5,000 characters is cut where it stands in a sentence or a cell; JSON and CSV hold all of it.
    assert max(len(text) for text in shown.split()) < 1000


def test_charts_hold_no_link_and_cannot_end_their_element(hostile: ReportDocument) -> None:
    data = [script for script in _Elements(to_html(hostile)).scripts if script.startswith('{"data"')]
    assert len(data) == 2
    chart = json.loads(data[0])
    assert chart["data"][0]["x"][0] == HOSTILE[0]
    assert "<a" not in json.dumps(chart)
    assert not re.search(r"[<>&]", data[0])
    assert chart["layout"]["width"] == 900


def test_plotly_stands_in_the_page_once_and_only_with_charts(harmless: ReportDocument) -> None:
    page = to_html(harmless)
    assert page.count("plotly.js v") == 1
    assert "plotly.js v" not in to_html(harmless.model_copy(update={"sections": ()}))
    outside = _Elements(page)
    assert not [value for name, value in outside.attributes if name in ("src", "data", "action", "poster")]
    assert "link" not in outside.tags


def test_figures_carry_their_interval_and_no_value_is_a_dash(harmless: ReportDocument) -> None:
    page = to_html(harmless)
    assert '5.93 <span class="interval">5.10 to 6.80</span>' in page
    assert page.count('class="interval"') == 1
    assert '<th scope="col" class="figure">low (%)</th>' not in page
    assert "1,234" in page


def test_simulated_figures_are_labelled_at_the_title() -> None:
    page = to_html(make_document("a", "b", provenance="simulated"))
    assert re.search(r'<h1>.*<span class="badge simulated">simulated</span></h1>', page)


def test_a_large_matrix_is_cut_for_paper() -> None:
    page = to_html(make_document(*(f"w{index}" for index in range(60))))
    assert page.count('<table class="matrix') == 3
    assert "columns 53 to 60" in page
    assert len(page.encode()) < 8_000_000
    assert '<table class="matrix' not in to_html(make_document(*(f"w{index}" for index in range(81))))


@pytest.mark.parametrize("name", [name for name in HOSTILE if name[0] in "=+-@\t\r"])
def test_formulas_are_defused(hostile: ReportDocument, name: str) -> None:
    text = to_csv(hostile)
    cells = [cell for row in csv.reader(io.StringIO(text, newline="")) for cell in row]
    assert f"'{name}" in cells
    assert name not in cells


@given(st.text())
def test_no_text_is_a_formula_after_defusing(text: str) -> None:
    assert not defuse(text).startswith(("=", "+", "-", "@", "\t", "\r"))
    assert defuse(text) in (text, f"'{text}")


def test_numbers_in_csv_keep_all_digits_and_their_sign() -> None:
    table = Table(
        title="t",
        columns=(Column(key="a", label="a", kind="number"), Column(key="b", label="b"), Column(key="c", label="c")),
        rows=((-0.1 + 0.3, None, True), (float("nan"), "-x", False)),
    )
    document = make_document("a", "b")
    section = document.sections[0].model_copy(update={"blocks": (table,)})
    rows = list(csv.reader(io.StringIO(to_csv(document.model_copy(update={"sections": (section,)})), newline="")))
    start = rows.index(["t"])
    assert rows[start + 1 : start + 4] == [["a", "b", "c"], ["0.19999999999999998", "", "true"], ["", "'-x", "false"]]


def test_a_matrix_in_csv_keeps_every_cell_and_its_state() -> None:
    rows = list(csv.reader(io.StringIO(to_csv(make_document("a", "b")), newline="")))
    assert ["a", "b", "1.3", "1.3", "1.3", "measured", "1", "1.3"] in rows
    assert ["b", "b", "1.6", "1.6", "1.6", "flagged", "1", "1.6"] in rows


def test_values_without_a_json_form_never_enter_the_document() -> None:
    table = Table(title="t", columns=(Column(key="a", label="a"),), rows=((math.inf,), (math.nan,)))
    assert table.rows == ((None,), (None,))
    with pytest.raises(ValidationError):
        Table(title="t", columns=(Column(key="a", label="a"),), rows=((1, 2),))
    with pytest.raises(ValidationError):
        Matrix(title="t", gpu="g", mechanism="m", workloads=("a",), slowdown=((1.0, 2.0),), low=((1.0,),),
               high=((1.0,),), stp=((1.0,),), state=(("measured",),), runs=((1,),))  # fmt: skip


@pytest.mark.parametrize("content", [b"", b"{}", b"[]", b"\xff", b'{"schema_version": "2"}'])
def test_something_else_is_refused_as_a_report(content: bytes) -> None:
    with pytest.raises(InputRefusedError, match="not a StallScope report"):
        from_json(content)


def test_the_ending_decides_and_a_failure_keeps_the_old_file(tmp_path: Path, harmless: ReportDocument) -> None:
    for ending, start in ((".html", "<!DOCTYPE html>"), (".json", "{"), (".CSV", "\ufeffreport,BERT")):
        path = tmp_path / f"report{ending}"
        assert write(harmless, path) == path.stat().st_size
        assert path.read_text(encoding="utf-8").startswith(start)
    with pytest.raises(UsageError, match="docx"):
        write(harmless, tmp_path / "report.docx")
    with pytest.raises(StallScopeError, match="can't be written"):
        write(harmless, tmp_path / "no" / "report.html")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["report.CSV", "report.html", "report.json"]
