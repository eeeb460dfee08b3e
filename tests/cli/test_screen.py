"""What people read: names are shown as they are, and can't act."""

from __future__ import annotations

import pandas as pd
import pytest

from analysis.cli.screen import Screen
from analysis.report.table import column


def test_names_are_neither_markup_nor_terminal_commands(capsys: pytest.CaptureFixture[str]) -> None:
    hostile = ["[red]x[/red]", "\x1b[2Jgone", "\u202ereversed", ":smile:", "a\nb"]
    frame = pd.DataFrame({"name": hostile, "share": [1.0, None, 12.345, 100.0, 0.0]})
    columns = [column("name", "name"), column("share", "share", "percent"), column("absent", "absent")]
    Screen().table(frame, columns)
    printed = capsys.readouterr().out
    assert "\x1b" not in printed
    assert "\u202e" not in printed
    assert "absent" not in printed
    for shown in ("[red]x[/red]", r"\x1b[2Jgone", r"\u202ereversed", ":smile:", "a b", "share (%)", "12.3", "–"):
        assert shown in printed


def test_figures_are_never_cut(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("COLUMNS", "30")
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    monkeypatch.setattr("analysis.cli.screen._PIPE_WIDTH", 30)
    columns = [column("name", "name"), *(column(str(place), str(place), "number") for place in range(12))]
    Screen().table([{"name": "workload name", **{str(place): 1.234 for place in range(12)}}], columns)
    printed = capsys.readouterr().out
    assert printed.count("1.23") == 12
    assert "workload name" in printed


def test_long_names_are_folded_and_not_cut(capsys: pytest.CaptureFixture[str]) -> None:
    Screen().table([{"name": "k" * 1000}], [column("name", "name")])
    assert capsys.readouterr().out.count("k") == 1000
