"""How do I use this?"""

import streamlit as st

from analysis.settings import asset
from analysis.ui.shell import frame


def page() -> None:
    frame.header("How do I use this?")
    chapters = {}
    for path in sorted(asset("data", "guide").glob("*.md")):
        title, _, body = path.read_text(encoding="utf-8").partition("\n")
        chapters[title.lstrip("# ").strip()] = body.strip()
    left, right = st.columns([1, 3], gap="large")
    with left:
        shown = st.radio(
            "Chapter", list(chapters), key="chapter", label_visibility="collapsed", bind="query-params",
            persist_state="session",
        )  # fmt: skip
    with right, st.container(width=760):
        st.header(shown, anchor=False)
        st.markdown(chapters[shown], anchors=False)


page()
