"""Commands on mappings of tables that no format claims: mappings list, save, remove."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from analysis.cli.options import DbOption, JsonOption
from analysis.cli.running import Answer, answers, opened

if TYPE_CHECKING:
    from analysis.cli.screen import Screen


def register(app: typer.Typer) -> None:
    """Add the commands of this module."""
    group = typer.Typer(no_args_is_help=True, help="Mappings of tables that no format claims.")
    group.command("list")(answers(list_mappings))
    group.command("save")(answers(save_mapping))
    group.command("remove")(answers(remove_mapping))
    app.add_typer(group, name="mappings")


def list_mappings(*, db: DbOption = None, as_json: JsonOption = False) -> Answer:
    """List the saved mappings: the table that each fills, and its fields."""
    from analysis.ingest import mapping

    with opened(db, must_exist=False) as database:
        rows = [item.model_dump(mode="json") for item in mapping.saved(database)]

    def show(screen: Screen) -> None:
        from analysis.report.table import columns_of

        table = [
            {**row, "fields": ", ".join(f"{key}={value}" for key, value in row["columns"].items())} for row in rows
        ]
        screen.table(table, columns_of("name", "kind/fills", "fields"))

    return Answer(rows, show)


def save_mapping(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the mapping; one of the same name is replaced.")],
    file: Annotated[Path, typer.Argument(metavar="TABLE", help="A table with the columns to map, CSV or Parquet.")],
    *,
    field: Annotated[
        list[str], typer.Option("--field", metavar="FIELD=COLUMN", help="Column that fills a field; give it for each.")
    ],
    always: Annotated[
        list[str] | None,
        typer.Option("--always", metavar="FIELD=TEXT", help="What every row has, such as mechanism=MIG."),
    ] = None,
    metric: Annotated[
        list[str] | None, typer.Option("--metric", metavar="COLUMN", help="Profiles: a column to keep as a metric.")
    ] = None,
    profiles: Annotated[bool, typer.Option("--profiles", help="The table holds profiles, not co-runs.")] = False,
    db: DbOption = None,
    as_json: JsonOption = False,
) -> Answer:
    """Map the columns of a table, show ten rows as they would load, and save the mapping."""
    from analysis.ingest import mapping
    from analysis.ingest.contract.format import Hints
    from analysis.ingest.formats.own.reading import header
    from analysis.ingest.source.opening import opened_files

    with opened(db, must_exist=False) as database, opened_files(file, spool=database.spool) as files:
        made = mapping.TableMapping(
            name=name,
            kind="own-profiles" if profiles else "own-coruns",
            header=list(header(files[0])),
            columns=_pairs(field),
            constants=_pairs(always or []),
            metrics=metric or [],
        )
        rows, parsed = mapping.preview_rows(files[0], made, Hints())
        mapping.save(database, made)
    first = rows.astype(object).where(rows.notna(), None).to_dict("records")
    document: dict[str, Any] = {
        "mapping": made.model_dump(mode="json"), "rows_read": parsed.rows_read, "rows_rejected": parsed.rows_rejected,
        "preview": [{str(key): value for key, value in row.items()} for row in first],
        "rejected": parsed.rejected.head(10).to_dict("records"),
    }  # fmt: skip

    def show(screen: Screen) -> None:
        from analysis.report.table import column

        screen.table(document["preview"], [column(str(key), str(key)) for key in rows.columns])
        for fault in document["rejected"]:
            screen.line(f"Line {fault['line']}: {fault['column'] or 'the row'} {fault['reason']}.", style="yellow")
        screen.line(f"Saved as {name!r}; `stallscope import --mapping {name} FILE` reads by it.")

    return Answer(document, show)


def remove_mapping(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the mapping.")],
    *,
    db: DbOption = None,
    as_json: JsonOption = False,
) -> Answer:
    """Take a mapping out; what was loaded by it stays."""
    from analysis.store.queries import mappings

    with opened(db) as database:
        mappings.remove(database, name)

    def show(screen: Screen) -> None:
        screen.line(f"Removed the mapping {name!r}.")

    return Answer({"removed": name}, show)


def _pairs(given: list[str]) -> dict[str, str]:
    from analysis.errors import UsageError

    out: dict[str, str] = {}
    for text in given:
        key, sign, value = text.partition("=")
        if not sign or not key.strip() or not value.strip():
            raise UsageError(f"{text!r} is no pair", "Write FIELD=COLUMN, for example `--field workload=job`.")
        out[key.strip()] = value.strip()
    return out
