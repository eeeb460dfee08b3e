"""Commands on mappings of tables that no format claims: mappings list, propose, save, remove."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from analysis.cli.options import DbOption, JsonOption
from analysis.cli.running import Answer, answers, opened

if TYPE_CHECKING:
    from pandas import DataFrame

    from analysis.cli.screen import Screen
    from analysis.ingest.contract.format import Opened
    from analysis.ingest.mapping import TableMapping
    from analysis.store.parsed import Parsed


def register(app: typer.Typer) -> None:
    """Add the commands of this module."""
    group = typer.Typer(no_args_is_help=True, help="Mappings of tables that no format claims.")
    group.command("list")(answers(list_mappings))
    group.command("propose")(answers(propose_mapping))
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
        list[str] | None,
        typer.Option(
            "--field",
            metavar="FIELD=COLUMN",
            help="Column that fills a field; give it for each, or none to take what is proposed. In a set each job's "
            "fields have its number: slowdown.1=COLUMN.",
        ),
    ] = None,
    shape: Annotated[
        str | None, typer.Option("--shape", metavar="SHAPE", help="What a row is: job, partner, set, matrix or copies.")
    ] = None,
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
    from analysis.ingest.source.opening import opened_files

    with opened(db, must_exist=False) as database, opened_files(file, spool=database.spool) as files:
        made = _made(files[0], name, field, shape, always, metric, profiles=profiles)
        rows, parsed = mapping.preview_rows(files[0], made, Hints())
        mapping.save(database, made)
    document = _document(made, rows, parsed)

    def show(screen: Screen) -> None:
        _show(screen, document, rows)
        screen.line(f"Saved as {name!r}; `stallscope import --mapping {name} FILE` reads by it.")

    return Answer(document, show)


def propose_mapping(
    file: Annotated[Path, typer.Argument(metavar="TABLE", help="A table of co-runs, CSV or Parquet.")],
    *,
    db: DbOption = None,
    as_json: JsonOption = False,
) -> Answer:
    """Say in which shape a table of co-runs would be read, by which columns, and show the first rows; saves nothing."""
    from analysis.ingest import mapping
    from analysis.ingest.contract.format import Hints
    from analysis.ingest.contract.guesses import stem
    from analysis.ingest.formats.own.shapes import SHAPES
    from analysis.ingest.source.opening import opened_files

    with opened(db, must_exist=False) as database, opened_files(file, spool=database.spool) as files:
        made = _proposed(files[0], stem(file.name))
        rows, parsed = mapping.preview_rows(files[0], made, Hints())
    document = _document(made, rows, parsed)

    def show(screen: Screen) -> None:
        screen.line(f"{made.shape}: {SHAPES[made.shape]}.")
        for key, written in made.columns.items():
            screen.line(f"  {key} = {written}")
        _show(screen, document, rows)
        screen.line("`stallscope mappings save NAME TABLE` keeps it; `stallscope import` reads by it as it is.")

    return Answer(document, show)


def _proposed(opened_file: Opened, name: str) -> TableMapping:
    from analysis.errors import InputRefusedError, Where
    from analysis.ingest import mapping

    made = mapping.proposed(opened_file, name)
    if made is None:
        raise InputRefusedError(
            "its columns don't tell which co-runs it holds",
            "Name them: `stallscope mappings save NAME TABLE --shape SHAPE --field FIELD=COLUMN ...`.",
            Where(opened_file.name),
        )
    return made


def _made(
    opened_file: Opened, name: str, field: list[str] | None, shape: str | None, always: list[str] | None,
    metric: list[str] | None, *, profiles: bool,
) -> TableMapping:  # fmt: skip
    """Return the mapping that the options describe, or the one that is proposed where they name no field."""
    from typing import cast

    from analysis.errors import UsageError
    from analysis.ingest.formats.own.reading import header
    from analysis.ingest.formats.own.shapes import SHAPES, Shape
    from analysis.ingest.mapping import TableMapping

    if shape is not None and shape not in SHAPES:
        raise UsageError(f"there is no shape {shape!r}", f"Choose one of {', '.join(SHAPES)}.")
    fixed = _pairs(always or [])
    if not field and not profiles:
        made = _proposed(opened_file, name)
        return made.model_copy(update={"constants": {**made.constants, **fixed}})
    names, columns = list(header(opened_file)), _pairs(field or [])
    beside = {column: column for column in names if column not in columns.values()} if shape == "matrix" else {}
    return TableMapping(
        name=name, kind="own-profiles" if profiles else "own-coruns", header=names, columns=columns, constants=fixed,
        metrics=metric or [], shape=cast("Shape", shape or "job"), beside=beside,
    )  # fmt: skip


def _document(made: TableMapping, rows: DataFrame, parsed: Parsed) -> dict[str, Any]:
    first = rows.astype(object).where(rows.notna(), None).to_dict("records")
    return {
        "mapping": made.model_dump(mode="json"), "rows_read": parsed.rows_read, "rows_rejected": parsed.rows_rejected,
        "runs": len(parsed.frames.get("run", ())),
        "preview": [{str(key): value for key, value in row.items()} for row in first],
        "rejected": parsed.rejected.head(10).to_dict("records"), "warnings": list(parsed.warnings),
    }  # fmt: skip


def _show(screen: Screen, document: dict[str, Any], rows: DataFrame) -> None:
    from analysis.report.table import column

    screen.table(document["preview"], [column(str(key), str(key)) for key in rows.columns])
    for fault in document["rejected"]:
        screen.line(f"Line {fault['line']}: {fault['column'] or 'the row'} {fault['reason']}.", style="yellow")
    for text in document["warnings"]:
        screen.line(text, style="yellow")


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
