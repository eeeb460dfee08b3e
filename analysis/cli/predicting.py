"""Commands that compare predictors: evaluate."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from analysis.cli.options import (
    DatasetOption,
    DbOption,
    FlaggedOption,
    JsonOption,
    MaybeGpuOption,
    MaybeMechanismOption,
    ProtocolOption,
)
from analysis.cli.running import Answer, answers, opened, progress_line

if TYPE_CHECKING:
    from analysis.cli.screen import Screen
    from analysis.predict.comparison import Evaluation

#: The fields of one row, in the order of the documentation; the others follow.
EVALUATION_FIELDS = (
    "predictor", "protocol", "status", "fold_count", "n", "mape", "mape_folds", "median_ape", "p95_ape", "within_10",
    "spearman", "bias", "skill", "mape_ci", "coverage", "width",
)  # fmt: skip


def register(app: typer.Typer) -> None:
    """Add the commands of this module."""
    app.command("evaluate")(answers(evaluate))


def evaluate(
    *,
    dataset: DatasetOption,
    protocol: ProtocolOption,
    gpu: MaybeGpuOption = None,
    train_gpu: Annotated[
        list[str] | None,
        typer.Option("--train-gpu", metavar="G", help="For unseen-gpu: train on this GPU; all others when left out."),
    ] = None,
    mechanism: MaybeMechanismOption = None,
    runs: Annotated[
        int | None, typer.Option("--runs", metavar="M", min=1, help="For few-shot: measured runs of the new family.")
    ] = None,
    predictor: Annotated[
        list[str] | None,
        typer.Option(
            "--predictor", metavar="N", help="A predictor's name or your own package:Class; all when left out."
        ),
    ] = None,
    include_flagged: FlaggedOption = False,
    workers: Annotated[int, typer.Option("--workers", metavar="N", min=1, help="Folds computed at a time.")] = 1,
    db: DbOption = None,
    as_json: JsonOption = False,
) -> Answer:
    """Compare predictors on a data set's co-runs under one protocol, beside the baselines."""
    from analysis.predict.evaluate import evaluate as run

    with opened(db) as database:
        found = run(
            database,
            dataset,
            protocol.value,
            predictors=predictor or None,
            gpu=gpu,
            train_gpus=train_gpu or None,
            runs=runs,
            include_flagged=include_flagged,
            progress=progress_line(),
            mechanism=mechanism,
            n_jobs=workers,
        )
    rows = [ordered(row) for row in found.rows]
    return Answer(rows, lambda screen: _show(screen, found))


def ordered(row: dict[str, object]) -> dict[str, object]:
    """Put the documented fields first."""
    return {name: row.get(name) for name in EVALUATION_FIELDS} | row


def _show(screen: Screen, found: Evaluation) -> None:
    from analysis.report import comparison

    screen.line(f"{found.dataset}, protocol {found.protocol}: {found.sentence}.", style="bold")
    screen.line(
        f"{found.n:,} members of {found.runs:,} runs of {found.workloads} workloads on {', '.join(found.gpus)} under "
        f"{', '.join(found.mechanisms)}{'; simulated' if found.simulated else ''}."
    )
    for reason, count in found.left_out.items():
        screen.line(f"Left out: {count:,} members ({reason}).")
    records = comparison.records(found.rows)
    screen.table([row for row in records if row["mape"] is not None], comparison.COLUMNS)
    missing = comparison.missing_inputs(found.summary())
    if missing:
        screen.line(missing)
