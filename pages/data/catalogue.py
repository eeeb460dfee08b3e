"""Which public measurements can I start from?"""

import streamlit as st

from analysis.ingest import catalogue
from analysis.ui.parts import catalogue as cards
from analysis.ui.shell import filters, frame, job
from analysis.ui.shell.resources import cached, database, jobs


def page() -> None:
    entries = catalogue.entries()
    loaded = set(filters.dataset_names())
    frame.header("Which public measurements can I start from?")
    here = sum(entry.name in loaded for entry in entries)
    words = {0: "none of them is", 1: "one of them is"}.get(here, f"{here} of them are")
    frame.answer(
        f"**{len(entries)} public data sets** of jobs that shared a GPU, each with its licence; {words} "
        "loaded. They stay apart from your own data, always."
    )
    latest = jobs().latest(cards.KIND)
    if latest is not None and not latest.finished:
        st.session_state["job-catalogue"] = latest.job_id
    current = st.session_state.get("job-catalogue")
    if current is not None:
        status = job.watch(current)
        job.outcome(status)
        if status.result is not None:
            cards.loaded(dict(status.result))
    for number in range(0, len(entries), 2):
        for column, entry in zip(st.columns(2), entries[number : number + 2], strict=False):
            with column:
                lacking = cached(catalogue.missing, database(), entry) if entry.name in loaded else ()
                cards.card(entry, loaded=entry.name in loaded, lacking=lacking)


page()
