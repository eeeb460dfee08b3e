"""Columns of a page's tables, as the vocabulary of columns names and explains them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import pandas as pd
import streamlit as st

from analysis.reference.columns import ColumnTerm, terms, vocabulary

#: How a figure of each kind is printed where the entry has no format of its own.
_FORMATS: Mapping[str, str] = {"count": "localized", "number": "%.4g", "percent": "%.1f", "ratio": "%.2f"}


def configured(*names: str | pd.DataFrame, **changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return the column settings of `streamlit.dataframe`.

    Parameters
    ----------
    *names : str or pd.DataFrame
        Entries of the vocabulary, in the order of the columns; of a frame, all columns that the vocabulary has.
    **changes : mapping
        What is otherwise on this page, by the frame's column: ``workload={"pinned": True}``.

    Returns
    -------
    dict
        Settings by the frame's column.

    Raises
    ------
    KeyError
        If the vocabulary has no such entry, or a change is of no column named: a mistake in the code that asks.
    """
    found = {one.key: one for one in terms(_names(names))}
    for key in changes:
        found[key]
    return {key: _setting(one, dict(changes.get(key, {}))) for key, one in found.items()}


def _names(asked: Iterable[str | pd.DataFrame]) -> Iterable[str]:
    for one in asked:
        if isinstance(one, pd.DataFrame):
            yield from (str(name) for name in one.columns if name in vocabulary())
        else:
            yield one


def _setting(one: ColumnTerm, changes: dict[str, Any]) -> Any:
    given: dict[str, Any] = {"label": one.header, "help": one.help, "width": one.width or None, **changes}
    make: Callable[..., Any]
    form = ""
    if one.format.startswith("YYYY"):
        make, form = st.column_config.DatetimeColumn, one.format
    elif one.kind == "flag":
        make = st.column_config.CheckboxColumn
    elif one.kind == "prose":
        make = st.column_config.TextColumn
    elif one.kind in _FORMATS:
        make, form = st.column_config.NumberColumn, one.format or _FORMATS[one.kind]
    else:
        make = st.column_config.Column
    return make(**({"format": form} | given if form else given))
