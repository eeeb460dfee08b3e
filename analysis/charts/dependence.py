"""How a feature's contribution depends on its value, coloured by the feature that acts together with it."""

from __future__ import annotations

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from analysis.charts.explanations import factor_ticks
from analysis.charts.theme import finish, ink, label
from analysis.numbers import shorten, significant, visible


def dependence(
    frame: pd.DataFrame, *, feature: str, other: str | None, unit: str = "", theme: str = "light"
) -> go.Figure:
    """Draw the contributions of one feature over its values.

    Parameters
    ----------
    frame : pd.DataFrame
        value, shap (ln S), workload, and other (value of the second feature) where there is one; one row a prediction.
    feature : str
        What the values are of.
    other : str or None
        What the colour shows; None for one colour.
    unit : str
        Unit of the values, for the axis; values over several decades get a logarithmic one.
    theme : {"light", "dark"}
        The background.
    """
    pen = ink(theme)
    values, shap = frame["value"].to_numpy(float), frame["shap"].to_numpy(float)
    marker: dict[str, object] = {"size": 7, "opacity": 0.8, "color": "#56B4E9"}
    if other is not None:
        rank = frame["other"].rank(pct=True).to_numpy(float)
        marker |= {
            "color": np.where(np.isnan(rank), 0.5, rank), "cmin": 0, "cmax": 1, "showscale": True,
            "colorscale": [[0, "#56B4E9"], [0.5, "#8A949E"], [1, "#D55E00"]],
            "colorbar": {"title": {"text": label(shorten(visible(other), 34)), "side": "top"}, "tickvals": [0, 1],
                         "ticktext": ["low", "high"], "thickness": 12, "len": 0.7},
        }  # fmt: skip
    figure = go.Figure(
        go.Scatter(
            x=values, y=shap, mode="markers", marker=marker, showlegend=False, hoverinfo="text",
            hovertext=[
                f"<b>{label(str(name))}</b><br>{significant(v) if v == v else '–'} {label(unit)}: x {np.exp(s):.3f}"
                for name, v, s in zip(frame["workload"], values, shap, strict=True)
            ],
        )
    )  # fmt: skip
    around = max(float(np.abs(shap).max()) if len(shap) else 0.0, 0.02)
    ticks = factor_ticks(float(np.exp(-1.1 * around)), float(np.exp(1.1 * around)))
    figure.add_hline(y=0, line={"color": pen.line, "width": 1})
    figure.update_layout(
        xaxis={
            "title": {"text": f"{label(shorten(visible(feature), 60))}{f', {label(unit)}' if unit else ''}"},
            "zeroline": False,
            "type": "log" if _decades(values) > 2 else "linear",
        },
        yaxis={
            "title": {"text": "factor on the slowdown, x"},
            "zeroline": False,
            "tickvals": np.log(ticks),
            "ticktext": [f"{tick:g}" for tick in ticks],
        },
        margin={"t": 16},
    )
    known = np.isfinite(values)
    way = float(np.corrcoef(values[known], shap[known])[0, 1]) if known.sum() > 2 and np.ptp(values[known]) > 0 else 0.0
    trend = "rises with" if way > 0.3 else "falls with" if way < -0.3 else "has no plain trend over"
    alt = (
        f"Points: the contribution of {shorten(visible(feature), 60)} {trend} its value, over {len(frame)} predictions."
    )
    if other is not None:
        alt += f" Coloured by {shorten(visible(other), 60)}."
    return finish(figure, alt=alt, theme=theme, height=420)


def _decades(values: np.ndarray) -> float:
    """Return over how many decades values spread; 0 where one of them has no logarithm."""
    known = values[np.isfinite(values)]
    return float(np.log10(known.max() / known.min())) if len(known) and known.min() > 0 else 0.0
