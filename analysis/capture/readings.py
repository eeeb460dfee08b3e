"""One look at all GPUs: every field with its value, or why there is none; one fault never hides the rest."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from analysis.capture import nvml
from analysis.capture.nvml import FAULTS, Fault, Nvml, fault

#: Bits of the clock's throttle reasons, by the names of `nvidia-smi`, with what they mean.
THROTTLE = (
    (0x1, "gpu_idle", "idle"),
    (0x2, "applications_clocks_setting", "clocks set by an application"),
    (0x4, "sw_power_cap", "power cap"),
    (0x8, "hw_slowdown", "hardware slowdown"),
    (0x10, "sync_boost", "sync boost with another GPU"),
    (0x20, "sw_thermal_slowdown", "temperature (software)"),
    (0x40, "hw_thermal_slowdown", "temperature (hardware)"),
    (0x80, "hw_power_brake_slowdown", "power brake"),
    (0x100, "display_clock_setting", "display clocks"),
)


@dataclass(frozen=True)
class Field:
    """A value, or why there is none.

    Attributes
    ----------
    value : float or None
        In `unit`.
    unit : str
        As in the logs of nvidia-smi.
    reason : str or None
        Why the value is missing.
    """

    value: float | None
    unit: str
    reason: str | None = None


@dataclass(frozen=True)
class Process:
    """A process that the driver counts on a GPU.

    Attributes
    ----------
    pid : int
        Its number, as this machine counts.
    name : str
        Its program; blank where it can't be told.
    memory_mib : float or None
        GPU memory, where the driver tells it for a process.
    kind : {"compute", "graphics", "MPS client"}
        How it uses the GPU.
    """

    pid: int
    name: str
    memory_mib: float | None
    kind: str


@dataclass(frozen=True)
class MigInstance:
    """A MIG device of a GPU: its number, name, GPU and compute instance ids, and memory in MiB."""

    index: int
    name: str
    gpu_instance: int | None
    compute_instance: int | None
    used_mib: float | None
    total_mib: float | None
    processes: tuple[Process, ...] = ()


@dataclass(frozen=True)
class Device:
    """What one GPU says.

    Attributes
    ----------
    index : int
        Number in the driver's count.
    name, uuid : str
        As the driver names it.
    fields : mapping of str to Field
        By the counters of `FIELDS`.
    throttle : tuple of str or None
        What holds the clocks back, in words; None where it can't be told.
    processes : tuple of Process
        Everything on the device, MPS clients included; those of MIG instances stand with their instance.
    mig : tuple of MigInstance
        Its instances; empty where MIG is off.
    mig_on, ecc_on : bool or None
        None where the GPU has no such mode or does not tell.
    cc : str
        Compute capability, such as ``9.0``; blank where unknown.
    fault : str or None
        Why the device as a whole can't be asked.
    """

    index: int
    name: str
    uuid: str
    fields: dict[str, Field] = field(default_factory=dict)
    throttle: tuple[str, ...] | None = None
    processes: tuple[Process, ...] = ()
    mig: tuple[MigInstance, ...] = ()
    mig_on: bool | None = None
    ecc_on: bool | None = None
    cc: str = ""
    fault: str | None = None


@dataclass(frozen=True)
class Snapshot:
    """All GPUs at one time.

    Attributes
    ----------
    at : float
        Seconds since 1970.
    driver, cuda : str
        Versions; blank where unknown.
    devices : tuple of Device
        In the driver's order; a GPU that was there before and is gone stays with its fault.
    fault : str or None
        Why nothing can be asked.
    """

    at: float
    driver: str = ""
    cuda: str = ""
    devices: tuple[Device, ...] = ()
    fault: str | None = None


MIB = 1 << 20

#: Counter, unit and how to read it. The names are those of `nvidia-smi --query-gpu`, so that recordings are its logs.
FIELDS: tuple[tuple[str, str, Callable[[Nvml, Any], float]], ...] = (
    ("utilization.gpu", "%", lambda n, h: n.nvmlDeviceGetUtilizationRates(h).gpu),
    ("utilization.memory", "%", lambda n, h: n.nvmlDeviceGetUtilizationRates(h).memory),
    ("memory.used", "MiB", lambda n, h: n.nvmlDeviceGetMemoryInfo(h).used / MIB),
    ("memory.total", "MiB", lambda n, h: n.nvmlDeviceGetMemoryInfo(h).total / MIB),
    ("power.draw", "W", lambda n, h: n.nvmlDeviceGetPowerUsage(h) / 1000),
    ("enforced.power.limit", "W", lambda n, h: n.nvmlDeviceGetEnforcedPowerLimit(h) / 1000),
    ("clocks.current.sm", "MHz", lambda n, h: n.nvmlDeviceGetClockInfo(h, nvml.CLOCK_SM)),
    ("clocks.current.memory", "MHz", lambda n, h: n.nvmlDeviceGetClockInfo(h, nvml.CLOCK_MEMORY)),
    ("clocks.max.sm", "MHz", lambda n, h: n.nvmlDeviceGetMaxClockInfo(h, nvml.CLOCK_SM)),
    ("temperature.gpu", "C", lambda n, h: n.nvmlDeviceGetTemperature(h, nvml.TEMPERATURE_GPU)),
    ("pcie.link.gen.current", "", lambda n, h: n.nvmlDeviceGetCurrPcieLinkGeneration(h)),
    ("pcie.link.width.current", "", lambda n, h: n.nvmlDeviceGetCurrPcieLinkWidth(h)),
    ("pcie.rx", "MB/s", lambda n, h: n.nvmlDeviceGetPcieThroughput(h, nvml.PCIE_RX) / 1000),
    ("pcie.tx", "MB/s", lambda n, h: n.nvmlDeviceGetPcieThroughput(h, nvml.PCIE_TX) / 1000),
)


class _DeviceGoneError(Exception):
    def __init__(self, found: Fault) -> None:
        super().__init__(found.sentence)
        self.found = found


class Reader:
    """Asks the driver, keeps the library started, and remembers which GPUs there were.

    Parameters
    ----------
    driver : callable
        Returns the binding; called when the first snapshot is taken, as it may not be installed.
    """

    def __init__(self, driver: Callable[[], Nvml] = nvml.binding) -> None:
        self._make = driver
        self._nvml: Nvml | None = None
        self._seen: dict[int, Device] = {}
        self._versions = ("", "")

    def snapshot(self, *, light: bool = False) -> Snapshot:
        """Look once; never raises for what the driver says.

        Parameters
        ----------
        light : bool
            Leave out PCIe traffic, for which the driver measures 20 ms each way, for sampling at short intervals.
        """
        at = time.time()
        try:
            driver = self._started()
            count = int(driver.nvmlDeviceGetCount())
        except Exception as error:
            found = fault(error)
            self.close()
            gone = tuple(replace(one, fault=found.sentence, fields={}) for one in self._seen.values())
            return Snapshot(at, *self._versions, devices=gone, fault=found.sentence)
        devices = [self._device(driver, index, light=light) for index in range(count)]
        devices += [
            replace(known, fields={}, throttle=None, processes=(), mig=(), fault=FAULTS[28].sentence)
            for index, known in sorted(self._seen.items())
            if index >= count
        ]
        return Snapshot(at, *self._versions, devices=tuple(devices))

    def close(self) -> None:
        """Let go of the driver; the next snapshot starts it again."""
        driver, self._nvml = self._nvml, None
        if driver is not None:
            _try(driver.nvmlShutdown)

    def _started(self) -> Nvml:
        if self._nvml is None:
            driver = self._make()
            driver.nvmlInit()
            self._nvml = driver
            version = _try(driver.nvmlSystemGetDriverVersion)
            cuda = _try(driver.nvmlSystemGetCudaDriverVersion_v2)
            self._versions = (_text(version), f"{cuda // 1000}.{cuda % 1000 // 10}" if isinstance(cuda, int) else "")
        return self._nvml

    def _device(self, driver: Nvml, index: int, *, light: bool) -> Device:
        known = self._seen.get(index) or Device(index, f"GPU {index}", "")
        try:
            handle = driver.nvmlDeviceGetHandleByIndex(index)
            seen = self._seen.get(index) or _identity(driver, index, handle)
            self._seen[index] = seen
            return _filled(driver, handle, seen, light=light)
        except _DeviceGoneError as gone:
            return replace(self._seen.get(index, known), fault=gone.found.sentence)
        except Exception as error:
            return replace(self._seen.get(index, known), fault=fault(error).sentence)


def _identity(driver: Nvml, index: int, handle: Any) -> Device:
    name, uuid = _ask(driver.nvmlDeviceGetName, handle), _ask(driver.nvmlDeviceGetUUID, handle)
    cc = _ask(driver.nvmlDeviceGetCudaComputeCapability, handle)
    return Device(
        index,
        f"GPU {index}" if isinstance(name, Fault) else _text(name),
        "" if isinstance(uuid, Fault) else _text(uuid),
        cc="" if isinstance(cc, Fault) else f"{cc[0]}.{cc[1]}",
    )


def _filled(driver: Nvml, handle: Any, device: Device, *, light: bool) -> Device:
    fields = {}
    for name, unit, read in FIELDS:
        if light and name in ("pcie.rx", "pcie.tx"):
            continue
        value = _ask(read, driver, handle)
        fields[name] = Field(None, unit, value.what) if isinstance(value, Fault) else Field(float(value), unit)
    bits = _ask(driver.nvmlDeviceGetCurrentClocksThrottleReasons, handle)
    mig_on, ecc_on = _mode(driver.nvmlDeviceGetMigMode, handle), _mode(driver.nvmlDeviceGetEccMode, handle)
    return replace(
        device,
        fields=fields,
        throttle=None if isinstance(bits, Fault) else tuple(words for bit, _, words in THROTTLE if int(bits) & bit),
        processes=_processes(driver, handle),
        mig=_instances(driver, handle) if mig_on else (),
        mig_on=mig_on,
        ecc_on=ecc_on,
    )


def _processes(driver: Nvml, handle: Any) -> tuple[Process, ...]:
    found: dict[int, Process] = {}
    kinds = (
        ("compute", driver.nvmlDeviceGetComputeRunningProcesses),
        ("graphics", driver.nvmlDeviceGetGraphicsRunningProcesses),
        # Last, as clients stand in the list of compute processes too.
        ("MPS client", driver.nvmlDeviceGetMPSComputeRunningProcesses),
    )
    for kind, listing in kinds:
        listed = _ask(listing, handle)
        for one in () if isinstance(listed, Fault) else listed:
            used = one.usedGpuMemory
            name = _try(driver.nvmlSystemGetProcessName, one.pid)
            before = found.get(one.pid)
            memory = None if used is None else used / MIB
            if memory is None and before is not None:
                memory = before.memory_mib
            found[one.pid] = Process(int(one.pid), _text(name), memory, kind)
    return tuple(found[pid] for pid in sorted(found))


def _instances(driver: Nvml, handle: Any) -> tuple[MigInstance, ...]:
    most = _ask(driver.nvmlDeviceGetMaxMigDeviceCount, handle)
    out = []
    for index in range(0 if isinstance(most, Fault) else int(most)):
        instance = _ask(driver.nvmlDeviceGetMigDeviceHandleByIndex, handle, index)
        if isinstance(instance, Fault):
            continue  # places without an instance answer NOT_FOUND
        name, memory = _ask(driver.nvmlDeviceGetName, instance), _ask(driver.nvmlDeviceGetMemoryInfo, instance)
        gi = _ask(driver.nvmlDeviceGetGpuInstanceId, instance)
        ci = _ask(driver.nvmlDeviceGetComputeInstanceId, instance)
        blind = isinstance(memory, Fault)
        out.append(
            MigInstance(
                index,
                f"instance {index}" if isinstance(name, Fault) else _text(name),
                None if isinstance(gi, Fault) else int(gi),
                None if isinstance(ci, Fault) else int(ci),
                None if blind else memory.used / MIB,
                None if blind else memory.total / MIB,
                _processes(driver, instance),
            )
        )
    return tuple(out)


def _mode(read: Callable[[Any], Any], handle: Any) -> bool | None:
    found = _ask(read, handle)
    return None if isinstance(found, Fault) else bool(found[0])


def _ask(read: Callable[..., Any], *arguments: Any) -> Any:
    """Return what the driver says, or the fault; a fault that takes the device with it is raised."""
    try:
        return read(*arguments)
    except Exception as error:
        found = fault(error)
        if found.reach != "field":
            raise _DeviceGoneError(found) from error
        return found


def _try(read: Callable[..., Any], *arguments: Any) -> Any:
    try:
        return read(*arguments)
    except Exception:
        return None


def _text(value: Any) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value or "")
