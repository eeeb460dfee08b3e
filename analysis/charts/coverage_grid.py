"""What is known of each workload on each GPU, as a grid."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from analysis.charts.marks import cell_texts, legend_swatches
from analysis.charts.theme import finish, full, ink, label, on, unique_labels

#: States of a cell, in the order of what can be asked of them; hover and table say them in words too.
STATES = (("alone only", "#BFC5CC"), ("profile", "#E69F00"), ("pairs", "#56B4E9"), ("profile and pairs", "#0072B2"))

_ROW, _HEAD = 26, 96


def coverage_grid(known: pd.DataFrame, *, theme: str = "light", most: int = 60) -> go.Figure:
    """Draw workloads by GPUs.

    Parameters
    ----------
    known : pd.DataFrame
        As `analysis.store.queries.sources.grid` returns it.
    theme : {"light", "dark"}
        The background.
    most : int
        Workloads drawn, the first ones; the alternative text says how many are left out.

    Returns
    -------
    go.Figure
        One cell a workload and GPU: its colour says what is known, its text the partners measured of those possible.
    """
    names = [str(name) for name in dict.fromkeys(known["workload"])]
    drawn = names[:most]
    gpus = sorted({str(gpu) for gpu in known["gpu"]})
    state = np.full((len(drawn), len(gpus)), np.nan)
    hover = np.full(state.shape, "nothing known", dtype=object)
    texts = []
    for row in known[known["workload"].isin(drawn)].to_dict("records"):
        i, j = drawn.index(str(row["workload"])), gpus.index(str(row["gpu"]))
        state[i, j] = 2 * bool(row["partners"]) + bool(row["profiled"])
        name, colour = STATES[int(state[i, j])]
        hover[i, j] = f"{full(row['workload'])}<br>on {full(row['gpu'])}: {name}{_partners(row, ', ')}"
        if row["partners"]:
            texts.append((float(j), float(i), _partners(row, ""), on(colour)))
    count = len(STATES)
    figure = go.Figure(
        go.Heatmap(
            z=state,
            x=list(range(len(gpus))),
            y=list(range(len(drawn))),
            zmin=-0.5,
            zmax=count - 0.5,
            colorscale=[(edge / count, c) for place, (_, c) in enumerate(STATES) for edge in (place, place + 1)],
            showscale=False,
            xgap=2,
            ygap=2,
            hovertext=hover,
            hoverinfo="text",
        )
    )
    cell_texts(figure, texts, size=12)
    legend_swatches(figure, STATES, ink(theme).line)
    figure.update_layout(
        xaxis={
            "side": "top", "tickmode": "array", "tickvals": list(range(len(gpus))),
            "ticktext": [label(gpu) for gpu in gpus],
            "showgrid": False, "zeroline": False, "range": [-0.5, len(gpus) - 0.5],
        },
        yaxis={
            "tickmode": "array", "tickvals": list(range(len(drawn))), "ticktext": unique_labels(drawn, 44),
            "showgrid": False, "zeroline": False, "range": [len(drawn) - 0.5, -0.5],
        },
        legend={"yref": "container", "yanchor": "top", "y": 1, "itemclick": False, "itemdoubleclick": False},
    )  # fmt: skip
    left_out = len(names) - len(drawn)
    alt = f"Grid of {len(drawn)} workloads by {len(gpus)} GPUs: what is known of each."
    alt += f" {left_out} more workloads are not drawn." if left_out else ""
    return finish(figure, alt=alt, theme=theme, height=_HEAD + _ROW * len(drawn))


def _partners(row: dict[Any, Any], before: str) -> str:
    if not row["partners"]:
        return ""
    words = f"{before}{row['partners']} of {row['possible']} partners"
    return f"{words}, up to {row['largest_k']} jobs at once" if row["largest_k"] > 2 else words
