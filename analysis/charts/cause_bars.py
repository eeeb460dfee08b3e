"""What each job of a set pays to whom, and for which resource."""

from __future__ import annotations

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from analysis.charts.explanations import factor_ticks
from analysis.charts.theme import CATEGORIES, categories, finish, full, ink, unique_labels
from analysis.numbers import shorten, visible

_ROW = 44


def cause_bars(frame: pd.DataFrame, *, theme: str = "light") -> go.Figure:
    """Draw one bar a job and co-runner, made of the resources that the co-runner takes.

    Parameters
    ----------
    frame : pd.DataFrame
        workload, by (empty for what is the job's own), resource, shap (part of ln S), and where known value, in words.
    theme : {"light", "dark"}
        The background.

    Returns
    -------
    go.Figure
        The parts of a job's bars add up to its ln S, so that their factors multiply to its slowdown.
    """
    pen = ink(theme)
    pairs = list(dict.fromkeys(zip(frame["workload"].astype(str), frame["by"].astype(str), strict=True)))
    labels = unique_labels([f"{own} ← {by}" if by else f"{own}: itself" for own, by in pairs], 60)
    at = dict(zip(pairs, labels, strict=True))
    sizes = frame["shap"].abs().groupby(frame["resource"]).sum().sort_values(ascending=False, kind="stable")
    figure = go.Figure()
    for place, resource in enumerate(sizes.index):
        part = frame[frame["resource"] == resource]
        figure.add_bar(
            y=[at[str(own), str(by)] for own, by in zip(part["workload"], part["by"], strict=True)],
            x=part["shap"].to_numpy(float), orientation="h", name=str(resource), hoverinfo="text",
            marker={"color": categories(theme)[place % len(CATEGORIES)]},
            hovertext=[
                f"<b>{full(str(row['workload']))}</b><br>{resource}: x {np.exp(row['shap']):.3f}"
                + (f"<br>{full(str(row['value']), 120)}" if row.get("value") else "")
                for row in part.to_dict("records")
            ],
        )  # fmt: skip
    totals: dict[tuple[str, str], float] = {}
    for own, by in pairs:
        parts = frame.loc[(frame["workload"] == own) & (frame["by"] == by), "shap"].astype(float)
        totals[own, by] = float(parts.sum())
        figure.add_annotation(
            x=float(parts[parts > 0].sum()), y=at[own, by], text=f"x {np.exp(totals[own, by]):.2f}", xanchor="left",
            showarrow=False, xshift=5, font={"size": 12, "color": pen.text},
        )  # fmt: skip
    high, low = max([0.1, *totals.values()]), min([0.0, *totals.values()])
    ticks = factor_ticks(float(np.exp(1.15 * low)), float(np.exp(1.15 * high)))
    figure.update_layout(
        barmode="relative", bargap=0.35, legend={"itemclick": False, "itemdoubleclick": False},
        xaxis={"title": {"text": "factor on the slowdown (parts multiply)"}, "tickvals": np.log(ticks),
               "ticktext": [f"{tick:g}" for tick in ticks], "range": [1.15 * low, 1.15 * high + 0.02]},
        yaxis={"autorange": "reversed", "type": "category", "categoryarray": labels, "showgrid": False},
    )  # fmt: skip
    largest = [
        f"{shorten(visible(own), 40)} through {shorten(visible(by), 40) or 'itself'} x {np.exp(total):.2f}"
        for (own, by), total in totals.items()
    ]
    alt = f"Bars of what each job pays to whom, by resource: {'; '.join(largest)}."
    return finish(figure, alt=alt, theme=theme, height=130 + _ROW * max(len(pairs), 2))
