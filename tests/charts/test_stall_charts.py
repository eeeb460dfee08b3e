"""Stall charts draw what was reported, hatch what was not accounted for, and outline what a GPU can't report."""

from __future__ import annotations

import pandas as pd
import pytest

from analysis.charts.stall_bars import stall_bars
from analysis.charts.stall_heatmap import stall_heatmap
from analysis.charts.theme import alt_text, group_colour, on, reason_colour, template
from analysis.errors import UsageError
from analysis.reference import stall_reasons


def _bars(figure):
    return {t.name: t for t in figure.data if t.type == "bar" and t.x is not None and t.x[0] is not None}


def test_segments_are_the_shares_in_their_groups_colours(shares) -> None:
    bars = _bars(stall_bars(shares))
    assert bars["Long scoreboard"].x.tolist() == [60]
    assert bars["Long scoreboard"].marker.color == "#0072B2"
    assert bars["Barrier"].marker.color == "#CC79A7"


def test_what_is_open_is_hatched_and_not_scaled_away(shares) -> None:
    bars = _bars(stall_bars(shares))
    assert bars["unaccounted"].x.tolist() == pytest.approx([25])
    assert bars["unaccounted"].marker.pattern.shape == "/"
    assert "25.0 %" in bars["unaccounted"].hovertext[0]
    cycles = _bars(stall_bars(shares, unit="cycles"))
    assert cycles["Long scoreboard"].x.tolist() == [6]
    assert cycles["unaccounted"].x.tolist() == pytest.approx([2.5])


def test_without_a_stated_total_nothing_is_hatched(shares) -> None:
    bars = _bars(stall_bars(shares.assign(accounted=float("nan"), total=float("nan"))))
    assert "unaccounted" not in bars


def test_no_more_bars_than_fit_and_the_rest_is_said(shares) -> None:
    many = pd.concat([shares.assign(kernel=f"k{i}", short_name=f"k{i}") for i in range(50)])
    figure = stall_bars(many, most=10)
    assert len(figure.layout.yaxis.categoryarray) == 10
    assert "40 more are not drawn" in alt_text(figure)


def test_hostile_kernel_names_are_text(shares) -> None:
    for figure in (stall_bars(shares), stall_heatmap(shares)):
        labels = figure.layout.yaxis.categoryarray or figure.layout.yaxis.ticktext
        assert all("<" not in text and "$" not in text for text in labels)
        assert "\\u003cscript" not in figure.to_json().split('"meta"')[0]


def test_heatmap_tells_not_available_from_not_reported(shares) -> None:
    figure = stall_heatmap(shares, unavailable=("gmma",))
    assert "GMMA" in figure.layout.xaxis.ticktext
    assert any(t.name == "not available on this GPU" for t in figure.data)
    heat = figure.data[0]
    column = list(figure.layout.xaxis.ticktext).index("GMMA")
    assert "can't report" in heat.hovertext[0][column]
    barrier = list(figure.layout.xaxis.ticktext).index("Barrier")
    assert "not in the profile" in heat.hovertext[0][barrier]
    assert "70.0 %" in heat.hovertext[1][barrier]


def test_reasons_are_shades_of_their_group_and_selected_is_lighter() -> None:
    for group in stall_reasons.groups():
        colours = [reason_colour(reason) for reason in group.reasons]
        assert len(set(colours)) == len(colours)
        if group.reasons and group.name != "issue":
            assert colours[0] == group_colour(group.name)
    assert _lightness(reason_colour("selected")) > _lightness(reason_colour("not_selected"))


def test_text_on_colours_can_be_read() -> None:
    assert on("#0072B2") == "#FFFFFF"
    assert on("#F0E442") == "#16202A"
    for group in stall_reasons.groups():
        for reason in group.reasons:
            colour = reason_colour(reason)
            assert _contrast(colour, on(colour)) >= 4.5 or _contrast(colour, on(colour)) == max(
                _contrast(colour, ink) for ink in ("#FFFFFF", "#16202A")
            )


def test_themes_differ_and_empty_tables_draw(shares) -> None:
    assert template("light").layout.font.color != template("dark").layout.font.color
    for figure in (stall_bars(shares.iloc[:0]), stall_heatmap(shares.iloc[:0])):
        assert alt_text(figure) == "No stall reasons to draw."
    with pytest.raises(UsageError, match="watts"):
        stall_bars(shares, unit="watts")


def _luminance(colour: str) -> float:
    channels = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def _lightness(colour: str) -> float:
    return _luminance(colour)


def _contrast(a: str, b: str) -> float:
    high, low = sorted((_luminance(a), _luminance(b)), reverse=True)
    return (high + 0.05) / (low + 0.05)
