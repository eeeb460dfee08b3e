"""Comparison, prediction and explanation charts show their table's numbers and say them in words."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from analysis.charts.comparison_bars import comparison_bars
from analysis.charts.explanations import beeswarm, importance_bars, waterfall
from analysis.charts.predictions import coverage, predicted_vs_measured, residuals
from analysis.charts.sensitivity_pressure import sensitivity_pressure
from analysis.charts.theme import WORSE, alt_text, full, label

ROWS = pd.DataFrame(
    {
        "predictor": ["train median", "kNN <b>", "ours"],
        "mape": [28.4, np.nan, 5.9],
        "low": [25.0, np.nan, 5.0],
        "high": [32.0, np.nan, 7.0],
        "status": ["ok", "needs: stall profiles", "ok"],
    }
)


def test_bars_carry_their_interval_and_a_missing_one_its_reason() -> None:
    figure = comparison_bars(ROWS, low="low", high="high", note="status", emphasised={"ours"})
    bar = figure.data[0]
    assert bar.error_x.array[2] == pytest.approx(1.1)
    assert bar.error_x.arrayminus[2] == pytest.approx(0.9)
    assert bar.marker.color[2] != bar.marker.color[0]
    texts = [a.text for a in figure.layout.annotations]
    assert any("needs: stall profiles" in text for text in texts)
    assert "ours: 5.90 % (5.00 to 7.00)" in alt_text(figure)
    assert "kNN <b>: needs: stall profiles" in alt_text(figure)
    assert all("<b>" not in text for text in figure.layout.yaxis.categoryarray)


def test_predicted_vs_measured_has_the_identity_line() -> None:
    frame = pd.DataFrame({"workload": ["a", "b"], "measured": [1.0, 2.0], "predicted": [1.05, 3.0]})
    figure = predicted_vs_measured(frame)
    line = next(t for t in figure.data if t.name == "predicted = measured")
    assert line.x.tolist() == line.y.tolist()
    assert "50.0 % lie within 10 %" in alt_text(figure)
    assert "mean absolute error 27.5 %" in alt_text(figure)
    assert "(+50.0 %)" in figure.data[-1].hovertext[1]


def test_residuals_order_by_error_and_mark_the_dangerous_side() -> None:
    frame = pd.DataFrame(
        {"workload": ["good"] * 3 + ["bad"] * 3, "measured": [1.0] * 6, "predicted": [1.01, 1.0, 0.99, 0.6, 0.7, 0.65]}
    )
    figure = residuals(frame)
    assert figure.layout.yaxis.categoryarray == ("bad", "good")
    low = next(a for a in figure.layout.annotations if "too low" in a.text)
    assert low.x == 0
    assert low.font.color == WORSE


def test_waterfall_adds_up_and_speaks_in_factors() -> None:
    parts = [
        {"feature": f"f{i}", "shap": value, "whose": "own"} for i, value in enumerate([0.3, -0.1, 0.02, 0.001, 0.002])
    ]
    prediction = 0.2 + sum(part["shap"] for part in parts)
    figure = waterfall(0.2, parts, prediction)
    bars = [t for t in figure.data if t.type == "bar"]
    assert sum(float(bar.x[0]) for bar in bars) == pytest.approx(prediction - 0.2)
    assert bars[-1].base[0] + bars[-1].x[0] == pytest.approx(prediction)
    assert len(bars) == 4  # the two below x 1.005 are one bar
    assert "f0 (own) x 1.35" in alt_text(figure)
    assert f"{np.exp(prediction):.2f} x" in alt_text(figure)


def test_importance_and_swarm_order_by_size() -> None:
    frame = pd.DataFrame({"feature": ["small", "large"], "mean_abs_shap": [0.1, 0.4], "whose": ["own", "pair"]})
    assert importance_bars(frame).layout.yaxis.categoryarray == ("large", "small")
    swarm = pd.DataFrame(
        {"feature": ["small"] * 50 + ["large"] * 50, "shap": [*np.full(50, 0.1), *np.linspace(-1, 1, 50)], "value": 1.0}
    )
    figure = beeswarm(swarm)
    assert figure.layout.yaxis.ticktext == ("large", "small")
    crowded = next(t for t in figure.data if len(t.x) == 50 and t.x[0] == 0.1)
    assert len(set(np.round(crowded.y, 6))) > 10  # equal values lie beside one another, not on one another
    assert np.abs(np.asarray(crowded.y) - 1).max() < 0.5  # and stay in their row


def test_coverage_below_its_promise_is_marked() -> None:
    frame = pd.DataFrame({"predictor": ["a", "b", "c"], "coverage": [91.0, 68.0, np.nan], "groups": [115, 4, 3]})
    figure = coverage(frame)
    markers = next(t for t in figure.data if t.mode == "markers")
    assert markers.x.tolist() == [91, 68]
    assert markers.marker.color[1] == WORSE
    assert markers.marker.color[0] != WORSE
    assert "b 68.0 %, 4 groups" in alt_text(figure)


def test_sensitivity_and_pressure_name_the_extremes() -> None:
    frame = pd.DataFrame(
        {
            "workload": ["calm", "victim <i>", "bully"], "family": ["x", "y", "y"], "suffers": [1.05, 2.0, 1.1],
            "suffers_low": 1.0, "suffers_high": 2.5, "hurts": [1.1, 1.2, 3.0], "hurts_low": 1.0, "hurts_high": 3.5,
            "partners": 5,
        }
    )  # fmt: skip
    figure = sensitivity_pressure(frame, ranges=True)
    text = alt_text(figure)
    assert "1 do neither beyond 1.20 x" in text
    assert "victim <i> suffers most (2.00 x), bully hurts most (3.00 x)" in text
    assert all("<i>" not in (a.text or "") for a in figure.layout.annotations)
    assert alt_text(sensitivity_pressure(frame.iloc[:0])) == "No workload has slowdowns to draw."


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_empty_tables_draw(theme: str) -> None:
    empty = pd.DataFrame({"workload": [], "measured": [], "predicted": []}, dtype=float)
    assert alt_text(predicted_vs_measured(empty, theme=theme)) == "No predictions to draw."
    assert alt_text(residuals(empty, theme=theme)) == "No predictions to draw."
    assert alt_text(coverage(pd.DataFrame({"predictor": [], "coverage": []}, dtype=float), theme=theme))
    assert alt_text(importance_bars(pd.DataFrame({"feature": [], "mean_abs_shap": []}), theme=theme))
    assert alt_text(comparison_bars(ROWS.iloc[:0], theme=theme))


def test_names_in_charts_are_harmless_and_read_as_they_are() -> None:
    name = '=HYPERLINK("http://x")'
    assert (label(name), full(name)) == (name, name)
    assert label("<b>$x$</b>") == "&lt;b&gt;&#36;x&#36;&lt;/b&gt;"
