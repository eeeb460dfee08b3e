"""Commands around the application itself: report, serve, doctor."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from analysis.cli.options import DbOption, JsonOption
from analysis.cli.running import Answer, answers

if TYPE_CHECKING:
    from analysis.cli.screen import Screen


def register(app: typer.Typer) -> None:
    """Add the commands of this module."""
    app.command("serve")(serve)
    app.command("doctor")(answers(doctor))


def serve(
    *,
    db: DbOption = None,
    address: Annotated[
        str,
        typer.Option(
            "--address",
            metavar="HOST",
            help="Interface to listen on; others than this machine's own can reach it on 0.0.0.0.",
        ),
    ] = "127.0.0.1",
    port: Annotated[
        int | None,
        typer.Option("--port", min=1, max=65535, help="Port to listen on; 8501 or the next free one when left out."),
    ] = None,
) -> None:
    """Start the browser application; Ctrl-C ends it."""
    from analysis.ui.server import serve as run_server

    code = run_server(db=db, address=address, port=port)
    if code:
        raise typer.Exit(code)


def doctor(*, db: DbOption = None, as_json: JsonOption = False) -> Answer:
    """Say what this installation has and what is missing for which question."""
    from analysis.cli.examine import examine

    report = examine(db)

    def show(screen: Screen) -> None:
        from analysis.report.table import column

        screen.table(report["findings"], [column("status", ""), column("what", "what"), column("sentence", "finding")])

    return Answer(report, show)
