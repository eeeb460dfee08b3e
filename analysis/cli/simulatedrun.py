"""The command that co-runs jobs in the simulator, with an option for every setting of every mechanism."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from analysis.cli.options import JobsOption, JsonOption
from analysis.cli.running import Answer

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
        from analysis.report.table import column

        served = rows["p99_solo_ms"].notna().any()
        columns = [
            column("mechanism", "mechanism"), column("setting", "given"), column("workload", "job"),
            column("first", "first", "flag"), column("slowdown", "S", "ratio"),
        ]  # fmt: skip
        if served:
            columns += [
                column("p50_solo_ms", "p50 alone, ms", "number"), column("p50_ms", "p50 shared, ms", "number"),
                column("p99_solo_ms", "p99 alone, ms", "number"), column("p99_ms", "p99 shared, ms", "number"),
                column("step_p99_ms", "p99 of a step, ms", "number"),
            ]  # fmt: skip
        screen.table(rows, [*columns, column("outcome", "outcome")], title=f"Simulated on {simulator.machine.name}")
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
