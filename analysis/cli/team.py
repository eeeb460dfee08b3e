"""Commands for running StallScope for others: serve, backup, restore."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from analysis.cli.options import DbOption, JsonOption
from analysis.cli.running import Answer, answers

if TYPE_CHECKING:
    from analysis.cli.screen import Screen


def register(app: typer.Typer) -> None:
    """Add the commands of this module."""
    app.command("serve")(serve)
    app.command("backup")(answers(backup))
    app.command("restore")(answers(restore))


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


def backup(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="Where to; a folder that does not exist yet.")],
    *,
    db: DbOption = None,
    as_json: JsonOption = False,
) -> Answer:
    """Write the whole database to a folder of Parquet files, counted and hashed."""
    from analysis.settings import get_settings
    from analysis.store.backup import backup as run

    done = run((db or get_settings().db).expanduser(), folder.expanduser())

    def show(screen: Screen) -> None:
        screen.line(
            f"{done.rows:,} rows of {len(done.tables)} tables written to {folder}, schema {done.version}, read back "
            "and counted.",
            style="bold",
        )

    return Answer({"folder": str(folder), **done.document()}, show)


def restore(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="A folder that `stallscope backup` wrote.")],
    *,
    db: DbOption = None,
    as_json: JsonOption = False,
) -> Answer:
    """Make a database of a backup; one that is there already is never overwritten."""
    from analysis.settings import get_settings
    from analysis.store.backup import restore as run

    path = (db or get_settings().db).expanduser()
    done = run(folder.expanduser(), path)

    def show(screen: Screen) -> None:
        screen.line(f"{done.rows:,} rows of {len(done.tables)} tables restored to {path}.", style="bold")

    return Answer({"db": str(path), **done.document()}, show)
