"""The layers of a matrix chart: colour, selectable markers, numbers, marks of gaps and doubts, axes and legend."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import plotly.graph_objects as go

from analysis.charts.marks import cell_texts, frames, legend_swatches, legend_symbol, marks
from analysis.charts.scale import SCALES, Scale
from analysis.charts.theme import full, ink, label, on, unique_labels
from analysis.interference.finding import counted
from analysis.interference.layers import PREDICTABLE, Array, Predicted, numbers_of
from analysis.interference.matrix import DID_NOT_RUN, FLAGGED, NOT_MEASURED, SlowdownMatrix
from analysis.numbers import significant

#: The inks of a page count as the ink of a cell that is as light or dark.
_ALIKE = {"#16202A": "#16202A", "#FFFFFF": "#E8EDF2"}


def draw_cells(
    figure: go.Figure,
    matrix: SlowdownMatrix,
    values: str,
    predicted: Predicted | None,
    theme: str,
    pixels: float,
    at: tuple[int, int] | None,
    number: int | None = None,
) -> None:
    """Add one matrix: colour, markers to select, numbers where they fit, and the marks of gaps and doubts."""
    scale, shown, pen = SCALES[values], numbers_of(matrix, values, predicted), ink(theme)
    size = len(matrix.workloads)
    part = go.Figure()
    part.add_heatmap(
        z=scale.classes(shown), zmin=-0.5, zmax=len(scale.names) - 0.5, colorscale=scale.steps(theme),
        showscale=False, xgap=1 if pixels > 6 else 0, ygap=1 if pixels > 6 else 0, hoverinfo="skip",
    )  # fmt: skip
    row, column = np.divmod(np.arange(size * size, dtype=np.int16 if size < 180 else np.int32), size)
    # In small multiples a marker also says in which of them it stands.
    data = [row, column] if number is None else [row, column, np.full_like(row, number)]
    part.add_scatter(
        x=column, y=row, mode="markers", customdata=np.column_stack(data), showlegend=False,
        marker={"symbol": "square", "size": max(pixels - 2, 4), "color": "rgba(0,0,0,0)"},
        selected={"marker": {"color": "rgba(0,0,0,0)"}}, unselected={"marker": {"color": "rgba(0,0,0,0)"}},
        hovertext=_hover(matrix, shown, scale, predicted), hoverinfo="text",
    )  # fmt: skip
    if pixels >= 25:
        cells = [(j, i, shown[i, j]) for i, j in np.argwhere(~np.isnan(shown))]
        digits = [(x, y, _short(v), on(scale.colour(v, theme))) for x, y, v in cells]
        cell_texts(part, digits, size=11 if pixels >= 30 else 10)
    guessed = np.argwhere((matrix.state == NOT_MEASURED) & ~np.isnan(shown))
    frames(part, [(j, i) for i, j in guessed], pen.text, width=1)
    empty = np.argwhere((matrix.state == NOT_MEASURED) & np.isnan(shown))
    marks(part, [(j, i) for i, j in empty], "circle", pen.muted, 2.5 if pixels > 8 else 1.5, 0)
    failed = np.argwhere(matrix.state == DID_NOT_RUN)
    marks(part, [(j, i) for i, j in failed], "x-thin", pen.muted, min(max(pixels * 0.4, 4), 11))
    doubtful = np.argwhere(matrix.state == FLAGGED)
    corner = 0.28 if pixels > 14 else 0.2
    for colour in ("#16202A", "#FFFFFF"):
        places = [
            (j + corner, i - corner)
            for i, j in doubtful
            if (pen.text if np.isnan(shown[i, j]) else on(scale.colour(shown[i, j], theme))) in (colour, _ALIKE[colour])
        ]
        marks(part, places, "triangle-ne", colour, 5 if pixels > 14 else 3.5, 0)
    for colour in ("#16202A", "#FFFFFF"):
        places = [
            (float(j - corner), float(i + corner))
            for i, j in np.argwhere(_mixed(matrix))
            if not np.isnan(shown[i, j]) and on(scale.colour(shown[i, j], theme)) in (colour, _ALIKE[colour])
        ]
        marks(part, places, "x-thin", colour, 5 if pixels > 14 else 3)
    if at is None:
        figure.add_traces(part.data)
    else:
        figure.add_traces(part.data, rows=[at[0]] * len(part.data), cols=[at[1]] * len(part.data))


def _mixed(matrix: SlowdownMatrix) -> npt.NDArray[np.bool_]:
    """Say which cells hold a number although the pair failed in other runs."""
    return np.asarray((matrix.failed > 0) & (matrix.runs > 0), dtype=np.bool_)


def _hover(matrix: SlowdownMatrix, shown: Array, scale: Scale, predicted: Predicted | None) -> list[str]:
    # Names are the bulk of a large figure's bytes.
    size = len(matrix.workloads)
    names = [full(name) if size <= 40 else label(name, 40 if size <= 80 else 20) for name in matrix.workloads]
    long = size <= 40
    texts = []
    for i in range(size):
        for j in range(size):
            head = f"<b>{names[i]}</b><br>beside {names[j]}<br>" if long else f"{names[i]} beside {names[j]}: "
            texts.append(head + _cell_words(matrix, i, j, shown[i, j], scale, predicted))
    return texts


def _cell_words(matrix: SlowdownMatrix, i: int, j: int, value: float, scale: Scale, predicted: Predicted | None) -> str:
    state = str(matrix.state[i, j])
    if np.isnan(value):
        return {DID_NOT_RUN: "did not run", FLAGGED: "flagged, no value"}.get(state, "not measured")
    words = scale.print(value)
    if state == NOT_MEASURED and predicted is not None:
        low, high = predicted.low[i, j], predicted.high[i, j]
        interval = "" if np.isnan(low) else f" ({significant(low)} to {significant(high)})"
        return f"{words}{interval} predicted"
    runs = int(matrix.runs[i, j])
    if runs > 1 and len(matrix.workloads) <= 40:
        words += f", {runs} runs, {significant(matrix.low[i, j])} to {significant(matrix.high[i, j])}"
    if matrix.failed[i, j]:
        words += f", failed in {counted(int(matrix.failed[i, j]), 'more run')}"
    if matrix.capped[i, j]:
        words += ", with caps"
    return f"{words}, flagged" if state == FLAGGED else words


def set_axes(
    figure: go.Figure,
    matrix: SlowdownMatrix,
    labelled: bool,
    rows_labelled: bool,
    suffix: str,
    theme: str,
    *,
    numbered: bool = False,
) -> None:
    """Name the rows and columns; in small multiples the columns carry the numbers of the rows."""
    size = len(matrix.workloads)
    rows = unique_labels(list(matrix.workloads), 34 if size <= 60 else 26)
    columns = unique_labels(list(matrix.workloads), 22)
    if numbered:
        rows = [f"{name}  <b>{place + 1}</b>" for place, name in enumerate(rows)]
        columns = [str(place + 1) for place in range(size)]
    small = {"size": 11 if size <= 40 else 9, "color": ink(theme).text}
    edge = [-0.5, size - 0.5]
    common = {"tickmode": "array", "tickvals": list(range(size)), "showgrid": False, "zeroline": False}
    figure.update_layout(
        {
            f"xaxis{suffix}": {
                **common, "ticktext": columns, "side": "top", "tickangle": -90, "range": edge, "tickfont": small,
                "showticklabels": labelled or numbered,
                "title": {"text": "" if numbered else "beside this one"},
            },
            f"yaxis{suffix}": {
                **common, "ticktext": rows, "range": edge[::-1], "tickfont": small, "showticklabels": rows_labelled,
                "title": {"text": "" if numbered else "this one is slowed"},
            },
        }
    )  # fmt: skip


def set_legend(
    figure: go.Figure, matrices: Sequence[SlowdownMatrix], values: str, predicted: Predicted | None, theme: str
) -> None:
    """Explain the classes of the scale, and those marks that occur."""
    scale, pen = SCALES[values], ink(theme)
    used = {int(c) for m in matrices for c in np.unique(scale.classes(numbers_of(m, values, predicted))) if c == c}
    # The classes of the scale always stand there; the odd one below 1 only where it occurs.
    odd = {0} if values in ("slowdown", "antt", "p99", "worst") else set()
    shown = [k for k in range(len(scale.names)) if k not in odd or k in used]
    legend_swatches(figure, [(scale.names[k], scale.colours(theme)[k]) for k in shown], pen.line)
    states = {str(state) for m in matrices for state in np.unique(m.state)}
    if predicted is not None and values in PREDICTABLE:
        legend_symbol(figure, "predicted", "square-open", pen.text)
    for state, name, symbol, size in (
        (NOT_MEASURED, "not measured", "circle", 3),
        (DID_NOT_RUN, "did not run", "x-thin", 8),
        (FLAGGED, "flagged", "triangle-ne", 7),
    ):
        if state in states:
            legend_symbol(figure, name, symbol, pen.text if state == FLAGGED else pen.muted, size)
    if any(_mixed(m).any() for m in matrices):
        legend_symbol(figure, "ran and failed", "x-thin", pen.text, 5)
    figure.update_layout(
        legend={
            "itemclick": False, "itemdoubleclick": False, "y": 1, "yref": "container", "yanchor": "top",
            "title": {"text": ""},
        },
        dragmode=False, hovermode="closest", clickmode="event+select",
    )  # fmt: skip


def _short(value: float) -> str:
    return f"{value:.2f}" if abs(value) < 10 else f"{value:.0f}"
