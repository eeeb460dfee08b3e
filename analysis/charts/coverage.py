"""Do intervals hold? Measured coverage beside the nominal level, with width and number of groups."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from analysis.charts.theme import WORSE, emphasis, finish, full, ink, unique_labels
from analysis.numbers import shorten, significant, visible


def coverage(
    frame: pd.DataFrame, *, label: str = "predictor", nominal: float = 90.0, theme: str = "light"
) -> go.Figure:
    """Draw one line a predictor or protocol: how often its intervals held.

    Parameters
    ----------
    frame : pd.DataFrame
        The column ``label``, coverage (percent), and where known width (in S) and groups; rows without a coverage
        are left out.
    label : str
        Column of the names.
    nominal : float
        The level that was promised, in percent.
    theme : {"light", "dark"}
        The background.
    """
    pen = ink(theme)
    known = frame.dropna(subset=["coverage"]).reset_index(drop=True)
    names = [str(name) for name in known[label]]
    labels = unique_labels(names, 40)
    values = known["coverage"].to_numpy(float)
    notes = [_note(row) for row in known.to_dict("records")]
    figure = go.Figure()
    for text, value in zip(labels, values, strict=True):
        figure.add_scatter(
            x=[nominal, value], y=[text, text], mode="lines", showlegend=False, hoverinfo="skip",
            line={"width": 3, "color": WORSE if value < nominal else emphasis(theme)},
        )  # fmt: skip
    figure.add_scatter(
        x=values, y=labels, mode="markers", showlegend=False, hoverinfo="text",
        marker={"size": 12, "color": [WORSE if value < nominal else emphasis(theme) for value in values]},
        hovertext=[f"<b>{full(n)}</b><br>{significant(v)} % of {nominal:g} % {note}"
                   for n, v, note in zip(names, values, notes, strict=True)],
    )  # fmt: skip
    figure.add_vline(x=nominal, line={"color": pen.text, "width": 1.2, "dash": "dash"})
    figure.add_annotation(
        x=nominal, y=1, yref="paper", yanchor="bottom", text=f"promised {nominal:g} %", showarrow=False,
        font={"size": 11, "color": pen.muted},
    )  # fmt: skip
    for text, value, note in zip(labels, values, notes, strict=True):
        figure.add_annotation(
            x=1, xref="paper", y=text, xanchor="left", xshift=8, showarrow=False, align="left",
            text=f"{significant(value)} %{note}", font={"size": 12, "color": pen.text},
        )  # fmt: skip
    low = float(min([*values, nominal - 10])) if len(values) else 0.0
    figure.update_layout(
        xaxis={"range": [max(low - 4, 0), 100.5], "title": {"text": "measured values inside their interval, %"}},
        yaxis={"autorange": "reversed", "type": "category", "categoryarray": labels, "showgrid": False},
        margin={"t": 30, "r": 245},
    )
    parts = [
        f"{shorten(visible(n), 60)} {significant(v)} %{note}" for n, v, note in zip(names, values, notes, strict=True)
    ]
    alt = f"Coverage of {nominal:g} % intervals. {'; '.join(parts)}." if parts else "No intervals to draw."
    return finish(figure, alt=alt, theme=theme, height=90 + 30 * max(len(labels), 2))


def _note(row: Mapping[Any, Any]) -> str:
    parts = []
    width, groups = row.get("width"), row.get("groups")
    if width is not None and not np.isnan(float(width)):
        parts.append(f"width {significant(float(width))} x")
    if groups is not None and not np.isnan(float(groups)):
        parts.append(f"{int(float(groups))} groups")
    return f", {', '.join(parts)}" if parts else ""
