"""The few rules of style that the theme has no setting for."""

from __future__ import annotations

import streamlit as st

#: The answer stands out from the text around it.
_RULES = """
<style>
.st-key-answer p { font-size: 1.15rem; line-height: 1.55; max-width: 62rem; }
.st-key-pending hr { margin: 0.1rem 0; }
[data-testid="stSidebarContent"] [data-testid="stVerticalBlock"] { gap: 0.85rem; }
</style>
"""


def apply() -> None:
    """Add the rules to the page."""
    st.html(_RULES)
