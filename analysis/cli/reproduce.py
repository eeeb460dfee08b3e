"""The command that repeats published figures beside sound ones: KACE's evaluation, and Gavel's setting."""

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


def register(app: typer.Typer) -> None:
    """Add the command of this module."""
    app.command("reproduce")(answers(reproduce))


def reproduce(
    *,
    what: Annotated[Published, typer.Argument(metavar="WHAT", help="kace, or gavel.")] = Published.kace,
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
    db: DbOption = None,
    as_json: JsonOption = False,
) -> Answer:
    """Repeat published figures: KACE's evaluation beside a sound one, or Gavel's cluster setting side by side."""
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
