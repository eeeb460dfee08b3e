"""`stallscope doctor`: each line ok, warning or problem, with the cure, on machines that are put together here."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from analysis.capture.fakenvml import FakeGpu, FakeNvml
from analysis.capture.readings import Reader
from analysis.cli import doctor
from analysis.store.database import Database

Machine = Callable[..., dict[str, dict[str, str]]]


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Machine:
    """Look at a machine with a PATH of its own; returns the findings by what they are about."""
    tools = tmp_path / "tools"
    tools.mkdir()
    monkeypatch.setenv("PATH", str(tools))
    monkeypatch.setenv("CUDA_MPS_PIPE_DIRECTORY", str(tmp_path / "pipe"))
    monkeypatch.setattr(doctor, "_USUAL", (str(tmp_path / "opt/nsight*"),))

    def look(
        driver: FakeNvml, *, programs: tuple[str, ...] = (), parameters: str | None = None, user: int = 1000,
        db: Path | None = None,
    ) -> dict[str, dict[str, str]]:  # fmt: skip
        for name in programs:
            (tools / name).write_text("#!/bin/sh\necho Version 2025.1.0\n")
            (tools / name).chmod(0o755)
        file = tmp_path / "params"
        if parameters is not None:
            file.write_text(parameters)
        monkeypatch.setattr(doctor, "PARAMETERS", file)
        monkeypatch.setattr(doctor, "Reader", lambda: Reader(lambda: driver))
        monkeypatch.setattr("os.geteuid", lambda: user)
        findings = doctor.examine(db or tmp_path / "none.duckdb")["findings"]
        assert {one["status"] for one in findings} <= {"ok", "warning", "problem"}
        assert all(bool(one["cure"]) == (one["status"] != "ok") for one in findings)
        return {one["what"]: one for one in findings}

    return look


def test_a_machine_that_can_do_everything(machine: Machine) -> None:
    found = machine(
        FakeNvml([FakeGpu()]), programs=("ncu", "nsys", "nvidia-cuda-mps-control", "chromium"),
        parameters="RmProfilingAdminOnly: 0\n",
    )  # fmt: skip
    assert {name: one["status"] for name, one in found.items()} == dict.fromkeys(
        ("Python", "packages", "installation", "database", "lock", "disk", "driver", "counters", "MPS", "ncu", "nsys",
         "browser"), "ok",
    )  # fmt: skip
    assert found["driver"]["sentence"] == "Driver 570.86.15, CUDA 12.8: NVIDIA H200."
    assert "version 2025.1.0" in found["ncu"]["sentence"]


def test_a_machine_without_a_gpu(machine: Machine) -> None:
    found = machine(FakeNvml([], faults={"nvmlInit": 12}))
    assert found["driver"]["sentence"] == "There is no NVIDIA driver on this machine."
    assert "counters" not in found
    assert {found[name]["status"] for name in ("driver", "MPS", "ncu", "nsys", "browser")} == {"warning"}
    assert "ssh -L" in found["browser"]["cure"]


def test_what_stands_in_the_way_of_measuring(machine: Machine, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    pipe.mkdir()
    (pipe / "nvidia-cuda-mps-control.pid").write_text(str(os.getpid()))
    hidden = tmp_path / "opt" / "nsight-2025" / "ncu"
    hidden.parent.mkdir(parents=True)
    hidden.touch()
    broken = FakeNvml([FakeGpu(), FakeGpu(name="NVIDIA L4", lost=True)])
    found = machine(broken, parameters="X: 1\nRmProfilingAdminOnly: 1\n")
    assert "NVreg_RestrictProfilingToAdminUsers=0" in found["counters"]["cure"]
    assert "the GPU has fallen off the bus" in found["GPU"]["sentence"]
    assert found["MPS"]["status"] == "warning"
    assert "echo quit" in found["MPS"]["cure"]
    assert found["ncu"]["cure"] == f"`export PATH=$PATH:{hidden.parent}`"
    assert machine(broken, parameters="RmProfilingAdminOnly: 1\n", user=0)["counters"]["status"] == "ok"


def test_the_database_and_its_lock(machine: Machine, tmp_path: Path) -> None:
    path = tmp_path / "a.duckdb"
    nothing = FakeNvml([], faults={"nvmlInit": 12})
    Database(path).close()
    before = path.read_bytes()
    assert "holds nothing yet" in machine(nothing, db=path)["database"]["sentence"]
    assert path.read_bytes() == before
    code = "import sys, duckdb; c = duckdb.connect(sys.argv[1]); print('open', flush=True); sys.stdin.read()"
    holder = subprocess.Popen(
        [sys.executable, "-c", code, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "open\n"
        lock = machine(nothing, db=path)["lock"]
        assert (lock["status"], str(holder.pid) in lock["sentence"]) == ("warning", True)
    finally:
        holder.communicate()
    path.write_text("no database")
    assert machine(nothing, db=path)["database"]["status"] == "problem"


def test_too_little_room_and_a_package_that_does_not_fit(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    def room(_: Any) -> Any:
        return type("Usage", (), {"free": 1 << 20})

    monkeypatch.setattr("shutil.disk_usage", room)
    real = doctor._package_version
    monkeypatch.setattr(doctor, "_package_version", lambda name: {"shap": None, "duckdb": "0.9"}.get(name, real(name)))
    found = machine(FakeNvml([FakeGpu()]))
    assert found["disk"]["status"] == "problem"
    assert found["packages"]["status"] == "problem"
    assert "shap" in found["packages"]["sentence"]
    assert "duckdb 0.9 (needs " in found["packages"]["sentence"]


def test_a_database_that_can_t_be_made_and_one_that_is_too_new(machine: Machine, tmp_path: Path) -> None:
    (tmp_path / "a.csv").touch()
    driver = FakeNvml([], faults={"nvmlInit": 12})
    found = machine(driver, db=tmp_path / "a.csv" / "x" / "y.duckdb")
    assert (found["database"]["status"], "is no folder" in found["database"]["sentence"]) == ("problem", True)
    path = tmp_path / "new.duckdb"
    with Database(path) as database, database.write() as cursor:
        cursor.execute("INSERT INTO schema_version (version) VALUES (999)")
    assert machine(driver, db=path)["database"]["status"] == "problem"
    assert sorted(one.name for one in tmp_path.iterdir() if one.name == "spool") == ["spool"]  # made by the writer
    (tmp_path / "alone").mkdir()
    path.rename(tmp_path / "alone" / "new.duckdb")
    machine(driver, db=tmp_path / "alone" / "new.duckdb")
    assert [one.name for one in (tmp_path / "alone").iterdir()] == ["new.duckdb"]
