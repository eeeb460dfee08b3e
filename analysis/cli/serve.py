"""The command that starts the application: serve."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from analysis.cli.options import DbOption

if TYPE_CHECKING:
    pass


def register(app: typer.Typer) -> None:
    """Add the commands of this module."""
    app.command("serve")(serve)


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
    host: Annotated[
        list[str] | None,
        typer.Option(
            "--host", metavar="NAME", help="A name by which others ask, as *.example.org too; may be repeated."
        ),
    ] = None,
    read_only: Annotated[
        bool, typer.Option("--read-only", help="Nothing can be written: by no page, by no request.")
    ] = False,
    secrets: Annotated[
        Path | None,
        typer.Option("--secrets", metavar="FILE", help="TOML file with the section `auth`, for signing in."),
    ] = None,
) -> None:
    """Start the browser application and the programming interface; Ctrl-C ends both."""
    from analysis.ui.server.server import serve as run_server

    code = run_server(db=db, address=address, port=port, hosts=host or (), read_only=read_only, secrets=secrets)
    if code:
        raise typer.Exit(code)
