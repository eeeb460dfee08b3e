"""Commands that measure jobs: alone, side by side, and what the GPU says meanwhile."""

from __future__ import annotations

import re
import shlex
import shutil
import sys
import time
from collections.abc import Iterable, Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

from analysis.cli.options import DbOption, JsonOption
from analysis.cli.running import DONE, REFUSED, Answer, answers
from analysis.errors import StallScopeError, UsageError

if TYPE_CHECKING:
    from analysis.capture.campaign import Outcome
    from analysis.capture.plan import Plan
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
        help="steps: counted by capture/steps.py; regex: printed, found by --pattern; lines: a line is work.",
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
    from analysis.report.table import columns_of

    screen.line(
        f"{done.done} {'run' if done.done == 1 else 'runs'} on {done.gpu}, {done.failed} of them did not run"
        + (f"; {done.left} are left: the same command goes on" if done.left else "") + ".", style="bold",
    )  # fmt: skip
    solos = [{"workload": name, **vars(one)} for name, one in done.solos.items()]
    if solos:
        screen.table(
            solos,
            columns_of(
                "workload/alone", "value/throughput", "n/starts", "windows", value={"low": "low", "high": "high"}
            ),
        )
    if done.slowdowns:
        screen.table(
            done.slowdowns,
            columns_of(
                "set", "workload", "slowdown", "repeats", "windows", "notes", slowdown={"low": "low", "high": "high"}
            ),
        )
    screen.line(f"Tables and provenance: {done.folder}")
    if not_loaded:
        screen.line(f"Not loaded: {not_loaded} Then: stallscope import {done.folder}", style="yellow")
    elif loaded:
        screen.line(f"Loaded into the data set {dataset}.")


#: Stands between the commands of a co-run.
BETWEEN = ":::"


def register(group: typer.Typer) -> None:
    """Add the commands of this module."""
    group.command("telemetry")(answers(telemetry))
    group.command("solo")(answers(solo))
    group.command("corun")(answers(corun))


def telemetry(
    *,
    interval: Annotated[
        str, typer.Option("--interval", metavar="T", help="Between two looks, such as 50ms or 2s; 50ms at least.")
    ] = "1s",
    seconds: Annotated[
        float | None, typer.Option("--seconds", metavar="S", min=0.0, help="How long; until Ctrl-C when left out.")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="FILE.csv", dir_okay=False, help="Write a CSV instead of loading the recording."),
    ] = None,
    dataset: IntoOption = "own",
    db: DbOption = None,
    as_json: JsonOption = False,
) -> Answer:
    """Record what the GPUs say: use, memory, power, clocks, temperature, throttling, PCIe, processes."""
    from analysis.capture import telemetry as recorder
    from analysis.capture.readings import Reader

    path = out or folder_for(None, db, "telemetry") / "telemetry.csv"
    between = seconds_of(interval)
    recorder.check_interval(between)
    path.parent.mkdir(parents=True, exist_ok=True)
    reader = Reader()
    say(f"Recording to {path}; Ctrl-C ends it.")
    done = recorder.record_until_interrupted(reader, path, interval=between, seconds=seconds)
    files = [one for one in (path, recorder.processes_path(path)) if one.exists()]
    found = {
        "file": str(path), "samples": done.samples, "process_samples": done.process_samples, "gpus": list(done.gpus),
        "seconds": round(done.seconds, 3), "faults": list(done.faults),
    }  # fmt: skip
    reports, not_loaded = load(files, dataset, db) if out is None and done.samples else ([], None)
    if not done.samples and out is None:
        # A folder of its own, with a header and nothing else.
        shutil.rmtree(path.parent, ignore_errors=True)
    if not done.samples:
        not_loaded = "; ".join(done.faults) or "there is no GPU"

    def tell(screen: Screen) -> None:
        what = f"{done.samples:,} samples of {', '.join(done.gpus)}" if done.samples else "Nothing was recorded"
        screen.line(f"{what} in {done.seconds:.1f} s{f': {path}' if done.samples else ''}.", style="bold")
        for fault in done.faults:
            screen.line(fault, style="yellow")
        if not_loaded and done.samples:
            screen.line(f"Not loaded: {not_loaded} Then: stallscope import {path}", style="yellow")

    code = REFUSED if not_loaded else DONE
    return Answer({**found, "loaded": reports, "not_loaded": not_loaded}, tell, code)


def solo(
    command: CommandArgument,
    *,
    workload: Annotated[
        str | None, typer.Option("--workload", metavar="W", help="Name of the job; its program's when left out.")
    ] = None,
    throughput: ThroughputOption = None,
    pattern: PatternOption = None,
    per_line: PerLineOption = 1.0,
    unit: UnitOption = "it/s",
    seconds: SecondsOption = 20.0,
    warmup: WarmupOption = 5.0,
    repeats: RepeatsOption = 1,
    windows: WindowsOption = 2,
    device: DeviceOption = None,
    gpu: GpuNameOption = None,
    out: OutOption = None,
    dataset: IntoOption = "own",
    load_it: LoadOption = True,
    db: DbOption = None,
    as_json: JsonOption = False,
) -> Answer:
    """Measure a job alone: throughput with its interval, and peak memory."""
    from analysis.capture.corun import Timing
    from analysis.capture.plan import Plan
    from analysis.capture.process import JobSpec

    name = workload or Path(command[0]).stem
    (by,) = rates(1, throughput, pattern, per_line, unit)
    plan = Plan(
        {name: JobSpec(name, tuple(command), by)}, (), timing=Timing(seconds, warmup, windows=windows), repeats=repeats
    )
    return carried_out(plan, folder_for(out, db, "solo"), gpu, device, dataset, db, load_it=load_it)


def corun(
    command: Annotated[
        list[str],
        typer.Argument(metavar="-- COMMAND ::: COMMAND", help="The jobs' programs and arguments, with ::: between."),
    ],
    *,
    mechanism: Annotated[
        Mechanism, typer.Option("--mechanism", metavar="M", help="How they share the GPU: mps or time-slicing.")
    ] = Mechanism.mps,
    percent: Annotated[
        str | None,
        typer.Option("--percent", metavar="P,P", help="Active thread percentage of each client of MPS, such as 60,40."),
    ] = None,
    workload: Annotated[
        list[str] | None,
        typer.Option("--workload", metavar="W", help="Names of the jobs in the order of the commands; once for each."),
    ] = None,
    throughput: ThroughputOption = None,
    pattern: PatternOption = None,
    per_line: PerLineOption = 1.0,
    unit: UnitOption = "it/s",
    seconds: SecondsOption = 20.0,
    warmup: WarmupOption = 5.0,
    repeats: RepeatsOption = 1,
    windows: WindowsOption = 2,
    alone: Annotated[
        bool, typer.Option("--solo/--no-solo", help="Whether to measure each job alone first, for the slowdown.")
    ] = True,
    device: DeviceOption = None,
    gpu: GpuNameOption = None,
    out: OutOption = None,
    dataset: IntoOption = "own",
    load_it: LoadOption = True,
    db: DbOption = None,
    as_json: JsonOption = False,
) -> Answer:
    """Measure jobs side by side: each alone, then all in one aligned window; slowdown, outcome and memory of each.

    Under MPS a daemon of its own is started in a private pipe directory and ended; one that runs is never touched.
    """
    from analysis.capture.corun import Timing, refuse_profilers
    from analysis.capture.plan import Plan
    from analysis.capture.process import JobSpec

    commands = split(command)
    names = _names(commands, workload)
    ways = rates(len(commands), throughput, pattern, per_line, unit)
    jobs: dict[str, JobSpec] = {}
    for name, words, by in zip(names, commands, ways, strict=True):
        spec = JobSpec(name, tuple(words), by)
        if jobs.setdefault(name, spec) != spec:
            raise UsageError(f"two different commands are both called {name}", "Name each with --workload.")
    refuse_profilers([jobs[name] for name in names], mechanism.value)
    group = tuple(names)
    shares = _percents(percent, len(names), mechanism)
    plan = Plan(
        jobs, (group,), mechanism.value, Timing(seconds, warmup, windows=windows), repeats, solos=alone,
        percents={group: shares} if shares else {},
    )  # fmt: skip
    return carried_out(plan, folder_for(out, db, "corun"), gpu, device, dataset, db, load_it=load_it)


def carried_out(
    plan: Plan, folder: Path, gpu: str | None, device: int | None, dataset: str, db: Path | None, *, load_it: bool
) -> Answer:
    """Run a plan, load what it brought, and answer."""
    from analysis.capture.campaign import run

    done = run(plan, folder, gpu=gpu, device=device, say=say)
    reports, not_loaded = load(done.files, dataset, db) if load_it and done.files else ([], None)
    return Answer(
        document(done, reports, not_loaded),
        lambda screen: show(screen, done, not_loaded, dataset, loaded=bool(reports)),
        REFUSED if not_loaded or (not any(entry.measured.ran for entry in done.entries) and done.entries) else DONE,
    )


def split(words: list[str]) -> list[list[str]]:
    """Split a command line at ``:::``.

    Raises
    ------
    UsageError
        If there are not two commands or more, or one is empty.
    """
    commands: list[list[str]] = [[]]
    for word in words:
        if word == BETWEEN:
            commands.append([])
        else:
            commands[-1].append(word)
    # A whole command given as one word, as programs that make command lines like to.
    commands = [shlex.split(one[0]) if len(one) == 1 and " " in one[0] else one for one in commands]
    if len(commands) < 2 or not all(commands):
        raise UsageError(
            f"a co-run needs two commands or more with {BETWEEN} between them",
            "Write `-- COMMAND_1 ::: COMMAND_2`; a job alone is measured by `stallscope capture solo`.",
        )
    return commands


def _names(commands: list[list[str]], given: list[str] | None) -> list[str]:
    if given and len(given) != len(commands):
        raise UsageError(f"there are {len(commands)} commands and {len(given)} names", "Give --workload once for each.")
    if given:
        return given
    names: list[str] = []
    known: dict[tuple[str, ...], str] = {}
    for words in commands:
        stem = next((Path(word).stem for word in words if word.endswith(".py")), Path(words[0]).stem)
        taken = set(known.values())
        name = next(one for one in (stem, *(f"{stem}-{n}" for n in range(2, 100))) if one not in taken)
        names.append(known.setdefault(tuple(words), name))
    return names


def _percents(text: str | None, count: int, mechanism: Mechanism) -> tuple[float | None, ...]:
    if text is None:
        return ()
    if mechanism is not Mechanism.mps:
        raise UsageError("--percent limits clients of MPS", "Leave it out, or use --mechanism mps.")
    try:
        shares = [float(part) for part in text.split(",")]
    except ValueError as error:
        raise UsageError(f"--percent {text!r} is no list of numbers", "Write it as 60,40.") from error
    if len(shares) != count or not all(0 < share <= 100 for share in shares):
        raise UsageError(f"--percent {text!r} does not fit {count} jobs", "Give one of 1 to 100 for each job.")
    return tuple(shares)


def seconds_of(text: str) -> float:
    """Read a length of time, such as ``50ms``, ``0.5`` or ``2s``.

    Raises
    ------
    UsageError
        If it is none.
    """
    found = re.fullmatch(r"([\d.]+)\s*(ms|s)?", text.strip())
    try:
        return float(found[1]) / (1000 if found[2] == "ms" else 1)  # type: ignore[index]
    except (TypeError, ValueError) as error:
        raise UsageError(f"{text!r} is no length of time", "Write 50ms or 2s.") from error
