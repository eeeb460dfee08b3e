"""What is the machine doing now?"""

import streamlit as st

from analysis.store.queries.sources import recordings
from analysis.ui.parts import gpu
from analysis.ui.shell import frame
from analysis.ui.shell.navigation import link
from analysis.ui.shell.resources import cached, database

QUESTION = "What is the machine doing now?"

COLUMNS = {
    "file_name": "Recording",
    "dataset": "Data set",
    "device": "GPU",
    "gpu": "Name",
    "from_at": st.column_config.DatetimeColumn("From (UTC)", format="YYYY-MM-DD HH:mm:ss"),
    "to_at": st.column_config.DatetimeColumn("To (UTC)", format="YYYY-MM-DD HH:mm:ss"),
    "samples": st.column_config.NumberColumn("Samples", format="localized"),
    "utilisation": st.column_config.NumberColumn("Time with any kernel, %", format="%.0f"),
    "power": st.column_config.NumberColumn("Mean power, W", format="%.0f"),
    "memory": st.column_config.NumberColumn("Most memory, MiB", format="%.0f"),
    "temperature": st.column_config.NumberColumn("Highest, °C", format="%.0f"),
    "simulated": st.column_config.CheckboxColumn("Simulated"),
}


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
