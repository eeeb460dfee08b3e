"""Commands that decide where jobs go: plan, may-join."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from analysis.cli.options import (
    DbOption,
    GpuOption,
    JsonOption,
    LimitOption,
    MaybeDatasetOption,
    MaybeMechanismOption,
)
from analysis.cli.running import Answer, answers, opened, progress_line
from analysis.errors import UsageError

if TYPE_CHECKING:
    from analysis.cli.screen import Screen
    from analysis.plan.planner import Answer as PlanAnswer
    from analysis.plan.planner import Joining

#: The fields of a plan's document, in the order of the documentation; the others follow.
PLAN_FIELDS = (
    "placements", "stp", "antt", "worst", "within_limit", "gpus_used", "gap", "compared_with", "refused",
)  # fmt: skip


class Objective(StrEnum):
    """What a plan is best in."""

    stp = "stp"
    antt = "antt"
    worst = "worst"
    fairness = "fairness"
    gpus = "gpus"


class Risk(StrEnum):
    """Which figure of a prediction counts."""

    EXPECTED = "expected"
    UPPER = "upper"
    PROBABILITY = "probability"


_Model = Annotated[
    str | None,
    typer.Option("--model", metavar="ID", help="A trained model for what was not measured; none when left out."),
]
_Reserve = Annotated[
    float, typer.Option("--reserve", metavar="PART", help="Part of a GPU's memory that shared jobs leave free.")
]


def register(app: typer.Typer) -> None:
    """Add the commands of this module."""
    app.command("plan")(answers(plan))
    app.command("may-join")(answers(may_join))


def plan(
    *,
    gpu: Annotated[
        list[str], typer.Option("--gpu", metavar="G=N", help="GPUs of a kind and how many; once for each kind.")
    ],
    jobs: Annotated[
        Path,
        typer.Option(
            "--jobs", metavar="FILE", help="CSV, `sacct -P` output, `kubectl get pods -o json`, or the openb table."
        ),
    ],
    dataset: MaybeDatasetOption = None,
    model: _Model = None,
    mechanism: MaybeMechanismOption = None,
    limit: LimitOption,
    k: Annotated[int, typer.Option("--k", metavar="K", help="Most jobs on one GPU.")] = 2,
    objective: Annotated[
        Objective, typer.Option("--objective", metavar="O", help="One of: " + ", ".join(Objective) + ".")
    ] = Objective.stp,
    risk: Annotated[
        Risk, typer.Option("--risk", metavar="R", help="Which figure counts: " + ", ".join(Risk) + ".")
    ] = Risk.EXPECTED,
    reserve: _Reserve = 0.05,
    over_limit: Annotated[
        bool,
        typer.Option("--over-limit", help="Also share where the answer is not `share`, if the memory is known to fit."),
    ] = False,
    time_limit: Annotated[
        float, typer.Option("--time-limit", metavar="S", min=0.1, help="Seconds for the search.")
    ] = 30.0,
    export: Annotated[
        str | None,
        typer.Option("--export", metavar="TARGET", help="Also write files for a scheduler; `list` names the targets."),
    ] = None,
    out: Annotated[Path | None, typer.Option("--out", metavar="DIR", help="Folder for them.")] = None,
    gpu_list: Annotated[
        Path | None,
        typer.Option("--gpu-list", metavar="FILE", help="Output of `nvidia-smi -L`, for targets that name a GPU."),
    ] = None,
    gpus_per_node: Annotated[
        int, typer.Option("--gpus-per-node", metavar="N", min=1, help="For targets that set up whole nodes.")
    ] = 1,
    db: DbOption = None,
    as_json: JsonOption = False,
) -> Answer:
    """Say which jobs go together on which GPU, what that gains, and write it for a scheduler."""
    from analysis.plan import exports, planner
    from analysis.plan.jobs import read_jobs
    from analysis.plan.problem import parse_gpus

    target = exports.target(export) if export is not None else None
    if (export is None) != (out is None):
        raise UsageError("an export needs both a target and a folder", "Give --export TARGET with --out DIR.")
    with opened(db) as database:
        found = planner.make_plan(
            database, read_jobs(jobs), parse_gpus(gpu), dataset=dataset, model_id=model, mechanism=mechanism, k=k,
            limit=limit, objective=objective.value, risk=risk.value, reserve=reserve, over_limit=over_limit,
            time_limit=time_limit, progress=progress_line(),
        )  # fmt: skip
    document = found.to_json()
    written: list[Path] = []
    if target is not None and out is not None:
        settings = exports.Settings(
            found.plan_id, exports.read_gpu_list(gpu_list) if gpu_list is not None else (), gpus_per_node
        )
        made = exports.export(target.name, found.plan, settings)
        written = exports.write(made, out)
        document["export"] = {
            "target": target.name, "binding": made.binding, "files": [str(path) for path in written],
            "notes": list(made.notes),
        }  # fmt: skip
    return Answer(document, lambda screen: _show(screen, found, document, written))


def _show(screen: Screen, found: PlanAnswer, document: dict[str, Any], written: list[Path]) -> None:
    from analysis.plan import wording
    from analysis.report.table import columns_of

    screen.line(wording.answer(found), style="bold")
    columns = columns_of(
        "gpu", "job", "workload", "owner", "slowdown", "limit", "verdict/set", "within_limit", "evidence",
        slowdown={"low": "low", "high": "high"},
    )  # fmt: skip
    screen.table(wording.board(found.plan), columns)
    for one in document["refused"]:
        screen.line(f"{one['job']} waits. {one['why']}")
    columns = columns_of(
        "way", "stp", "antt", "worst", "fairness/gpu", "violations", "regret_stp", "regret_antt", "waiting",
        "gpus_used",
        stp={"low": "stp_low", "high": "stp_high"}, antt={"low": "antt_low", "high": "antt_high"},
    )  # fmt: skip
    screen.table(wording.compared(found), columns)
    for note in found.notes:
        screen.line(note)
    if written:
        how = "binding" if document["export"]["binding"] else "capacity only"
        screen.line(f"Written ({how}): {', '.join(str(path) for path in written)}.")
        for note in document["export"]["notes"]:
            screen.line(note)


def may_join(
    *,
    gpu: GpuOption,
    job: Annotated[str, typer.Option("--job", metavar="W", help="The workload that would join.")],
    running: Annotated[
        list[str] | None,
        typer.Option("--running", metavar="W", help="A workload that runs there; once for each, none for a free GPU."),
    ] = None,
    dataset: MaybeDatasetOption = None,
    model: _Model = None,
    mechanism: MaybeMechanismOption = None,
    limit: LimitOption,
    reserve: _Reserve = 0.05,
    db: DbOption = None,
    as_json: JsonOption = False,
) -> Answer:
    """Say whether one job may join what runs on a GPU."""
    from analysis.plan import planner

    with opened(db) as database:
        found = planner.may_join(
            database, gpu, running or [], job, dataset=dataset, model_id=model, mechanism=mechanism, limit=limit,
            reserve=reserve,
        )  # fmt: skip
    return Answer(found.to_json(), lambda screen: _show_joining(screen, found))


def _show_joining(screen: Screen, found: Joining) -> None:
    from analysis.report.table import columns_of

    screen.line(f"{found.verdict}: {found.why}", style="bold")
    columns = columns_of("workload/job", "slowdown", slowdown={"low": "low", "high": "high"})
    screen.table(list(found.members), columns)
