"""The slowdown matrix as a picture: rows are slowed, columns slow them; every kind of gap has its own look."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from analysis.charts.marks import cell_texts, frames, legend_swatches, legend_symbol, marks
from analysis.charts.scale import SCALES, Scale
from analysis.charts.theme import finish, full, ink, label, on, unique_labels
from analysis.errors import UsageError
from analysis.interference.finding import counted
from analysis.interference.layers import PREDICTABLE, Array, Predicted, numbers_of
from analysis.interference.matrix import DID_NOT_RUN, FLAGGED, NOT_MEASURED, VALUES, SlowdownMatrix
from analysis.numbers import shorten, significant, visible

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
    rows = columns = unique_labels(list(matrix.workloads), _letters(size))
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
    longest = max((min(len(name), _letters(len(matrix.workloads))) for name in matrix.workloads), default=0)
    return 20 + 6 * longest


def _letters(size: int) -> int:
    """Return how many characters a name may have; what tells two jobs apart is often its end."""
    return 34 if size <= 60 else 26


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
