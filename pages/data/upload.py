"""What did you take from my files?"""

import streamlit as st

from analysis.ui.parts import outcome, upload
from analysis.ui.shell import frame, job, markdown, navigation
from analysis.ui.shell.resources import jobs


def finished(current: upload.State, result: dict) -> None:
    """Show what the last upload brought, and the way to take it back."""
    reports = result["reports"]
    if current.undone:
        frame.answer("Undone: the database is as it was before this upload.")
        return
    frame.answer(outcome.sentence(reports))
    if result["cancelled"]:
        st.info(f"Cancelled before {markdown.plain(', '.join(result['left']), 300)}; what is listed here was loaded.")
    outcome.rows(reports)
    if not any(report["status"] == "loaded" for report in reports):
        return
    with st.container(horizontal=True, vertical_alignment="center"):
        dataset = result["dataset"]
        if any(report["launches"] for report in reports):
            navigation.link("stalls", "See why these jobs wait", dataset=dataset)
        if any(report["runs"] for report in reports):
            navigation.link("interference", "See who hurts whom", dataset=dataset)
        if st.button("Undo this upload", icon=":material/undo:", key="undo"):
            upload.undo(reports)
            current.undone = True
            st.rerun()
    upload.confirm(dataset)


def page() -> None:
    frame.header("What did you take from my files?")
    current = upload.state()
    if current.job is None:
        # Opened again while a load of an earlier tab still runs: show it.
        latest = jobs().latest(upload.KIND)
        if latest is not None and not latest.finished:
            current.job = latest.job_id
    if current.job is None and not current.pending:
        frame.answer(
            "Nothing yet in this session: drop files below. Nothing is loaded before you have seen what each one is."
        )
    upload.drop_zone()
    upload.form()
    if current.job is not None:
        status = job.watch(current.job)
        job.outcome(status)
        if status.result is not None:
            finished(current, dict(status.result))
    elif not current.pending:
        upload.templates()


page()
