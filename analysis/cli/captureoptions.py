"""Options that the commands of `stallscope capture` share, and what they do in common."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

from analysis.errors import StallScopeError, UsageError

if TYPE_CHECKING:
    from analysis.capture.campaign import Outcome
    from analysis.capture.rate import RateBy
    from analysis.cli.screen import Screen


class Mechanism(StrEnum):
    """How jobs share the GPU while they are measured."""

    mps = "mps"
    time_slicing = "time-slicing"


class Throughput(StrEnum):
    """How a job says how fast it is."""

    steps = "steps"
    regex = "regex"
    lines = "lines"


CommandArgument: TypeAlias = Annotated[
    list[str], typer.Argument(metavar="-- COMMAND", help="The job's program and arguments, after --.")
]
ThroughputOption: TypeAlias = Annotated[
    list[Throughput] | None,
    typer.Option(
        "--throughput",
        metavar="WAY",
        help="steps: counted by analysis/capture/steps.py; regex: printed, found by --pattern; lines: a line is work.",
    ),
]
PatternOption: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--pattern", metavar="RE", help="Regular expression; its first group is the throughput. Once, or for each job."
    ),
]
PerLineOption: TypeAlias = Annotated[
    float, typer.Option("--per-line", metavar="N", min=0.0, help="Work of a line, such as the batch size.")
]
UnitOption: TypeAlias = Annotated[str, typer.Option("--unit", metavar="U", help="Unit of the throughput.")]
SecondsOption: TypeAlias = Annotated[
    float, typer.Option("--seconds", metavar="S", min=0.1, help="Length of a window in which all jobs run.")
]
WarmupOption: TypeAlias = Annotated[
    float, typer.Option("--warmup", metavar="S", min=0.0, help="From when every job makes progress to the window.")
]
RepeatsOption: TypeAlias = Annotated[
    int, typer.Option("--repeats", metavar="N", min=1, help="Starts of every run; the interval rests on them.")
]
WindowsOption: TypeAlias = Annotated[
    int, typer.Option("--windows", metavar="N", min=1, help="Windows one after the other within each start.")
]
DeviceOption: TypeAlias = Annotated[
    int | None, typer.Option("--device", metavar="N", min=0, help="Number of the GPU; the first one when left out.")
]
GpuNameOption: TypeAlias = Annotated[
    str | None, typer.Option("--gpu", metavar="G", help="Name of the GPU, where the driver can't be asked.")
]
OutOption: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        "--out", metavar="DIR", file_okay=False,
        help="Folder for journal and tables; one that holds part of the same runs is gone on with.",
    ),
]  # fmt: skip
LoadOption: TypeAlias = Annotated[
    bool, typer.Option("--load/--no-load", help="Whether to load the tables into the database at the end.")
]
IntoOption: TypeAlias = Annotated[str, typer.Option("--dataset", metavar="D", help="Data set to load into.")]


def rates(
    count: int, ways: Sequence[Throughput] | None, patterns: Sequence[str] | None, per_line: float, unit: str
) -> list[RateBy]:
    """Return how each job says how fast it is; what is given once holds for all.

    Raises
    ------
    UsageError
        If it is given for some jobs only, or contradicts itself.
    """
    from analysis.capture.rate import RateBy

    way = ways or [Throughput.regex if patterns else Throughput.steps]
    for what, given in (("--throughput", way), ("--pattern", patterns or [""])):
        if len(given) not in (1, count):
            raise UsageError(f"{what} is given {len(given)} times for {count} jobs", "Give it once, or for each job.")
    if patterns and Throughput.steps in way:
        raise UsageError("--pattern has no meaning with --throughput steps", "Leave one of them out.")
    one_each = [list(given) * (count if len(given) == 1 else 1) for given in (way, patterns or [""])]
    return [RateBy(how.value, pattern, per_line, unit) for how, pattern in zip(*one_each, strict=True)]


def folder_for(out: Path | None, db: Path | None, kind: str) -> Path:
    """Return where a capture goes: as given, or a folder of its own beside the database."""
    from analysis.settings import get_settings

    if out is not None:
        return out
    home = (db or get_settings().db).expanduser().absolute().parent
    return home / "captures" / f"{time.strftime('%Y%m%d-%H%M%S')}-{kind}"


def say(text: str) -> None:
    """Print a step on standard error, where progress belongs."""
    sys.stderr.write(text + "\n")
    sys.stderr.flush()


def load(files: Iterable[Path], dataset: str, db: Path | None) -> tuple[list[dict[str, Any]], str | None]:
    """Load what was measured; a database that is in use is no reason to lose it.

    Returns
    -------
    tuple of list of dict and str or None
        Reports of the files, and why nothing was loaded.
    """
    from analysis.cli.running import opened
    from analysis.ingest.importer import import_paths

    try:
        with opened(db, must_exist=False) as database:
            reports = import_paths(database, files, dataset=dataset)
    except StallScopeError as error:
        return [], error.sentence
    refused = next((one.error for one in reports if one.status == "rejected"), None)
    return [
        one.model_dump(include={"file", "format", "status", "runs", "members", "error"}) for one in reports
    ], refused


def document(done: Outcome, reports: list[dict[str, Any]], not_loaded: str | None) -> dict[str, Any]:
    """Return what a capture found out, as plain values."""
    return {
        "folder": str(done.folder), "gpu": done.gpu, "runs": done.done, "left": done.left, "new": done.new,
        "did_not_run": done.failed, "solos": {name: vars(one) for name, one in done.solos.items()},
        "slowdowns": done.slowdowns, "provenance": dict(done.provenance), "loaded": reports, "not_loaded": not_loaded,
    }  # fmt: skip


def show(screen: Screen, done: Outcome, not_loaded: str | None, dataset: str, *, loaded: bool) -> None:
    """Print it for a person."""
    from analysis.report.table import column

    screen.line(
        f"{done.done} {'run' if done.done == 1 else 'runs'} on {done.gpu}, {done.failed} of them did not run"
        + (f"; {done.left} are left: the same command goes on" if done.left else "") + ".", style="bold",
    )  # fmt: skip
    solos = [{"workload": name, **vars(one)} for name, one in done.solos.items()]
    if solos:
        columns = [column("workload", "alone"), column("value", "throughput", "number", low="low", high="high")]
        screen.table(solos, [*columns, column("n", "starts", "count"), column("windows", "windows", "count")])
    if done.slowdowns:
        columns = [column("set", "set"), column("workload", "workload")]
        columns += [column("slowdown", "slowdown", "ratio", low="low", high="high")]
        columns += [column("repeats", "starts", "count"), column("windows", "windows", "count")]
        screen.table(done.slowdowns, [*columns, column("notes", "remarks")])
    screen.line(f"Tables and provenance: {done.folder}")
    if not_loaded:
        screen.line(f"Not loaded: {not_loaded} Then: stallscope import {done.folder}", style="yellow")
    elif loaded:
        screen.line(f"Loaded into the data set {dataset}.")
