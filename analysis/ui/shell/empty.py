"""What a page shows when the database can't answer its question yet: which file would, and where to get one."""

from __future__ import annotations

import streamlit as st

from analysis.ui.shell import navigation, sample

#: Kinds of files, in the words of the upload page.
PROFILE = "an Nsight Compute CSV with stall reasons (`ncu --csv --page raw`, or `--metrics` with the stall metrics)"
CORUN = "a co-run table (one row a job of a run: run, GPU, mechanism, workload, solo and co-run value)"


def state(sentence: str, *fills: str, key: str = "empty") -> None:
    """Say what is missing and offer the ways to fill it.

    Parameters
    ----------
    sentence : str
        Why the question can't be answered.
    *fills : str
        Files that would fill the page, such as `PROFILE`.
    key : str
        Unique on the page.
    """
    if sample.loading():
        st.info("The simulated sample is loading; this page fills by itself.", icon=":material/science:")
        return
    with st.container(border=True, key=key, gap="small", width=860):
        st.markdown(f"**{sentence}**")
        if fills:
            st.markdown("To fill this page, bring " + ", or ".join(fills) + ".")
        with st.container(horizontal=True):
            if st.button("Upload files", icon=":material/upload_file:", type="primary", key=f"{key}-upload"):
                st.switch_page(navigation.path("upload"))
            if st.button("Open the catalogue", icon=":material/menu_book:", key=f"{key}-catalogue"):
                st.switch_page(navigation.path("catalogue"))
            sample.offer(key)
