"""Records what GPUs say over time, as the driver's own logs: CSV in the columns of ``nvidia-smi --query-gpu``."""

from __future__ import annotations

import csv
import signal
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from analysis.capture.readings import FIELDS, THROTTLE, Device, Reader, Snapshot
from analysis.errors import UsageError

#: Shortest interval in seconds: below it the driver's own counters do not change.
SHORTEST = 0.05

_LIGHT_BELOW = 0.25
_HEAD = ("timestamp", "index", "name", "uuid")
_COUNTERS = tuple((name, unit) for name, unit, _ in FIELDS)
_FLAGS = tuple(f"clocks_event_reasons.{name}" for _, name, _ in THROTTLE)
_ABSENT = "[N/A]"


@dataclass(frozen=True)
class Recorded:
    """What a recording holds: samples of devices and of processes, GPUs, seconds, and what the driver refused."""

    samples: int
    process_samples: int
    gpus: tuple[str, ...]
    seconds: float
    faults: tuple[str, ...]


def header() -> list[str]:
    """Return the columns of the device log."""
    return [*_HEAD, *(f"{name} [{unit}]" if unit else name for name, unit in _COUNTERS), *_FLAGS]


def stamp(at: float) -> str:
    """Return a time as nvidia-smi writes it, in UTC."""
    return f"{time.strftime('%Y/%m/%d %H:%M:%S', time.gmtime(at))}.{int(at % 1 * 1000):03d}"


def row(at: float, device: Device) -> list[str]:
    """Return a device's line; what it does not tell is ``[N/A]``."""
    cells = [stamp(at), str(device.index), device.name, device.uuid]
    for name, _ in _COUNTERS:
        found = device.fields.get(name)
        cells.append(_ABSENT if found is None or found.value is None else f"{found.value:.6g}")
    if device.throttle is None:
        return cells + [_ABSENT] * len(THROTTLE)
    return cells + [str(int(words in device.throttle)) for _, _, words in THROTTLE]


def check_interval(interval: float) -> None:
    """Refuse an interval that says nothing more.

    Raises
    ------
    UsageError
        Below `SHORTEST`.
    """
    if not interval >= SHORTEST:
        raise UsageError(
            f"an interval of {interval * 1000:g} ms is too short: the driver's counters don't change so often",
            f"Give {SHORTEST * 1000:g} ms or more.",
        )


def record(
    reader: Reader,
    path: Path,
    *,
    interval: float = 1.0,
    seconds: float | None = None,
    stop: threading.Event | None = None,
    told: Callable[[int, float, Snapshot], None] = lambda *_: None,
) -> Recorded:
    """Record until the time is over or the event is set; what is on disk by then is whole.

    Parameters
    ----------
    reader : Reader
        Asks the driver.
    path : Path
        CSV of the devices; processes go beside it, under the same name with ``-processes``, once there is any.
    interval : float
        Seconds between two looks. They stand on a grid: a late one is not made up for. Below 0.25 s PCIe traffic is
        left out, as measuring it takes the driver 20 ms each way.
    seconds : float, optional
        How long; without it until stopped.
    stop : Event, optional
        Ends it.
    told : callable
        Called after each look with the number of samples, the seconds and the look itself.

    Raises
    ------
    UsageError
        If the interval is too short.
    """
    check_interval(interval)
    stop = stop or threading.Event()
    samples = processes = 0
    gpus: dict[str, None] = {}
    faults: dict[str, None] = {}
    beside: TextIO | None = None
    began = due = time.monotonic()
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(header())
        try:
            while not stop.is_set():
                snapshot = reader.snapshot(light=interval < _LIGHT_BELOW)
                if snapshot.fault:
                    faults[snapshot.fault] = None
                for device in snapshot.devices:
                    if device.fault:
                        faults[f"GPU {device.index}: {device.fault}"] = None
                        continue
                    gpus[device.name] = None
                    writer.writerow(row(snapshot.at, device))
                    samples += 1
                    for one in (*device.processes, *(p for part in device.mig for p in part.processes)):
                        if beside is None:
                            beside = processes_path(path).open("w", encoding="utf-8", newline="")
                            beside.write("timestamp,gpu_name,gpu_uuid,pid,process_name,used_gpu_memory [MiB]\n")
                        used = _ABSENT if one.memory_mib is None else f"{one.memory_mib:.6g}"
                        csv.writer(beside, lineterminator="\n").writerow(
                            [stamp(snapshot.at), device.name, device.uuid, one.pid, one.name or one.kind, used]
                        )
                        processes += 1
                file.flush()
                told(samples, time.monotonic() - began, snapshot)
                due += interval
                if seconds is not None and due - began >= seconds:
                    break
                due = max(due, time.monotonic())
                stop.wait(max(0.0, due - time.monotonic()))
        finally:
            if beside is not None:
                beside.close()
    return Recorded(samples, processes, tuple(gpus), time.monotonic() - began, tuple(faults))


def record_until_interrupted(reader: Reader, path: Path, *, interval: float, seconds: float | None) -> Recorded:
    """Record as `record` does, with Ctrl-C as the usual end."""
    stop = threading.Event()
    before = signal.signal(signal.SIGINT, lambda *_: stop.set())
    try:
        return record(reader, path, interval=interval, seconds=seconds, stop=stop)
    finally:
        signal.signal(signal.SIGINT, before)
        reader.close()


def processes_path(path: Path) -> Path:
    """Return where the processes of a recording go."""
    return path.with_name(f"{path.stem}-processes{path.suffix}")
