"""Looks at what measuring needs: driver, permission to read counters, MPS, profilers. Changes nothing."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from analysis.capture import mps
from analysis.capture.nvml import is_fake
from analysis.capture.readings import Reader
from analysis.cli.finding import Finding, ok, warning

#: Where the driver's kernel module says how it was loaded.
PARAMETERS = Path("/proc/driver/nvidia/params")
#: Where profilers lie when they are installed and not on the PATH.
_USUAL = ("/usr/local/cuda/bin", "/opt/nvidia/nsight-compute/*", "/opt/nvidia/nsight-systems/*/bin")
_ELSEWHERE = "Profiles and co-runs from other machines can be read; to measure here, "


def gpus() -> dict[str, Any]:
    """Return ``driver`` (None without one), ``cuda``, ``devices`` (name, memory_mib, cc, mig, fault) and ``reason``."""
    reader = Reader()
    snapshot = reader.snapshot(light=True)
    reader.close()
    devices = []
    for device in snapshot.devices:
        memory = device.fields.get("memory.total")
        devices.append(
            {
                "name": device.name, "memory_mib": int(memory.value) if memory and memory.value else None,
                "cc": device.cc or None, "mig": device.mig_on, "fault": device.fault,
            }
        )  # fmt: skip
    driver = None if snapshot.fault else snapshot.driver or "unknown"
    return {"driver": driver, "cuda": snapshot.cuda or None, "devices": devices, "reason": snapshot.fault}


def gpu_findings(known: dict[str, Any]) -> Iterator[Finding]:
    """Yield what is to be said of driver, permission, MPS and profilers."""
    if is_fake():
        yield warning(
            "driver", "STALLSCOPE_NVML=fake is set: the GPUs below are made up.", "Unset it to see your own."
        )  # fmt: skip
    yield from _about_driver(known)
    yield from _about_permission(known)
    yield from _about_mps(known)
    yield from _about_profilers()


def _about_driver(known: dict[str, Any]) -> Iterator[Finding]:
    if known["driver"] is None:
        said, _, cure = str(known["reason"]).partition(". ")
        yield warning("driver", f"{said.rstrip('.')}.", _ELSEWHERE + (_lower(cure) or "install the driver."))
        return
    there = [device for device in known["devices"] if device["fault"] is None]
    if there:
        names = ", ".join(device["name"] for device in there)
        yield ok("driver", f"Driver {known['driver']}, CUDA {known['cuda'] or 'unknown'}: {names}.")
    elif not known["devices"]:
        yield warning("driver", f"Driver {known['driver']} sees no GPU.", "Look whether the GPU is passed through.")
    for number, device in enumerate(known["devices"]):
        if device["fault"]:
            said, _, cure = device["fault"].partition(". ")
            yield warning(
                "GPU", f"GPU {number}, {device['name']}: {_lower(said)}.", cure or "Look at the kernel's log."
            )


def _about_permission(known: dict[str, Any]) -> Iterator[Finding]:
    if known["driver"] is None:
        return
    try:
        text = PARAMETERS.read_text()
    except OSError:
        text = ""
    found = re.search(r"RmProfilingAdminOnly:\s*(\d)", text)
    if found is None:
        yield ok("counters", "The driver does not say who may read performance counters; ncu will.")
    elif found[1] == "1" and os.geteuid() != 0:
        yield warning(
            "counters",
            "Only an administrator may read performance counters here (RmProfilingAdminOnly is 1).",
            "Load the driver with NVreg_RestrictProfilingToAdminUsers=0, or run ncu as root.",
        )
    else:
        who = "As root you" if found[1] == "1" else "Every user"
        yield ok("counters", f"{who} may read performance counters.")


def _about_mps(known: dict[str, Any]) -> Iterator[Finding]:
    program, pid = shutil.which(mps.CONTROL), mps.running_at()
    if pid is not None:
        yield warning(
            "MPS",
            f"A daemon runs (process {pid}): jobs started here are its clients, which profiles count together.",
            f"Captures leave it alone and start their own; before profiling stop it: `echo quit | {mps.CONTROL}`.",
        )
    elif program:
        yield ok("MPS", f"{program}; no daemon runs, captures start their own.")
    elif known["driver"] is not None:
        yield warning(
            "MPS", f"{mps.CONTROL} is not on the PATH: co-runs can be measured under time slicing only.",
            "Install the driver's compute utilities.",
        )  # fmt: skip
    else:
        yield warning("MPS", f"{mps.CONTROL} is not on the PATH.", _ELSEWHERE + "install the driver.")


def _about_profilers() -> Iterator[Finding]:
    wanted = {
        "ncu": "to profile kernels, and to read .ncu-rep files unless the package ncu-report is installed",
        "nsys": "to time kernels over a whole run",
    }
    for tool, purpose in wanted.items():
        found = shutil.which(tool)
        if found:
            yield ok(tool, f"{found}{_version(found)}.")
            continue
        hidden = next((path for place in _USUAL for path in Path("/").glob(f"{place[1:]}/{tool}")), None)
        if hidden is not None:
            yield warning(tool, f"{hidden} is not on the PATH.", f"`export PATH=$PATH:{hidden.parent}`")
        else:
            yield warning(tool, f"Not on this machine; needed {purpose}.", "Install Nsight from NVIDIA's CUDA toolkit.")


def _version(program: str) -> str:
    try:
        done = subprocess.run([program, "--version"], capture_output=True, text=True, timeout=10, check=False)  # noqa: S603
    except (OSError, subprocess.TimeoutExpired):
        return ""
    found = re.search(r"[Vv]ersion (\S+)", done.stdout)
    return f", version {found[1]}" if found else ""


def _lower(text: str) -> str:
    return text[:1].lower() + text[1:]
