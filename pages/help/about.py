"""What is this, and whose work does it rest on?"""

import platform
from importlib.metadata import PackageNotFoundError, version

import pandas as pd
import streamlit as st

from analysis import __version__
from analysis.store.queries import sources
from analysis.ui.shell import frame
from analysis.ui.shell.columns import configured
from analysis.ui.shell.resources import cached, database

PACKAGES = ("streamlit", "duckdb", "plotly", "pandas", "numpy", "scipy", "scikit-learn", "shap", "skops")


def installed(name: str) -> str:
    """Return the version of a package, or that it is missing."""
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"


def page() -> None:
    frame.header("What is this, and whose work does it rest on?")
    frame.answer(
        f"StallScope {__version__} answers one question: **which training jobs can share a GPU, and what will each of "
        "them pay for it?** It is open source under the Apache License 2.0 and keeps all data on this machine."
    )
    loaded = cached(sources.datasets, database())
    if not loaded.empty:
        st.subheader("Data sets in the database", anchor=False)
        frame.data(
            loaded[["name", "title", "licence", "citation"]],
            name="data-set-licences",
            columns=configured("name/dataset", "title", "licence", "citation"),
        )
    st.subheader("Software", anchor=False)
    rows = [("Python", platform.python_version()), *((name, installed(name)) for name in PACKAGES)]
    st.dataframe(
        pd.DataFrame(rows, columns=["Package", "Version"]),
        hide_index=True,
        width=420,
        height="content",
        placeholder="–",
        alt="Software",
    )


page()
