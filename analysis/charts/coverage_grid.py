"""What is known of each workload on each GPU, as a grid."""

from __future__ import annotations

from html import escape

import numpy as np
import pandas as pd
import plotly.graph_objects as go

#: State of a cell, its words and its colour; safe for colour-blind readers, and the hover text says it in words.
STATES = (("alone only", "#BFC5CC"), ("profile", "#E69F00"), ("pairs", "#56B4E9"), ("profile and pairs", "#0072B2"))

_ROW_PIXELS = 22
_LONGEST = 44


def coverage_grid(known: pd.DataFrame, *, theme: str = "light") -> go.Figure:
    """Draw workloads by GPUs.

    Parameters
    ----------
    known : pd.DataFrame
        As `analysis.store.queries.overview.grid` returns it.
    theme : {"light", "dark"}
        Colours of text and lines.

    Returns
    -------
    go.Figure
        One cell a workload and GPU: its colour says what is known, its text the partners measured of those possible.
    """
    workloads = list(dict.fromkeys(known["workload"]))
    gpus = sorted(set(known["gpu"]))
    state = np.full((len(workloads), len(gpus)), np.nan)
    text = np.full(state.shape, "", dtype=object)
    hover = np.full(state.shape, "nothing known", dtype=object)
    for row in known.itertuples():
        place = workloads.index(row.workload), gpus.index(row.gpu)
        state[place] = 2 * bool(row.partners) + bool(row.profiled)
        text[place] = f"{row.partners} of {row.possible}" if row.partners else ""
        hover[place] = f"{STATES[int(state[place])][0]}, measured with {row.partners} of {row.possible} partners"
        if row.largest_k > 2:
            text[place] += f" · up to {row.largest_k} at once"
            hover[place] += f", up to {row.largest_k} jobs at once"
    ink = "#E8EDF2" if theme == "dark" else "#16202A"
    figure = go.Figure(
        go.Heatmap(
            z=state,
            x=[escape(gpu) for gpu in gpus],
            y=[_label(name) for name in workloads],
            text=text,
            texttemplate="%{text}",
            customdata=hover,
            hovertemplate="%{y} on %{x}: %{customdata}<extra></extra>",
            zmin=-0.5,
            zmax=len(STATES) - 0.5,
            colorscale=_steps(),
            showscale=False,
            xgap=2,
            ygap=2,
        )
    )
    for name, colour in STATES:
        figure.add_scatter(
            x=[None], y=[None], mode="markers", name=name, marker={"color": colour, "symbol": "square", "size": 12}
        )
    figure.update_layout(
        height=90 + _ROW_PIXELS * len(workloads),
        margin={"l": 10, "r": 10, "t": 60, "b": 10},
        paper_bgcolor="rgba(0,0,0,0)",
        plot_bgcolor="rgba(0,0,0,0)",
        font={"color": ink, "size": 13},
        legend={"orientation": "h", "y": 1, "yanchor": "bottom", "yref": "container", "x": 0},
        xaxis={"side": "top", "fixedrange": True, "showgrid": False},
        yaxis={"autorange": "reversed", "fixedrange": True, "showgrid": False, "automargin": True},
    )
    return figure


def _steps() -> list[tuple[float, str]]:
    """Colours as hard steps."""
    n = len(STATES)
    return [(edge / n, colour) for place, (_, colour) in enumerate(STATES) for edge in (place, place + 1)]


def _label(name: str) -> str:
    return escape(name if len(name) <= _LONGEST else f"{name[: _LONGEST - 1]}…")
