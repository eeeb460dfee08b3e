"""The roofline: what each kernel reaches, below the roofs of its GPU."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from analysis.charts.theme import categories, finish, full, ink, label
from analysis.numbers import shorten, significant, visible


def roofline_chart(points: pd.DataFrame, peaks: pd.DataFrame, *, theme: str = "light") -> go.Figure:
    """Draw kernels by arithmetic intensity and performance, both logarithmic.

    Parameters
    ----------
    points, peaks : pd.DataFrame
        Of `analysis.stalls.roofline.Roofline`.
    theme : {"light", "dark"}
        The background.
    """
    pen = ink(theme)
    figure = go.Figure()
    names = list(dict.fromkeys([*points["gpu"].astype(str), *peaks.index.astype(str)]))
    low, high = _span(points, peaks)
    for place, gpu in enumerate(names):
        colour = categories(theme)[place % 8]
        if gpu in peaks.index:
            gflops, gbps = (float(str(peaks.at[gpu, name])) for name in ("gflops", "gbps"))
            xs = [low, min(max(gflops / gbps, low), high), high]
            figure.add_scatter(
                x=xs, y=[min(gflops, x * gbps) for x in xs], mode="lines", name=f"roof of {label(gpu)}",
                line={"color": colour, "width": 2}, hoverinfo="text",
                hovertext=f"{full(gpu)}: {significant(gbps)} GB/s, {significant(gflops / 1e3)} Tflop/s",
            )  # fmt: skip
        part = points[points["gpu"] == gpu]
        if part.empty:
            continue
        longest = float(points["time_ns"].max())
        sizes = 8 + 18 * np.sqrt(part["time_ns"].to_numpy(float) / longest)
        figure.add_scatter(
            x=part["intensity"], y=part["gflops"], mode="markers", name=f"kernels on {label(gpu)}",
            marker={"color": colour, "size": sizes, "opacity": 0.85, "line": {"width": 1, "color": pen.surface}},
            customdata=part[["key"]].to_numpy(), hovertext=[_words(row) for row in part.to_dict("records")],
            hoverinfo="text",
        )  # fmt: skip
    figure.update_layout(
        xaxis={"type": "log", "title": {"text": "operations for each byte from DRAM"},
               "range": list(np.log10([low, high]))},
        yaxis={"type": "log", "title": {"text": "10⁹ operations a second"}},
        hovermode="closest",
    )  # fmt: skip
    return finish(figure, alt=_alt(points, names), theme=theme, height=460)


def _span(points: pd.DataFrame, peaks: pd.DataFrame) -> tuple[float, float]:
    ridges = (peaks["gflops"] / peaks["gbps"]).to_list()
    values = [*points["intensity"].astype(float), *ridges] or [1.0]
    return min(values) / 4, max(values) * 4


def _words(row: Mapping[Any, Any]) -> str:
    bound = f"<br>under the {row['bound']} roof" if row["bound"] else ""
    return (
        f"<b>{full(row['kernel'])}</b><br>{full(row['workload'])}<br>{significant(row['intensity'])} operations a "
        f"byte, {significant(row['gflops'])} Gflop/s, {significant(row['gbps'])} GB/s{bound}"
    )


def _alt(points: pd.DataFrame, names: list[str]) -> str:
    if points.empty:
        return "A roofline without kernels."
    top = points.iloc[0]
    return (
        f"Roofline of {len(points)} kernels on {', '.join(names)}. The longest, "
        f"{shorten(visible(str(top['short_name'])), 60)}, reaches {significant(top['gflops'])} Gflop/s at "
        f"{significant(top['intensity'])} operations a byte."
    )
