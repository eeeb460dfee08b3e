"""Commands on public data sets: datasets list, datasets load."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from analysis.cli.import_files import answer_about
from analysis.cli.options import DbOption, JsonOption
from analysis.cli.running import Answer, answers, opened

if TYPE_CHECKING:
    from analysis.cli.screen import Screen


def register(app: typer.Typer) -> None:
    """Add the commands of this module."""
    group = typer.Typer(no_args_is_help=True, help="Public data sets: what there is, and loading one.")
    group.command("list")(answers(list_datasets))
    group.command("load")(answers(load_dataset))
    app.add_typer(group, name="datasets")


def list_datasets(*, db: DbOption = None, as_json: JsonOption = False) -> Answer:
    """List the public data sets that can be loaded, and which of them are."""
    from analysis.ingest import catalogue
    from analysis.settings import get_settings
    from analysis.store.queries.sources import datasets

    loaded: set[str] = set()
    if (db or get_settings().db).expanduser().exists():
        with opened(db) as database:
            loaded = set(datasets(database)["name"])
    rows = [{**entry.model_dump(mode="json"), "loaded": entry.name in loaded} for entry in catalogue.entries()]

    def show(screen: Screen) -> None:
        from analysis.report.table import columns_of

        screen.table(rows, columns_of("name", "title", "gpus", "licence", "loaded"))
        for entry in rows:
            screen.line(f"{entry['name']}, {entry['size'] / 1e6:.1f} MB: {entry['citation']}")

    return Answer(rows, show)


def load_dataset(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name in the catalogue; `stallscope datasets list`.")],
    *,
    file: Annotated[
        list[Path] | None,
        typer.Option(
            "--file", metavar="PATH", help="A local copy instead of a download; once for each file of the set."
        ),
    ] = None,
    own: Annotated[
        str | None,
        typer.Option(
            "--as",
            metavar="D",
            help="Load into a data set of this name; only there may copies differ from what was published.",
        ),
    ] = None,
    db: DbOption = None,
    as_json: JsonOption = False,
) -> Answer:
    """Load a public data set, from its address or from local copies; its licence and citation come first."""
    from analysis.ingest import catalogue

    entry = catalogue.entry(name)
    sys.stderr.write(f"{entry.title}. Licence: {entry.licence}. Cite: {entry.citation}\n")
    with opened(db, must_exist=False) as database:
        reports = catalogue.load_dataset(database, name, files=list(file or []), dataset=own)
        return answer_about(database, reports)
