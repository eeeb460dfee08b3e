"""The command that repeats a published evaluation beside a sound one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from analysis.cli.options import DbOption, JsonOption
from analysis.cli.running import Answer, answers, opened, progress_line

if TYPE_CHECKING:
    from analysis.cli.screen import Screen


def register(app: typer.Typer) -> None:
    """Add the command of this module."""
    app.command("reproduce")(answers(reproduce))


def reproduce(
    *,
    dataset: Annotated[
        str, typer.Option("--dataset", metavar="D", help="Pairs with raw throughputs and counters of each job alone.")
    ] = "kace",
    db: DbOption = None,
    as_json: JsonOption = False,
) -> Answer:
    """Evaluate KACE the way it was published, and say what of its figures is left as an error of slowdown."""
    from analysis.predict.evaluate.kace_as_published import in_words
    from analysis.predict.evaluate.kace_as_published import reproduce as run

    with opened(db) as database:
        found = run(database, dataset, progress=progress_line())
    rows: list[dict[str, Any]] = [{str(name): value for name, value in row.items()} for row in found.to_dict("records")]

    def show(screen: Screen) -> None:
        from analysis.report.comparison import AS_PUBLISHED

        screen.line(in_words(found), style="bold")
        screen.table(rows, AS_PUBLISHED)

    return Answer(rows, show)
