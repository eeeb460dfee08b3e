"""The chart of sharing mechanisms."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from analysis.charts.mechanisms import mechanism_panels
from analysis.charts.theme import alt_text

FIGURES = ("stp", "together", "antt", "fairness", "p99_inflation")


def frames(p99: float = 2.0) -> tuple[pd.DataFrame, pd.DataFrame]:
    runs = pd.DataFrame(
        [
            ("CUDA MPS", "", ("a", "b"), 1.5, 66.7, 1.3, 0.9, p99),
            ("CUDA MPS", "", ("a", "c"), 1.4, 71.4, 1.4, 0.8, p99),
            ("<b>mine</b>", "limit 1", ("a", "b"), 1.2, 83.3, 1.7, 0.7, 40 * p99),
            ("<b>mine</b>", "limit 1", ("a", "c"), 1.2, 83.3, 1.7, 0.7, p99),
        ],
        columns=["mechanism", "setting", "jobs", *FIGURES],
    )
    table = runs.groupby(["mechanism", "setting"], sort=False)[list(FIGURES)].mean().reset_index()
    return table, runs


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_a_bar_a_mechanism_and_a_dot_a_set(theme: str) -> None:
    table, runs = frames()
    figure = mechanism_panels(table, runs, theme=theme)
    bars = [trace for trace in figure.data if trace.type == "bar"]
    dots = [trace for trace in figure.data if trace.type == "scatter" and trace.mode == "markers"]
    assert len(bars) == len(dots) == 4
    assert all(len(bar.x) == 2 for bar in bars)
    assert all(len(trace.x) == 4 for trace in dots)
    assert "CUDA MPS" in alt_text(figure)


def test_a_far_set_is_an_arrow_and_does_not_squeeze_the_rest() -> None:
    table, runs = frames()
    table.loc[1, "p99_inflation"] = 3.0
    figure = mechanism_panels(table, runs)
    last = [trace for trace in figure.data if trace.type == "scatter" and trace.mode == "markers"][-1]
    assert "triangle-right" in last.marker.symbol
    assert max(last.x) < 20


def test_panels_without_a_value_are_left_out_and_names_are_harmless() -> None:
    table, runs = frames(np.nan)
    figure = mechanism_panels(table, runs)
    assert len([trace for trace in figure.data if trace.type == "bar"]) == 3
    assert not any("<b>mine" in text for trace in figure.data for text in map(str, trace.y))


def test_a_single_set_needs_no_dots() -> None:
    table, runs = frames()
    figure = mechanism_panels(table, runs[runs["jobs"] == ("a", "b")])
    assert not [trace for trace in figure.data if trace.type == "scatter" and trace.mode == "markers"]


def test_no_mean_where_a_server_can_not_keep_up() -> None:
    table, runs = frames()
    table = table.assign(sets=2, overloaded=[0, 1])
    table.loc[1, "p99_inflation"] = np.nan
    figure = mechanism_panels(table, runs)
    ends = [trace.text for trace in figure.data if trace.type == "scatter" and trace.mode == "text"]
    assert ends[-1] == ("<b>2.00</b>", "<b>∞</b><br>1 of 2")
    assert all("∞" not in text for one in ends[:-1] for text in one)
