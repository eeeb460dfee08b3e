"""What every report rests on: the choice in words, the sources with their hashes, the software, the command."""

from __future__ import annotations

import platform
import shlex
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from importlib.metadata import version

import pandas as pd

from analysis.errors import NotFoundError
from analysis.ingest import catalogue
from analysis.predict.models.manifest import Manifest
from analysis.reference.gpus import resolve
from analysis.report.document import Provenance, Source
from analysis.report.plain import plain
from analysis.store.database import Database
from analysis.store.filters import Filter
from analysis.store.queries import coruns, sources

_PACKAGES = ("stallscope", "duckdb", "numpy", "pandas", "scikit-learn", "scipy", "plotly")


def choice(database: Database, dataset: str, gpus: Sequence[str] = (), mechanisms: Sequence[str] = ()) -> Filter:
    """Turn names as people write them into a filter.

    Raises
    ------
    NotFoundError
        If there is no such data set, or none of what was chosen is in it.
    """
    sources.require_dataset(database, dataset)
    chosen = Filter(datasets=(dataset,))
    if gpus:
        known = sources.workloads(database, chosen)["gpus"]
        available = sorted({str(name) for names in known for name in (names if names is not None else ())})
        found = [name for word in gpus for name in resolve(word, available)]
        if not found:
            there = ", ".join(available) or "no GPU"
            raise NotFoundError(f"data set {dataset!r} has nothing on {', '.join(gpus)}", f"It has {there}.")
        chosen = chosen.with_(gpus=tuple(dict.fromkeys(found)))
    if mechanisms:
        known_mechanisms = list(dict.fromkeys(coruns.gpus_and_mechanisms(database, dataset)["mechanism"].astype(str)))
        wanted = {name.casefold() for name in mechanisms}
        matching = [name for name in known_mechanisms if name.casefold() in wanted]
        if not matching:
            there = ", ".join(known_mechanisms) or "none"
            raise NotFoundError(
                f"data set {dataset!r} has no runs under {', '.join(mechanisms)}", f"Its mechanisms: {there}."
            )
        chosen = chosen.with_(mechanisms=tuple(matching))
    return chosen


def provenance(simulated: Iterable[bool]) -> Provenance:
    """Say whether figures are measured, simulated, or both."""
    flags = {bool(flag) for flag in simulated}
    if flags == {True}:
        return "simulated"
    return "measured and simulated" if flags == {True, False} else "measured"


def source_entries(files: pd.DataFrame) -> tuple[Source, ...]:
    """Turn rows of the source table into entries, in the order they were loaded."""
    entries = []
    for row in files.sort_values("source_id").to_dict("records"):
        values = {name: plain(value) for name, value in row.items()}
        names = ("dataset", "format", "sha256", "rows_read", "rows_loaded", "rows_rejected", "simulated")
        entries.append(
            Source.model_validate(
                {
                    "file": values["file_name"],
                    **{name: values[name] for name in names},
                    "licence": values["licence"],
                    "citation": values["citation"],
                }
            )
        )
    return tuple(entries)


def software() -> dict[str, str]:
    """Return name and version of what computes figures."""
    return {"Python": platform.python_version(), **{name: version(name) for name in _PACKAGES}}


def moment(now: datetime | None) -> datetime:
    """Return when a report is made, to the second, in UTC."""
    return (now or datetime.now(UTC)).replace(microsecond=0)


def loading(dataset: str, files: pd.DataFrame) -> str:
    """Return the command that loads a data set's files again: by its name in the catalogue, or from the files."""
    if dataset in {one.name for one in catalogue.entries()}:
        return f"stallscope datasets load {shlex.quote(dataset)}"
    names = " ".join(shlex.quote(str(name)) for name in dict.fromkeys(files["file_name"].astype(str)))
    return f"stallscope import {names} --dataset {shlex.quote(dataset)}"


def training(card: Manifest) -> str | None:
    """Return the command that trains a model again, with the id it has here; None for what needs no training."""
    if not card.runs:
        return None
    gpu = f" --gpu {shlex.quote(card.gpus[0])}" if len(card.gpus) == 1 else ""
    how = f" --mechanism {shlex.quote(card.mechanisms[0])}" if len(card.mechanisms) == 1 else ""
    return (
        f"stallscope train --dataset {shlex.quote(card.dataset)} --predictor {shlex.quote(card.predictor)}{gpu}{how}"
        f"  # prints an id, which takes the place of {card.model_id} below"
    )


def command(kind: str, dataset: str, **given: Sequence[str]) -> str:
    """Return the command that makes a report again: options by their names, those without a value left out."""
    first = "" if kind == "dataset" else f" --kind {kind}"
    options = "".join(
        f" --{option.replace('_', '-')} {shlex.quote(value)}" for option, values in given.items() for value in values
    )
    return f"stallscope report{first} --dataset {shlex.quote(dataset)}{options} --out report.html"
