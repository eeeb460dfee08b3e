# ruff: noqa: N802, D102
"""A small machine that is not there: answers as the driver does, fails with any of its codes, loses GPUs on demand.

It drives the tests, and the Live page where ``STALLSCOPE_NVML=fake`` asks for it; the page then says so.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

MIB = 1 << 20
LOST, NOT_FOUND, NOT_SUPPORTED = 15, 6, 3


class FakeNvmlError(Exception):
    """Carries a code as the driver's own errors do."""

    def __init__(self, value: int) -> None:
        super().__init__(f"NVML error {value}")
        self.value = value


@dataclass
class FakeGpu:
    """One GPU.

    Attributes
    ----------
    name, uuid : str
        As the driver would name it.
    cc : tuple of int
        Compute capability.
    used_mib, total_mib, power_w, limit_w, sm_mhz, memory_mhz, max_mhz, celsius, util, memory_util : float
        What the fields say.
    rx_kb, tx_kb : int
        PCIe traffic in KB/s.
    throttle : int
        Bits.
    compute, graphics, mps : list of (pid, MiB or None)
        Processes.
    mig : list of FakeGpu, or None
        Instances; None where the GPU can't be split.
    faults : dict of str to int
        Function name -> code that it fails with.
    lost : bool
        Every question fails as after falling off the bus.
    """

    name: str = "NVIDIA H200"
    uuid: str = "GPU-00000000-0000-0000-0000-000000000000"
    cc: tuple[int, int] = (9, 0)
    used_mib: float = 20480.0
    total_mib: float = 143771.0
    power_w: float = 412.5
    limit_w: float = 700.0
    sm_mhz: float = 1755.0
    memory_mhz: float = 3201.0
    max_mhz: float = 1980.0
    celsius: float = 56.0
    util: float = 87.0
    memory_util: float = 31.0
    rx_kb: int = 120_000
    tx_kb: int = 64_000
    throttle: int = 0x4
    ecc: bool = True
    compute: list[tuple[int, float | None]] = field(default_factory=list)
    graphics: list[tuple[int, float | None]] = field(default_factory=list)
    mps: list[tuple[int, float | None]] = field(default_factory=list)
    mig: list[FakeGpu] | None = None
    places: int = 7
    faults: dict[str, int] = field(default_factory=dict)
    lost: bool = False


class FakeNvml:
    """Answers like nvidia-ml-py; see `analysis.capture.nvml.Nvml`.

    Parameters
    ----------
    gpus : list of FakeGpu
        The machine; may be changed at any time, as by hot-plug.
    faults : dict of str to int
        Function name -> code, for functions of the whole library.
    names : dict of int to str
        Programs of processes.
    tick : callable, optional
        Called before each count, to let the machine move.
    """

    def __init__(
        self,
        gpus: list[FakeGpu],
        *,
        faults: dict[str, int] | None = None,
        names: dict[int, str] | None = None,
        tick: Callable[[], None] | None = None,
    ) -> None:
        self.gpus = gpus
        self.faults = faults or {}
        self.names = names or {}
        self.tick = tick
        self.started = 0

    def _whole(self, function: str) -> None:
        if function in self.faults:
            raise FakeNvmlError(self.faults[function])

    def _of(self, gpu: FakeGpu, function: str) -> FakeGpu:
        if gpu.lost:
            raise FakeNvmlError(LOST)
        if function in gpu.faults:
            raise FakeNvmlError(gpu.faults[function])
        return gpu

    def nvmlInit(self) -> None:
        self._whole("nvmlInit")
        self.started += 1

    def nvmlShutdown(self) -> None:
        self._whole("nvmlShutdown")
        self.started -= 1

    def nvmlSystemGetDriverVersion(self) -> str:
        self._whole("nvmlSystemGetDriverVersion")
        return "570.86.15"

    def nvmlSystemGetCudaDriverVersion_v2(self) -> int:
        self._whole("nvmlSystemGetCudaDriverVersion_v2")
        return 12080

    def nvmlSystemGetProcessName(self, pid: int) -> str:
        self._whole("nvmlSystemGetProcessName")
        if pid not in self.names:
            raise FakeNvmlError(NOT_FOUND)
        return self.names[pid]

    def nvmlDeviceGetCount(self) -> int:
        self._whole("nvmlDeviceGetCount")
        if not self.started:
            raise FakeNvmlError(1)
        if self.tick is not None:
            self.tick()
        return len(self.gpus)

    def nvmlDeviceGetHandleByIndex(self, index: int) -> FakeGpu:
        if index >= len(self.gpus):
            raise FakeNvmlError(2)
        return self._of(self.gpus[index], "nvmlDeviceGetHandleByIndex")

    def nvmlDeviceGetName(self, handle: FakeGpu) -> str:
        return self._of(handle, "nvmlDeviceGetName").name

    def nvmlDeviceGetUUID(self, handle: FakeGpu) -> str:
        return self._of(handle, "nvmlDeviceGetUUID").uuid

    def nvmlDeviceGetCudaComputeCapability(self, handle: FakeGpu) -> tuple[int, int]:
        return self._of(handle, "nvmlDeviceGetCudaComputeCapability").cc

    def nvmlDeviceGetMemoryInfo(self, handle: FakeGpu) -> Any:
        gpu = self._of(handle, "nvmlDeviceGetMemoryInfo")
        return SimpleNamespace(used=int(gpu.used_mib * MIB), total=int(gpu.total_mib * MIB))

    def nvmlDeviceGetUtilizationRates(self, handle: FakeGpu) -> Any:
        gpu = self._of(handle, "nvmlDeviceGetUtilizationRates")
        return SimpleNamespace(gpu=gpu.util, memory=gpu.memory_util)

    def nvmlDeviceGetPowerUsage(self, handle: FakeGpu) -> int:
        return int(self._of(handle, "nvmlDeviceGetPowerUsage").power_w * 1000)

    def nvmlDeviceGetEnforcedPowerLimit(self, handle: FakeGpu) -> int:
        return int(self._of(handle, "nvmlDeviceGetEnforcedPowerLimit").limit_w * 1000)

    def nvmlDeviceGetClockInfo(self, handle: FakeGpu, type: int) -> float:
        gpu = self._of(handle, "nvmlDeviceGetClockInfo")
        return gpu.memory_mhz if type == 2 else gpu.sm_mhz

    def nvmlDeviceGetMaxClockInfo(self, handle: FakeGpu, type: int) -> float:
        return self._of(handle, "nvmlDeviceGetMaxClockInfo").max_mhz

    def nvmlDeviceGetTemperature(self, handle: FakeGpu, sensor: int) -> float:
        return self._of(handle, "nvmlDeviceGetTemperature").celsius

    def nvmlDeviceGetCurrentClocksThrottleReasons(self, handle: FakeGpu) -> int:
        return self._of(handle, "nvmlDeviceGetCurrentClocksThrottleReasons").throttle

    def nvmlDeviceGetCurrPcieLinkGeneration(self, handle: FakeGpu) -> int:
        self._of(handle, "nvmlDeviceGetCurrPcieLinkGeneration")
        return 5

    def nvmlDeviceGetCurrPcieLinkWidth(self, handle: FakeGpu) -> int:
        self._of(handle, "nvmlDeviceGetCurrPcieLinkWidth")
        return 16

    def nvmlDeviceGetPcieThroughput(self, device: FakeGpu, counter: int) -> int:
        gpu = self._of(device, "nvmlDeviceGetPcieThroughput")
        return gpu.rx_kb if counter == 1 else gpu.tx_kb

    def nvmlDeviceGetComputeRunningProcesses(self, handle: FakeGpu) -> list[Any]:
        gpu = self._of(handle, "nvmlDeviceGetComputeRunningProcesses")
        return _listed(gpu.compute + gpu.mps)

    def nvmlDeviceGetGraphicsRunningProcesses(self, handle: FakeGpu) -> list[Any]:
        return _listed(self._of(handle, "nvmlDeviceGetGraphicsRunningProcesses").graphics)

    def nvmlDeviceGetMPSComputeRunningProcesses(self, handle: FakeGpu) -> list[Any]:
        return _listed(self._of(handle, "nvmlDeviceGetMPSComputeRunningProcesses").mps)

    def nvmlDeviceGetComputeMode(self, handle: FakeGpu) -> int:
        self._of(handle, "nvmlDeviceGetComputeMode")
        return 0

    def nvmlDeviceGetEccMode(self, handle: FakeGpu) -> list[int]:
        on = int(self._of(handle, "nvmlDeviceGetEccMode").ecc)
        return [on, on]

    def nvmlDeviceGetMigMode(self, device: FakeGpu) -> list[int]:
        gpu = self._of(device, "nvmlDeviceGetMigMode")
        if gpu.mig is None:
            raise FakeNvmlError(NOT_SUPPORTED)
        return [int(bool(gpu.mig)), int(bool(gpu.mig))]

    def nvmlDeviceGetMaxMigDeviceCount(self, device: FakeGpu) -> int:
        return self._of(device, "nvmlDeviceGetMaxMigDeviceCount").places

    def nvmlDeviceGetMigDeviceHandleByIndex(self, device: FakeGpu, index: int) -> FakeGpu:
        instances = self._of(device, "nvmlDeviceGetMigDeviceHandleByIndex").mig or []
        if index >= len(instances):
            raise FakeNvmlError(NOT_FOUND)
        return instances[index]

    def nvmlDeviceGetGpuInstanceId(self, device: FakeGpu) -> int:
        self._of(device, "nvmlDeviceGetGpuInstanceId")
        return 1

    def nvmlDeviceGetComputeInstanceId(self, device: FakeGpu) -> int:
        self._of(device, "nvmlDeviceGetComputeInstanceId")
        return 0


def _listed(processes: list[tuple[int, float | None]]) -> list[Any]:
    return [SimpleNamespace(pid=pid, usedGpuMemory=None if mib is None else int(mib * MIB)) for pid, mib in processes]


def moving_machine() -> FakeNvml:
    """Return two GPUs whose figures move with time: one shared by MPS clients, one split by MIG."""
    shared = FakeGpu(
        name="NVIDIA H200 (made up)",
        uuid="GPU-fa4e0000-0000-0000-0000-000000000001",
        mig=[],
        compute=[(4100, 412.0)],
        mps=[(4211, 9120.0), (4377, 6144.0)],
    )
    parts = [
        FakeGpu(name="NVIDIA A100-SXM4-40GB MIG 3g.20gb", used_mib=9410.0, total_mib=19968.0, compute=[(5120, 9388.0)]),
        FakeGpu(name="NVIDIA A100-SXM4-40GB MIG 2g.10gb", used_mib=12.0, total_mib=9856.0),
    ]
    split = FakeGpu(
        name="NVIDIA A100-SXM4-40GB (made up)",
        uuid="GPU-fa4e0000-0000-0000-0000-000000000002",
        cc=(8, 0),
        used_mib=9423.0,
        total_mib=40960.0,
        power_w=171.0,
        limit_w=400.0,
        sm_mhz=1095.0,
        memory_mhz=1215.0,
        max_mhz=1410.0,
        celsius=41.0,
        throttle=0,
        mig=parts,
        faults={"nvmlDeviceGetUtilizationRates": NOT_SUPPORTED},
    )

    def tick() -> None:
        now = time.time()
        shared.util = round(80 + 15 * math.sin(now / 5))
        shared.power_w = 430 + 90 * math.sin(now / 5 + 0.4)
        shared.used_mib = 15_900 + 900 * math.sin(now / 17)
        shared.celsius = round(57 + 3 * math.sin(now / 23))
        shared.sm_mhz = 1755 + 45 * round(2 * math.sin(now / 9))
        shared.throttle = 0x4 if shared.power_w > 490 else 0
        split.power_w = 170 + 12 * math.sin(now / 7)

    names = {4100: "nvidia-cuda-mps-server", 4211: "python", 4377: "python", 5120: "python"}
    return FakeNvml([shared, split], names=names, tick=tick)
