"""The few rules of style that the theme has no setting for."""

from __future__ import annotations

import streamlit as st

#: The answer stands out from the text around it. One data set is always chosen, so that it is required says nothing.
_RULES = """
<style>
.st-key-answer p { font-size: 1.15rem; line-height: 1.55; max-width: 62rem; }
.st-key-pending hr { margin: 0.1rem 0; }
[data-testid="stSidebarContent"] [data-testid="stVerticalBlock"] { gap: 0.85rem; }
[data-testid="stSidebarContent"] [data-testid="stWidgetLabelRequired"] { display: none; }
</style>
"""


#: On the light accent of the dark theme only dark text can be read; Streamlit writes white on every accent.
_DARK = """
<style>
[data-testid^="stBaseButton-primary"], [data-testid^="stBaseButton-primary"] :is(p, span),
[data-tag], [data-tag] :is(span, button) { color: #08131C !important; }
</style>
"""


def apply(theme: str) -> None:
    """Add the rules to the page.

    Parameters
    ----------
    theme : {"light", "dark"}
        As the reader's browser shows the application.
    """
    st.html(_RULES + (_DARK if theme == "dark" else ""))
