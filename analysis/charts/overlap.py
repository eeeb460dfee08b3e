"""What jobs lean on together: how much each uses of every resource, and how long its warps wait for it."""

from __future__ import annotations

import numpy as np
import pandas as pd
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from analysis.charts.marks import bar_rows
from analysis.charts.theme import categories, finish, full, ink, unique_labels
from analysis.numbers import shorten, significant, visible
from analysis.stalls.resources import RESOURCES

_ROW, _BAR, _HEAD = 16, 15, 120

#: The two kinds of evidence: their column, axis, and the sentence where one is missing.
_SIDES = (
    ("use", "used, % of its peak", "no counter states its use"),
    ("wait", "waited for, % of warp cycles", "no stall reason names it"),
)


def overlap_bars(lean: pd.DataFrame, *, limits: tuple[float, float], theme: str = "light") -> go.Figure:
    """Draw what jobs side by side ask of each resource.

    Parameters
    ----------
    lean : pd.DataFrame
        Rows of `analysis.stalls.resources.leaning` of these jobs.
    limits : tuple of float
        Percent of use, and of waiting, from which on a job leans on a resource: a dashed line each.
    theme : {"light", "dark"}
        The background.

    Returns
    -------
    go.Figure
        Left what counters state, right what stall reasons name; they are never added. What is not stated has no bar but
        an open mark.
    """
    pen = ink(theme)
    jobs = list(dict.fromkeys(lean["workload"].astype(str)))
    titles = list(dict.fromkeys(lean["title"].astype(str)))
    figure = make_subplots(rows=1, cols=2, shared_yaxes=True, horizontal_spacing=0.06)
    labels = unique_labels(jobs, 40)
    places, thick = bar_rows(len(titles), len(jobs))
    # What no counter and no reason ever states leaves its panel empty; a mark is for what this profile lacks.
    stated = {one.title: {"use": bool(one.counters), "wait": bool(one.groups)} for one in RESOURCES}
    silent_marks = 0
    for place, (job, name) in enumerate(zip(jobs, labels, strict=True)):
        part = lean[lean["workload"] == job].drop_duplicates("title").set_index("title").reindex(titles)
        for column, (value, axis, silent) in enumerate(_SIDES, start=1):
            numbers = part[value].to_numpy(float)
            figure.add_bar(
                x=numbers, y=places[place], width=thick, orientation="h", name=name, legendgroup=job,
                showlegend=column == 1, marker={"color": categories(theme)[place % 8]},
                text=["" if np.isnan(number) else significant(number) for number in numbers], textposition="outside",
                textfont={"size": 11, "color": pen.text}, cliponaxis=False,
                hovertext=[f"<b>{full(job)}</b><br>{title}: {_words(number, axis, silent)}"
                           for title, number in zip(titles, numbers, strict=True)],
                hoverinfo="text", row=1, col=column,
            )  # fmt: skip
            ever = [bool(stated.get(title, {}).get(value)) for title in titles]
            missing = [i for i, number in enumerate(numbers) if np.isnan(number) and ever[i]]
            silent_marks += len(missing)
            figure.add_scatter(
                x=[1.8] * len(missing), y=[places[place][i] for i in missing], mode="markers", showlegend=False,
                marker={"symbol": "square-open-dot", "size": 9, "color": pen.muted}, hoverinfo="text",
                hovertext=[f"<b>{full(job)}</b><br>{titles[i]}: {silent}" for i in missing], row=1, col=column,
            )  # fmt: skip
    for column, (_, axis, _) in enumerate(_SIDES, start=1):
        figure.add_vline(
            x=limits[column - 1],
            line={"color": pen.muted, "dash": "dash", "width": 1.2},
            layer="below",
            col=column,
            row=1,
        )
        figure.update_xaxes(title={"text": axis}, range=[0, 112], row=1, col=column)
    if silent_marks:
        figure.add_scatter(
            x=[None], y=[None], mode="markers", name="not stated", hoverinfo="skip",
            marker={"symbol": "square-open-dot", "size": 10, "color": pen.muted},
        )  # fmt: skip
    figure.update_layout(barmode="overlay", legend={"itemclick": False, "itemdoubleclick": False})
    figure.update_yaxes(
        range=[len(titles) - 0.5, -0.5], showgrid=False, zeroline=False, tickvals=list(range(len(titles))),
        ticktext=[title.replace(", ", ",<br>") for title in titles],
    )  # fmt: skip
    height = _HEAD + len(titles) * (_ROW + _BAR * max(len(jobs), 1))
    return finish(figure, alt=_alt(lean, jobs), theme=theme, height=height)


def _words(number: float, axis: str, silent: str) -> str:
    return silent if np.isnan(number) else f"{significant(number)} ({axis})"


def _alt(lean: pd.DataFrame, jobs: list[str]) -> str:
    parts = []
    for row in lean[lean["leans"]].to_dict("records"):
        stated = not np.isnan(row["use"])
        number = row["use"] if stated else row["wait"]
        what = "of its peak" if stated else "of warp cycles"
        parts.append(f"{shorten(visible(str(row['workload'])), 40)} {row['title']} {significant(number)} % {what}")
    leaning = "; ".join(parts) or "none leans on any"
    return f"Bars of what {len(jobs)} jobs use of each resource and wait for. Leaned on: {leaning}."
