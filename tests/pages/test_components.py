"""The pieces that pages share: hostile text, files for spreadsheets, the next step, errors as sentences."""

from __future__ import annotations

import pandas as pd
import pytest
from streamlit.testing.v1 import AppTest

from analysis.report.spreadsheet import csv_bytes
from analysis.ui.parts.next_step import next_step
from analysis.ui.shell import frame, markdown

NOTHING = dict.fromkeys(
    ("sources", "gpus", "workloads", "profiles", "launches", "runs", "pairs", "models", "evaluations"), 0
)


@pytest.mark.parametrize(
    "name",
    [
        "**bold**",
        "[link](http://a.b)",
        "<script>",
        ":red[x]",
        ":material/home:",
        "$x$",
        "`code`",
        "# title",
        "a|b",
        "~~s~~",
    ],
)
def test_a_name_is_only_a_name(name: str) -> None:
    escaped = markdown.plain(name)
    assert escaped.replace("\\", "") == name
    special = set("\\`*_{}[]()#|~<>$:")
    for place, character in enumerate(escaped):
        if character in special - {"\\"}:
            assert escaped[place - 1] == "\\"


def test_long_and_invisible_text_is_tamed() -> None:
    assert len(markdown.plain("k" * 5000)) == 80
    assert "\u202e" not in markdown.plain("safe\u202egpj.exe")
    assert "\n" not in markdown.plain("two\nlines")


def test_code_stays_code_in_sentences() -> None:
    assert markdown.sentence("Run `ncu --csv` on *x*.") == "Run `ncu --csv` on \\*x\\*\\."
    # Two hyphens alone would be drawn as a dash, and the command that is copied would fail.
    assert "B `--` JOB" in markdown.sentence("capture corun --workload B -- JOB")


def test_spreadsheets_get_no_formulas() -> None:
    frame = pd.DataFrame(
        {"kernel": ["=cmd|'/C calc'!A0", "gemm", "@x"], "n": [-1, 2, 3], "flags": [["a", "b"], [], []]}
    )
    text = csv_bytes(frame).decode()
    assert "\n'=cmd" in text
    assert "\n'@x" in text
    assert "gemm,2," in text
    assert ",-1," in text, "numbers stay numbers"
    assert "a; b" in text


def test_the_next_step_follows_the_data() -> None:
    assert next_step(NOTHING).page == "upload"
    assert next_step({**NOTHING, "sources": 1, "profiles": 2}).page == "stalls"
    assert next_step({**NOTHING, "sources": 1, "runs": 8}).page == "partners"
    assert next_step({**NOTHING, "sources": 1, "runs": 42}).page == "train"
    assert next_step({**NOTHING, "sources": 1, "runs": 42, "evaluations": 1}).page == "train"
    assert next_step({**NOTHING, "sources": 1, "runs": 42, "models": 1}).page == "what-if"


def test_an_unforeseen_error_is_one_sentence_and_a_log_id() -> None:
    def script() -> None:
        from analysis.ui.shell.errors import boundary

        with boundary("test"):
            raise RuntimeError("secret detail")

    page = AppTest.from_function(script).run()
    assert not page.exception
    assert len(page.error) == 1
    assert "secret" not in page.error[0].value
    assert "log" in page.error[0].value


def test_a_named_error_is_its_own_sentence_and_its_names_are_harmless() -> None:
    def script() -> None:
        from analysis.errors import InputRefusedError, Where
        from analysis.ui.shell.errors import boundary

        with boundary("test"):
            raise InputRefusedError("the file is empty", "Export it again with `ncu --csv`.", Where(file="**a**.csv"))

    page = AppTest.from_function(script).run()
    assert "\\*\\*a\\*\\*\\.csv: the file is empty" in page.error[0].value.replace("\\:", ":")
    assert "`ncu --csv`" in page.error[0].value


def test_a_choice_of_rows_does_not_outlive_the_rows() -> None:
    """The browser keeps a choice by row number: in a table of other rows it would be of another row."""
    key = frame.rows_key("sources", [3, 2, 1])
    assert key == frame.rows_key("sources", iter([3, 2, 1]))
    assert len({key, frame.rows_key("sources", [2, 1]), frame.rows_key("sources", [1, 2, 3])}) == 3
