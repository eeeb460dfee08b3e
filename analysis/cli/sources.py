"""Commands on what was loaded: sources list, remove."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from analysis.cli.options import DbOption, JsonOption, MaybeDatasetOption
from analysis.cli.running import Answer, answers, opened

if TYPE_CHECKING:
    from analysis.cli.screen import Screen


#: The fields of a source, in the order of the documentation.
SOURCE_FIELDS = (
    "source_id", "dataset", "file_name", "format", "era", "rows_read", "rows_loaded", "rows_set_aside",
    "rows_rejected", "simulated", "sha256", "loaded_at",
)  # fmt: skip


def register(app: typer.Typer) -> None:
    """Add the commands of this module."""
    group = typer.Typer(no_args_is_help=True, help="The files that were loaded: what there is, and taking one out.")
    group.command("list")(answers(list_sources))
    group.command("remove")(answers(remove_sources))
    app.add_typer(group, name="sources")


def list_sources(*, dataset: MaybeDatasetOption = None, db: DbOption = None, as_json: JsonOption = False) -> Answer:
    """List the files that were loaded, the newest first."""
    from analysis.store.filters import Filter
    from analysis.store.queries import sources

    with opened(db, say_left_out=False) as database:
        table = sources.sources(database, Filter(datasets=(dataset,) if dataset else ()))
    # What was set aside is no part of any figure, so it isn't shown as loaded.
    table["rows_loaded"] -= table["rows_set_aside"]
    table = table[list(SOURCE_FIELDS)].astype(object)
    rows: list[dict[str, Any]] = [
        {str(key): value for key, value in row.items()} for row in table.where(table.notna(), None).to_dict("records")
    ]

    def show(screen: Screen) -> None:
        from analysis.report.table import columns_of

        columns = columns_of(
            "number/source", "dataset", "file_name", "format", "rows_read", "rows_loaded", "rows_set_aside",
            "rows_rejected",
        )  # fmt: skip
        screen.table([{**row, "number": str(row["source_id"])} for row in rows], columns)

    return Answer(rows, show)


def remove_sources(
    numbers: Annotated[
        list[int], typer.Argument(metavar="SOURCE", help="Numbers of sources; `stallscope sources list` has them.")
    ],
    *,
    db: DbOption = None,
    as_json: JsonOption = False,
) -> Answer:
    """Take out exactly what some files brought; the files can be loaded again."""
    from analysis.errors import NotFoundError
    from analysis.store.loader import remove_source
    from analysis.store.queries import sources

    with opened(db, say_left_out=False) as database:
        there = set(sources.sources(database)["source_id"])
        for number in numbers:  # with a wrong number nothing is taken out
            if number not in there:
                raise NotFoundError(f"there is no source {number}", "List them with `stallscope sources list`.")
        removed = [{"source_id": number, "file": remove_source(database, number)} for number in dict.fromkeys(numbers)]

    def show(screen: Screen) -> None:
        for one in removed:
            screen.line(f"Removed source {one['source_id']}, {one['file']}, with all that it brought.")

    return Answer(removed, show)
