"""A search box over a table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd
import streamlit as st


def search(table: pd.DataFrame, columns: Sequence[str], key: str, *, address: bool = False) -> pd.DataFrame:
    """Keep the rows in which any of the columns holds the words typed, in any order.

    Parameters
    ----------
    table : pd.DataFrame
        The rows.
    columns : sequence of str
        Where to look.
    key : str
        Of the widget; unique on the page.
    address : bool
        Whether the words stand in the address and stay from page to page.
    """
    kept: dict[str, Any] = {"bind": "query-params", "persist_state": "session"} if address else {}
    words = st.text_input(
        "Search", key=key, placeholder="Search", icon=":material/search:", label_visibility="collapsed", width=320,
        **kept,
    )  # fmt: skip
    if not words:
        return table
    text = table[list(columns)].astype("string").fillna("").agg(" ".join, axis=1).str.casefold()
    keep = pd.Series(True, index=table.index)
    for word in words.casefold().split():
        keep &= text.str.contains(word, regex=False)
    return table[keep]
