"""The same pairs on two GPUs, and sets against the composition of their pairs: a dot each, and the line of equals."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from analysis.charts.predictions import TICKS
from analysis.charts.theme import WORSE, categories, emphasis, finish, full, ink, label
from analysis.numbers import significant, visible


def transfer_scatter(
    pairs: pd.DataFrame, source: str, target: str, *, limit: float = 1.2, theme: str = "light"
) -> go.Figure:
    """Draw the slowdown of every pair on one GPU against that on another.

    Parameters
    ----------
    pairs : pd.DataFrame
        workload, beside, source, target: S on either, NaN where it is not known.
    source, target : str
        The GPUs.
    limit : float
        Dots on different sides of it on both axes are drawn in the colour of what is worse, as a diamond.
    theme : {"light", "dark"}
        The background.
    """
    frame = pairs.dropna(subset=["source", "target"])
    pen = ink(theme)
    figure = go.Figure()
    x, y = frame["source"].to_numpy(float), frame["target"].to_numpy(float)
    span = _span([x, y], limit)
    _equals(figure, span, pen.line)
    for axis in ("x", "y"):
        ends = {"x0": limit, "x1": limit, "y0": span[0], "y1": span[1]}
        if axis == "y":
            ends = {"y0": limit, "y1": limit, "x0": span[0], "x1": span[1]}
        figure.add_shape(type="line", **ends, line={"color": pen.muted, "width": 1, "dash": "dash"}, layer="below")
    changed = (x <= limit) != (y <= limit)
    for name, which, colour, symbol in (
        (f"same side of {limit:g} x", ~changed, emphasis(theme), "circle"),
        (f"other side of {limit:g} x", changed, WORSE, "diamond"),
    ):
        part = frame[which]
        figure.add_scatter(
            x=part["source"], y=part["target"], mode="markers", name=name, hoverinfo="text",
            hovertext=[
                f"<b>{full(row['workload'])}</b><br>beside {full(row['beside'])}<br>{label(source)} "
                f"{significant(row['source'])} x, {label(target)} {significant(row['target'])} x"
                for row in part.to_dict("records")
            ],
            marker={"size": 7, "symbol": symbol, "color": colour, "opacity": 0.75,
                    "line": {"width": 0.5, "color": pen.surface}},
        )  # fmt: skip
    common = {"type": "log", "tickvals": TICKS, "ticktext": [f"{tick:g}" for tick in TICKS], "zeroline": False}
    figure.update_layout(
        xaxis={**common, "range": np.log10(span), "title": {"text": f"slowdown on {label(source)}, x"}},
        yaxis={**common, "range": np.log10(span), "title": {"text": f"slowdown on {label(target)}, x"}},
        hovermode="closest",
    )
    alt = (
        f"Scatter of {len(frame)} pairs by their slowdown on {visible(source)} and on {visible(target)}; "
        f"{int(changed.sum())} are on different sides of {limit:g} x."
    )
    return finish(figure, alt=alt, theme=theme, height=480)


def composition_scatter(members: pd.DataFrame, *, theme: str = "light") -> go.Figure:
    """Draw what the pairs of a set say of its members against what was measured, additive and multiplicative.

    Parameters
    ----------
    members : pd.DataFrame
        As `analysis.interference.sets.composition` gives it.
    theme : {"light", "dark"}
        The background.
    """
    frame = members.dropna(subset=["measured", "additive", "product"])
    pen = ink(theme)
    headings = ("added up: 1 + sum of (S - 1)", "multiplied: product of S")
    figure = make_subplots(1, 2, subplot_titles=headings, horizontal_spacing=0.08)
    span = _span([frame[name].to_numpy(float) for name in ("measured", "additive", "product")], 1.2)
    common = {"type": "log", "tickvals": TICKS, "ticktext": [f"{tick:g}" for tick in TICKS], "range": np.log10(span)}
    for number, how in enumerate(("additive", "product"), 1):
        _equals(figure, span, pen.line, number)
        figure.add_scatter(
            x=frame["measured"], y=frame[how], mode="markers", row=1, col=number, showlegend=False, hoverinfo="text",
            hovertext=[_words(row["jobs"], row["workload"], row["measured"], row[how])
                       for row in frame.to_dict("records")],
            marker={"size": 6, "color": categories(theme)[0], "opacity": 0.6,
                    "line": {"width": 0.5, "color": pen.surface}},
        )  # fmt: skip
        figure.update_xaxes(**common, title={"text": "measured in the set, x"}, row=1, col=number)
        figure.update_yaxes(**common, title={"text": "from its pairs, x" if number == 1 else ""}, row=1, col=number)
    figure.update_annotations(font_size=13)
    alt = f"{len(frame)} members of sets of three and more: measured slowdown against the composition of its pairs."
    return finish(figure, alt=alt, theme=theme, height=420)


def by_k_panels(table: pd.DataFrame, *, theme: str = "light") -> go.Figure:
    """Draw how time together, ANTT and fairness go with the number of jobs.

    Parameters
    ----------
    table : pd.DataFrame
        As `analysis.interference.sets.by_k` gives it.
    theme : {"light", "dark"}
        The background.
    """
    panels = (
        ("together", "Time together, min<br>(100 = one after the other)"), ("antt", "ANTT, x"),
        ("fairness", "Fairness<br>(1 = all suffer alike)"), ("worst", "Worst S, x"),
    )  # fmt: skip
    figure = make_subplots(1, len(panels), horizontal_spacing=0.06, subplot_titles=[heading for _, heading in panels])
    for number, (column, _) in enumerate(panels, 1):
        values = table[column].to_numpy(float)
        figure.add_scatter(
            x=table["k"].astype(str), y=values, mode="lines+markers+text", row=1, col=number, showlegend=False,
            text=[significant(value) for value in values], textposition="top center", cliponaxis=False,
            marker={"size": 9, "color": emphasis(theme)}, line={"width": 2, "color": emphasis(theme)},
            hoverinfo="skip",
        )  # fmt: skip
        top = float(np.nanmax(values)) * 1.25 if np.isfinite(values).any() else 1.0
        figure.update_yaxes(range=[0, top], nticks=5, row=1, col=number)
        figure.update_xaxes(title={"text": "jobs at once"}, type="category", row=1, col=number)
    ends = [
        f"k {row['k']}: STP {significant(row['stp'])}, ANTT {significant(row['antt'])} x"
        for row in table.to_dict("records")
    ]
    figure.update_annotations(font_size=13)
    figure.update_layout(margin={"t": 56})
    return finish(figure, alt=f"Medians over sets by the number of jobs. {'; '.join(ends)}.", theme=theme, height=320)


def _span(values: Sequence[np.ndarray], limit: float) -> tuple[float, float]:
    known = np.concatenate([part[np.isfinite(part)] for part in values]) if values else np.array([])
    known = known if known.size else np.array([1.0])
    return min(0.97, float(known.min())) * 0.97, max(limit * 1.1, float(known.max())) * 1.08


def _equals(figure: go.Figure, span: tuple[float, float], colour: str, number: int | None = None) -> None:
    place = {} if number is None else {"row": 1, "col": number}
    figure.add_scatter(
        x=list(span), y=list(span), mode="lines", line={"color": colour, "width": 1}, hoverinfo="skip",
        showlegend=False, **place,
    )  # fmt: skip


def _words(jobs: Sequence[str], workload: str, measured: float, composed: float) -> str:
    others = list(jobs)
    others.remove(workload)
    return (
        f"<b>{full(workload)}</b><br>beside {'<br>and '.join(full(job) for job in others)}<br>measured "
        f"{significant(measured)} x, from pairs {significant(composed)} x"
    )
