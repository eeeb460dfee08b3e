"""What a measurement was made on: driver, CUDA, the GPU with its clocks and modes; kept beside every figure."""

from __future__ import annotations

import os
import platform
import socket
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from analysis.capture.mps import running_at
from analysis.capture.readings import Device, Reader, Snapshot
from analysis.errors import StallScopeError

_SECONDS = 0.25


def device_index(given: int | None) -> int:
    """Return the GPU that is meant: as given, or the first that CUDA may see."""
    if given is not None:
        return given
    first = os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",")[0].strip()
    return int(first) if first.isdigit() else 0


def gpu_name(snapshot: Snapshot, index: int, given: str | None) -> str:
    """Return the GPU's name as the driver has it, or as given.

    Raises
    ------
    StallScopeError
        If nobody tells it.
    """
    if given:
        return given
    device = device_of(snapshot, index)
    if device is None or device.fault:
        why = (device.fault if device else None) or snapshot.fault or f"There is no GPU {index}."
        raise StallScopeError(
            f"the GPU can't be named: {why}",
            "Name it with --gpu where the driver can't be asked, or choose with --device.",
        )
    return device.name


def device_of(snapshot: Snapshot, index: int) -> Device | None:
    """Return a device of a snapshot."""
    return next((one for one in snapshot.devices if one.index == index), None)


def provenance(snapshot: Snapshot, index: int) -> dict[str, Any]:
    """Return what a reader must know about the machine, as plain values; None where the driver does not tell."""
    device = device_of(snapshot, index)
    value: Callable[[str], float | None] = lambda name: (  # noqa: E731
        device.fields[name].value if device is not None and name in device.fields else None
    )
    return {
        "captured_at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(snapshot.at)),
        "host": socket.gethostname(),
        "system": platform.platform(),
        "python": platform.python_version(),
        "driver": snapshot.driver or None,
        "cuda": snapshot.cuda or None,
        "driver_fault": snapshot.fault,
        "gpu": device.name if device else None,
        "gpu_uuid": device.uuid if device else None,
        "compute_capability": device.cc or None if device else None,
        "memory_total_mib": value("memory.total"),
        "power_limit_w": value("enforced.power.limit"),
        "sm_clock_mhz": value("clocks.current.sm"),
        "sm_clock_max_mhz": value("clocks.max.sm"),
        "memory_clock_mhz": value("clocks.current.memory"),
        "ecc": device.ecc_on if device else None,
        "mig": device.mig_on if device else None,
        "mig_instances": [one.name for one in device.mig] if device else [],
        "other_mps_daemon": running_at(),
    }


@dataclass
class Seen:
    """What the driver said while jobs ran: peak memory by job in MiB, and mean clock, power and temperature."""

    peak_mib: dict[str, float] = field(default_factory=dict)
    means: dict[str, float] = field(default_factory=dict)
    throttle: set[str] = field(default_factory=set)


class Watch(threading.Thread):
    """Samples the driver while jobs run.

    Parameters
    ----------
    reader : Reader
        Asked four times a second; only this thread uses it while it runs.
    index : int
        The GPU.
    processes : sequence of (str, callable)
        Job and the function that returns its processes; a job may stand twice.
    """

    def __init__(self, reader: Reader, index: int, processes: Sequence[tuple[str, Callable[[], list[int]]]]) -> None:
        super().__init__(name="watch", daemon=True)
        self._reader, self._index, self._processes = reader, index, processes
        self._end = threading.Event()
        self._sums: dict[str, list[float]] = {}
        self.seen = Seen()

    def run(self) -> None:
        """Sample until stopped."""
        while not self._end.wait(_SECONDS):
            snapshot = self._reader.snapshot(light=True)
            if snapshot.fault:
                continue
            device = device_of(snapshot, self._index)
            if device is None:
                continue
            used: dict[int, float] = {}
            for one in (*device.processes, *(p for part in device.mig for p in part.processes)):
                used[one.pid] = one.memory_mib or 0.0
            for slot, (_, processes) in enumerate(self._processes):
                total = sum(used.get(pid, 0.0) for pid in processes())
                key = str(slot)
                if total > self.seen.peak_mib.get(key, 0.0):
                    self.seen.peak_mib[key] = total
            self.seen.throttle.update(device.throttle or ())
            for name in ("clocks.current.sm", "power.draw", "temperature.gpu"):
                found = device.fields.get(name)
                if found is not None and found.value is not None:
                    self._sums.setdefault(name, []).append(found.value)

    def stop(self) -> Seen:
        """End the sampling and return what was seen."""
        self._end.set()
        self.join(5)
        self.seen.means = {name: round(sum(some) / len(some), 1) for name, some in self._sums.items()}
        return self.seen
