"""The command that writes a report."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from analysis.cli.options import DbOption, JsonOption, LimitOption, MaybeDatasetOption, ThreadsOption
from analysis.cli.running import Answer, answers, opened
from analysis.errors import InputRefusedError, UsageError, Where

if TYPE_CHECKING:
    from analysis.cli.screen import Screen
    from analysis.report.document import ReportDocument


class Kind(StrEnum):
    """What a report is about."""

    dataset = "dataset"
    prediction = "prediction"
    comparison = "comparison"
    model = "model"
    stalls = "stalls"
    placement = "placement"
    witness = "witness"


def register(app: typer.Typer) -> None:
    """Add the commands of this module."""
    app.command("report")(answers(report))


def report(
    *,
    out: Annotated[
        Path,
        typer.Option(
            "--out", metavar="FILE", help="Where to; the ending decides: .html, .json, .csv, .parquet or .pdf."
        ),
    ],
    dataset: MaybeDatasetOption = None,
    kind: Annotated[Kind, typer.Option("--kind", metavar="K", help="One of: " + ", ".join(Kind) + ".")] = Kind.dataset,
    contents: Annotated[
        list[str] | None,
        typer.Option("--contents", metavar="PART", help="Only this part; may be repeated. `rows` adds every run."),
    ] = None,
    model: Annotated[
        str | None, typer.Option("--model", metavar="ID", help="Add a trained model's card and reasons.")
    ] = None,
    job: Annotated[
        list[str] | None, typer.Option("--job", metavar="W", help="A job for the model to predict; once for each.")
    ] = None,
    gpu: Annotated[
        list[str] | None,
        typer.Option("--gpu", metavar="G", help="Only this GPU; for a placement G=N, how many there are. Repeatable."),
    ] = None,
    jobs: Annotated[
        Path | None,
        typer.Option("--jobs", metavar="FILE", dir_okay=False, help="For a placement: the list of jobs, as for plan."),
    ] = None,
    mechanism: Annotated[
        list[str] | None, typer.Option("--mechanism", metavar="M", help="Only this mechanism; may be repeated.")
    ] = None,
    threads: ThreadsOption = None,
    limit: LimitOption,
    source: Annotated[
        Path | None,
        typer.Option("--from", metavar="FILE.json", dir_okay=False, help="Render a JSON report again instead."),
    ] = None,
    db: DbOption = None,
    as_json: JsonOption = False,
) -> Answer:
    """Write a report that can be handed on: of a data set, a set of jobs, a comparison, a model, or a job's stalls."""
    from analysis.report.render import renderer, write

    renderer(out)  # a wrong ending is said before anything is computed, and so is a set without jobs
    if source is None and kind.value == "prediction" and len(job or ()) < 2:
        raise UsageError("a report of kind prediction is about a set of jobs", "Name two or more with --job.")
    document = _read(source) if source is not None else None
    if document is None:
        if kind is Kind.witness:
            dataset = dataset or "witness"
        if dataset is None and model is None:
            raise UsageError("a report needs a data set", "Name it with --dataset, or a JSON report with --from.")
        from analysis.plan.jobs import read_jobs
        from analysis.predict.models.models import card
        from analysis.report.kinds import Wanted, make

        with opened(db) as database:
            wanted = Wanted(
                kind.value, dataset or card(database, str(model)).dataset, tuple(gpu or ()), tuple(mechanism or ()),
                model, tuple(job or ()), tuple(threads or ()), limit, tuple(contents or ()),
                read_jobs(jobs) if jobs is not None else None,
            )  # fmt: skip
            document = make(database, wanted)
    written = {"file": str(out), "bytes": write(document, out), "title": document.title, "kind": document.kind}

    def show(screen: Screen) -> None:
        for sentence in document.summary:
            screen.line(sentence)
        screen.line(f"Written to {out} ({written['bytes']:,} bytes).", style="bold")

    return Answer(written, show)


def _read(path: Path) -> ReportDocument:
    from analysis.report.render import from_json

    try:
        return from_json(path.read_bytes())
    except OSError as error:
        raise InputRefusedError(
            f"the report can't be read: {error.strerror or error}", "Check the path.", Where(str(path))
        ) from error
