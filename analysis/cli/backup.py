"""Commands that keep a copy of the database: backup, restore."""

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
    app.command("backup")(answers(backup))
    app.command("restore")(answers(restore))


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
