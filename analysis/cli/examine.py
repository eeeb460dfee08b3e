"""Looks at this installation: Python, packages, database, disk, and the GPU side of it. Changes nothing."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from analysis.cli.examine_gpu import gpu_findings, gpus
from analysis.cli.finding import Finding, ok, problem, warning
from analysis.errors import DatabaseBusyError, StallScopeError
from analysis.settings import asset, get_settings

_PACKAGES = (
    "streamlit", "plotly", "pandas", "numpy", "pyarrow", "duckdb", "scikit-learn", "scipy", "shap", "mapie", "skops",
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
        ``{what, status, sentence, cure}`` with status ``ok``, ``warning`` (something can't be done) or ``problem``
        (StallScope itself won't work); the cure is blank where nothing is to be done.
    """
    path = (db or get_settings().db).expanduser()
    packages = {name: _version(name) for name in _PACKAGES}
    known, held = _database(path)
    found = gpus()
    return {
        "version": _version("stallscope"),
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
                *_about_room(path),
                *_about_login(),
                *gpu_findings(found),
                *_about_browser(),
            )
        ],
    }


def _version(name: str) -> str | None:
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
        version = _version(need.name)
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
