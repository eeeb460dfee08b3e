"""One figure for each of several things, with intervals: predictors beside their baselines, mechanisms, GPUs."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from analysis.charts.theme import BESIDE, emphasis, finish, full, ink, unique_labels
from analysis.numbers import NO_VALUE, shorten, significant, visible

_ROW, _HEAD = 30, 78


def comparison_bars(
    frame: pd.DataFrame,
    *,
    label: str = "predictor",
    value: str = "mape",
    low: str | None = None,
    high: str | None = None,
    note: str | None = None,
    title: str = "mean absolute percentage error, %",
    unit: str = " %",
    emphasised: Collection[str] = (),
    references: dict[str, float] | None = None,
    theme: str = "light",
) -> go.Figure:
    """Draw horizontal bars in the order of the table.

    Parameters
    ----------
    frame : pd.DataFrame
        One row a bar.
    label, value : str
        Columns of the name and the figure; a row without a figure gets no bar but its note.
    low, high : str, optional
        Columns of the interval.
    note : str, optional
        Column with what to print where there is no figure, such as ``needs: stall profiles``.
    title, unit : str
        Of the axis; behind a printed figure.
    emphasised : collection of str
        Names drawn in the strong colour.
    references : dict of str to float, optional
        Named vertical lines, such as the train median.
    theme : {"light", "dark"}
        The background.
    """
    pen = ink(theme)
    names = [str(name) for name in frame[label]]
    labels = unique_labels(names, 40)
    values = frame[value].to_numpy(float)
    lows = frame[low].to_numpy(float) if low else np.full(len(frame), np.nan)
    highs = frame[high].to_numpy(float) if high else np.full(len(frame), np.nan)
    words = [_words(v, a, b, unit) for v, a, b in zip(values, lows, highs, strict=True)]
    figure = go.Figure(
        go.Bar(
            y=labels,
            x=values,
            orientation="h",
            marker={"color": [emphasis(theme) if name in emphasised or not emphasised else BESIDE for name in names]},
            error_x={
                "type": "data",
                "symmetric": False,
                "array": np.nan_to_num(highs - values),
                "arrayminus": np.nan_to_num(values - lows),
                "color": pen.text,
                "thickness": 1.3,
                "width": 4,
                "visible": low is not None,
            },
            hovertext=[f"<b>{full(name)}</b><br>{text}" for name, text in zip(names, words, strict=True)],
            hoverinfo="text",
        )
    )
    reach = float(np.nanmax([*values, *highs, *(references or {}).values(), 0.0])) or 1.0
    for text_of, reference in (references or {}).items():
        figure.add_vline(x=reference, line={"color": pen.muted, "dash": "dash", "width": 1.2})
        figure.add_annotation(
            x=reference, y=1, yref="paper", yanchor="bottom", text=full(text_of), showarrow=False,
            font={"size": 11, "color": pen.muted},
        )  # fmt: skip
    ends = np.fmax(values, highs)
    notes = [""] * len(frame) if note is None else [visible(str(text)) for text in frame[note]]
    for place, text in enumerate(labels):
        missing = np.isnan(values[place])
        figure.add_annotation(
            x=0 if missing else float(ends[place]), y=text, xanchor="left", xshift=6, showarrow=False,
            text=f"<i>{full(notes[place] or NO_VALUE, 70)}</i>" if missing else f"{significant(values[place])}{unit}",
            font={"size": 12, "color": pen.muted if missing else pen.text},
        )  # fmt: skip
    figure.update_layout(
        xaxis={"range": [0, reach * 1.14], "title": {"text": title}},
        yaxis={"autorange": "reversed", "type": "category", "categoryarray": labels, "showgrid": False},
        margin={"t": 30},
        showlegend=False,
    )
    alt = _alt(names, words, notes, title)
    return finish(figure, alt=alt, theme=theme, height=_HEAD + _ROW * max(len(frame), 1))


def _words(value: float, low: float, high: float, unit: str) -> str:
    if np.isnan(value):
        return "no figure"
    interval = "" if np.isnan(low) or np.isnan(high) else f" ({significant(low)} to {significant(high)})"
    return f"{significant(value)}{unit}{interval}"


def _alt(names: list[str], words: list[str], notes: list[str], title: str) -> str:
    parts = [
        f"{shorten(visible(name), 60)}: {text if text != 'no figure' else note or text}"
        for name, text, note in zip(names, words, notes, strict=True)
    ]
    return f"Bars of {title}. {'; '.join(parts)}."
