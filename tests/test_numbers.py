"""Figures keep three significant digits, and names that hide something are shown."""

from __future__ import annotations

import math

import pytest

from analysis.numbers import format_value, significant, slowdown, visible


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1.3, "1.30"), (9.996, "10.0"), (99.96, "100"), (86.0051, "86.0"), (12345.6, "12,346"), (0, "0"),
        (-1.5, "-1.50"), (0.00123456, "0.00123"), (0.000012, "1.20e-05"), (3e12, "3.00e+12"), (1, "1.00"),
    ],
)  # fmt: skip
def test_three_significant_digits(value: float, text: str) -> None:
    assert significant(value) == text


def test_cells() -> None:
    assert format_value(None, "ratio") == format_value(math.nan, "count") == "–"
    assert format_value(1234567, "count") == "1,234,567"
    assert format_value(True, "flag") == "yes"
    assert format_value(math.inf, "number") == "∞"
    assert format_value(["a", "b"]) == "a, b"
    assert format_value("n/a", "percent") == "n/a"


def test_a_slowdown_in_a_sentence() -> None:
    assert slowdown(1.3411, 1.21, 1.5) == "1.34 x (1.21 to 1.50)"
    assert slowdown(1.3411, None, 1.5) == "1.34 x"
    assert slowdown(math.nan) == "–"


def test_characters_that_hide_or_reorder_are_written_out() -> None:
    assert visible("plain ASCII [x]") == "plain ASCII [x]"
    assert visible("größer × 量") == "größer × 量"
    assert visible("a\u202eb\u200fc\x00\x1b\r\t\ud800") == r"a\u202eb\u200fc\x00\x1b\x0d\x09\ud800"
    assert visible("line\nbreak") == "line break"
