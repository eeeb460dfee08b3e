"""Every field and every error of the driver, GPUs that go away, and the same on a real driver where there is one."""

from __future__ import annotations

import csv
import inspect
import itertools
import threading
from pathlib import Path
from typing import Any

import pynvml
import pytest

from analysis.capture import nvml, telemetry
from analysis.capture.fakenvml import FakeGpu, FakeNvml, moving_machine
from analysis.capture.nvml import FAULTS, fault
from analysis.capture.readings import FIELDS, Reader
from analysis.errors import UsageError
from analysis.ingest.importer import import_paths
from analysis.store.database import Database

ASKED = sorted(name for name in vars(nvml.Nvml) if name.startswith("nvml"))
OF_A_DEVICE = [name for name in ASKED if name.startswith("nvmlDevice") and name != "nvmlDeviceGetCount"]
#: Codes of the library, as its binding lists them.
CODES = {value: name for name, value in vars(pynvml).items() if name.startswith("NVML_ERROR_")}


def reader_of(machine: FakeNvml) -> Reader:
    return Reader(lambda: machine)


def test_the_interface_is_that_of_the_binding() -> None:
    for name in ASKED:
        real = list(inspect.signature(getattr(pynvml, name)).parameters)
        mine = list(inspect.signature(getattr(nvml.Nvml, name)).parameters)[1:]
        assert len(real) >= len(mine), name
        assert len(inspect.signature(getattr(FakeNvml, name)).parameters) - 1 == len(mine), name


def test_every_code_of_the_library_has_a_sentence() -> None:
    assert {code: found.name for code, found in FAULTS.items()} == {
        code: name.removeprefix("NVML_ERROR_") for code, name in CODES.items()
    }
    for code in CODES:
        assert fault(pynvml.NVMLError(code)) is FAULTS[code]
    assert fault(pynvml.NVMLError(4711)).name == "CODE_4711"


def test_every_field_is_read() -> None:
    gpu = FakeGpu(throttle=0x24, compute=[(10, 100.0)], mps=[(11, None), (12, 50.0)], graphics=[(13, 1.0)], mig=[])
    snapshot = reader_of(FakeNvml([gpu], names={10: "python"})).snapshot()
    (device,) = snapshot.devices
    assert (snapshot.driver, snapshot.cuda, snapshot.fault) == ("570.86.15", "12.8", None)
    values = {name: device.fields[name].value for name, _, _ in FIELDS}
    assert values == {
        "utilization.gpu": 87, "utilization.memory": 31, "memory.used": 20480, "memory.total": 143771,
        "power.draw": 412.5, "enforced.power.limit": 700, "clocks.current.sm": 1755, "clocks.current.memory": 3201,
        "clocks.max.sm": 1980, "temperature.gpu": 56, "pcie.link.gen.current": 5, "pcie.link.width.current": 16,
        "pcie.rx": 120, "pcie.tx": 64,
    }  # fmt: skip
    assert device.throttle == ("power cap", "temperature (software)")
    assert (device.cc, device.ecc_on, device.mig_on, device.mig) == ("9.0", True, False, ())
    assert [(one.pid, one.name, one.memory_mib, one.kind) for one in device.processes] == [
        (10, "python", 100, "compute"), (11, "", None, "MPS client"), (12, "", 50, "MPS client"),
        (13, "", 1, "graphics"),
    ]  # fmt: skip


def test_instances_of_mig_with_their_processes() -> None:
    _, split = reader_of(moving_machine()).snapshot().devices
    assert [(one.name, one.gpu_instance, one.used_mib) for one in split.mig] == [
        ("NVIDIA A100-SXM4-40GB MIG 3g.20gb", 1, 9410), ("NVIDIA A100-SXM4-40GB MIG 2g.10gb", 1, 12),
    ]  # fmt: skip
    assert [one.pid for one in split.mig[0].processes] == [5120]
    assert split.fields["utilization.gpu"].reason == "not supported on this GPU"


def test_a_function_that_fails_takes_no_more_with_it_than_it_must() -> None:
    for code, name in itertools.product(CODES, OF_A_DEVICE):
        faults = {name: code}
        broken = FakeGpu(mig=[FakeGpu(faults=faults)], uuid="GPU-0", faults=faults)
        whole = FakeGpu(uuid="GPU-1")
        first, second = reader_of(FakeNvml([broken, whole])).snapshot().devices
        assert second.fault is None
        assert second.fields["power.draw"].value == 412.5
        if FAULTS[code].reach != "field" or name == "nvmlDeviceGetHandleByIndex":
            assert first.fault == FAULTS[code].sentence or name in _NOT_ASKED, name
        else:
            assert first.fault is None, name
            missing = [field.reason for field in first.fields.values() if field.value is None]
            assert set(missing) <= {FAULTS[code].what}
            assert len(missing) < len(FIELDS)


#: Asked elsewhere than in a snapshot.
_NOT_ASKED = {"nvmlDeviceGetComputeMode"}


def test_a_driver_that_does_not_answer_is_said_in_a_sentence_and_asked_again() -> None:
    for code, name in itertools.product(CODES, ("nvmlInit", "nvmlDeviceGetCount")):
        machine = FakeNvml([FakeGpu()], faults={name: code})
        reader = reader_of(machine)
        assert reader.snapshot().fault == FAULTS[code].sentence
        machine.faults.clear()
        assert reader.snapshot().fault is None


def test_without_the_binding() -> None:
    def missing() -> Any:
        raise ImportError("No module named 'pynvml'")

    assert "nvidia-ml-py" in str(Reader(missing).snapshot().fault)


def test_a_gpu_that_falls_off_the_bus_comes_back_or_is_pulled() -> None:
    machine = FakeNvml([FakeGpu(uuid="GPU-0"), FakeGpu(name="NVIDIA L4", uuid="GPU-1")])
    reader = reader_of(machine)
    assert [one.fault for one in reader.snapshot().devices] == [None, None]
    machine.gpus[1].lost = True
    kept, lost = reader.snapshot().devices
    assert kept.fields["power.draw"].value == 412.5
    assert (lost.name, lost.fault) == ("NVIDIA L4", FAULTS[15].sentence)
    machine.gpus[1].lost = False
    assert reader.snapshot().devices[1].fault is None
    del machine.gpus[1]
    assert [(one.name, one.fault) for one in reader.snapshot().devices] == [
        ("NVIDIA H200", None), ("NVIDIA L4", FAULTS[28].sentence),
    ]  # fmt: skip


def test_a_real_driver_or_none_gives_a_whole_answer() -> None:
    snapshot = Reader().snapshot()
    assert snapshot.fault or snapshot.devices
    for device in snapshot.devices:
        assert device.fault or device.fields["memory.total"].value


def test_a_recording_is_a_log_that_is_read_without_loss(tmp_path: Path, database: Database) -> None:
    machine = moving_machine()
    out = tmp_path / "record.csv"

    stop = threading.Event()

    def told(samples: int, *_: object) -> None:
        machine.gpus[0].lost = samples >= 4
        if samples == 6:
            stop.set()

    done = telemetry.record(reader_of(machine), out, interval=0.05, stop=stop, told=told)
    assert (done.samples, done.gpus) == (6, tuple(gpu.name for gpu in machine.gpus))
    assert done.faults == (f"GPU 0: {FAULTS[15].sentence}",)
    rows = list(csv.DictReader(out.open()))
    assert [row["index"] for row in rows] == ["0", "1", "0", "1", "1", "1"]
    assert rows[1]["utilization.gpu [%]"] == "[N/A]"
    reports = import_paths(database, [out, telemetry.processes_path(out)])
    assert [(one.status, one.rows_rejected, one.format) for one in reports] == [("loaded", 0, "nvidia-smi-log")] * 2
    held = database.query("SELECT * FROM telemetry WHERE name = 'power.draw' ORDER BY measured_at, device")
    assert len(held) == 6
    assert set(held["unit"]) == {"W"}
    assert database.scalar("SELECT count(*) FROM telemetry WHERE name LIKE 'used%' AND entity LIKE '%4211%'") == 2


def test_an_interval_that_says_nothing_more_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="50 ms"):
        telemetry.record(reader_of(moving_machine()), tmp_path / "a.csv", interval=0.02)
