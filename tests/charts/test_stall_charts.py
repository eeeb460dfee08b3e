"""Stall charts draw what was reported, hatch what was not accounted for, and outline what a GPU can't report."""

from __future__ import annotations

import pandas as pd
import pytest

from analysis.charts.overlap import overlap_bars
from analysis.charts.roofline import roofline_chart
from analysis.charts.stall_bars import differences, stall_bars
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


def test_families_have_no_common_axis(shares) -> None:
    other = shares.assign(stall_family="per_warp_active", workload="vit")
    with pytest.raises(UsageError, match="no common axis"):
        stall_bars(pd.concat([shares, other]))


def test_what_a_gpu_cannot_report_is_outlined_and_not_zero(shares) -> None:
    figure = stall_bars(shares, unavailable={"V100": ("gmma", "barrier")})
    outlines = [shape for shape in figure.layout.shapes if shape.line.dash == "dot"]
    # gmma behind both bars, barrier only behind the one that does not report it after all
    assert len(outlines) == 3
    assert all(shape.x0 > 100 for shape in outlines)
    assert any(trace.name == "not available on this GPU" for trace in figure.data)
    assert "GMMA" not in _bars(figure)
    assert not stall_bars(shares).layout.shapes


def test_bars_of_short_names_are_told_apart_by_them(shares) -> None:
    named = shares.drop(columns=["kernel", "grid", "block"])
    assert len(stall_bars(named).layout.yaxis.categoryarray) == 2


def _differences() -> pd.DataFrame:
    rows = [
        ("b", "wait", 20.0, 50.0, 30.0, "both"), ("b", "imc_miss", 5.0, None, None, "not available on other"),
        ("c", "wait", 20.0, 10.0, -10.0, "both"), ("c", "imc_miss", 5.0, 6.0, 1.0, "both"),
    ]  # fmt: skip
    columns = ["other", "reason", "share_base", "share_other", "difference", "state"]
    return pd.DataFrame(rows, columns=columns).assign(other_gpu="V100", cycles_difference=float("nan"))


def test_differences_have_a_mark_where_there_is_no_bar() -> None:
    figure = differences(_differences(), base="a on V100")
    bars = {trace.name: trace for trace in figure.data if trace.type == "bar"}
    assert bars["b on V100"].x.tolist()[0] == 30
    assert pd.isna(bars["b on V100"].x[1])
    mark = next(trace for trace in figure.data if trace.type == "scatter" and trace.hovertext)
    assert mark.y[0] == pytest.approx(bars["b on V100"].y[1])  # where its bar would be
    assert "not available on other" in mark.hovertext[0]
    assert alt_text(figure).startswith(
        "Bars of differences from a on V100 by stall reason. Largest: b on V100 Wait +30.0"
    )


def test_overlap_keeps_use_and_wait_apart() -> None:
    lean = pd.DataFrame(
        [("a", "DRAM", 71.0, None, True), ("a", "math pipes", None, 12.0, True), ("b", "DRAM", None, None, False),
         ("b", "math pipes", 40.0, 3.0, True)],
        columns=["workload", "title", "use", "wait", "leans"],
    )  # fmt: skip
    figure = overlap_bars(lean, limits=(30.0, 10.0))
    bars = [trace for trace in figure.data if trace.type == "bar"]
    assert [trace.xaxis for trace in bars] == ["x", "x2", "x", "x2"]
    silent = [text for trace in figure.data if trace.type == "scatter" for text in trace.hovertext or ()]
    assert sorted(silent) == [
        "<b>a</b><br>math pipes: no counter states its use", "<b>b</b><br>DRAM: no counter states its use",
    ]  # fmt: skip
    assert "a DRAM 71.0 % of its peak" in alt_text(figure)
    assert "a math pipes 12.0 % of warp cycles" in alt_text(figure)


def test_a_roof_stands_over_its_points() -> None:
    points = pd.DataFrame(
        [("V100", "k<1>", "k", "job", 2.0, 1000.0, 500.0, 9.0, "memory", "abc")],
        columns=["gpu", "kernel", "short_name", "workload", "intensity", "gflops", "gbps", "time_ns", "bound", "key"],
    )
    peaks = pd.DataFrame({"gflops": [15000.0], "gbps": [900.0]}, index=["V100"])
    figure = roofline_chart(points, peaks)
    roof = next(trace for trace in figure.data if trace.mode == "lines")
    assert max(roof.y) == 15000
    assert roof.y[0] == pytest.approx(roof.x[0] * 900)
    assert "reaches 1,000 Gflop/s at 2.00 operations a byte" in alt_text(figure)
