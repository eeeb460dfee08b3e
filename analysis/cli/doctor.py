"""The command that looks at this installation and at what measuring needs: doctor. It changes nothing."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from analysis.capture import mps
from analysis.capture.nvml import is_fake
from analysis.capture.readings import Reader
from analysis.cli.options import DbOption, JsonOption
from analysis.cli.running import DONE, REFUSED, Answer, answers
from analysis.errors import DatabaseBusyError, StallScopeError
from analysis.settings import asset, get_settings

if TYPE_CHECKING:
    from analysis.cli.screen import Screen


def register(app: typer.Typer) -> None:
    """Add the commands of this module."""
    app.command("doctor")(answers(doctor))


def doctor(
    *,
    verify: Annotated[
        bool, typer.Option("--verify", help="Read the whole database, and say which of its tables are damaged.")
    ] = False,
    db: DbOption = None,
    as_json: JsonOption = False,
) -> Answer:
    """Check Python, packages, database, lock, disk, driver, counters, MPS, profilers, browser: each with the cure."""
    report = examine(db, verify=verify)
    broken = any(one["what"] == "verified" and one["status"] == "problem" for one in report["findings"])

    def show(screen: Screen) -> None:
        from analysis.report.table import column, columns_of

        columns = [column("status", ""), *columns_of("what", "sentence/finding", "cure")]
        screen.table(report["findings"], columns)

    return Answer(report, show, REFUSED if broken else DONE)


Status = Literal["ok", "warning", "problem"]


@dataclass(frozen=True)
class Finding:
    """One line.

    Attributes
    ----------
    what : str
        What was looked at.
    status : {"ok", "warning", "problem"}
        ``warning``: something can't be done here. ``problem``: StallScope itself won't work.
    sentence : str
        What was found.
    cure : str
        What to do; blank where nothing is.
    """

    what: str
    status: Status
    sentence: str
    cure: str = ""


def ok(what: str, sentence: str) -> Finding:
    """Say that something is in order."""
    return Finding(what, "ok", sentence)


def warning(what: str, sentence: str, cure: str) -> Finding:
    """Say that something can't be done."""
    return Finding(what, "warning", sentence, cure)


def problem(what: str, sentence: str, cure: str) -> Finding:
    """Say that StallScope won't work."""
    return Finding(what, "problem", sentence, cure)


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


_PACKAGES = (
    "streamlit", "plotly", "pandas", "numpy", "pyarrow", "duckdb", "scikit-learn", "scipy", "shap", "skops",
    "nvidia-ml-py",
)  # fmt: skip
_ASSETS = (
    "app.py",
    "pages",
    "data/gpus.csv",
    "data/stall_reasons.csv",
    "data/catalogue.toml",
    ".streamlit/config.toml",
)
_OLDEST = (3, 11)
#: Free bytes below which an import may fail, and below which one will.
_LITTLE, _NONE = 2 << 30, 200 << 20
_BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "firefox", "microsoft-edge")


def examine(db: Path | None = None, *, verify: bool = False) -> dict[str, Any]:
    """Return what there is, and a list of findings for a person.

    Parameters
    ----------
    db : Path, optional
        The database file to look at; that of the settings when left out.
    verify : bool
        Whether to read all of it.

    Returns
    -------
    dict
        ``version``, ``python``, ``platform``, ``packages``, ``database``, ``gpus``, and ``findings``: a list of
        ``{what, status, sentence, cure}`` with status ``ok``, ``warning`` (something can't be done) or ``problem``
        (StallScope itself won't work); the cure is blank where nothing is to be done.
    """
    path = (db or get_settings().db).expanduser()
    packages = {name: _package_version(name) for name in _PACKAGES}
    known, held = _database(path)
    found = gpus()
    return {
        "version": _package_version("stallscope"),
        "python": platform.python_version(),
        "platform": platform.platform(),
        "packages": packages,
        "database": known,
        "gpus": found,
        "findings": [
            vars(finding)
            for finding in (
                *_about_python(),
                *_about_packages(packages),
                *_about_assets(),
                *_about_database(known, held),
                *(_verified(path) if verify and known["exists"] and held is None else ()),
                *_about_room(path),
                *_about_login(),
                *gpu_findings(found),
                *_about_browser(),
            )
        ],
    }


def _package_version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def _about_python() -> Iterator[Finding]:
    if sys.version_info < _OLDEST:
        yield problem("Python", f"Python {platform.python_version()} is too old.", "Install Python 3.11 or newer.")
    else:
        yield ok("Python", f"{platform.python_version()} at {sys.executable}.")


def _about_packages(packages: dict[str, str | None]) -> Iterator[Finding]:
    missing = [name for name, version in packages.items() if version is None]
    wrong = [*missing, *_outside()]
    if wrong:
        yield problem(
            "packages",
            f"Missing or of the wrong version: {', '.join(wrong)}.",
            "Install StallScope again with its needs.",
        )
    else:
        yield ok("packages", f"All {len(packages)} that matter are there, in versions that fit.")


def _outside() -> list[str]:
    """Return the needs of this installation that are installed in a version that does not fit."""
    from packaging.requirements import InvalidRequirement, Requirement

    try:
        wanted = importlib.metadata.requires("stallscope") or []
    except importlib.metadata.PackageNotFoundError:
        return []
    out = []
    for text in wanted:
        try:
            need = Requirement(text)
        except InvalidRequirement:
            continue
        if need.marker is not None and not need.marker.evaluate({"extra": ""}):
            continue
        version = _package_version(need.name)
        if version is not None and not need.specifier.contains(version, prereleases=True):
            out.append(f"{need.name} {version} (needs {need.specifier})")
    return out


def _database(path: Path) -> tuple[dict[str, Any], StallScopeError | None]:
    known: dict[str, Any] = {"path": str(path), "exists": path.exists(), "bytes": None, "datasets": [], "error": None}
    if not path.exists():
        return known, None
    known["bytes"] = path.stat().st_size
    try:
        from analysis.store.database import Database
        from analysis.store.queries.sources import datasets

        with Database(path, read_only=True) as database:
            known["datasets"] = datasets(database)["name"].tolist()
    except StallScopeError as error:
        known["error"] = error.sentence
        return known, error
    return known, None


def _about_database(known: dict[str, Any], error: StallScopeError | None) -> Iterator[Finding]:
    if isinstance(error, DatabaseBusyError):
        yield ok("database", f"{known['path']} is there ({known['bytes'] / 1e6:.1f} MB).")
        yield warning("lock", f"{error.what[:1].upper()}{error.what[1:]}.", error.cure)
        return
    if error is not None:
        yield problem("database", f"{error.what[:1].upper()}{error.what[1:]}.", error.cure)
    elif not known["exists"]:
        nearest = _nearest(Path(known["path"]))
        if nearest.is_dir():
            yield ok("database", f"{known['path']} does not exist yet; the first import or `serve` makes it.")
        else:
            said = f"{known['path']} can't be made: {nearest} is no folder."
            yield problem("database", said, "Give another file with --db or STALLSCOPE_DB.")
    else:
        held = ", ".join(known["datasets"]) or "nothing yet"
        yield ok("database", f"{known['path']} opens ({known['bytes'] / 1e6:.1f} MB) and holds {held}.")
    yield ok("lock", "No other process holds the database.")


def _verified(path: Path) -> Iterator[Finding]:
    """Say whether all of the database can be read."""
    from analysis.store.verify import verify

    try:
        found = verify(path)
    except StallScopeError as error:
        yield problem("verified", f"{error.what[:1].upper()}{error.what[1:]}.", error.cure)
        return
    said = f"{found.sentence[:1].upper()}{found.sentence[1:]}."
    if found.broken:
        yield problem("verified", said, "Restore a backup with `stallscope restore`.")
    elif found.loose:
        yield warning("verified", said, "Remove those sources on the Library page and load their files again.")
    else:
        yield ok("verified", said)


def _nearest(path: Path) -> Path:
    """Return the innermost of the folders above a path that is there, whatever it is."""
    return next((parent for parent in path.absolute().parents if os.path.lexists(parent)), Path("/"))


def _about_login() -> Iterator[Finding]:
    """Say whether readers could sign in, where the secrets ask for it."""
    from analysis.ui.server.server import login

    try:
        if login():
            yield ok("login", "Readers of `serve` sign in, as the secrets have a section [auth].")
    except StallScopeError as error:
        yield problem("login", f"{error.what[:1].upper()}{error.what[1:]}.", error.cure)


def _about_assets() -> Iterator[Finding]:
    for name in _ASSETS:
        try:
            asset(*name.split("/"))
        except FileNotFoundError:
            yield problem("installation", f"{name} does not ship with this installation.", "Install StallScope again.")
            return
    yield ok("installation", f"Pages, data and theme are in {asset('app.py').parent}.")


def _about_room(path: Path) -> Iterator[Finding]:
    folder = next((parent for parent in path.absolute().parents if parent.is_dir()), Path("/"))
    free = shutil.disk_usage(folder).free
    said = f"{free / 1e9:.1f} GB free in {folder}."
    cure = "Make room, or give a database on another disk with --db."
    if free < _NONE:
        yield problem("disk", said, cure)
    elif free < _LITTLE:
        yield warning("disk", said, cure)
    else:
        yield ok("disk", said)
    if not os.access(folder, os.W_OK):
        yield problem("disk", f"{folder} can't be written.", "Give another file with --db.")


def _about_browser() -> Iterator[Finding]:
    found = next((path for name in _BROWSERS if (path := shutil.which(name))), None)
    if found:
        yield ok("browser", f"{found}.")
    else:
        yield warning(
            "browser",
            "There is none on this machine.",
            "Open the pages from your own: `ssh -L 8501:localhost:8501 THIS_MACHINE`, then http://localhost:8501.",
        )
