"""What is the machine doing now?"""

import streamlit as st

from analysis.store.queries.sources import recordings
from analysis.ui.parts import gpu
from analysis.ui.shell import frame
from analysis.ui.shell.columns import configured
from analysis.ui.shell.navigation import link
from analysis.ui.shell.resources import cached, database

QUESTION = "What is the machine doing now?"

COLUMNS = configured(
    "file_name/recording", "dataset", "device", "gpu", "from_at", "to_at", "samples", "utilisation/gpu", "power",
    "memory/most", "temperature", "simulated",
)  # fmt: skip


def page() -> None:
    # Not the usual header: its badge tells of the data in the database, and this is the machine itself.
    st.title(QUESTION, anchor=False)
    gpu.said_fake()
    gpu.watch()
    gpu.controls()
    found = cached(recordings, database())
    if len(found):
        frame.subheading("Recorded before")
        frame.data(found.drop(columns="source_id"), name="recordings", columns=COLUMNS)
        frame.basis(frame.count(found["source_id"].nunique(), "recording"), simulated=bool(found["simulated"].any()))
    link("guide", "How to measure on this machine", chapter="Measuring on your own GPU")


page()
