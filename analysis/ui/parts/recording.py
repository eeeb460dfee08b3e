"""Recording the machine to the database: started and stopped on a page, kept also when the page is closed."""

from __future__ import annotations

import threading
import time
import uuid
from pathlib import Path

import streamlit as st

from analysis.capture import telemetry
from analysis.capture.readings import Reader
from analysis.capture.snapshot import Snapshot
from analysis.errors import CancelledError, StallScopeError
from analysis.ingest.contract.format import Hints
from analysis.ingest.importer import import_file
from analysis.ingest.worker import hands_for
from analysis.jobs.runner import JobStatus, Progress
from analysis.store.database import Database
from analysis.ui.shell import access, frame, job, markdown
from analysis.ui.shell.errors import guarded
from analysis.ui.shell.resources import database, jobs

KIND = "recording"
#: A recording is kept until stopped, or for this long: nobody means to fill a disk.
LONGEST = 12 * 3600.0
INTERVALS = {"1 s": 1.0, "0.5 s": 0.5, "0.25 s": 0.25, "0.1 s": 0.1, "0.05 s": 0.05}

_STOPS: dict[str, threading.Event] = {}


@access.editing
def start(dataset: str, interval: float) -> str:
    """Queue a recording and return its job."""
    opened, stop = database(), threading.Event()
    name = f"recording-{time.strftime('%Y%m%d-%H%M%S', time.gmtime())}.csv"
    job_id = jobs().submit(
        KIND, {"dataset": dataset, "interval": interval, "name": name},
        lambda progress: record(opened, name, dataset, interval, stop, progress), lane="record",
    )  # fmt: skip
    _STOPS[job_id] = stop
    return job_id


@access.editing
def stop(job_id: str) -> None:
    """End a recording; what was recorded is loaded."""
    event = _STOPS.get(job_id)
    if event is not None:
        event.set()
    jobs().wait(job_id, 20)


def record(
    opened: Database, name: str, dataset: str, interval: float, stop: threading.Event, progress: Progress
) -> dict[str, object]:
    """Record until stopped, then load it as a log of the driver.

    Cancelled work, as when the server ends, is stopped work: what was recorded is kept.

    Raises
    ------
    StallScopeError
        If nothing was recorded, or it can't be loaded.
    """
    folder = (opened.spool or Path.cwd()) / "recordings"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{uuid.uuid4().hex}.csv"
    reader = Reader()

    def told(samples: int, seconds: float, _: Snapshot) -> None:
        try:
            progress(min(0.99, seconds / LONGEST), f"{samples:,} samples in {seconds:.0f} s")
        except CancelledError:
            stop.set()

    try:
        done = telemetry.record(reader, path, interval=interval, seconds=LONGEST, stop=stop, told=told)
        if not done.samples:
            why = "; ".join(done.faults) or "there is no GPU"
            raise StallScopeError(f"nothing was recorded: {why}", "Start it again when a GPU answers.")
        beside = telemetry.processes_path(path)
        written = ((path, name), (beside, name.replace(".csv", "-processes.csv")))
        with hands_for([one for one, _ in written if one.exists()], spool=opened.spool) as hands:
            reports = [
                import_file(opened, one, name=shown, hints=Hints(dataset=dataset), reader=hands.read)
                for one, shown in written
                if one.exists()
            ]
        refused = next((one.error for one in reports if one.status == "rejected"), None)
        if refused:
            raise StallScopeError(refused, "")
    finally:
        reader.close()
        path.unlink(missing_ok=True)
        telemetry.processes_path(path).unlink(missing_ok=True)
    return {
        "samples": done.samples, "seconds": round(done.seconds, 1), "gpus": list(done.gpus),
        "faults": list(done.faults), "dataset": dataset, "name": name,
    }  # fmt: skip


def controls() -> None:
    """Offer to record, or show the recording that runs, with a button to stop it."""
    frame.subheading("Record")
    status = jobs().latest(KIND)
    if status is not None and not status.finished:
        _running(status.job_id)
        return
    with st.container(horizontal=True, vertical_alignment="bottom"):
        dataset = st.text_input("Data set", "own", key="record-dataset", max_chars=80, width=240)
        interval = st.selectbox("Interval", list(INTERVALS), key="record-interval", width=140)
        if access.button("Start recording", type="primary", icon=":material/fiber_manual_record:", key="record-start"):
            start(dataset.strip() or "own", INTERVALS[str(interval)])
            st.rerun()
    if status is not None:
        _last(status)


def _last(status: JobStatus) -> None:
    job.outcome(status)
    if status.result is not None:
        found = status.result
        st.caption(
            f"The last recording: {found['samples']:,} samples of {markdown.plain(', '.join(found['gpus']), 200)} in "
            f"{found['seconds']:,.0f} s, in the data set {markdown.plain(found['dataset'], 80)}."
        )
        for fault in found["faults"]:
            st.caption(f":orange[:material/warning:] {markdown.sentence(fault)}")


@st.fragment(run_every=1)
@guarded
def _running(job_id: str) -> None:
    status = jobs().status(job_id)
    if status.finished:
        st.rerun()
    with st.container(border=True, horizontal=True, vertical_alignment="center", key="recording"):
        st.markdown(f":red[:material/fiber_manual_record:] Recording: {markdown.plain(status.message, 160)}")
        if access.button("Stop", icon=":material/stop:", key="record-stop"):
            stop(job_id)
            st.rerun()
    st.caption("It goes on when you leave this page, and is loaded when it is stopped.")
