"""The command that says what to measure next."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from analysis.cli.options import DatasetOption, DbOption, JsonOption, LimitOption, MaybeGpuOption, MaybeMechanismOption
from analysis.cli.running import Answer, answers, opened, progress_line

if TYPE_CHECKING:
    from analysis.cli.screen import Screen
    from analysis.predict.advise.measure_next import Plan
    from analysis.predict.advise.next_check import NextCheck


def register(app: typer.Typer) -> None:
    """Add the commands of this module."""
    app.command("next")(answers(next_runs))


def next_runs(
    *,
    dataset: DatasetOption,
    workload: Annotated[
        str, typer.Option("--workload", metavar="W", help="The workload that is new, or known too little.")
    ],
    runs: Annotated[int, typer.Option("--runs", metavar="M", min=1, help="Co-runs to choose.")] = 5,
    gpu: MaybeGpuOption = None,
    mechanism: MaybeMechanismOption = None,
    limit: LimitOption,
    check: Annotated[
        bool,
        typer.Option(
            "--check", help="Also try the choice on every measured workload, as if it were new; takes longer."
        ),
    ] = False,
    db: DbOption = None,
    as_json: JsonOption = False,
) -> Answer:
    """Choose which co-runs of a workload to measure next: those that lower the error of its predictions most."""
    from analysis.predict.advise.measure_next import measure_next
    from analysis.predict.advise.next_check import check_choice

    with opened(db) as database:
        plan = measure_next(database, dataset, workload, runs, gpu, mechanism, progress_line(), limit)
        checked = (
            check_choice(database, dataset, plan.gpu, plan.mechanism, runs, progress_line()) if check else None
        )  # fmt: skip
    document: dict[str, Any] = plan.to_json()
    if checked is not None:
        document["check"] = checked.to_json()
    return Answer(document, lambda screen: _show(screen, plan, checked))


def _show(screen: Screen, plan: Plan, checked: NextCheck | None) -> None:
    from analysis.predict.advise.measure_next import in_words
    from analysis.predict.advise.next_check import in_words as check_in_words
    from analysis.report.table import columns_of

    screen.line(f"{in_words(plan)} Verdicts are at the limit of {plan.limit:g} x.", style="bold")
    columns = columns_of("rank", "co_workload", "verdict", "within_limit", "expected_error", "gain", "random_error")
    screen.table([vars(one) for one in plan.suggestions], columns)
    for note in plan.notes:
        screen.line(note)
    screen.line(f"Measure the first with: {plan.suggestions[0].command}")
    if checked is not None:
        screen.line(check_in_words(checked))
