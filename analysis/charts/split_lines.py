"""What each job pays over the ways to cut a GPU, with the best way and the limit marked."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from analysis.charts.theme import categories, finish, full, ink
from analysis.numbers import shorten, significant, visible

#: More settings than this are cut, the best ones kept: nobody reads a longer axis.
MOST = 40


def split_lines(lines: pd.DataFrame, *, best: str, limit: float, theme: str = "light") -> go.Figure:
    """Draw S of each job over the settings.

    Two jobs whose parts add up to the whole stand over the first job's part; other settings stand side by side, the
    smallest worst S first.

    Parameters
    ----------
    lines : pd.DataFrame
        Columns number (of the job), setting, workload, part (percent of the SMs), slowdown.
    best : str
        The best setting.
    limit : float
        Largest slowdown that each job may pay.
    theme : {"light", "dark"}
        The background.
    """
    pen, colours = ink(theme), categories(theme)
    known = lines[np.isfinite(lines["slowdown"])]
    first = known[known["number"] == 0].set_index("setting")["part"]
    parts = known.groupby("setting", sort=False)["part"].sum()
    curve = known["number"].nunique() == 2 and not first.duplicated().any()
    curve = curve and bool(np.isclose(parts[first < 100], 100).all())
    worst = known.groupby("setting", sort=False)["slowdown"].max().sort_values(kind="stable")
    order = list(worst.index[:MOST])
    drawn = go.Figure()
    for number, rows in known.groupby("number"):
        name = str(rows["workload"].iloc[0])
        mine = rows.set_index("setting")["slowdown"]
        shown = _along(first) if curve else order
        x: Sequence[float | str] = [float(first[one]) for one in shown] if curve else [full(one) for one in shown]
        drawn.add_trace(
            go.Scatter(
                x=list(x), y=[float(mine[one]) for one in shown], mode="lines+markers" if curve else "markers",
                name=full(name, 40), line={"color": colours[int(str(number)) % len(colours)], "width": 2},
                marker={"size": 9, "symbol": ["circle", "square", "diamond", "cross"][int(str(number)) % 4]},
                hovertext=[f"<b>{full(name)}</b><br>{full(one)}: {significant(float(mine[one]))} x" for one in shown],
                hoverinfo="text",
            )
        )  # fmt: skip
    at = float(first[best]) if curve else float(order.index(best))
    if not curve or at < 100:
        drawn.add_vline(x=at, line={"color": pen.muted, "dash": "dash", "width": 1.2})
        drawn.add_annotation(
            x=at, y=1, yref="paper", yanchor="bottom", text=f"best: {full(best)}",
            showarrow=False, font={"size": 11, "color": pen.muted},
        )  # fmt: skip
    drawn.add_hline(y=limit, line={"color": pen.muted, "dash": "dot", "width": 1.2})
    top = min(float(worst.max()), max(4.0, 2.5 * float(worst.min()))) if len(worst) else 4.0
    drawn.update_layout(
        xaxis={"title": {"text": "part of the first job, % of the SMs" if curve else "setting"}},
        yaxis={"title": {"text": "S, x"}, "range": [0.9, 1.05 * top]},
        legend={"orientation": "h", "y": -0.3},
        margin={"t": 36},
    )
    pays = known[known["setting"] == best]
    told = "; ".join(
        f"{shorten(visible(str(name)), 40)} {significant(float(value))} x"
        for name, value in zip(pays["workload"], pays["slowdown"], strict=True)
    )
    alt = f"S of each job over {len(worst)} ways to cut the GPU, limit {limit:g} x. Best, {best}: {told}."
    return finish(drawn, alt=alt, theme=theme, height=400)


def _along(first: pd.Series) -> list[str]:
    """Return the settings in the order of the first job's part, without the one that caps nobody."""
    return [str(one) for one in first[first < 100].sort_values(kind="stable").index]
