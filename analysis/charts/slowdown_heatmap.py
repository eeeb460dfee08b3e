"""The slowdown matrix as a picture: rows are slowed, columns slow them; every kind of gap has its own look."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from analysis.charts.marks import frames
from analysis.charts.matrix_layers import draw_cells, set_axes, set_legend
from analysis.charts.scale import SCALES
from analysis.charts.theme import finish, ink, label
from analysis.errors import UsageError
from analysis.interference.layers import Array, Predicted
from analysis.interference.matrix import DID_NOT_RUN, FLAGGED, NOT_MEASURED, VALUES, SlowdownMatrix
from analysis.numbers import shorten, significant, visible

#: More cells than this make the page heavy; group by family first.
MOST = 150

#: Width that a figure is planned for, in pixels; a page of 1280 pixels leaves about this.
_WIDTH = 900


def slowdown_heatmap(
    matrix: SlowdownMatrix,
    *,
    values: str = "slowdown",
    predicted: Predicted | None = None,
    selected: tuple[str, str] | None = None,
    theme: str = "light",
) -> go.Figure:
    """Draw one matrix.

    Parameters
    ----------
    matrix : SlowdownMatrix
        At most 150 workloads.
    values : {"slowdown", "stp", "together", "antt", "fairness", "p99", "difference"}
        What the colour says; ``together`` is the time together of jobs that take 100 one after the other, and
        ``difference`` is predicted against measured, in percent.
    predicted : Predicted, optional
        Fills cells that were not measured, in a thin frame; needed for ``difference``.
    selected : tuple of str, optional
        (row, column) to outline.
    theme : {"light", "dark"}
        The background.

    Returns
    -------
    go.Figure
        Its first trace is the colour, its second one square markers without colour over every cell, whose
        ``customdata`` holds the positions (row, column): cells of a heatmap can't be selected, markers can.

    Raises
    ------
    UsageError
        If the values are unknown or the matrix is too large.
    """
    _check(matrix, values, predicted)
    figure = go.Figure()
    size = len(matrix.workloads)
    pixels = _pixels(size, 1)
    draw_cells(figure, matrix, values, predicted, theme, pixels, None)
    if selected is not None and selected[0] in matrix.workloads and selected[1] in matrix.workloads:
        place = (matrix.workloads.index(selected[1]), matrix.workloads.index(selected[0]))
        frames(figure, [place], ink(theme).text, width=3, half=0.5)
    labelled = size <= 60
    set_axes(figure, matrix, labelled, True, "", theme)
    set_legend(figure, [matrix], values, predicted, theme)
    height = 140 + round(pixels * size) + (_room(matrix) if labelled else 0)
    # The buttons of the chart lie over its upper edge; the legend stays below them.
    figure.update_layout(legend={"y": 1 - 24 / height})
    return finish(figure, alt=_alt(matrix, values), theme=theme, height=height)


def slowdown_multiples(
    matrices: Sequence[SlowdownMatrix], *, values: str = "slowdown", theme: str = "light", columns: int = 2
) -> go.Figure:
    """Draw the matrices of several GPUs or mechanisms side by side on one scale.

    Rows and columns are the workloads of all matrices in the order of the first one; columns carry the numbers of the
    rows. The alternative text joins those of the parts. The square markers' ``customdata`` holds row, column and which
    of the matrices it is of, see `place_in`.
    """
    for matrix in matrices:
        _check(matrix, values, None)
    names = _common(matrices)
    padded = [_padded(matrix, names) for matrix in matrices]
    columns = min(columns, len(padded))
    rows = -(-len(padded) // columns)
    pixels = _pixels(len(names), columns)
    titles = [f"{label(m.gpu)} · {label(m.mechanism)}" if m.mechanism else label(m.gpu) for m in padded]
    height_each = pixels * len(names)
    figure = make_subplots(
        rows, columns, subplot_titles=titles, horizontal_spacing=0.03,
        vertical_spacing=min(64 / max(height_each * rows, 1), 0.9 / max(rows - 1, 1)) if rows > 1 else 0,
    )  # fmt: skip
    for position, matrix in enumerate(padded):
        at = (position // columns + 1, position % columns + 1)
        draw_cells(figure, matrix, values, None, theme, pixels, at, position)
        suffix = "" if position == 0 else str(position + 1)
        set_axes(figure, matrix, True, at[1] == 1, suffix, theme, numbered=True)
    set_legend(figure, padded, values, None, theme)
    figure.update_annotations(font_size=13, yshift=20)
    alt = " ".join(_alt(matrix, values) for matrix in matrices)
    height = round(164 + rows * height_each + (rows - 1) * 64)
    figure.update_layout(margin={"t": 128}, legend={"y": 1 - 24 / height})
    return finish(figure, alt=alt, theme=theme, height=height)


def place_of(matrix: SlowdownMatrix, customdata: Sequence[int] | Mapping[str, int]) -> tuple[str, str]:
    """Return the (row, column) workloads of a selected marker's ``customdata``.

    A browser hands a row of packed numbers back as an object with the keys ``"0"`` and ``"1"``, a list as a list.
    """
    row, column = (customdata["0"], customdata["1"]) if isinstance(customdata, Mapping) else customdata
    return matrix.workloads[int(row)], matrix.workloads[int(column)]


def place_in(matrices: Sequence[SlowdownMatrix], customdata: Sequence[int] | Mapping[str, int]) -> tuple[int, str, str]:
    """Return which of small multiples a selected marker is of, and its (row, column) workloads."""
    row, column, number = (
        (customdata["0"], customdata["1"], customdata["2"]) if isinstance(customdata, Mapping) else customdata
    )
    names = _common(matrices)
    return int(number), names[int(row)], names[int(column)]


def _common(matrices: Sequence[SlowdownMatrix]) -> list[str]:
    return list(dict.fromkeys(name for matrix in matrices for name in matrix.workloads))


def _check(matrix: SlowdownMatrix, values: str, predicted: Predicted | None) -> None:
    if values not in SCALES:
        raise UsageError(f"unknown values {values!r}", f"Choose one of {', '.join(SCALES)}.")
    if values == "difference" and predicted is None:
        raise UsageError("a difference needs predictions", "Choose a model, or show the measured values.")
    if len(matrix.workloads) > MOST:
        raise UsageError(
            f"a matrix of {len(matrix.workloads)} workloads is too large to draw", "Group it by family first."
        )


def _pixels(size: int, columns: int) -> float:
    """Return the side of a cell for which there is room."""
    room = (_WIDTH - 230) / columns
    return float(np.clip(room / max(size, 1), 11, 44))


def _room(matrix: SlowdownMatrix) -> int:
    longest = max((min(len(name), 22) for name in matrix.workloads), default=0)
    return 20 + 6 * longest


def _padded(matrix: SlowdownMatrix, names: list[str]) -> SlowdownMatrix:
    """Bring a matrix to a common list of workloads; those it lacks are not measured."""
    size = len(names)
    at = [names.index(name) for name in matrix.workloads]
    square = np.ix_(at, at)
    fields: dict[str, npt.NDArray[np.generic]] = {}
    for name in VALUES:
        wide: Array = np.full((size, size), np.nan)
        wide[square] = getattr(matrix, name)
        fields[name] = wide
    state = np.full((size, size), NOT_MEASURED, dtype="<U12")
    state[square] = matrix.state
    for name in ("runs", "failed", "capped"):
        padded = np.zeros((size, size), dtype=getattr(matrix, name).dtype)
        padded[square] = getattr(matrix, name)
        fields[name] = padded
    family = dict(zip(matrix.workloads, matrix.families, strict=True))
    families = tuple(family.get(name, "") for name in names)
    return SlowdownMatrix(
        **{**matrix.__dict__, **fields, "state": state, "workloads": tuple(names), "families": families}
    )


def _alt(matrix: SlowdownMatrix, values: str) -> str:
    where = visible(matrix.gpu) + (f" under {visible(matrix.mechanism)}" if matrix.mechanism else "")
    size = len(matrix.workloads)
    counts = {state: int((matrix.state == state).sum()) for state in (NOT_MEASURED, DID_NOT_RUN, FLAGGED)}
    gaps = ", ".join(
        f"{counts[state]} {words}"
        for state, words in ((NOT_MEASURED, "not measured"), (DID_NOT_RUN, "did not run"), (FLAGGED, "flagged"))
        if counts[state]
    )
    known = np.argwhere(~np.isnan(matrix.slowdown))
    text = f"Matrix of {size} by {size} workloads on {where}, {SCALES[values].title}"
    text += f"; of {size * size} cells {gaps}." if gaps else "."
    if len(known):
        i, j = known[int(np.argmax([matrix.slowdown[i, j] for i, j in known]))]
        median = float(np.nanmedian(matrix.slowdown))
        text += (
            f" Median slowdown {significant(median)}, largest {significant(matrix.slowdown[i, j])}: "
            f"{shorten(visible(matrix.workloads[i]), 60)} beside {shorten(visible(matrix.workloads[j]), 60)}."
        )
    return text
