"""Commands that compare predictors, ours and those made elsewhere: evaluate, folds, rank."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from analysis.cli.options import (
    DatasetOption,
    DbOption,
    FlaggedOption,
    JsonOption,
    MaybeDatasetOption,
    MaybeGpuOption,
    MaybeMechanismOption,
    Protocol,
    ProtocolOption,
)
from analysis.cli.running import Answer, answers, opened, progress_line
from analysis.errors import StallScopeError, UsageError, Where

if TYPE_CHECKING:
    import pandas as pd

    from analysis.cli.screen import Screen
    from analysis.predict.evaluate.comparison import Evaluation


#: The fields of one row, in the order of the documentation; the others follow.
EVALUATION_FIELDS = (
    "predictor", "protocol", "status", "fold_count", "n", "mape", "mape_folds", "median_ape", "p95_ape", "within_10",
    "spearman", "bias", "skill", "mape_ci", "coverage", "width",
)  # fmt: skip


_TrainGpuOption = Annotated[
    list[str] | None,
    typer.Option("--train-gpu", metavar="G", help="For unseen-gpu: train on this GPU; all others when left out."),
]
_RunsOption = Annotated[
    int | None, typer.Option("--runs", metavar="M", min=1, help="For few-shot: measured runs of the new family.")
]


def register(app: typer.Typer) -> None:
    """Add the commands of this module."""
    app.command("evaluate")(answers(evaluate))
    app.command("folds")(answers(folds))
    app.command("rank")(answers(rank))


def evaluate(
    *,
    dataset: DatasetOption,
    protocol: ProtocolOption,
    gpu: MaybeGpuOption = None,
    train_gpu: _TrainGpuOption = None,
    mechanism: MaybeMechanismOption = None,
    runs: _RunsOption = None,
    predictor: Annotated[
        list[str] | None,
        typer.Option(
            "--predictor", metavar="N", help="A predictor's name or your own package:Class; all when left out."
        ),
    ] = None,
    features: Annotated[
        list[str] | None,
        typer.Option(
            "--features", metavar="KIND", help="Let predictors see this kind alone: stalls, counters, duty cycle."
        ),
    ] = None,
    include_flagged: FlaggedOption = False,
    workers: Annotated[int, typer.Option("--workers", metavar="N", min=1, help="Folds computed at a time.")] = 1,
    cluster: Annotated[
        str | None,
        typer.Option("--cluster", metavar="ADDRESS", help="Compute on a Dask cluster that runs, tcp://host:port."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="Also write the table; .csv or .tex (LaTeX).")
    ] = None,
    db: DbOption = None,
    as_json: JsonOption = False,
) -> Answer:
    """Compare predictors on a data set's co-runs under one protocol, beside the baselines."""
    from analysis.predict.evaluate import execution as dask
    from analysis.predict.evaluate.evaluate import evaluate as run

    if out is not None:
        check(out)
    with opened(db) as database, dask.connected(cluster) as backend:
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
            evidence=features or None,
            n_jobs=workers if backend is None else -1,
            backend=backend,
        )
    if out is not None:
        write(out, found)
    about = {"gpus": found.gpus, "mechanisms": found.mechanisms, "simulated": found.simulated, "notes": found.notes}
    rows = [ordered(row) | about for row in found.rows]
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
    for note in found.notes:
        screen.line(note)
    records = comparison.records(found.rows)
    screen.table([row for row in records if row["mape"] is not None], comparison.COLUMNS)
    missing = comparison.missing_inputs(found.summary())
    if missing:
        screen.line(missing)


def folds(
    *,
    dataset: DatasetOption,
    protocol: ProtocolOption,
    out: Annotated[Path, typer.Option("--out", metavar="FILE", help="Where to; .csv or .parquet.")],
    gpu: MaybeGpuOption = None,
    train_gpu: _TrainGpuOption = None,
    mechanism: MaybeMechanismOption = None,
    runs: _RunsOption = None,
    include_flagged: FlaggedOption = False,
    db: DbOption = None,
    as_json: JsonOption = False,
) -> Answer:
    """Write the frame with a column for each fold, to try predictors of your own elsewhere."""
    from analysis.predict.evaluate import exchange

    with opened(db) as database:
        division = exchange.divide(
            database, dataset, protocol.value, gpu=gpu, train_gpus=train_gpu or None, runs=runs,
            include_flagged=include_flagged, mechanism=mechanism,
        )  # fmt: skip
    table = exchange.fold_table(division)
    exchange.write_table(table, out)
    divisions: list[dict[str, Any]] = [
        {
            "column": exchange.column_of(fold),
            "seed": fold.seed,
            "fold": fold.number,
            "held_out": fold.label,
            "train": len(fold.train),
            "test": len(fold.test),
        }
        for fold in division.folds
    ]
    document = {
        "file": str(out),
        "rows": len(table),
        "columns": [
            {"name": one.name, "meaning": one.meaning, "unit": one.unit} for one in division.frame.schema
        ],
        "folds": divisions,
    }  # fmt: skip

    def show(screen: Screen) -> None:
        from analysis.report.table import columns_of

        screen.line(f"{len(table):,} rows and {len(division.folds)} folds written to {out}.", style="bold")
        for note in division.notes:
            screen.line(note)
        screen.line(
            "Predict each row marked test from the rows marked train, and give the result as a table with the columns "
            "seed, fold, run_id, slot, predicted to `stallscope rank`."
        )
        screen.table(divisions, columns_of("column", "held_out", "train", "test"))

    return Answer(document, show)


def rank(
    *,
    predictions: Annotated[
        Path,
        typer.Option("--predictions", metavar="FILE", help="CSV or Parquet: seed, fold, run_id, slot, predicted."),
    ],
    dataset: MaybeDatasetOption = None,
    protocol: Annotated[
        Protocol | None, typer.Option("--protocol", metavar="P", help="As for evaluate; else the file's own column.")
    ] = None,
    gpu: MaybeGpuOption = None,
    train_gpu: _TrainGpuOption = None,
    mechanism: MaybeMechanismOption = None,
    runs: _RunsOption = None,
    include_flagged: FlaggedOption = False,
    db: DbOption = None,
    as_json: JsonOption = False,
) -> Answer:
    """Put predictions made elsewhere beside ours; the options are those that the folds were made with."""
    from analysis.predict.evaluate import exchange

    given = exchange.read_predictions(predictions)
    dataset = dataset or _named(given, "dataset")
    division_name = protocol.value if protocol is not None else _named(given, "protocol")
    with opened(db) as database:
        division = exchange.divide(
            database, dataset, division_name, gpu=gpu, train_gpus=train_gpu or None, runs=runs,
            include_flagged=include_flagged, mechanism=mechanism,
        )  # fmt: skip
        found = exchange.rank(database, division, given, progress_line())
    rows = [ordered(row) for row in found]

    def show(screen: Screen) -> None:
        from analysis.report import comparison

        screen.line(f"{dataset}, protocol {division_name}, the best first.", style="bold")
        screen.table([row for row in comparison.records(found) if row["mape"] is not None], comparison.COLUMNS)

    return Answer(rows, show)


def _named(given: pd.DataFrame, column: str) -> str:
    """Return the one value of a column that stands in for an option."""
    found = sorted(set(given[column].astype(str))) if column in given else []
    if len(found) != 1:
        raise UsageError(
            f"which {column} the predictions are for is not said",
            f"Give --{column}, or a column {column} with one value in the file.",
        )
    return found[0]


def check(path: Path) -> None:
    """Refuse an ending that is neither .csv nor .tex, before anything is computed.

    Raises
    ------
    UsageError
        With the endings that there are.
    """
    if path.suffix.lower() not in (".csv", ".tex"):
        raise UsageError(f"a comparison can't be written as {path.suffix!r}", "End the file name in .csv or .tex.")


def write(path: Path, found: Evaluation) -> None:
    """Write the comparison's table, every figure as CSV or what a page shows as LaTeX.

    Raises
    ------
    StallScopeError
        If the file can't be written.
    """
    from analysis.report.comparison import records
    from analysis.report.latex import comparison_latex
    from analysis.report.spreadsheet import csv_bytes

    try:
        if path.suffix.lower() == ".tex":
            path.write_text(comparison_latex(found.summary()), encoding="utf-8")
        else:
            import pandas as pd

            table = pd.DataFrame(records(found.rows)).drop(columns=["mape_ci"])
            path.write_bytes(csv_bytes(table))
    except OSError as error:
        raise StallScopeError(
            f"the table can't be written: {error.strerror or error}", "Name a file in a folder that exists.",
            Where(str(path)),
        ) from error  # fmt: skip
