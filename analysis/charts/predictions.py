"""Predicted against measured slowdowns, and what is left over."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from analysis.charts.theme import CATEGORIES, WORSE, categories, emphasis, finish, full, ink, label, unique_labels
from analysis.numbers import shorten, significant, visible

#: Above this many points the browser draws them on a canvas.
_CANVAS = 3000

#: Ticks of a logarithmic slowdown axis.
TICKS = (0.25, 0.5, 0.75, 1, 1.2, 1.5, 2, 3, 4, 6, 8, 12, 16, 24, 32)


def predicted_vs_measured(
    frame: pd.DataFrame, *, colour: str | None = None, band: float = 10.0, theme: str = "light"
) -> go.Figure:
    """Draw each member once: measured slowdown across, predicted up, with the line on which they agree.

    Parameters
    ----------
    frame : pd.DataFrame
        workload, measured, predicted; optionally beside (text), low, high.
    colour : str, optional
        Column that colours the points, at most eight values.
    band : float
        Percent around the line that is shaded.
    theme : {"light", "dark"}
        The background.
    """
    pen = ink(theme)
    known = frame.dropna(subset=["measured", "predicted"]).reset_index(drop=True)
    figure = go.Figure()
    values = np.array([*known["measured"], *known["predicted"], 1.0, 2.0], dtype=float)
    low, high = float(values.min()) * 0.94, float(values.max()) * 1.06
    ends = np.array([low, high])
    figure.add_scatter(
        x=[low, high, high, low], y=[*(ends * (1 - band / 100)), *(ends[::-1] * (1 + band / 100))], fill="toself",
        mode="none", fillcolor="rgba(127,140,152,0.18)", hoverinfo="skip", name=f"within {band:g} %",
    )  # fmt: skip
    figure.add_scatter(
        x=ends,
        y=ends,
        mode="lines",
        line={"color": pen.muted, "width": 1.2},
        hoverinfo="skip",
        name="predicted = measured",
    )
    parts = [("", known)] if colour is None else [(str(key), part) for key, part in known.groupby(colour, sort=True)]
    kind = go.Scattergl if len(known) > _CANVAS else go.Scatter
    for place, (name, part) in enumerate(parts):
        shade = emphasis(theme) if colour is None else categories(theme)[place % len(CATEGORIES)]
        figure.add_trace(
            kind(
                x=part["measured"].to_numpy(float), y=part["predicted"].to_numpy(float), mode="markers",
                marker={"color": shade, "size": 6 if len(known) > 500 else 8, "opacity": 0.55},
                name=label(name), showlegend=colour is not None,
                hovertext=[_member(row) for row in part.to_dict("records")], hoverinfo="text",
            )
        )  # fmt: skip
    axis = {
        "type": "log",
        "range": list(np.log10([low, high])),
        "tickvals": TICKS,
        "ticktext": [f"{t:g}" for t in TICKS],
    }
    figure.update_layout(
        xaxis={**axis, "title": {"text": "measured slowdown, x"}, "zeroline": False},
        yaxis={**axis, "title": {"text": "predicted slowdown, x"}, "zeroline": False},
        hovermode="closest",
    )
    return finish(figure, alt=_alt_scatter(known, band), theme=theme, height=520)


def residuals(frame: pd.DataFrame, *, by: str = "workload", most: int = 40, theme: str = "light") -> go.Figure:
    """Draw the signed relative error of each group as a box; predictions that are too low lie on the dangerous side.

    Parameters
    ----------
    frame : pd.DataFrame
        measured, predicted and the column ``by``.
    by : str
        What makes a group: workload, gpu, k ...
    most : int
        Groups drawn, those with the largest median absolute error first.
    theme : {"light", "dark"}
        The background.
    """
    pen = ink(theme)
    known = frame.dropna(subset=["measured", "predicted"]).copy()
    known["error"] = 100 * (known["predicted"] / known["measured"] - 1)
    sizes = known["error"].abs().groupby(known[by].astype(str)).median().sort_values(ascending=False)
    names = [str(name) for name in sizes.index[:most]]
    labels = unique_labels(names, 34)
    figure = go.Figure()
    for name, text in zip(names, labels, strict=True):
        errors = known.loc[known[by].astype(str) == name, "error"].to_numpy(float)
        figure.add_box(
            x=errors, y=[text] * len(errors), orientation="h", boxpoints="outliers", line={"width": 1.3},
            marker={"color": emphasis(theme), "size": 4}, fillcolor="rgba(86,180,233,0.22)", showlegend=False,
            hoverinfo="x+name", name=text,
        )  # fmt: skip
    figure.add_vline(x=0, line={"color": pen.text, "width": 1.2})
    reach = float(known["error"].abs().max()) * 1.05 if len(known) else 10.0
    for side, text in ((0.0, "too low: a loss that comes as a surprise"), (1.0, "too high")):
        figure.add_annotation(
            x=side, xref="paper", y=1, yref="paper", yanchor="bottom", xanchor="left" if side == 0 else "right",
            text=text, showarrow=False, font={"size": 11, "color": WORSE if side == 0 else pen.muted},
        )  # fmt: skip
    figure.update_layout(
        xaxis={"range": [-reach, reach], "title": {"text": "predicted over measured, %"}, "zeroline": False},
        yaxis={"autorange": "reversed", "type": "category", "categoryarray": labels, "showgrid": False},
        boxgap=0.35,
        margin={"t": 30},
    )
    left_out = len(sizes) - len(names)
    worst = ", ".join(f"{shorten(visible(n), 60)} {significant(float(sizes[n]))} %" for n in names[:3])
    alt = (
        f"Boxes of the relative prediction error by {by}, {len(names)} groups. Largest median absolute error: {worst}."
        + (f" {left_out} more are not drawn." if left_out > 0 else "")
        if names
        else "No predictions to draw."
    )
    return finish(figure, alt=alt, theme=theme, height=90 + 24 * max(len(names), 2))


def _member(row: Mapping[Any, Any]) -> str:
    measured, predicted = float(row["measured"]), float(row["predicted"])
    beside = f"<br>beside {full(row['beside'], 120)}" if row.get("beside") else ""
    error = 100 * (predicted / measured - 1)
    return (
        f"<b>{full(row['workload'], 120)}</b>{beside}<br>measured {significant(measured)} x, predicted "
        f"{significant(predicted)} x ({error:+.1f} %)"
    )


def _alt_scatter(known: pd.DataFrame, band: float) -> str:
    if known.empty:
        return "No predictions to draw."
    error = (known["predicted"] / known["measured"] - 1).abs() * 100
    inside = significant(float((error <= band).mean() * 100))
    return (
        f"Predicted against measured slowdown of {len(known)} members; {inside} % lie within {band:g} %, "
        f"mean absolute error {significant(float(error.mean()))} %."
    )
