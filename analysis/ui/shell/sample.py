"""The simulated sample on the pages: loaded by the first start, badged everywhere, shown or hidden with one click."""

from __future__ import annotations

from typing import Any

import streamlit as st

from analysis.ingest.contract.simulated import SAMPLE
from analysis.jobs.runner import Progress
from analysis.sharing import sample
from analysis.store.database import Database
from analysis.ui.shell import access, job
from analysis.ui.shell.resources import cached, database, jobs

KIND = "sample"


@st.cache_resource(show_spinner=False)
def _started(_path: str) -> str | None:
    """Start loading once for each server and file; return the job."""
    opened = database()
    return _submit(opened) if sample.wanted(opened) else None


@access.editing
def _submit(opened: Database) -> str:
    def work(progress: Progress) -> dict[str, Any]:
        reports = sample.load(opened, progress)
        return {"files": [report.model_dump(mode="json", exclude={"report"}) for report in reports]}

    return jobs().submit(KIND, {"dataset": SAMPLE}, work, lane="load")


def first_start() -> None:
    """Load the sample on a first start, and show how far that is; afterwards this does nothing."""
    if not access.may_edit():
        return
    job_id = _started(str(database().path))
    if job_id is None or jobs().status(job_id).finished:
        _later()
        return
    st.info(
        "First start: loading a small **simulated** sample, so that every page has something to show. Nothing in it "
        "was measured on a GPU; your own files hide it.",
        icon=":material/science:",
    )
    job.watch(job_id)


def _later() -> None:
    """Show how far a load is that somebody asked for on a page."""
    running = jobs().latest(KIND)
    if running is not None and not running.finished:
        st.info("Loading the **simulated** sample.", icon=":material/science:")
        job.watch(running.job_id)


def state() -> sample.State:
    """Say whether the sample is shown, hidden or absent."""
    return cached(sample.state, database())


def visible(names: list[str]) -> list[str]:
    """Return data sets without the sample while it is hidden; never an empty list of a filled one."""
    if state() != "hidden":
        return names
    return [name for name in names if name != SAMPLE] or names


def switch() -> None:
    """Draw the one click that shows or hides the sample, beside the filters; nothing where it is the only data."""
    now = state()
    if now == "absent" or (now == "shown" and not _measured()):
        return
    label = "Hide the simulated sample" if now == "shown" else "Show the simulated sample"
    if access.button(label, icon=":material/science:", type="tertiary", key="sample-switch"):
        _show(now == "hidden")
        if now == "shown" and st.session_state.get("dataset") == SAMPLE:
            del st.session_state["dataset"]
        st.rerun()


def loading() -> bool:
    """Say whether the sample is on its way into the database."""
    running = jobs().latest(KIND)
    return running is not None and not running.finished


def offer(key: str) -> None:
    """Offer the sample where a page is empty: to load it where it is not there, to show it where it is hidden."""
    now = state()
    if now == "absent" and access.button("Load the simulated sample", icon=":material/science:", key=f"{key}-sample"):
        _submit(database())
        st.rerun()
    if now == "hidden" and access.button("Show the simulated sample", icon=":material/science:", key=f"{key}-sample"):
        _show(True)
        st.rerun()


def manage() -> None:
    """Draw what can be done about the sample: load, show, hide, remove for good."""
    now = state()
    words = {
        "absent": "It is not loaded.",
        "shown": "It is shown among the data sets.",
        "hidden": "It is hidden, because there are measurements.",
    }
    st.markdown(
        f"The sample is **simulated**: 24 jobs on four GPUs, made by the queueing model that the guide describes. "
        f"{words[now]}"
    )
    running = jobs().latest(KIND)
    if running is not None and not running.finished:
        return  # its progress stands at the top of every page
    with st.container(horizontal=True):
        if now == "absent":
            if access.button("Load the sample", icon=":material/science:", key="sample-load"):
                _submit(database())
                st.rerun()
            return
        switch()
        if access.button("Remove the sample", icon=":material/delete:", key="sample-remove"):
            _remove()
            st.toast("Removed. No start brings it back; you can load it here.")
            st.rerun()


@access.editing
def _show(wanted: bool) -> None:
    sample.show(database(), wanted)


@access.editing
def _remove() -> None:
    sample.remove(database())


def is_simulated(names: tuple[str, ...]) -> bool:
    """Say whether any of these data sets is simulated."""
    frame = cached(_kinds, database())
    return any(frame.get(name, False) for name in names)


def alone() -> bool:
    """Say whether there are data, and none of them was measured."""
    kinds = cached(_kinds, database())
    return bool(kinds) and all(kinds.values())


def _measured() -> bool:
    return not all(cached(_kinds, database()).values())


def _kinds(opened: Database) -> dict[str, bool]:
    from analysis.store.queries import sources

    frame = sources.datasets(opened)
    return {str(name): bool(simulated) for name, simulated in zip(frame["name"], frame["simulated"], strict=True)}
