"""How fast the expected error falls with every run: chosen runs against runs by lot."""

from __future__ import annotations

from collections.abc import Sequence

import plotly.graph_objects as go

from analysis.charts.theme import BESIDE, emphasis, finish, full
from analysis.numbers import shorten, significant, visible


def expected_error(
    start: float, chosen: Sequence[float], by_lot: Sequence[float], partners: Sequence[str], *, theme: str = "light"
) -> go.Figure:
    """Draw the expected error after 0, 1, 2, ... runs.

    Parameters
    ----------
    start : float
        Expected error before any run, percent.
    chosen, by_lot : sequence of float
        After each chosen run, and after as many by lot, percent.
    partners : sequence of str
        Who each chosen run is beside.
    theme : {"light", "dark"}
        The background.
    """
    at = list(range(len(chosen) + 1))
    figure = go.Figure()
    figure.add_scatter(
        x=at, y=[start, *by_lot], mode="lines+markers", name="by lot", line={"color": BESIDE, "dash": "dash"},
        hovertemplate="%{x} by lot: %{y:.3g} %<extra></extra>",
    )  # fmt: skip
    labels = ["before any run", *(f"beside {full(name)}" for name in partners)]
    figure.add_scatter(
        x=at, y=[start, *chosen], mode="lines+markers", name="in this order", customdata=labels,
        line={"color": emphasis(theme), "width": 3}, marker={"size": 9},
        hovertemplate="<b>%{customdata}</b><br>%{x} measured: %{y:.3g} %<extra></extra>",
    )  # fmt: skip
    figure.update_layout(
        xaxis={"title": {"text": "runs measured"}, "dtick": max(1, len(at) // 10)},
        yaxis={"title": {"text": "expected error of its pairs, %"}, "rangemode": "tozero"},
    )
    named = [shorten(visible(name), 60) for name in partners]
    steps = [f"{significant(value)} % beside {name}" for value, name in zip(chosen, named, strict=True)]
    alt = f"Expected error, before any run {significant(start)} %, then after each: {'; '.join(steps)}."
    if by_lot:
        alt += f" By lot {significant(by_lot[-1])} % after {len(by_lot)}."
    return finish(figure, alt=alt, theme=theme, height=330)
