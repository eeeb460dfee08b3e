"""The machine as its driver sees it now: one look a second for all who watch, none while nobody does."""

from __future__ import annotations

import threading
import time
import uuid
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd
import streamlit as st

from analysis.capture import telemetry
from analysis.capture.nvml import is_fake
from analysis.capture.readings import Device, Process, Reader, Snapshot
from analysis.charts.sparkline import as_image
from analysis.errors import CancelledError, StallScopeError
from analysis.ingest.contract.format import Hints
from analysis.ingest.importer import import_file
from analysis.ingest.worker import reader_for
from analysis.jobs.runner import JobStatus, Progress
from analysis.store.database import Database
from analysis.ui.shell import access, frame, job, markdown
from analysis.ui.shell.errors import guarded
from analysis.ui.shell.resources import database, jobs, theme

#: Looks that sparklines show, one a second.
KEPT = 120
_EVERY = 0.9

#: What a tile shows: label, counter, its limit's counter, unit, and what it means.
TILES = (
    ("Share of time with any kernel", "utilization.gpu", None, "%",
     "Whether any kernel ran, over time. 100 % says neither that the GPU is full nor that jobs would disturb each "
     "other: one small kernel after another reaches it."),
    ("Memory", "memory.used", "memory.total", "MiB", "Memory in use, of all."),
    ("Power", "power.draw", "enforced.power.limit", "W", "Power drawn, of the limit in force."),
    ("SM clock", "clocks.current.sm", "clocks.max.sm", "MHz", "Clock of the multiprocessors, of the highest."),
    ("Memory clock", "clocks.current.memory", None, "MHz", "Clock of the GPU's memory."),
    ("Temperature", "temperature.gpu", None, "°C", "Of the GPU's core."),
    ("PCIe in", "pcie.rx", None, "MB/s", "From the host to the GPU, over the last 20 ms."),
    ("PCIe out", "pcie.tx", None, "MB/s", "From the GPU to the host, over the last 20 ms."),
)  # fmt: skip
_NAMES = {
    "utilization.gpu": "time with any kernel", "utilization.memory": "time with memory traffic",
    "memory.used": "memory in use", "memory.total": "memory", "power.draw": "power",
    "enforced.power.limit": "power limit", "clocks.current.sm": "SM clock", "clocks.current.memory": "memory clock",
    "clocks.max.sm": "highest SM clock", "temperature.gpu": "temperature", "pcie.link.gen.current": "PCIe generation",
    "pcie.link.width.current": "PCIe lanes", "pcie.rx": "PCIe in", "pcie.tx": "PCIe out",
}  # fmt: skip


@dataclass
class Watcher:
    """Looks at the driver when someone asks, at most once a second, and remembers two minutes.

    Attributes
    ----------
    history : deque of Snapshot
        The newest last.
    """

    reader: Reader = field(default_factory=Reader)
    history: deque[Snapshot] = field(default_factory=lambda: deque(maxlen=KEPT))
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _last: float = 0.0

    def look(self) -> Snapshot:
        """Return what the GPUs say now, or what they said within the last second."""
        with self._lock:
            now = time.monotonic()
            if not self.history or now - self._last >= _EVERY:
                # A gap, as when nobody watched, is not drawn as if it were a line.
                if now - self._last > 10 * _EVERY:
                    self.history.clear()
                self.history.append(self.reader.snapshot())
                self._last = now
            return self.history[-1]

    def close(self) -> None:
        """Let go of the driver."""
        self.reader.close()


@st.cache_resource(show_spinner=False, on_release=Watcher.close)
def watcher() -> Watcher:
    """Return the one watcher of this server."""
    return Watcher()


def answer(snapshot: Snapshot) -> str:
    """Say in a sentence what the machine does."""
    if snapshot.fault and not snapshot.devices:
        return f"Nothing can be said: {markdown.sentence(snapshot.fault)}"
    there = [device for device in snapshot.devices if device.fault is None]
    if not there:
        return f"No GPU answers. {markdown.sentence(snapshot.fault or snapshot.devices[0].fault or '')}"
    parts = []
    for device in there[:4]:
        used, power = _value(device, "memory.used"), _value(device, "power.draw")
        told = [
            f"{used / 1024:.1f} GiB in use" if used is not None else "",
            f"{power:.0f} W" if power is not None else "",
        ]
        jobs = len(_everything(device))
        told.append(frame.count(jobs, "process", "processes"))
        parts.append(f"**{markdown.plain(device.name, 60)}** {', '.join(word for word in told if word)}")
    text = f"{frame.count(len(there), 'GPU')}: {'; '.join(parts)}."
    held = [device for device in there if set(device.throttle or ()) - {"idle"}]
    if held:
        reasons = sorted({word for device in held for word in device.throttle or () if word != "idle"})
        text += f" Clocks are held back by: {', '.join(reasons)}."
    return text


@st.fragment(run_every=1)
@guarded
def watch() -> None:
    """Show everything, again every second; other parts of the page and other pages don't run."""
    found = watcher()
    snapshot = found.look()
    frame.answer(answer(snapshot))
    if snapshot.fault and snapshot.devices:
        st.warning(markdown.sentence(snapshot.fault), icon=":material/warning:")
    for device in snapshot.devices:
        _device(device, list(found.history))
    if snapshot.devices:
        with st.expander("The same as a table", icon=":material/table_rows:"):
            frame.data(table(list(found.history)), name="live", height=240)
    versions = [
        f"driver {snapshot.driver}" if snapshot.driver else "",
        f"CUDA {snapshot.cuda}" if snapshot.cuda else "",
    ]
    frame.basis(
        *versions, frame.count(len(found.history), "look", "looks"), "as the driver says it, now",
    )  # fmt: skip


def _device(device: Device, history: Sequence[Snapshot]) -> None:
    with st.container(border=True, key=f"gpu-{device.index}"):
        with st.container(horizontal=True, vertical_alignment="center", gap="small"):
            st.subheader(f"GPU {device.index} · {markdown.plain(device.name, 80)}", anchor=False, width="content")
            _badges(device)
        if device.fault:
            st.error(markdown.sentence(device.fault), icon=":material/error:")
            return
        columns = st.columns(4)
        for place, (label, counter, limit, unit, meaning) in enumerate(TILES):
            with columns[place % 4]:
                _tile(device, history, label, counter, limit, unit, meaning)
        missing = [
            f"{_NAMES[name]} ({one.reason})" for name, one in device.fields.items() if one.value is None and one.reason
        ]
        if missing:
            st.caption(f"Not told: {markdown.plain(', '.join(missing), 400)}.")
        _processes(device)
        _instances(device)


def _badges(device: Device) -> None:
    if device.ecc_on is not None:
        st.badge(f"ECC {'on' if device.ecc_on else 'off'}", color="gray")
    if device.mig_on is not None:
        st.badge(f"MIG {'on' if device.mig_on else 'off'}", color="gray")
    width, generation = _value(device, "pcie.link.width.current"), _value(device, "pcie.link.gen.current")
    if width is not None and generation is not None:
        st.badge(f"PCIe {generation:.0f} x {width:.0f}", color="gray")
    for reason in device.throttle or ():
        st.badge(
            reason, color="gray" if reason == "idle" else "orange", icon=":material/speed:", help="Holds clocks back."
        )


def _tile(
    device: Device, history: Sequence[Snapshot], label: str, counter: str, limit: str | None, unit: str, meaning: str
) -> None:
    value, most = _value(device, counter), _value(device, limit) if limit else None
    big = unit == "MiB"
    shown = "–" if value is None else f"{value / 1024:.1f} GiB" if big else f"{value:,.0f} {unit}"
    if value is not None and most:
        shown += f" of {most / 1024:.1f}" if big else f" of {most:,.0f}"
    reason = device.fields[counter].reason if counter in device.fields else None
    with st.container(border=True, gap=None):
        st.metric(label, shown, help=meaning + (f" Not told: {reason}." if value is None and reason else ""))
        st.html(as_image(series(history, device.index, counter), label, unit, theme()))


def _everything(device: Device) -> list[tuple[Process, str]]:
    inside = [(one, part.name) for part in device.mig for one in part.processes]
    return [*((one, "") for one in device.processes), *inside]


def _processes(device: Device) -> None:
    everything = _everything(device)
    if not everything:
        st.caption("No process uses this GPU, as far as this user may see.")
        return
    rows = [
        {"PID": one.pid, "Program": one.name, "Uses it as": one.kind, "Memory, MiB": one.memory_mib, "Instance": where}
        for one, where in everything
    ]  # fmt: skip
    clients = sum(one.kind == "MPS client" for one, _ in everything)
    st.markdown(
        f"**{frame.count(len(rows), 'process', 'processes')}**"
        + (f", {frame.count(clients, 'client', 'clients')} of MPS" if clients else "")
    )
    shown, whole = pd.DataFrame(rows), st.column_config.NumberColumn(format="%.0f")
    st.dataframe(
        shown if device.mig else shown.drop(columns="Instance"), hide_index=True, height="content", placeholder="–",
        alt=f"Processes on GPU {device.index}", column_config={"Memory, MiB": whole},
    )  # fmt: skip


def _instances(device: Device) -> None:
    if not device.mig:
        return
    st.markdown(f"**{frame.count(len(device.mig), 'MIG instance')}**")
    rows = [
        {"Instance": one.name, "GPU instance": one.gpu_instance, "Compute instance": one.compute_instance,
         "In use, MiB": one.used_mib, "Memory, MiB": one.total_mib, "Processes": len(one.processes)}
        for one in device.mig
    ]  # fmt: skip
    whole = st.column_config.NumberColumn(format="%.0f")
    st.dataframe(
        pd.DataFrame(rows), hide_index=True, height="content", placeholder="–", alt=f"MIG of GPU {device.index}",
        column_config={"In use, MiB": whole, "Memory, MiB": whole},
    )  # fmt: skip


def series(history: Sequence[Snapshot], index: int, counter: str) -> list[float | None]:
    """Return a counter over the looks, None where it was not told."""
    out = []
    for snapshot in history:
        device = next((one for one in snapshot.devices if one.index == index), None)
        out.append(None if device is None else _value(device, counter))
    return out


def table(history: Sequence[Snapshot]) -> pd.DataFrame:
    """Return the looks as a table, one row a look and GPU, the newest first."""
    rows: list[dict[str, Any]] = []
    for snapshot in reversed(history):
        at = pd.Timestamp(snapshot.at, unit="s").round("ms")
        for device in snapshot.devices:
            told = {
                f"{_NAMES[name]}{f' [{one.unit}]' if one.unit else ''}": one.value
                for name, one in device.fields.items()
            }
            rows.append({"time (UTC)": at, "GPU": device.index, "name": device.name, **told, "fault": device.fault})
    return pd.DataFrame(rows)


def said_fake() -> bool:
    """Say so where the machine is made up; returns whether it is."""
    if is_fake():
        st.warning(
            "This machine is made up: STALLSCOPE_NVML=fake is set, and no driver was asked. Unset it to see your own.",
            icon=":material/science:",
        )  # fmt: skip
    return is_fake()


def _value(device: Device, counter: str) -> float | None:
    found = device.fields.get(counter)
    return None if found is None else found.value


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
        with reader_for([one for one, _ in written if one.exists()], spool=opened.spool) as files:
            reports = [
                import_file(opened, one, name=shown, hints=Hints(dataset=dataset), reader=files.read)
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
