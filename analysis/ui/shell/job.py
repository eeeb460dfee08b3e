"""A running job on a page: progress that moves by itself, and a way to stop it."""

from __future__ import annotations

from datetime import datetime

import streamlit as st

from analysis.jobs.runner import JobStatus
from analysis.ui.shell import access, markdown
from analysis.ui.shell.errors import guarded
from analysis.ui.shell.resources import jobs

POLL_SECONDS = 0.5


def watch(job_id: str) -> JobStatus:
    """Show how far a job is, until it ends; then the page runs again and gets the finished status.

    Returns
    -------
    JobStatus
        The status at this run of the page. While it is unfinished the progress bar stands where this was called.
    """
    status = jobs().status(job_id)
    if not status.finished:
        _poll(job_id)
    return status


def outcome(status: JobStatus) -> None:
    """Say how a finished job ended, where it did not end well."""
    if status.state == "failed":
        st.error(markdown.sentence(status.message), icon=":material/error:")
    elif status.state == "cancelled":
        st.info("Cancelled. Nothing was kept; start it again to get a result.", icon=":material/block:")


@st.fragment(run_every=POLL_SECONDS)
@guarded
def _poll(job_id: str) -> None:
    status = jobs().status(job_id)
    if status.finished:
        st.rerun()
    with st.container(border=True, key=f"job-{job_id}"):
        waiting = status.state == "queued"
        text = "Waiting for the work before it" if waiting else markdown.plain(status.message, 160)
        # A single step may last seconds: the clock shows that something moves.
        spent = "" if status.created_at is None else f" · {(datetime.now() - status.created_at).total_seconds():.0f} s"
        st.progress(status.fraction, text=f"{text} · {status.fraction:.0%}{spent}")
        with st.container(horizontal=True, vertical_alignment="center", horizontal_alignment="distribute"):
            st.caption("You can leave this page; the work goes on and its result is kept.", width="content")
            if access.button("Cancel", icon=":material/stop_circle:", key=f"cancel-{job_id}"):
                _cancel(job_id)
                st.toast("Stopping at the next step.")


@access.editing
def _cancel(job_id: str) -> None:
    jobs().cancel(job_id)
