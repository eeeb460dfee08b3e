"""The slowdown matrix on a page: a picture to click, a table to walk by keyboard, one chosen cell for both."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go
import streamlit as st

from analysis.charts.slowdown_heatmap import place_of
from analysis.interference.matrix import DID_NOT_RUN, FLAGGED, NOT_MEASURED, SlowdownMatrix
from analysis.ui import frame

#: Keys, and parameters in the address, of the chosen cell: who is slowed, by whom, on which GPU.
SLOWED, BESIDE, AT = "slowed", "beside", "at"

_WORDS = {NOT_MEASURED: "·", DID_NOT_RUN: "did not run"}


def show(matrix: SlowdownMatrix, figure: go.Figure, *, alt: str) -> None:
    """Draw one matrix; a click or a selected table cell becomes the chosen cell.

    Parameters
    ----------
    matrix : SlowdownMatrix
        Its values, in the order of the figure.
    figure : go.Figure
        Drawn by `analysis.charts.slowdown_heatmap`, with selectable markers over its cells.
    alt : str
        What the chart shows.
    """
    key = f"matrix-{matrix.gpu}"
    st.plotly_chart(
        figure,
        theme=None,
        key=key,
        alt=alt,
        on_select=lambda: _from_chart(key, matrix),
        selection_mode="points",
        config={"displaylogo": False, "modeBarButtonsToRemove": ["select2d", "lasso2d", "autoScale2d"]},
    )
    with st.expander("The same as a table, to walk with the keyboard", icon=":material/table_rows:"):
        st.caption("Rows are slowed, columns slow them. Arrow keys move, Enter or Space chooses a cell.")
        table_key = f"{key}-table"
        st.dataframe(
            wide(matrix),
            key=table_key,
            on_select=lambda: _from_table(table_key, matrix),
            selection_mode="single-cell",
            alt=f"Slowdown matrix on {matrix.gpu}",
            column_config={"_index": st.column_config.TextColumn("Slowed", width="medium", pinned=True)},
        )
        frame.download(matrix.table(), name=f"slowdown-{matrix.dataset}-{matrix.gpu}")


def wide(matrix: SlowdownMatrix) -> pd.DataFrame:
    """Write the matrix as text, rows the slowed, columns the aggressor: ``1.34``, ``1.34 flagged``, ``did not run``."""
    numbers = np.vectorize(lambda value: "" if np.isnan(value) else f"{value:.2f}", otypes=[object])(matrix.slowdown)
    text = np.where(matrix.state == FLAGGED, numbers + " flagged", numbers)
    for state, words in _WORDS.items():
        text = np.where(matrix.state == state, words, text)
    names = list(matrix.workloads)
    return pd.DataFrame(text, index=pd.Index(names, name="slowed"), columns=names)


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
    settings: dict[str, Any] = {"index": None, "bind": "query-params", "persist_state": "session"}
    columns[0].selectbox("Who is slowed", names, key=SLOWED, placeholder="Choose a job", **settings)
    columns[1].selectbox("By whom", names, key=BESIDE, placeholder="Choose a job", **settings)
    if len(matrices) > 1:
        columns[2].selectbox("On", list(matrices), key=AT, bind="query-params", persist_state="session")
    return chosen(matrices)


def _from_chart(key: str, matrix: SlowdownMatrix) -> None:
    points = st.session_state[key]["selection"]["points"]
    if points:
        data = points[0]["customdata"]
        # A row of a typed array comes back from the browser as {"0": row, "1": column}.
        place = [data[name] for name in sorted(data)] if isinstance(data, Mapping) else data
        _choose(matrix, *place_of(matrix, place))


def _from_table(key: str, matrix: SlowdownMatrix) -> None:
    cells = st.session_state[key]["selection"]["cells"]
    if cells:
        row, column = cells[0]
        if column in matrix.workloads:
            _choose(matrix, matrix.workloads[row], str(column))


def _choose(matrix: SlowdownMatrix, slowed: str, beside: str) -> None:
    st.session_state[SLOWED], st.session_state[BESIDE], st.session_state[AT] = slowed, beside, matrix.gpu
