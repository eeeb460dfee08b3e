"""The one frame of every page: question, filters, answer, picture with its table, what it rests on, caveats."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal
from zlib import crc32

import pandas as pd
import plotly.graph_objects as go
import streamlit as st

from analysis.report.spreadsheet import csv_bytes
from analysis.store.filters import Filter
from analysis.store.queries import exclusions
from analysis.ui.shell import markdown, sample
from analysis.ui.shell.navigation import link
from analysis.ui.shell.resources import cached, database

#: Kept in the chart's own toolbar: zoom, reset and the picture as a file; all else is clutter.
_REMOVED_BUTTONS = ("select2d", "lasso2d", "autoScale2d", "zoomIn2d", "zoomOut2d", "pan2d")


def header(
    question: str,
    filters: Filter | None = None,
    *,
    simulated: bool = False,
    about: Literal["coruns", "profiles", "nothing"] | None = None,
) -> None:
    """Show the question that the page answers, the badge of simulated data beside it, and the filters in words.

    Parameters
    ----------
    question : str
        The title, in our own words.
    filters : Filter, optional
        What the page is restricted to.
    simulated : bool
        Whether any number on the page comes from a simulator; a simulated data set among the filters says so too, and
        so does every page while nothing but simulated data is there.
    about : {"coruns", "profiles", "nothing"}, optional
        What the page's figures are made from, for saying what the user left out of them; both by default.
    """
    simulated = simulated or (filters is not None and sample.is_simulated(filters.datasets)) or sample.alone()
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        st.title(question, anchor=False, width="content")
        if simulated:
            st.badge(
                "Simulated data",
                icon=":material/science:",
                color="orange",
                help="A simulator made these numbers; nothing was measured on a GPU.",
            )
    if filters is not None:
        st.caption(f"Showing {markdown.plain(filters.sentence(), 400)}.")
        if about != "nothing":
            _left_out(filters, about)


def _left_out(filters: Filter, about: Literal["coruns", "profiles"] | None) -> None:
    """Say what the user left out of the page's figures, with the way to take it back."""
    said = cached(exclusions.said, database(), filters, about)
    if said:
        with st.container(horizontal=True, vertical_alignment="center", gap="small", key="left-out-of-page"):
            st.caption(f":material/filter_alt_off: {markdown.sentence(said, 400)}", width="content")
            link("checks", "Decisions")


def answer(text: str) -> None:
    """Show the answer in one or two sentences; names in it must have gone through `analysis.ui.shell.markdown`."""
    with st.container(key="answer"):
        st.markdown(markdown.unbroken(text))


def chart(
    figure: go.Figure,
    *,
    name: str,
    alt: str,
    table: pd.DataFrame,
    columns: Mapping[str, Any] | None = None,
    selectable: bool = False,
) -> Any:
    """Draw a chart with its table twin and the table as a file.

    Parameters
    ----------
    figure : go.Figure
        Drawn by `analysis.charts`.
    name : str
        File name of picture and table, and the widget's key; unique on the page.
    alt : str
        What the chart shows, for those who can't see it.
    table : pd.DataFrame
        The same numbers.
    columns : mapping, optional
        Column settings of `streamlit.dataframe`.
    selectable : bool
        Whether a click on a point reruns the page.

    Returns
    -------
    object
        The selection when `selectable`, else None.
    """
    config = {
        "displaylogo": False,
        "modeBarButtonsToRemove": list(_REMOVED_BUTTONS),
        "toImageButtonOptions": {"filename": name, "scale": 2},
    }
    selection = None
    if selectable:
        selection = st.plotly_chart(
            figure, theme=None, key=name, alt=alt, config=config, on_select="rerun", selection_mode="points"
        )
    else:
        st.plotly_chart(figure, theme=None, key=name, alt=alt, config=config)
    with st.expander("The same as a table", icon=":material/table_rows:"):
        data(table, name=name, columns=columns)
    return selection


def data(
    frame: pd.DataFrame,
    *,
    name: str,
    columns: Mapping[str, Any] | None = None,
    height: int | Literal["auto", "content"] = "auto",
    row_height: int | None = None,
) -> None:
    """Show a table with the table as a file below it; in rows higher than usual, texts have several lines."""
    used = {name: setting for name, setting in (columns or {}).items() if name in frame.columns}
    st.dataframe(
        frame, hide_index=True, column_config=used, height=height, row_height=row_height, placeholder="–", alt=name
    )
    download(frame, name=name)


def rows_key(name: str, rows: Iterable[object]) -> str:
    """Return the key of a table in which rows are chosen, another one for other rows.

    The browser keeps a choice by row number: in a table that was searched, sorted or cut since, it would be of another
    row.
    """
    return f"{name}-{crc32(repr([str(row) for row in rows]).encode()):08x}"


def download(frame: pd.DataFrame, *, name: str, label: str = "Download CSV") -> None:
    """Offer a table as a CSV file, with spreadsheet formulas defused."""
    st.download_button(
        label,
        data=lambda: csv_bytes(frame),
        file_name=f"{name}.csv",
        mime="text/csv",
        icon=":material/download:",
        key=f"download-{name}",
        on_click="ignore",
        type="tertiary",
    )


def basis(*parts: str, simulated: bool | None = None, protocol: str | None = None) -> None:
    """Say what the page rests on: how many kernels, launches, runs and sources, and how they came about."""
    words = [part for part in parts if part]
    if protocol:
        words.append(f"protocol {protocol}")
    if simulated is not None:
        words.append("simulated" if simulated else "measured")
    st.caption(f":material/layers: Rests on {' · '.join(markdown.plain(word, 200) for word in words)}.")


def caveats(sentences: Sequence[str], *, most: int = 3) -> None:
    """Show what the checks found about the data on the page, the first few openly."""
    if not sentences:
        return
    with st.container(border=True, key="caveats"):
        for text in sentences[:most]:
            st.markdown(f":orange[:material/warning:] {markdown.sentence(text, 400)}")
        if len(sentences) > most:
            with st.expander(f"{len(sentences) - most} more", type="compact"):
                for text in sentences[most:]:
                    st.markdown(f":orange[:material/warning:] {markdown.sentence(text, 400)}")
        link("checks", "All findings")


def count(number: int, one: str, many: str | None = None) -> str:
    """Return a number with its noun.

    Examples
    --------
    >>> count(1, "run"), count(1200, "run")
    ('1 run', '1,200 runs')
    """
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def subheading(text: str) -> None:
    """Show the heading of a part, in our own words."""
    st.subheader(text, anchor=False)
