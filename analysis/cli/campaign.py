"""Commands around measuring: whole campaigns, the profiler's line, StallScope's own data."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from analysis.cli import capture
from analysis.cli.capture import (
    CommandArgument,
    DeviceOption,
    GpuNameOption,
    IntoOption,
    LoadOption,
    OutOption,
    document,
    folder_for,
    load,
    say,
    show,
)
from analysis.cli.options import DbOption, JsonOption
from analysis.cli.running import DONE, REFUSED, Answer, answers
from analysis.errors import UsageError

if TYPE_CHECKING:
    from analysis.cli.screen import Screen


def register(app: typer.Typer) -> None:
    """Add `stallscope capture` with all its commands."""
    group = typer.Typer(
        help="Measure on this machine's GPU: telemetry, jobs alone and side by side, whole campaigns.",
        no_args_is_help=True,
    )
    capture.register(group)
    group.command("ncu-command")(answers(ncu_command))
    group.command("campaign")(answers(campaign))
    group.command("own-data")(answers(own_data))
    app.add_typer(group, name="capture")


def ncu_command(
    command: CommandArgument,
    *,
    cc: Annotated[
        str | None,
        typer.Option("--cc", metavar="C", help="Compute capability, such as 8.0; this GPU's when left out."),
    ] = None,
    skip: Annotated[int, typer.Option("--skip", metavar="N", min=0, help="Launches to pass over first.")] = 50,
    count: Annotated[int, typer.Option("--count", metavar="N", min=1, help="Launches to profile.")] = 200,
    log: Annotated[
        str, typer.Option("--log", metavar="FILE.csv", help="File that the profiler writes.")
    ] = "profile.csv",
    device: DeviceOption = None,
    as_json: JsonOption = False,
) -> Answer:
    """Print the profiler's exact line for a job on this GPU: stall reasons, counters, and few enough launches.

    Refuses where the job would be a client of MPS: its counters would be those of all clients.
    """
    from analysis.capture import machine, ncu
    from analysis.capture.corun import refuse_profilers
    from analysis.capture.process import JobSpec
    from analysis.capture.readings import Reader

    if capture.BETWEEN in command:
        parts = [JobSpec("the first command", ("ncu", *capture.split(command)[0]))]
        refuse_profilers(parts, "a co-run")
    ncu.refuse_beside_mps()
    gpu = None
    if cc is None:
        reader = Reader()
        found = machine.device_of(reader.snapshot(), machine.device_index(device))
        reader.close()
        if found is None or not found.cc:
            raise UsageError("the driver does not tell the GPU's compute capability", "Give it with --cc, such as 8.0.")
        cc, gpu = found.cc, found.name
    words = ncu.command(command, cc, skip=skip, count=count, log=log)
    line = ncu.shown(words)
    found_out: dict[str, Any] = {"line": line, "words": words, "compute_capability": cc, "gpu": gpu, "log": log}
    return Answer(found_out, lambda screen: screen.line(line))


def campaign(
    file: Annotated[
        Path, typer.Argument(metavar="FILE.toml", dir_okay=False, help="Jobs, sets, lengths; see the guide.")
    ],
    *,
    minutes: Annotated[
        float | None,
        typer.Option("--minutes", metavar="M", min=0.0, help="Time for this session; else that of the file."),
    ] = None,
    device: DeviceOption = None,
    gpu: GpuNameOption = None,
    out: OutOption = None,
    dataset: IntoOption = "own",
    load_it: LoadOption = True,
    db: DbOption = None,
    as_json: JsonOption = False,
) -> Answer:
    """Measure what a file names: every job alone, all pairs, chosen sets; most informative first, within its time.

    Interrupted or killed, the same command goes on where it was.
    """
    from dataclasses import replace

    from analysis.capture.plan import read_plan

    plan = read_plan(file)
    if minutes is not None:
        plan = replace(plan, budget=minutes * 60)
    folder = out or file.with_suffix("")
    return capture.carried_out(plan, folder, gpu, device, dataset, db, load_it=load_it)


def own_data(
    *,
    pack: Annotated[
        Path | None,
        typer.Option(
            "--pack", metavar="FILE.pyz", dir_okay=False,
            help="Write the campaign as one file for a machine with Python, torch, nvidia-ml-py and ncu only.",
        ),
    ] = None,
    minutes: Annotated[float, typer.Option("--minutes", metavar="M", min=0.0, help="Time for all of it.")] = 10.0,
    profiles: Annotated[bool, typer.Option("--profiles/--no-profiles", help="Whether to profile by ncu first.")] = True,
    device: DeviceOption = None,
    gpu: GpuNameOption = None,
    out: OutOption = None,
    dataset: IntoOption = "own",
    load_it: LoadOption = True,
    db: DbOption = None,
    as_json: JsonOption = False,
) -> Answer:  # fmt: skip
    """Measure eight small PyTorch jobs: profiles, each alone, all 36 pairs under MPS, a dozen larger sets.

    Needs PyTorch in this Python; with --pack it writes the campaign as one file to copy to a GPU machine instead.
    """
    if pack is not None:
        from analysis.capture.pack import pack as write

        size = write(pack)
        return Answer(
            {"file": str(pack), "bytes": size},
            lambda screen: screen.line(
                f"{pack}, {size:,} bytes. On the GPU machine: python3 {pack.name} --out own-data"
            ),
        )
    from analysis.capture import owndata

    owndata.check_torch()
    folder = folder_for(out, db, "own-data")
    done = owndata.campaign(folder, minutes=minutes, device=device, gpu=gpu, profiles=profiles, say=say)
    wanted = [*(path for job in owndata.JOBS if (path := folder / f"{job}.csv").exists()), *done.files]
    reports, not_loaded = load(wanted, dataset, db) if load_it else ([], None)

    def tell(screen: Screen) -> None:
        show(screen, done, not_loaded, dataset, loaded=bool(reports))

    return Answer(document(done, reports, not_loaded), tell, REFUSED if not_loaded else DONE)
