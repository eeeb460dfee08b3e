"""The part of the driver's management library that is used, as an interface, and the way to get an implementation.

The names are those of nvidia-ml-py, whose module is an implementation as it stands; `analysis.capture.fakenvml` is the
other. Both raise exceptions that carry the library's code as ``value``.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any, Literal, Protocol, cast

# ruff: noqa: N802, D102


#: ``fake`` shows a made-up machine instead of the real one, and says so.
SWITCH = "STALLSCOPE_NVML"

# Constants of the library's header.
CLOCK_SM, CLOCK_MEMORY = 1, 2
TEMPERATURE_GPU = 0
PCIE_TX, PCIE_RX = 0, 1


class Nvml(Protocol):
    """What is asked of the driver; units as the library has them."""

    def nvmlInit(self) -> Any: ...
    def nvmlShutdown(self) -> Any: ...
    def nvmlSystemGetDriverVersion(self) -> Any: ...
    def nvmlSystemGetCudaDriverVersion_v2(self) -> Any: ...
    def nvmlSystemGetProcessName(self, pid: int) -> Any: ...
    def nvmlDeviceGetCount(self) -> Any: ...
    def nvmlDeviceGetHandleByIndex(self, index: int) -> Any: ...
    def nvmlDeviceGetName(self, handle: Any) -> Any: ...
    def nvmlDeviceGetUUID(self, handle: Any) -> Any: ...
    def nvmlDeviceGetCudaComputeCapability(self, handle: Any) -> Any: ...
    def nvmlDeviceGetMemoryInfo(self, handle: Any) -> Any: ...
    def nvmlDeviceGetUtilizationRates(self, handle: Any) -> Any: ...
    def nvmlDeviceGetPowerUsage(self, handle: Any) -> Any: ...
    def nvmlDeviceGetEnforcedPowerLimit(self, handle: Any) -> Any: ...
    def nvmlDeviceGetClockInfo(self, handle: Any, type: int) -> Any: ...
    def nvmlDeviceGetMaxClockInfo(self, handle: Any, type: int) -> Any: ...
    def nvmlDeviceGetTemperature(self, handle: Any, sensor: int) -> Any: ...
    def nvmlDeviceGetCurrentClocksThrottleReasons(self, handle: Any) -> Any: ...
    def nvmlDeviceGetCurrPcieLinkGeneration(self, handle: Any) -> Any: ...
    def nvmlDeviceGetCurrPcieLinkWidth(self, handle: Any) -> Any: ...
    def nvmlDeviceGetPcieThroughput(self, device: Any, counter: int) -> Any: ...
    def nvmlDeviceGetComputeRunningProcesses(self, handle: Any) -> Any: ...
    def nvmlDeviceGetGraphicsRunningProcesses(self, handle: Any) -> Any: ...
    def nvmlDeviceGetMPSComputeRunningProcesses(self, handle: Any) -> Any: ...
    def nvmlDeviceGetComputeMode(self, handle: Any) -> Any: ...
    def nvmlDeviceGetEccMode(self, handle: Any) -> Any: ...
    def nvmlDeviceGetMigMode(self, device: Any) -> Any: ...
    def nvmlDeviceGetMaxMigDeviceCount(self, device: Any) -> Any: ...
    def nvmlDeviceGetMigDeviceHandleByIndex(self, device: Any, index: int) -> Any: ...
    def nvmlDeviceGetGpuInstanceId(self, device: Any) -> Any: ...
    def nvmlDeviceGetComputeInstanceId(self, device: Any) -> Any: ...


def is_fake() -> bool:
    """Say whether the made-up machine was asked for."""
    return os.environ.get(SWITCH, "").strip().casefold() == "fake"


def binding() -> Nvml:
    """Return the driver's binding, or the made-up machine where ``STALLSCOPE_NVML=fake`` asks for it.

    Raises
    ------
    ImportError
        If nvidia-ml-py is not installed.
    """
    if is_fake():
        from analysis.capture.fakenvml import moving_machine

        return moving_machine()
    import pynvml

    return cast(Nvml, pynvml)


#: ``driver``: nothing can be asked. ``device``: this GPU can't be asked any more. ``field``: this value can't be had.
Reach = Literal["driver", "device", "field"]


@dataclass(frozen=True)
class Fault:
    """An error of the driver's management library.

    Attributes
    ----------
    code : int
        As the library returns it.
    name : str
        Its name without ``NVML_ERROR_``.
    reach : {"driver", "device", "field"}
        How much of the answer it takes with it.
    what, cure : str
        For people; the cure is blank where there is none.
    """

    code: int
    name: str
    reach: Reach
    what: str
    cure: str = ""

    @property
    def sentence(self) -> str:
        """Both in one line."""
        return f"{self.what[:1].upper()}{self.what[1:]}. {self.cure}".strip()


_UPDATE = "Update the NVIDIA driver."
_TABLE: tuple[tuple[int, str, Reach, str, str], ...] = (
    (1, "UNINITIALIZED", "driver", "the driver's library was not started", "Start StallScope again."),
    (2, "INVALID_ARGUMENT", "field", "the driver refuses the question for this device", ""),
    (3, "NOT_SUPPORTED", "field", "not supported on this GPU", ""),
    (4, "NO_PERMISSION", "field", "this user may not read it", "Ask the administrator, or run as one."),
    (5, "ALREADY_INITIALIZED", "field", "the driver's library was started before", ""),
    (6, "NOT_FOUND", "field", "the driver finds nothing of this kind", ""),
    (7, "INSUFFICIENT_SIZE", "field", "there was more to read than fits", ""),
    (8, "INSUFFICIENT_POWER", "device", "the GPU lacks power", "Check the GPU's power cables."),
    (9, "DRIVER_NOT_LOADED", "driver", "the NVIDIA driver is not loaded",
     "Load it (`modprobe nvidia`), or install it on a machine with an NVIDIA GPU."),
    (10, "TIMEOUT", "field", "the driver did not answer in time", ""),
    (11, "IRQ_ISSUE", "device", "the kernel found an interrupt problem with the GPU", "Look at the kernel's log."),
    (12, "LIBRARY_NOT_FOUND", "driver", "there is no NVIDIA driver on this machine",
     "Install it where there is an NVIDIA GPU; in a container start it with the GPU passed through."),
    (13, "FUNCTION_NOT_FOUND", "field", "this driver is too old to tell", _UPDATE),
    (14, "CORRUPTED_INFOROM", "field", "the GPU's own memory of its settings is damaged",
     "Have the GPU's inforom restored."),
    (15, "GPU_IS_LOST", "device", "the GPU has fallen off the bus",
     "Restart the machine; the kernel's log may say why."),
    (16, "RESET_REQUIRED", "device", "the GPU must be reset before it can be used",
     "Have the administrator reset it."),
    (17, "OPERATING_SYSTEM", "device", "the operating system keeps this GPU from us",
     "Check the container's or job's device permissions."),
    (18, "LIB_RM_VERSION_MISMATCH", "driver", "the driver and its library are of different versions",
     "Restart the machine after the driver update."),
    (19, "IN_USE", "field", "the GPU is in use for something that excludes this", ""),
    (20, "MEMORY", "field", "the driver has too little memory to answer", ""),
    (21, "NO_DATA", "field", "the driver has no data yet", ""),
    (22, "VGPU_ECC_NOT_SUPPORTED", "field", "not possible beside virtual GPUs with error correction", ""),
    (23, "INSUFFICIENT_RESOURCES", "field", "the driver ran out of resources", ""),
    (24, "FREQ_NOT_SUPPORTED", "field", "the frequency is not supported on this GPU", ""),
    (25, "ARGUMENT_VERSION_MISMATCH", "field", "the driver and nvidia-ml-py are of different ages", _UPDATE),
    (26, "DEPRECATED", "field", "the driver does not tell this any more", ""),
    (27, "NOT_READY", "field", "the GPU is not ready yet", ""),
    (28, "GPU_NOT_FOUND", "device", "the GPU is no longer there", "If nobody took it out, look at the kernel's log."),
    (29, "INVALID_STATE", "field", "the GPU is in a state in which it can't tell", ""),
    (30, "RESET_TYPE_NOT_SUPPORTED", "field", "this kind of reset is not supported", ""),
    (999, "UNKNOWN", "field", "the driver failed for a reason it does not give", ""),
)  # fmt: skip

FAULTS = {code: Fault(code, name, reach, what, cure) for code, name, reach, what, cure in _TABLE}

#: nvidia-ml-py itself is missing: not a code of the library, but the same kind of answer.
NO_BINDING = Fault(
    -1, "NO_BINDING", "driver", "the Python package nvidia-ml-py is not installed", "`pip install nvidia-ml-py`."
)


def fault(error: BaseException) -> Fault:
    """Return what an exception of the driver's binding means.

    Parameters
    ----------
    error : BaseException
        An ``NVMLError``, which carries its code as ``value``; anything else counts as unknown.
    """
    if isinstance(error, ImportError):
        return NO_BINDING
    code: Any = getattr(error, "value", None)
    if isinstance(code, int):
        return FAULTS.get(code) or Fault(code, f"CODE_{code}", "field", f"the driver returned the unknown code {code}")
    return Fault(999, "UNKNOWN", "field", f"the driver failed ({type(error).__name__}: {error})")
