"""Looks at this installation: database, GPU driver, profiler, browser, versions. Changes nothing."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from analysis.errors import StallScopeError
from analysis.settings import asset, get_settings

_PACKAGES = ("streamlit", "plotly", "pandas", "numpy", "duckdb", "scikit-learn", "scipy", "shap", "mapie", "skops")
_ASSETS = (
    "app.py",
    "pages",
    "data/gpus.csv",
    "data/stall_reasons.csv",
    "data/catalogue.toml",
    ".streamlit/config.toml",
)
_PROFILER_PARAMETERS = Path("/proc/driver/nvidia/params")


def examine(db: Path | None = None) -> dict[str, Any]:
    """Return what there is, and a list of findings for a person.

    Parameters
    ----------
    db : Path, optional
        The database file to look at; that of the settings when left out.

    Returns
    -------
    dict
        ``version``, ``python``, ``platform``, ``packages``, ``database``, ``gpus``, and ``findings``: a list of
        ``{what, status, sentence}`` with status ``ok``, ``missing`` (something can't be done) or ``fault``.
    """
    path = (db or get_settings().db).expanduser()
    database, gpus = _database(path), _gpus()
    return {
        "version": importlib.metadata.version("stallscope"),
        "python": platform.python_version(),
        "platform": platform.platform(),
        "packages": {name: importlib.metadata.version(name) for name in _PACKAGES},
        "database": database,
        "gpus": gpus,
        "findings": [
            *_about_database(database),
            *_about_assets(),
            *_about_gpus(gpus),
            *_about_tools(),
            *_about_room(path),
        ],
    }


def _finding(what: str, status: str, sentence: str) -> dict[str, str]:
    return {"what": what, "status": status, "sentence": sentence}


def _database(path: Path) -> dict[str, Any]:
    known: dict[str, Any] = {"path": str(path), "exists": path.exists(), "bytes": None, "datasets": [], "error": None}
    if not path.exists():
        return known
    known["bytes"] = path.stat().st_size
    try:
        from analysis.store.database import Database
        from analysis.store.queries.sources import datasets

        with Database(path) as database:
            known["datasets"] = datasets(database)["name"].tolist()
    except StallScopeError as error:
        known["error"] = error.sentence
    return known


def _about_database(known: dict[str, Any]) -> Iterator[dict[str, str]]:
    if known["error"]:
        yield _finding("database", "fault", known["error"])
    elif not known["exists"]:
        yield _finding("database", "ok", f"{known['path']} does not exist yet; the first import or `serve` makes it.")
    else:
        held = ", ".join(known["datasets"]) or "nothing yet"
        yield _finding("database", "ok", f"{known['path']} opens ({known['bytes'] / 1e6:.1f} MB) and holds {held}.")


def _about_assets() -> Iterator[dict[str, str]]:
    for name in _ASSETS:
        try:
            asset(*name.split("/"))
        except FileNotFoundError:
            yield _finding("installation", "fault", f"{name} does not ship with this installation; install it again.")
            return
    yield _finding("installation", "ok", f"Pages, data and theme are in {asset('app.py').parent}.")


def _gpus() -> dict[str, Any]:
    """Ask the driver what GPUs there are; a machine without one is no fault."""
    try:
        import pynvml

        pynvml.nvmlInit()
    except Exception as error:  # NVML reports a missing library, driver or permission by classes of its own
        return {"driver": None, "devices": [], "reason": str(error)}
    try:
        devices = []
        for index in range(pynvml.nvmlDeviceGetCount()):
            handle = pynvml.nvmlDeviceGetHandleByIndex(index)
            memory = pynvml.nvmlDeviceGetMemoryInfo(handle).total
            devices.append({"name": str(pynvml.nvmlDeviceGetName(handle)), "memory_mib": int(memory) >> 20})
        return {"driver": str(pynvml.nvmlSystemGetDriverVersion()), "devices": devices, "reason": None}
    except Exception as error:
        return {"driver": None, "devices": [], "reason": str(error)}
    finally:
        pynvml.nvmlShutdown()


def _about_gpus(known: dict[str, Any]) -> Iterator[dict[str, str]]:
    if known["driver"] is None:
        sentence = (
            f"No NVIDIA driver answers ({known['reason']}): profiles from other machines can be read, none made here."
        )
        yield _finding("GPU", "missing", sentence)
        return
    names = ", ".join(device["name"] for device in known["devices"]) or "no device"
    yield _finding("GPU", "ok", f"Driver {known['driver']}: {names}.")
    if _PROFILER_PARAMETERS.exists() and "RmProfilingAdminOnly: 1" in _PROFILER_PARAMETERS.read_text():
        yield _finding(
            "profiling permission",
            "missing",
            "Only an administrator may read performance counters here; set the driver option "
            "NVreg_RestrictProfilingToAdminUsers=0 or run the profiler as root.",
        )


def _about_tools() -> Iterator[dict[str, str]]:
    wanted = {
        "ncu": "to profile kernels, and to read .ncu-rep files unless the package ncu-report is installed",
        "nsys": "to time kernels over a whole run",
        "nvidia-smi": "to log utilisation and memory",
    }
    for tool, purpose in wanted.items():
        found = shutil.which(tool)
        yield _finding(tool, "ok" if found else "missing", found or f"Not on the PATH; needed {purpose}.")


def _about_room(path: Path) -> Iterator[dict[str, str]]:
    folder = next((parent for parent in path.absolute().parents if parent.exists()), Path("/"))
    free = shutil.disk_usage(folder).free
    status = "ok" if free > 1 << 30 else "missing"
    yield _finding("disk", status, f"{free / 1e9:.1f} GB free in {folder}.")
    if not os.access(folder, os.W_OK):
        yield _finding("disk", "fault", f"{folder} can't be written; give another file with --db.")
