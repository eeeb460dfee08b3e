"""What GPUs say at one time, as plain values: fields, processes, MIG instances, and why something is missing."""

from __future__ import annotations

from dataclasses import dataclass, field

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
