"""Pictures of cluster replays: a figure over load with its intervals, and who was on which GPU when."""

from __future__ import annotations

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from analysis.charts.theme import categories, finish, full, ink, unique_labels
from analysis.numbers import shorten, significant, visible

#: More bars than this make a Gantt chart that nobody can read and a page that loads slowly.
MOST_BARS = 600

_ROW, _HEAD = 26, 90


def over_load(
    table: pd.DataFrame, *, figure: str = "mean_jct_h", title: str = "Mean JCT, h", theme: str = "light"
) -> go.Figure:
    """Draw a figure over the load, a line a policy, with intervals over seeds.

    Parameters
    ----------
    table : pd.DataFrame
        Columns title (of the policy), load, seeds, and the figure with ``_low`` and ``_high``.
    figure, title : str
        Column of the figure, and what the axis says.
    theme : {"light", "dark"}
        The background.
    """
    pen, colours = ink(theme), categories(theme)
    drawn = go.Figure()
    parts = []
    for place, (name, rows) in enumerate(table.groupby("title", sort=False)):
        rows = rows.sort_values("load")
        values = rows[figure].to_numpy(float)
        low = pd.to_numeric(rows[f"{figure}_low"], errors="coerce").to_numpy(float)
        high = pd.to_numeric(rows[f"{figure}_high"], errors="coerce").to_numpy(float)
        words = [
            f"<b>{full(name)}</b><br>load {load:.2f}: {significant(value)}"
            + ("" if np.isnan(a) else f" ({significant(a)} to {significant(b)}, {int(seeds)} seeds)")
            for load, value, a, b, seeds in zip(rows["load"], values, low, high, rows["seeds"], strict=True)
        ]
        drawn.add_trace(
            go.Scatter(
                x=rows["load"],
                y=values,
                mode="lines+markers",
                name=full(name, 40),
                line={"color": colours[place % len(colours)], "width": 2, "dash": "solid" if place < 4 else "dot"},
                marker={"size": 8, "symbol": ["circle", "square", "diamond", "cross"][place % 4]},
                error_y={
                    "type": "data",
                    "symmetric": False,
                    "array": np.nan_to_num(high - values),
                    "arrayminus": np.nan_to_num(values - low),
                    "thickness": 1.2,
                    "width": 3,
                },
                hovertext=words,
                hoverinfo="text",
            )
        )
        if len(values):
            parts.append(f"{shorten(visible(str(name)), 40)} {significant(values[-1])}")
    drawn.add_vline(x=1.0, line={"color": pen.muted, "dash": "dash", "width": 1.2})
    drawn.add_annotation(
        x=1.0, y=1, yref="paper", yanchor="bottom", text="all that exclusive use carries", showarrow=False,
        font={"size": 11, "color": pen.muted},
    )  # fmt: skip
    drawn.update_layout(
        xaxis={"title": {"text": "load, relative to what exclusive use can carry"}},
        yaxis={"title": {"text": full(title)}, "rangemode": "tozero"},
        legend={"orientation": "h", "y": -0.25},
        margin={"t": 36},
    )
    alt = f"Lines of {title} over the load. At the highest load: {'; '.join(parts)}."
    return finish(drawn, alt=alt, theme=theme, height=420)


def gantt(segments: pd.DataFrame, *, theme: str = "light") -> go.Figure:
    """Draw who was on which GPU when; bars of jobs that share a GPU stand above each other in its row.

    Parameters
    ----------
    segments : pd.DataFrame
        Columns gpu, place (number of the GPU), number (of the job), workload, start_s, end_s, beside. Only the first
        `MOST_BARS` are drawn.
    theme : {"light", "dark"}
        The background.
    """
    shown = segments.sort_values(["start_s", "place", "number"]).head(MOST_BARS)
    # Those that begin together on one GPU share its row: the first above, the next below.
    shown = shown.assign(lane=shown.groupby(["place", "start_s"]).cumcount() % 2)
    places = shown[["place", "gpu"]].drop_duplicates().sort_values("place")
    rows = {int(place): f"{gpu} #{int(place) + 1}" for place, gpu in zip(places["place"], places["gpu"], strict=True)}
    colours = categories(theme)
    drawn = go.Figure()
    names = [str(name) for name in shown["workload"].drop_duplicates()]
    labels = dict(zip(names, unique_labels(names), strict=True))
    for place, name in enumerate(names):
        mine = shown[shown["workload"] == name]
        lane = mine["lane"].to_numpy()
        drawn.add_trace(
            go.Bar(
                y=[rows[int(at)] for at in mine["place"]],
                x=(mine["end_s"] - mine["start_s"]) / 3600.0,
                base=mine["start_s"] / 3600.0,
                width=np.where(mine["beside"] == "", 0.8, 0.38),
                offset=np.where(mine["beside"] == "", -0.4, -0.4 + 0.42 * lane),
                orientation="h",
                name=full(labels[name], 40),
                marker={
                    "color": colours[place % len(colours)],
                    "pattern": {"shape": ["", "/", "x", "."][place // len(colours) % 4]},
                },
                hovertext=[
                    f"<b>{full(name)}</b>, job {int(number)}<br>{start / 3600:.2f} to {end / 3600:.2f} h"
                    + (f"<br>beside {full(beside)}" if beside else "<br>alone")
                    for number, start, end, beside in zip(
                        mine["number"], mine["start_s"], mine["end_s"], mine["beside"], strict=True
                    )
                ],
                hoverinfo="text",
            )
        )
    drawn.update_layout(
        barmode="overlay",
        xaxis={"title": {"text": "hours"}},
        yaxis={"autorange": "reversed", "type": "category", "categoryarray": list(rows.values()), "showgrid": False},
        showlegend=len(names) <= 2 * len(colours),
        legend={"orientation": "h", "y": -0.25},
        margin={"t": 20},
    )
    shared = int((shown["beside"] != "").sum())
    alt = f"Who ran on which GPU when: {len(shown):,} stretches on {len(rows):,} GPUs, {shared:,} of them shared."
    return finish(drawn, alt=alt, theme=theme, height=_HEAD + _ROW * max(2 * len(rows), 6))
