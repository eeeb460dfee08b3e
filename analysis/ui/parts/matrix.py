"""The slowdown matrix on a page: a picture to click, a table to walk by keyboard, one chosen cell for both."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go
import streamlit as st

from analysis.charts.scale import SCALES
from analysis.charts.slowdown_heatmap import place_in, place_of
from analysis.interference.layers import Predicted, numbers_of
from analysis.interference.matrix import DID_NOT_RUN, FLAGGED, NOT_MEASURED, SlowdownMatrix
from analysis.ui.shell import frame
from analysis.ui.shell.markdown import plain

#: Keys, and parameters in the address, of the chosen cell: who is slowed, by whom, on which GPU.
SLOWED, BESIDE, AT = "slowed", "beside", "at"
CELL = (SLOWED, BESIDE)
#: The same of the chosen groups, where rows and columns are groups of workloads.
GROUPS = ("rows", "columns")

_CONFIG = {"displaylogo": False, "modeBarButtonsToRemove": ["select2d", "lasso2d", "autoScale2d"]}


def show(
    matrix: SlowdownMatrix,
    figure: go.Figure,
    *,
    alt: str,
    values: str = "slowdown",
    predicted: Predicted | None = None,
    keys: tuple[str, str] = CELL,
) -> None:
    """Draw one matrix; a click or a selected table cell becomes the chosen cell.

    Parameters
    ----------
    matrix : SlowdownMatrix
        Its values, in the order of the figure.
    figure : go.Figure
        Drawn by `analysis.charts.slowdown_heatmap`, with selectable markers over its cells.
    alt : str
        What the chart shows.
    values, predicted
        What the figure shows, for the table.
    keys : tuple of str
        Where the chosen row and column are kept: `CELL` or `GROUPS`.
    """
    key = f"matrix-{keys[0]}-{matrix.gpu}"
    st.plotly_chart(
        figure, theme=None, key=key, alt=alt, selection_mode="points", config=_CONFIG,
        on_select=lambda: _from_chart(key, matrix, keys),
    )  # fmt: skip
    table([matrix], values=values, predicted=predicted, keys=keys)


def show_multiples(matrices: Sequence[SlowdownMatrix], figure: go.Figure, *, alt: str, values: str) -> None:
    """Draw several matrices on one scale, all of them to be clicked and walked."""
    st.plotly_chart(
        figure, theme=None, key="multiples", alt=alt, selection_mode="points", config=_CONFIG,
        on_select=lambda: _from_multiples("multiples", matrices),
    )  # fmt: skip
    table(matrices, values=values)


def table(
    matrices: Sequence[SlowdownMatrix],
    *,
    values: str = "slowdown",
    predicted: Predicted | None = None,
    keys: tuple[str, str] = CELL,
) -> None:
    """Show the matrices as tables in which the arrow keys move and Enter or Space chooses a cell."""
    with st.expander("The same as a table, to walk with the keyboard", icon=":material/table_rows:"):
        st.caption(
            f"{SCALES[values].title.capitalize()}. Rows are slowed, columns slow them. Arrow keys move, Enter or Space "
            "chooses a cell."
        )
        for matrix in matrices:
            if len(matrices) > 1:
                st.markdown(f"**{plain(matrix.gpu)}**")
            _walkable(matrix, values, predicted, keys)
            frame.download(
                long(matrix, predicted),
                name=f"slowdown-{matrix.dataset}-{matrix.gpu}{'' if keys == CELL else '-groups'}",
            )


def _walkable(matrix: SlowdownMatrix, values: str, predicted: Predicted | None, keys: tuple[str, str]) -> None:
    key = frame.rows_key(f"table-{keys[0]}-{matrix.gpu}", matrix.workloads)
    st.dataframe(
        wide(matrix, values, predicted),
        key=key,
        on_select=lambda: _from_table(key, matrix, keys),
        selection_mode="single-cell",
        alt=f"Slowdown matrix on {matrix.gpu}",
        column_config={"_index": st.column_config.TextColumn("Slowed", width="medium", pinned=True)},
    )


def wide(matrix: SlowdownMatrix, values: str = "slowdown", predicted: Predicted | None = None) -> pd.DataFrame:
    """Write the matrix as text, rows the slowed, columns the aggressor.

    A cell reads ``1.34``, ``1.34 flagged``, ``1.34, 2 failed``, ``1.34 predicted``, ``did not run``, or ``·`` for not
    measured.
    """
    shown = numbers_of(matrix, values, predicted)
    text = np.vectorize(lambda value: "" if np.isnan(value) else f"{value:.2f}", otypes=[object])(shown)
    measured = matrix.state != NOT_MEASURED
    empty = np.isnan(shown) if predicted is not None else ~measured
    text = np.where(~measured, np.where(empty, "·", text + " predicted"), text)
    mixed = (matrix.failed > 0) & (matrix.runs > 0)
    text = np.where(mixed, text + ", " + matrix.failed.astype(str).astype(object) + " failed", text)
    text = np.where(matrix.state == FLAGGED, text + " flagged", text)
    text = np.where(matrix.state == DID_NOT_RUN, "did not run", text)
    names = list(matrix.workloads)
    return pd.DataFrame(text, index=pd.Index(names, name="slowed"), columns=names)


def long(matrix: SlowdownMatrix, predicted: Predicted | None = None) -> pd.DataFrame:
    """Return the matrix as a table for a file, one row a cell, predictions beside the measurements."""
    rows = matrix.table()
    if predicted is not None:
        for name in ("slowdown", "low", "high"):
            rows[f"predicted_{name}"] = getattr(predicted, name).ravel()
    return rows


def chosen(matrices: Mapping[str, SlowdownMatrix]) -> tuple[str, str, str] | None:
    """Return the chosen cell as GPU, slowed and beside; None when nothing, or nothing that exists, is chosen."""
    slowed, beside = st.session_state.get(SLOWED), st.session_state.get(BESIDE)
    gpu = str(st.session_state.get(AT))
    if gpu not in matrices:
        gpu = next(iter(matrices))
    names = matrices[gpu].workloads
    return (gpu, str(slowed), str(beside)) if slowed in names and beside in names else None


def pickers(matrices: Mapping[str, SlowdownMatrix]) -> tuple[str, str, str] | None:
    """Ask for a cell by name, which also gives the choice its address.

    Returns
    -------
    tuple of str, or None
        GPU, slowed and beside.
    """
    names = sorted({name for matrix in matrices.values() for name in matrix.workloads})
    columns = st.columns([3, 3, 2] if len(matrices) > 1 else [1, 1])
    _pick(columns[0], "Who is slowed", names, SLOWED, "Choose a job")
    _pick(columns[1], "By whom", names, BESIDE, "Choose a job")
    if len(matrices) > 1:
        columns[2].selectbox("On", list(matrices), key=AT, bind="query-params", persist_state="session")
    return chosen(matrices)


def group_pickers(groups: Sequence[str], noun: str) -> tuple[str, str] | None:
    """Ask which two groups to open; None until both are chosen."""
    columns = st.columns(2)
    _pick(columns[0], f"Open these {noun}", groups, GROUPS[0], "Choose one")
    _pick(columns[1], "Beside these", groups, GROUPS[1], "Choose one")
    rows, beside = (st.session_state.get(key) for key in GROUPS)
    return (str(rows), str(beside)) if rows in groups and beside in groups else None


def _pick(place: Any, label: str, names: Sequence[str], key: str, hint: str) -> None:
    place.selectbox(label, names, key=key, placeholder=hint, index=None, bind="query-params", persist_state="session")


def _from_chart(key: str, matrix: SlowdownMatrix, keys: tuple[str, str] = CELL) -> None:
    points = st.session_state[key]["selection"]["points"]
    if points:
        _choose(matrix, *place_of(matrix, points[0]["customdata"]), keys)


def _from_multiples(key: str, matrices: Sequence[SlowdownMatrix]) -> None:
    points = st.session_state[key]["selection"]["points"]
    if points:
        number, slowed, beside = place_in(matrices, points[0]["customdata"])
        _choose(matrices[number], slowed, beside, CELL)


def _from_table(key: str, matrix: SlowdownMatrix, keys: tuple[str, str] = CELL) -> None:
    cells = st.session_state[key]["selection"]["cells"]
    if cells:
        row, column = cells[0]
        if column in matrix.workloads:
            _choose(matrix, matrix.workloads[row], str(column), keys)


def _choose(matrix: SlowdownMatrix, slowed: str, beside: str, keys: tuple[str, str]) -> None:
    st.session_state[keys[0]], st.session_state[keys[1]] = slowed, beside
    if keys == CELL:
        st.session_state[AT] = matrix.gpu
