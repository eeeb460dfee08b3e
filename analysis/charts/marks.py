"""Marks that several charts draw over their cells: frames, dots, crosses, and swatches in the legend."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import plotly.graph_objects as go

Cell = tuple[float, float]


def bar_rows(rows: int, bars: int) -> tuple[list[list[float]], float]:
    """Return the places of grouped bars on a numeric axis, by bar and row, and a bar's thickness.

    On a category axis nothing but bars could stand beside a bar of its group: marks for missing values need a place.
    """
    thick = 0.8 / max(bars, 1)
    return [[row + (bar - (bars - 1) / 2) * thick for row in range(rows)] for bar in range(bars)], thick


def frames(
    figure: go.Figure,
    cells: Sequence[Cell],
    colour: str,
    *,
    dash: str = "solid",
    width: float = 1.5,
    half: float = 0.44,
) -> None:
    """Draw a frame inside each cell (x, y), as one line trace so that thousands stay cheap."""
    if not cells:
        return
    xs: list[float | None] = []
    ys: list[float | None] = []
    for x, y in cells:
        xs += [x - half, x + half, x + half, x - half, x - half, None]
        ys += [y - half, y - half, y + half, y + half, y - half, None]
    figure.add_scatter(
        x=xs, y=ys, mode="lines", line={"color": colour, "width": width, "dash": dash}, hoverinfo="skip",
        showlegend=False,
    )  # fmt: skip


def dotted_frames(figure: go.Figure, cells: Sequence[Cell], colour: str) -> None:
    """Draw dotted outlines: what can't be measured there."""
    frames(figure, cells, colour, dash="dot", width=1.2, half=0.4)
    if cells:
        figure.add_scatter(
            x=[None], y=[None], mode="markers", name="not available on this GPU", hoverinfo="skip",
            marker={"symbol": "square-open-dot", "size": 11, "color": colour},
        )  # fmt: skip


def marks(figure: go.Figure, cells: Sequence[Cell], symbol: str, colour: str, size: float, width: float = 1.2) -> None:
    """Draw one symbol in each cell; they take no clicks and show no hover."""
    if cells:
        figure.add_scatter(
            x=[x for x, _ in cells], y=[y for _, y in cells], mode="markers", hoverinfo="skip", showlegend=False,
            marker={"symbol": symbol, "size": size, "color": colour, "line": {"color": colour, "width": width}},
        )  # fmt: skip


def legend_swatches(figure: go.Figure, entries: Iterable[tuple[str, str]], outline: str) -> None:
    """Add a square swatch to the legend for each (name, colour)."""
    for name, colour in entries:
        figure.add_scatter(
            x=[None], y=[None], mode="markers", name=name, hoverinfo="skip",
            marker={"symbol": "square", "size": 12, "color": colour, "line": {"color": outline, "width": 0.5}},
        )  # fmt: skip


def legend_symbol(figure: go.Figure, name: str, symbol: str, colour: str, size: float = 9) -> None:
    """Add a symbol to the legend."""
    figure.add_scatter(
        x=[None], y=[None], mode="markers", name=name, hoverinfo="skip",
        marker={"symbol": symbol, "size": size, "color": colour, "line": {"color": colour, "width": 1.4}},
    )  # fmt: skip


def cell_texts(figure: go.Figure, texts: Sequence[tuple[float, float, str, str]], *, size: float) -> None:
    """Print texts (x, y, text, colour) in cells; plotly's own choice of ink is too faint on middle tones."""
    for colour in sorted({colour for *_, colour in texts}):
        part = [entry for entry in texts if entry[3] == colour]
        figure.add_scatter(
            x=[x for x, *_ in part], y=[entry[1] for entry in part], text=[entry[2] for entry in part], mode="text",
            textfont={"color": colour, "size": size}, hoverinfo="skip", showlegend=False, cliponaxis=False,
        )  # fmt: skip
