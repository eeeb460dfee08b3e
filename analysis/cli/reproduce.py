"""The command that repeats figures: KACE's evaluation and Gavel's setting beside sound ones, the witness's chapter."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from analysis.cli.options import DbOption, JsonOption
from analysis.cli.running import Answer, answers, opened, progress_line
from analysis.errors import UsageError

if TYPE_CHECKING:
    from analysis.cli.screen import Screen
    from analysis.plan.replay.gavel import Reproduction


class Published(StrEnum):
    """What can be reproduced."""

    kace = "kace"
    gavel = "gavel"
    witness = "witness"


def register(app: typer.Typer) -> None:
    """Add the command of this module."""
    app.command("reproduce")(answers(reproduce))


def reproduce(
    *,
    what: Annotated[Published, typer.Argument(metavar="WHAT", help="kace, gavel, or witness.")] = Published.kace,
    dataset: Annotated[
        str | None,
        typer.Option(
            "--dataset", metavar="D", help="Pairs with raw throughputs; kace, or gavel-sim for gavel, when left out."
        ),
    ] = None,
    predictor: Annotated[
        str, typer.Option("--predictor", metavar="N", help="gavel: whose out-of-fold predictions decide.")
    ] = "stallscope",
    rate: Annotated[
        list[float] | None,
        typer.Option("--rate", metavar="R", help="gavel: only these of the published jobs an hour."),
    ] = None,
    least_stp: Annotated[
        float, typer.Option("--least-stp", metavar="X", help="gavel: predicted STP above which jobs share.")
    ] = 1.5,
    protocol: Annotated[
        list[str] | None,
        typer.Option("--protocol", metavar="P", help="witness: only this protocol; may be repeated."),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="FILE", help="witness: also write the tables; .csv (one each) or .tex (LaTeX)."),
    ] = None,
    db: DbOption = None,
    as_json: JsonOption = False,
) -> Answer:
    """Repeat figures: KACE's evaluation or Gavel's setting beside sound ones, or what the witness says of stalls."""
    if what is Published.witness:
        return _witness(protocol or [], out)
    if protocol or out is not None:
        raise UsageError("--protocol and --out are about the witness", "Give them with `stallscope reproduce witness`.")
    if what is Published.gavel:
        return _gavel(dataset or "gavel-sim", predictor, rate or [], least_stp, db)
    if rate:
        raise UsageError("--rate is about gavel", "Give it with `stallscope reproduce gavel`.")
    from analysis.predict.evaluate.kace_as_published import in_words
    from analysis.predict.evaluate.kace_as_published import reproduce as run

    with opened(db) as database:
        found = run(database, dataset or "kace", progress=progress_line())
    rows: list[dict[str, Any]] = [{str(name): value for name, value in row.items()} for row in found.to_dict("records")]

    def show(screen: Screen) -> None:
        from analysis.report.comparison import AS_PUBLISHED

        screen.line(in_words(found), style="bold")
        screen.table(rows, AS_PUBLISHED)

    return Answer(rows, show)


def _witness(asked: list[str], out: Path | None) -> Answer:
    from analysis.predict.evaluate import witness
    from analysis.report import witness as told

    if out is not None:
        told.check(out)
    found = witness.run(asked or witness.PROTOCOLS, progress=progress_line())
    files = told.write(found, out) if out is not None else []

    def show(screen: Screen) -> None:
        screen.line(witness.in_words(found), style="bold")
        for made in told.tables(found).values():
            screen.line(f"{made.title}.", style="bold")
            screen.line(made.caption)
            keys = [column.key for column in made.columns]
            screen.table([dict(zip(keys, row, strict=True)) for row in made.rows], made.columns)
        for name in files:
            screen.line(f"Written to {name}.")

    return Answer({**found.to_json(), "files": files}, show)


def _gavel(dataset: str, predictor: str, rates: list[float], least_stp: float, db: Path | None) -> Answer:
    from analysis.plan.replay import gavel

    unknown = [rate for rate in rates if rate not in gavel.BEST_GPU]
    if unknown:
        published = ", ".join(f"{rate:g}" for rate in gavel.BEST_GPU)
        raise UsageError(f"no figure is published at {unknown[0]:g} jobs an hour", f"Choose of {published}.")
    with opened(db) as database:
        found = gavel.reproduce(
            database, dataset, predictor, rates=rates, least_stp=least_stp, progress=progress_line()
        )
    return Answer(found.to_json(), lambda screen: _show_gavel(screen, found))


def _show_gavel(screen: Screen, found: Reproduction) -> None:
    from analysis.plan.replay.gavel import in_words
    from analysis.report.table import columns_of

    screen.line(in_words(found), style="bold")
    columns = columns_of("title/policy", "per_hour", "published_h", "reproduced_h", "off", "within_bar")
    screen.table(found.rows, columns)
    if found.kept:
        screen.line("Mean JCT when sharing is decided by predictions, and how much of the oracle's gain that keeps:")
        columns = columns_of("per_hour", "seed", "exclusive_h", "oracle_h", "predicted_h", "kept", "within_bar")
        screen.table(found.kept, columns)
    for note in found.notes:
        screen.line(note)
