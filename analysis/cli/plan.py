"""Commands that decide where jobs go: plan, may-join, split, and what deciding by predictions is worth."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from analysis.cli.options import (
    DatasetOption,
    DbOption,
    GpuOption,
    JsonOption,
    LimitOption,
    MaybeDatasetOption,
    MaybeMechanismOption,
)
from analysis.cli.running import Answer, answers, opened, progress_line
from analysis.errors import UsageError
from analysis.reference.mechanism_names import MPS

if TYPE_CHECKING:
    from analysis.cli.screen import Screen
    from analysis.plan.planner import Answer as PlanAnswer
    from analysis.plan.planner import Joining
    from analysis.plan.split import Sweep

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
    app.command("split")(answers(split))
    app.command("headroom")(answers(headroom))


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
    class_limit: Annotated[
        list[str] | None,
        typer.Option("--class-limit", metavar="C=L", help="A limit for the jobs of a class; once for each class."),
    ] = None,
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
            class_limits=_limits(class_limit or []), time_limit=time_limit, progress=progress_line(),
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


def _limits(words: list[str]) -> dict[str, float]:
    """Read ``serving=1.1``."""
    found: dict[str, float] = {}
    for word in words:
        name, _, number = word.rpartition("=")
        try:
            found[name.strip()] = float(number)
        except ValueError:
            found[name.strip()] = 0.0
        if not name.strip() or not found[name.strip()] >= 1:
            raise UsageError(f"--class-limit {word} names no class and limit", "Write it like serving=1.1.")
    return found


def _show(screen: Screen, found: PlanAnswer, document: dict[str, Any], written: list[Path]) -> None:
    from analysis.plan import wording
    from analysis.predict.models import missing
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
        "unknown/sets", "gpus_used",
        stp={"low": "stp_low", "high": "stp_high"}, antt={"low": "antt_low", "high": "antt_high"},
    )  # fmt: skip
    screen.table(wording.compared(found), columns)
    if told := found.survey.in_words():
        screen.line(told)
    for workload in found.survey.peaks[:3]:
        screen.line(f"Peak memory of {workload}: {missing.PEAK}")
    for number, one in enumerate(found.survey.proposals, start=1):
        screen.line(f"Measure {number}: {' beside '.join(one.workloads)} on {one.gpu}. {one.why}")
        screen.line(f"  {one.command}")
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


def split(
    *,
    gpu: GpuOption,
    job: Annotated[
        list[str], typer.Option("--job", metavar="W", help="A workload that gets a part of the GPU; once for each.")
    ],
    limit: LimitOption,
    dataset: MaybeDatasetOption = None,
    mechanism: Annotated[
        str,
        typer.Option("--mechanism", metavar="M", help="What cuts the GPU: CUDA MPS, static SM partition, or MIG."),
    ] = MPS,
    reserve: _Reserve = 0.05,
    db: DbOption = None,
    as_json: JsonOption = False,
) -> Answer:
    """Say which thread percentages or MIG profiles serve jobs on one GPU best, and which job's line sets it."""
    from analysis.plan.split import split_gpu

    with opened(db) as database:
        found = split_gpu(database, gpu, job, dataset=dataset, mechanism=mechanism, limit=limit, reserve=reserve)
    return Answer(found.to_json(), lambda screen: _show_split(screen, found))


def _show_split(screen: Screen, found: Sweep) -> None:
    from analysis.report.table import columns_of

    screen.line(found.sentence(), style="bold")
    screen.line(f"{found.verdict}: {found.why}")
    columns = columns_of("setting", "slowdowns", "worst", "stp", "fairness", "memory", "evidence")
    screen.table(found.table(), columns)


def headroom(*, dataset: DatasetOption, limit: LimitOption, db: DbOption = None, as_json: JsonOption = False) -> Answer:
    """Say what placing by out-of-fold predictions takes of what pairing can gain, beside simple rules."""
    from analysis.plan.headroom import in_words, worth

    with opened(db) as database:
        found = worth(database, dataset, limit=limit)
    rows = [one.row() for one in found]

    def show(screen: Screen) -> None:
        from analysis.report.table import columns_of

        screen.line(in_words(found), style="bold")
        columns = columns_of(
            "title/pairing", "protocol", "sets/eight", "antt_taken", "stp_taken", "best_partner", "precision/share",
            "recall", "antt_without", "stp_without", antt_taken={"low": "antt_taken_low", "high": "antt_taken_high"},
            stp_taken={"low": "stp_taken_low", "high": "stp_taken_high"},
        )  # fmt: skip
        screen.table(rows, columns)

    return Answer(rows, show)
