"""The simulated sample in the database: loaded on a first start, hidden beside measurements, gone once removed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Literal

from analysis.ingest.bundle import import_bundle
from analysis.ingest.contract.format import Hints
from analysis.ingest.contract.reports import ImportReport
from analysis.ingest.contract.simulated import SAMPLE
from analysis.settings import asset, get_settings
from analysis.store.database import Database
from analysis.store.filters import Filter
from analysis.store.loader import remove_source
from analysis.store.queries import settings, sources

Progress = Callable[[float, str], None]
State = Literal["shown", "hidden", "absent"]

_REMOVED, _SHOWN = "sample_removed", "sample_shown"


def files() -> list[Path]:
    """Return the files of the sample that ship with StallScope."""
    return sorted(path for path in asset("data", "samples").iterdir() if path.name.endswith((".zip", ".csv.gz")))


def wanted(database: Database) -> bool:
    """Say whether a start should load the sample: nothing is loaded, nobody removed it, and it isn't switched off."""
    return (
        get_settings().sample == "on" and settings.get(database, _REMOVED) is None and sources.sources(database).empty
    )


def load(database: Database, progress: Progress | None = None) -> list[ImportReport]:
    """Load the sample into the data set ``sample``; what is there already is left alone.

    Parameters
    ----------
    database : Database
        The open database.
    progress : callable, optional
        Told the share done and what is read.

    Returns
    -------
    list of ImportReport
        One a file.
    """
    paths = files()
    whole = sum(path.stat().st_size for path in paths)
    reports: list[ImportReport] = []
    done = 0
    for path in paths:
        begun, share = done / whole, path.stat().st_size / whole

        def step(fraction: float, name: str, begun: float = begun, share: float = share) -> None:
            if progress is not None:
                progress(begun + fraction * share, f"simulated sample: {name}")

        step(0.0, path.name)
        reports.append(import_bundle(database, path, lambda _: Hints(dataset=SAMPLE), step))
        done += path.stat().st_size
    settings.put(database, _REMOVED, "")
    return reports


def remove(database: Database) -> int:
    """Take the sample out for good; no start brings it back. Return the number of sources."""
    held = sources.sources(database, Filter(datasets=(SAMPLE,)))
    for source_id in held["source_id"]:
        remove_source(database, int(source_id))
    settings.put(database, _REMOVED, "yes")
    return len(held)


def state(database: Database) -> State:
    """Say whether the sample is there, and whether it shows.

    It shows alone; the first measurement hides it until somebody asks for it.
    """
    held = sources.datasets(database)
    if SAMPLE not in set(held["name"]):
        return "absent"
    asked = settings.get(database, _SHOWN)
    measured = not held["simulated"].astype(bool).all()
    shown = asked == "yes" if asked in ("yes", "no") else not measured
    return "shown" if shown else "hidden"


def show(database: Database, shown: bool) -> None:
    """Show or hide the sample, until somebody changes it again."""
    settings.put(database, _SHOWN, "yes" if shown else "no")
