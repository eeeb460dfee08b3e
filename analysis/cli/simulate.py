"""Commands of the simulator: the sample, and co-runs of its jobs under any mechanism."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from analysis.cli.options import DbOption, JobsOption, JsonOption
from analysis.cli.running import Answer, answers, opened

if TYPE_CHECKING:
    import pandas as pd

    from analysis.cli.screen import Screen
    from analysis.sharing.mechanisms import Mechanism


class Sharing(StrEnum):
    """Mechanisms that the simulator knows, by a short name for the command line."""

    mps = "mps"
    mps_priority = "mps-priority"
    time_slicing = "time-slicing"
    mig = "mig"
    mps_in_mig = "mps-in-mig"
    static = "static"
    tally = "tally"
    exclusive = "exclusive"
    every = "all"


GpuArgument = Annotated[
    str, typer.Option("--gpu", metavar="G", help="A GPU with published figures, such as V100 or A100-80GB.")
]
#: Every command takes ``--db``; those that only compute have no use for it.
UnusedDb = Annotated[
    Path | None, typer.Option("--db", metavar="FILE", help="Accepted as everywhere; this command touches no database.")
]

#: Which job goes first, in the words of the output and the help.
FIRST = "The first --job goes first where a mechanism has priorities."


@dataclass(frozen=True)
class Given:
    """What the user gave for a mechanism; None and empty where nothing."""

    percentage: tuple[float, ...] = ()
    memory_cap: tuple[float, ...] = ()
    profile: tuple[str, ...] = ()
    instance: tuple[int, ...] = ()
    quantum_ms: float | None = None
    switch_ms: float | None = None
    turnaround_us: float | None = None


#: Which mechanisms take which option.
_TAKES = {
    "percentage": (Sharing.mps, Sharing.static),
    "memory_cap": (Sharing.mps,),
    "profile": (Sharing.mig, Sharing.mps_in_mig),
    "instance": (Sharing.mig, Sharing.mps_in_mig),
    "quantum_ms": (Sharing.time_slicing,),
    "switch_ms": (Sharing.time_slicing,),
    "turnaround_us": (Sharing.tally,),
}


def run(
    *,
    gpu: GpuArgument,
    job: JobsOption,
    mechanism: Annotated[
        Sharing, typer.Option("--mechanism", metavar="M", help="One of: " + ", ".join(Sharing) + ".")
    ] = Sharing.mps,
    percentage: Annotated[
        list[float] | None,
        typer.Option("--percentage", metavar="P", help="Share of the SMs of each job (mps, static), in their order."),
    ] = None,
    memory_cap: Annotated[
        list[float] | None,
        typer.Option("--memory-cap", metavar="MIB", help="Memory limit of each job (mps), in their order."),
    ] = None,
    profile: Annotated[
        list[str] | None,
        typer.Option(
            "--profile",
            metavar="P",
            help="MIG profile of each job (mig, mps-in-mig), in their order; 1c.3g.40gb is a compute instance.",
        ),
    ] = None,
    instance: Annotated[
        list[int] | None,
        typer.Option(
            "--instance", metavar="N", help="Number of each job's GPU instance (mig, mps-in-mig); equal ones share it."
        ),
    ] = None,
    quantum_ms: Annotated[
        float | None, typer.Option("--quantum-ms", metavar="MS", help="Length of a slice (time-slicing).")
    ] = None,
    switch_ms: Annotated[
        float | None, typer.Option("--switch-ms", metavar="MS", help="What a change of slices costs (time-slicing).")
    ] = None,
    turnaround_us: Annotated[
        float | None,
        typer.Option("--turnaround-us", metavar="US", help="Time until best-effort blocks have left the SMs (tally)."),
    ] = None,
    noise: Annotated[
        bool, typer.Option("--noise/--no-noise", help="Scatter the co-run values as a measurement would.")
    ] = False,
    solo_bias: Annotated[
        bool, typer.Option("--solo-bias/--no-solo-bias", help="Put the error of a campaign's solo baselines in.")
    ] = False,
    seed: Annotated[int, typer.Option("--seed", metavar="N", help="Seed of --noise and --solo-bias.")] = 2026,
    db: UnusedDb = None,
    as_json: JsonOption = False,
) -> Answer:
    """Co-run jobs of the sample; the first --job goes first where a mechanism has priorities."""
    from analysis.sharing.compare import co_runs, members, shares_note
    from analysis.sharing.profile import Noise
    from analysis.sharing.simulate import Simulator
    from analysis.sharing.workloads import sample_workloads

    given = Given(
        tuple(percentage or ()), tuple(memory_cap or ()), tuple(profile or ()), tuple(instance or ()),
        quantum_ms, switch_ms, turnaround_us,
    )  # fmt: skip
    simulator = Simulator(gpu, sample_workloads())
    how = _mechanism(mechanism, given, len(job))
    runs = co_runs(simulator, job) if how is None else simulator.co_run([job], how)
    scatter = Noise(seed, run=Noise.run * noise, solo=Noise.solo * solo_bias) if noise or solo_bias else None
    rows = members(runs, scatter).assign(gpu=simulator.machine.name, simulated=True)
    notes = [FIRST] if rows["first"].any() else []
    notes += [shares_note(runs, len(job))] if not given.percentage else []

    def show(screen: Screen) -> None:
        from analysis.report.table import columns_of

        served = rows["p99_solo_ms"].notna().any()
        columns = [*columns_of("mechanism", "setting", "workload/job", "first", "slowdown")]  # fmt: skip
        if served:
            columns += [*columns_of("p50_solo_ms", "p50_ms", "p99_solo_ms", "p99_ms", "step_p99_ms")]  # fmt: skip
        screen.table(rows, [*columns, *columns_of("outcome")], title=f"Simulated on {simulator.machine.name}")
        for remark in dict.fromkeys(f"{w}, {m}: {n}." for w, m, n in _remarks(rows)):
            screen.line(remark)
        if served:
            screen.line("p50 and p99 of LLM prefill are times to the first token (TTFT); p99 of a step of LLM decoding "
                        "is the time per output token (TPOT).")  # fmt: skip
        for note in filter(None, notes):
            screen.line(note)

    return Answer(rows, show)


def _remarks(rows: pd.DataFrame) -> list[tuple[str, str, str]]:
    told = rows[rows["note"] != ""]
    return [(str(w), str(m), str(n)) for w, m, n in told[["workload", "mechanism", "note"]].to_numpy(dtype=object)]


def _mechanism(name: Sharing, given: Given, k: int) -> Mechanism | None:
    """Return the mechanism as the user set it; None for all of them."""
    from analysis.errors import UsageError
    from analysis.sharing import mechanisms

    for option, takers in _TAKES.items():
        if getattr(given, option) not in (None, ()) and name not in takers:
            flag = "--" + option.replace("_", "-")
            raise UsageError(
                f"{name.value} takes no {flag}", f"Use it with {' or '.join(taker.value for taker in takers)}."
            )
    for option in ("quantum_ms", "switch_ms", "turnaround_us"):
        value = getattr(given, option)
        if value is not None and (value < 0 or (option == "quantum_ms" and value == 0)):
            raise UsageError(f"a time of {value:g} is none", f"Give --{option.replace('_', '-')} a positive number.")
    if any(cap <= 0 for cap in given.memory_cap):
        raise UsageError("a memory limit lies at or below 0", "Give --memory-cap in MiB.")
    match name:
        case Sharing.mps:
            return mechanisms.CudaMps(given.percentage, given.memory_cap)
        case Sharing.mps_priority:
            return mechanisms.CudaMpsPriority()
        case Sharing.time_slicing:
            standard = mechanisms.TimeSlicing()
            quantum = standard.quantum_ms if given.quantum_ms is None else given.quantum_ms
            return mechanisms.TimeSlicing(quantum, standard.switch_ms if given.switch_ms is None else given.switch_ms)
        case Sharing.mig:
            if given.instance and not given.profile:
                raise UsageError("instances are numbered but not named", "Give the --profile of each job too.")
            return mechanisms.Mig(given.profile, given.instance)
        case Sharing.mps_in_mig:
            if not given.profile:
                raise UsageError("MPS inside MIG needs to know the instances", "Give the --profile of each job.")
            # Jobs of one profile share an instance where nothing else is said.
            groups = given.instance or tuple(given.profile.index(one) for one in given.profile)
            return mechanisms.MpsInsideMig(given.profile, groups)
        case Sharing.static:
            return mechanisms.StaticPartition(given.percentage)
        case Sharing.tally:
            if given.turnaround_us is None:
                return mechanisms.BlockPriority()
            return mechanisms.BlockPriority(turnaround_us=given.turnaround_us)
        case Sharing.exclusive:
            return mechanisms.Exclusive()
        case Sharing.every:
            return None


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
        from analysis.report.table import columns_of

        screen.table(files, columns_of("file", "bytes/file"))
        screen.line(f"Simulated; `stallscope import {out} --dataset NAME` loads it, marked as such.")

    return Answer(files, show)


def load(*, db: DbOption = None, as_json: JsonOption = False) -> Answer:
    """Load the simulated sample that ships with StallScope into the data set ``sample``."""
    from analysis.sharing.sample import load as load_sample

    with opened(db, must_exist=False) as database:
        reports = load_sample(database)
    rows = [report.model_dump(mode="json", exclude={"report"}) for report in reports]

    def show(screen: Screen) -> None:
        from analysis.report.table import columns_of

        screen.table(
            rows, [*columns_of("file", "status", "rows_loaded", "launches", "runs/coruns")],
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
        from analysis.report.table import columns_of

        if rows.empty:
            screen.line("They do not fit into memory together.")
            return
        columns = columns_of("workload/job", "slowdown/simulated", "online", "label")
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
        from analysis.report.table import columns_of

        screen.table(
            rows,
            columns_of("workload/job", "phase", "step_ms", "duty", "memory_mib", "fits"),
            title=f"Simulated on {simulator.machine.name}",
        )  # fmt: skip

    return Answer(rows, show)


def plausibility(*, db: UnusedDb = None, as_json: JsonOption = False) -> Answer:
    """Compare the simulator with figures from the literature; the table of the guide."""
    from analysis.sharing.plausibility import table

    rows = [asdict(row) for row in table()]

    def show(screen: Screen) -> None:
        from analysis.report.table import columns_of

        screen.table(
            rows,
            columns_of("claim", "literature", "simulated/said", "holds"),
        )  # fmt: skip

    return Answer(rows, show)
