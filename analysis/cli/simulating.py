"""Commands of the simulator: the sample, and co-runs of its jobs under any mechanism."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from analysis.cli.options import DbOption, JobsOption, JsonOption
from analysis.cli.running import Answer, answers, opened
from analysis.cli.simulatedrun import GpuArgument, UnusedDb, run

if TYPE_CHECKING:
    from analysis.cli.screen import Screen


def register(app: typer.Typer) -> None:
    """Add the commands of this module."""
    group = typer.Typer(
        help="Simulate co-runs by queueing theory; everything it makes is labelled simulated.", no_args_is_help=True
    )
    group.command("sample")(answers(sample))
    group.command("load")(answers(load))
    group.command("remove")(answers(remove))
    group.command("run")(answers(run))
    group.command("online")(answers(online))
    group.command("workloads")(answers(workloads))
    group.command("plausibility")(answers(plausibility))
    app.add_typer(group, name="simulate")


def sample(
    *,
    out: Annotated[
        Path, typer.Option("--out", metavar="DIR", file_okay=False, help="Where to write it; made when missing.")
    ] = Path("stallscope-sample"),
    seed: Annotated[
        int | None, typer.Option("--seed", help="Seed of the sets and the scatter; by default that of the shipped one.")
    ] = None,
    gpu: Annotated[list[str] | None, typer.Option("--gpu", metavar="G", help="Only this GPU; may be repeated.")] = None,
    db: UnusedDb = None,
    as_json: JsonOption = False,
) -> Answer:
    """Write the sample: profiles, co-runs and figures of 24 jobs. The same seed gives the same bytes."""
    from analysis.sharing.sample import GPUS, SEED, write_sample

    paths = write_sample(out, SEED if seed is None else seed, gpu or GPUS)
    files = [{"file": str(path), "bytes": path.stat().st_size} for path in paths]

    def show(screen: Screen) -> None:
        from analysis.report.table import column

        screen.table(files, [column("file", "file"), column("bytes", "bytes", "count")])
        screen.line(f"Simulated; `stallscope import {out} --dataset NAME` loads it, marked as such.")

    return Answer(files, show)


def load(*, db: DbOption = None, as_json: JsonOption = False) -> Answer:
    """Load the simulated sample that ships with StallScope into the data set ``sample``."""
    from analysis.sharing.sample import load as load_sample

    with opened(db, must_exist=False) as database:
        reports = load_sample(database)
    rows = [report.model_dump(mode="json", exclude={"report"}) for report in reports]

    def show(screen: Screen) -> None:
        from analysis.report.table import column

        screen.table(
            rows, [column("file", "file"), column("status", "status"), column("rows_loaded", "rows", "count"),
                   column("launches", "launches", "count"), column("runs", "co-runs", "count")],
        )  # fmt: skip

    return Answer(rows, show)


def remove(*, db: DbOption = None, as_json: JsonOption = False) -> Answer:
    """Remove the simulated sample; no start brings it back, only `simulate load`."""
    from analysis.sharing.sample import remove as remove_sample

    with opened(db) as database:
        count = remove_sample(database)
    return Answer({"removed": count}, lambda screen: screen.line(f"{count} simulated sources removed."))


def online(*, gpu: GpuArgument, job: JobsOption, db: UnusedDb = None, as_json: JsonOption = False) -> Answer:
    """Predict slowdowns from the stalls of the co-run itself, which only a simulator can see; a yardstick, no rival."""
    from analysis.sharing.online import beside_truth
    from analysis.sharing.simulate import Simulator
    from analysis.sharing.workloads import sample_workloads

    simulator = Simulator(gpu, sample_workloads())
    rows = beside_truth(simulator, job)

    def show(screen: Screen) -> None:
        from analysis.report.table import column

        if rows.empty:
            screen.line("They do not fit into memory together.")
            return
        columns = [column("workload", "job"), column("slowdown", "S, simulated", "ratio")]
        columns += [column("online", "S, read online", "ratio"), column("label", "what it is", "prose")]
        screen.table(rows, columns, title=f"Simulated on {simulator.machine.name} under CUDA MPS")
        screen.line(
            "Profilers can't see stalls under CUDA MPS: the online variant exists for simulated data only and is never "
            "ranked beside predictors that know the jobs alone."
        )

    return Answer(rows, show)


def workloads(*, gpu: GpuArgument = "A100-80GB", db: UnusedDb = None, as_json: JsonOption = False) -> Answer:
    """List the simulated jobs with their step, duty cycle and memory on a GPU."""
    from analysis.sharing.simulate import Simulator
    from analysis.sharing.workloads import sample_workloads

    simulator = Simulator(gpu, sample_workloads())
    rows = [
        {
            "workload": workload.name,
            "phase": workload.phase,
            "step_ms": simulator.step_ms(workload.name),
            "duty": 100 * simulator.duty(workload.name),
            "memory_mib": workload.memory_mib,
            "fits": simulator.fits(workload.name),
            "simulated": True,
        }
        for workload in sample_workloads()
    ]

    def show(screen: Screen) -> None:
        from analysis.report.table import column

        screen.table(
            rows,
            [
                column("workload", "job"), column("phase", "phase"), column("step_ms", "step, ms", "number"),
                column("duty", "GPU busy", "percent"), column("memory_mib", "memory, MiB", "count"),
                column("fits", "fits", "flag"),
            ],
            title=f"Simulated on {simulator.machine.name}",
        )  # fmt: skip

    return Answer(rows, show)


def plausibility(*, db: UnusedDb = None, as_json: JsonOption = False) -> Answer:
    """Compare the simulator with figures from the literature; the table of the guide."""
    from analysis.sharing.plausibility import table

    rows = [asdict(row) for row in table()]

    def show(screen: Screen) -> None:
        from analysis.report.table import column

        screen.table(
            rows,
            [
                column("claim", "claim", "prose"), column("literature", "literature", "prose"),
                column("simulated", "simulated", "prose"), column("holds", "holds", "flag"),
            ],
        )  # fmt: skip

    return Answer(rows, show)
