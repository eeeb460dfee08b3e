"""Commands that ask a model about a set of jobs: predict, explain."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from analysis.cli.options import (
    DbOption,
    GpuOption,
    JobsOption,
    JsonOption,
    LimitOption,
    MaybeMechanismOption,
    MaybeModelOption,
    ModelOption,
    ThreadsOption,
)
from analysis.cli.running import Answer, answers, opened

if TYPE_CHECKING:
    from analysis.cli.screen import Screen
    from analysis.predict.explain.explain import Explanation
    from analysis.predict.models.jobs import JobPrediction
    from analysis.store.database import Database

#: Sets that a terminal shows; the JSON holds all.
_MOST = 40

_JobsDataset = Annotated[
    str | None,
    typer.Option(
        "--dataset", metavar="D", help="Data set that holds the jobs' profiles; the model's own when left out."
    ),
]


def register(app: typer.Typer) -> None:
    """Add the commands of this module."""
    app.command("predict")(answers(predict))
    app.command("explain")(answers(explain))


def predict(
    *,
    gpu: GpuOption,
    model: MaybeModelOption = None,
    job: Annotated[
        list[str] | None,
        typer.Option("--job", metavar="W", help="A workload that shares the GPU; once for each job, twice for a twin."),
    ] = None,
    sets: Annotated[
        Path | None,
        typer.Option(
            "--sets", metavar="FILE", help="Ask about every set of a CSV or Parquet file: a row a set, or a row a job."
        ),
    ] = None,
    limit: LimitOption,
    mechanism: MaybeMechanismOption = None,
    threads: ThreadsOption = None,
    dataset: _JobsDataset = None,
    db: DbOption = None,
    as_json: JsonOption = False,
) -> Answer:
    """Say what each job of a set pays for sharing, measured or predicted, and whether they may share."""
    from analysis.errors import UsageError
    from analysis.predict.models.activemodel import answering
    from analysis.predict.models.models import predict as run

    if (sets is None) == (not job):
        raise UsageError("predict needs a set of jobs", "Name the jobs with --job, or a file of sets with --sets.")
    if model is None and dataset is None:
        raise UsageError("neither a model nor a data set is named", "Give --model, or --dataset with the jobs.")
    with opened(db) as database:
        asked = model or answering(database, str(dataset))
        if sets is not None:
            if threads:
                raise UsageError("thread percentages are given for one set", "Leave --threads out with --sets.")
            return _many(database, asked, gpu, sets, mechanism, limit)
        found = run(database, asked, gpu, job or [], mechanism, dataset, threads, limit)
    return Answer([one.to_json() for one in found], lambda screen: _show_predictions(screen, found))


def _many(database: Database, model: str, gpu: str, file: Path, mechanism: str | None, limit: float) -> Answer:
    """Answer about every set of a file."""
    from collections import Counter

    from analysis.predict.models.many import answers as answer_all
    from analysis.predict.models.setsfile import read_sets

    listed = read_sets(file)
    found = answer_all(database, model, gpu, [jobs for _, jobs in listed], mechanism, limit)
    rows = [{"set": name} | one.to_json() for (name, _), one in zip(listed, found, strict=True)]

    def show(screen: Screen) -> None:
        from analysis.report.table import columns_of

        counts = Counter(one.decision.verdict for one in found)
        said = ", ".join(f"{word} for {number:,}" for word, number in counts.most_common())
        screen.line(f"{len(found):,} sets at {limit:g} x: {said}.", style="bold")
        columns = columns_of("set", "named", "verdict", "worst", "within_limit", "evidence", "n", "memory")
        screen.table([row | {"named": " + ".join(row["jobs"])} for row in rows[:_MOST]], columns)
        if len(rows) > _MOST:
            screen.line(f"and {len(rows) - _MOST:,} more; --json has all.")

    return Answer(rows, show)


def _show_predictions(screen: Screen, found: list[JobPrediction]) -> None:
    from analysis.reference import origin
    from analysis.report.table import columns_of

    first = found[0]
    screen.line(f"{first.verdict} (limit {first.limit:g} x): {first.why}", style="bold")
    rows = [one.to_json() | {"evidence": origin.evidence(one.evidence, simulated=one.simulated)} for one in found]
    columns = columns_of(
        "workload/job", "slowdown", "low/interval", "high/interval", "coverage/level", "measured", "evidence", "memory",
        "within_limit", "extrapolating", slowdown={"low": "low", "high": "high"},
        measured={"label": origin.word(first.simulated)},
    )  # fmt: skip
    screen.table(rows, columns)
    for one in found:
        for text in one.reasons:
            screen.line(f"{one.workload}: beyond what the model has seen, {text}.")
        for text in one.missing:
            screen.line(f"{one.workload}: would help, {text}.")


def explain(
    *,
    model: ModelOption,
    gpu: GpuOption,
    job: JobsOption,
    mechanism: MaybeMechanismOption = None,
    threads: ThreadsOption = None,
    dataset: _JobsDataset = None,
    db: DbOption = None,
    as_json: JsonOption = False,
) -> Answer:
    """Say why a model predicts what it does for each job of a set; contributions are in ln S and add up."""
    from analysis.predict.explain.explain import explain as run
    from analysis.predict.models import models

    with opened(db) as database:
        found = run(database, model, gpu, job, mechanism, dataset, threads)
        predicted = models.predict(database, model, gpu, job, mechanism, dataset, threads)
    return Answer([one.to_json() for one in found], lambda screen: _show_explanations(screen, found, predicted))


def _show_explanations(screen: Screen, found: list[Explanation], predicted: list[JobPrediction]) -> None:
    """Show each sentence, what it is made of, that it adds up and how, and what was measured beside it."""
    from analysis.predict.frame.naming import OWNERS
    from analysis.report.table import columns_of

    columns = columns_of("feature", "value", "whose", "group", "factor", "shap")
    for one, said in zip(found, predicted, strict=True):
        screen.line(one.sentence, style="bold")
        table = one.table()
        screen.table(table.assign(whose=table["whose"].replace(dict(OWNERS))), columns)
        screen.line(
            f"{one.base:.4f} {table['shap'].sum():+.4f} = {one.prediction:.4f} in ln S, off by "
            f"{one.additivity_error:.0e}; {one.method}."
        )
        if said.measured is not None:
            word = "Simulated" if said.simulated else "Measured"
            gap = 100.0 * (one.slowdown / said.measured - 1.0)
            side = "above" if gap > 0 else "below"
            screen.line(f"{word}: {said.measured:.2f} x; the prediction is {abs(gap):.1f} % {side} it.")
        screen.line()
