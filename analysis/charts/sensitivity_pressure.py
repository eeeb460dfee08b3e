"""Who suffers and who hurts: each workload once, by its median slowdown and by the one it causes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from analysis.charts.predictions import TICKS
from analysis.charts.theme import categories, finish, full, ink, label
from analysis.numbers import shorten, significant, visible

_SYMBOLS = ("circle", "square", "diamond", "triangle-up", "cross", "star", "triangle-down", "pentagon", "hexagon")

#: Workloads named in the picture; the others are named on hover.
_NAMED = 8


def sensitivity_pressure(
    partners: pd.DataFrame, *, limit: float = 1.2, ranges: bool = False, theme: str = "light"
) -> go.Figure:
    """Draw sensitivity against pressure.

    Parameters
    ----------
    partners : pd.DataFrame
        As `analysis.interference.partners.sensitivity_and_pressure` returns it: workload, family, suffers,
        suffers_low, suffers_high, hurts, hurts_low, hurts_high, partners.
    limit : float
        Slowdown up to which the corner is called friendly.
    ranges : bool
        Whether to draw the range over partners of every point, thin.
    theme : {"light", "dark"}
        The background.
    """
    frame = partners.dropna(subset=["suffers", "hurts"]).reset_index(drop=True)
    pen = ink(theme)
    figure = go.Figure()
    figure.add_shape(
        type="rect",
        x0=0.01,
        x1=limit,
        y0=0.01,
        y1=limit,
        layer="below",
        line={"width": 0},
        fillcolor="#0072B2",
        opacity=0.09,
    )
    if ranges and len(frame):
        _ranges(figure, frame, pen.line)
    families = [name for name in frame["family"].fillna("").value_counts().index if name] if len(frame) else []
    palette = {name: place for place, name in enumerate(families)} if 1 < len(families) <= 9 else {}
    for name in palette or {"": 0}:
        part = frame[frame["family"] == name] if palette else frame
        place = palette.get(name, 0)
        figure.add_scatter(
            x=part["hurts"], y=part["suffers"], mode="markers", name=label(name), showlegend=bool(palette),
            customdata=part[["workload"]].to_numpy(),
            hovertext=[_words(row) for row in part.to_dict("records")], hoverinfo="text",
            marker={"size": 11, "symbol": _SYMBOLS[place % len(_SYMBOLS)], "color": categories(theme)[place % 8],
                    "line": {"width": 1, "color": pen.surface}},
        )  # fmt: skip
    _names(figure, frame, pen.text)
    spans = [_span(frame[name].to_numpy(float), limit) for name in ("hurts", "suffers")]
    figure.add_annotation(
        x=np.log10(spans[0][0]), y=np.log10(spans[1][0]), text=f"friendly: both up to {limit:g} x", showarrow=False,
        xanchor="left", yanchor="bottom", font={"size": 11, "color": pen.muted}, xshift=6, yshift=4,
    )  # fmt: skip
    common = {"type": "log", "tickvals": TICKS, "ticktext": [f"{tick:g}" for tick in TICKS], "zeroline": False}
    figure.update_layout(
        xaxis={**common, "range": np.log10(spans[0]), "title": {"text": "it hurts: median slowdown beside it, x"}},
        yaxis={**common, "range": np.log10(spans[1]), "title": {"text": "it suffers: its own median slowdown, x"}},
        hovermode="closest", clickmode="event+select",
    )  # fmt: skip
    figure.update_traces(
        selected={"marker": {"opacity": 1}}, unselected={"marker": {"opacity": 0.45}}, selector={"mode": "markers"}
    )
    return finish(figure, alt=_alt(frame, limit), theme=theme, height=520)


def _ranges(figure: go.Figure, frame: pd.DataFrame, colour: str) -> None:
    xs: list[float | None] = []
    ys: list[float | None] = []
    for row in frame.to_dict("records"):
        xs += [row["hurts_low"], row["hurts_high"], None, row["hurts"], row["hurts"], None]
        ys += [row["suffers"], row["suffers"], None, row["suffers_low"], row["suffers_high"], None]
    figure.add_scatter(
        x=xs, y=ys, mode="lines", line={"width": 1, "color": colour}, opacity=0.5, hoverinfo="skip", showlegend=False
    )


def _names(figure: go.Figure, frame: pd.DataFrame, colour: str) -> None:
    """Name the most extreme workloads, leaving out names that would lie on one another."""
    if frame.empty:
        return
    logs = np.log10(frame[["hurts", "suffers"]].to_numpy(float))
    span = np.maximum(logs.max(axis=0) - logs.min(axis=0), 0.05)
    far = (np.abs(logs - np.median(logs, axis=0)) / span).max(axis=1)
    placed: list[tuple[float, float]] = []
    for index in np.argsort(-far, kind="stable"):
        x, y = logs[index]
        if any(abs(x - a) < 0.34 * span[0] and abs(y - b) < 0.07 * span[1] for a, b in placed):
            continue
        if len(placed) == _NAMED:
            break
        placed.append((x, y))
        left = x > logs[:, 0].min() + 0.6 * span[0]
        figure.add_annotation(
            x=x, y=y, text=label(frame["workload"].iloc[index], 30), showarrow=False, xshift=-9 if left else 9,
            xanchor="right" if left else "left", font={"size": 11, "color": colour},
        )  # fmt: skip


def _span(values: np.ndarray, limit: float) -> tuple[float, float]:
    low = min([0.97, *values]) * 0.985
    return low, max([limit * 1.1, *values]) * 1.1


def _words(row: Mapping[Any, Any]) -> str:
    def span(name: str) -> str:
        low, high = float(row[f"{name}_low"]), float(row[f"{name}_high"])
        return f"{significant(float(row[name]))} x ({significant(low)} to {significant(high)})"

    return (
        f"<b>{full(row['workload'])}</b><br>suffers {span('suffers')}<br>hurts {span('hurts')}<br>"
        f"median and range over {row['partners']} partners"
    )


def _alt(frame: pd.DataFrame, limit: float) -> str:
    if frame.empty:
        return "No workload has slowdowns to draw."
    friendly = frame[(frame["suffers"] <= limit) & (frame["hurts"] <= limit)]
    most = [frame.sort_values(name, ascending=False, kind="stable").iloc[0] for name in ("suffers", "hurts")]
    return (
        f"Scatter of {len(frame)} workloads by how much they suffer and how much they hurt. "
        f"{len(friendly)} do neither beyond {significant(limit)} x. "
        f"{shorten(visible(str(most[0]['workload'])), 60)} suffers most ({significant(float(most[0]['suffers']))} x), "
        f"{shorten(visible(str(most[1]['workload'])), 60)} hurts most ({significant(float(most[1]['hurts']))} x)."
    )
