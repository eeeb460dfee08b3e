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


def test_long_names_are_folded_and_not_cut(capsys: pytest.CaptureFixture[str]) -> None:
    Screen().table([{"name": "k" * 1000}], [column("name", "name")])
    assert capsys.readouterr().out.count("k") == 1000
