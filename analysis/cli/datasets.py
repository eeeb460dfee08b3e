"""Commands on public data sets: datasets list, datasets load."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from analysis.cli.options import DbOption, JsonOption
from analysis.cli.running import DONE, REFUSED, Answer, answers, opened

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from analysis.cli.screen import Screen
    from analysis.ingest.importer import ImportReport
    from analysis.store.database import Database


#: The fields of one file's report, in the order of the documentation.
IMPORT_FIELDS = (
    "file", "format", "status", "rows_read", "rows_loaded", "rows_rejected", "set_aside", "launches", "kernels", "runs",
    "members", "stall_reasons", "gpus", "warnings", "error", "source_id", "report",
)  # fmt: skip


#: Rejected rows that are printed, and that the JSON lists, for each file, as it does those set aside; the Library page
#: has all of them.
SHOWN_REJECTS, LISTED_REJECTS = 5, 100


def register(app: typer.Typer) -> None:
    """Add the commands of this module."""
    group = typer.Typer(no_args_is_help=True, help="Public data sets: what there is, and loading one.")
    group.command("list")(answers(list_datasets))
    group.command("load")(answers(load_dataset))
    app.add_typer(group, name="datasets")


#: What is told of each of several files; of a single one everything is.
_TOLD_OF_EACH = (
    "Format", "Encoding", "Separators", "Lines skipped", "Columns not read", "GPU", "Without a value",
    "Partly without a value",
)  # fmt: skip


def _account(database: Database, reports: Sequence[ImportReport]) -> Answer:
    from analysis.ingest.account import account
    from analysis.ingest.contract.aside import what_aside
    from analysis.store.queries.sources import rejected_rows, set_aside_rows

    document = [{name: getattr(report, name) for name in IMPORT_FIELDS} for report in reports]
    for entry, report in zip(document, reports, strict=True):
        there = report.status == "loaded" and report.source_id is not None
        number = int(report.source_id or 0)
        rejects = rejected_rows(database, number) if there and report.rows_rejected else None
        entry["report"] = {**report.report, "account": dict(account(report.model_dump()))}
        entry["rejects"] = [] if rejects is None else rejects.head(LISTED_REJECTS).to_dict("records")
        aside = set_aside_rows(database, number) if there and report.set_aside else None
        entry["set_aside_rows"] = [] if aside is None else aside.head(LISTED_REJECTS).to_dict("records")
    refused = any(report.status == "rejected" for report in reports)

    def show(screen: Screen) -> None:
        from analysis.report.table import columns_of

        columns = columns_of(
            "file", "status", "format", "rows_read", "used", "aside", "rows_rejected", "launches", "runs/coruns", "gpus"
        )
        shown = []
        for entry in document:
            # For a person read = loaded + set aside + rejected; in the JSON what was set aside counts as loaded.
            aside = sum(entry["set_aside"].values())
            shown.append({**entry, "aside": aside, "used": entry["rows_loaded"] - aside})
        screen.table(shown, columns)
        for entry, report in zip(document, reports, strict=True):
            for row in entry["rejects"][:SHOWN_REJECTS]:
                place = f"line {row['line']}, column {row['column']}" if row["column"] else f"line {row['line']}"
                screen.line(f"{report.file}, {place}: rejected, {row['reason']}.", style="yellow")
            if report.rows_rejected > SHOWN_REJECTS:
                rest = report.rows_rejected - SHOWN_REJECTS
                screen.line(f"{report.file}: {rest:,} more rejected; the Library page has them all.")
            for rule, count in report.set_aside.items():
                screen.line(
                    f"{report.file}: {count:,} {'row' if count == 1 else 'rows'} set aside: {what_aside(rule)}; "
                    "`stallscope check --rows` lists them."
                )
            if len(reports) == 1 and report.status == "loaded":
                for label, text in account(report.model_dump()):
                    screen.line(f"{label}: {text}")
            elif report.status == "loaded":
                known = dict(account(report.model_dump()))
                told = [f"{name.lower()}: {known[name]}" for name in _TOLD_OF_EACH if name in known]
                screen.line(f"{report.file}: {'; '.join(told)}")
            for warning in report.warnings:
                screen.line(f"{report.file}: {_without_command(warning, report.report)}", style="yellow")
            if report.error:
                screen.line(report.error, style="bold red")
        if len(reports) > 1:
            for command in dict.fromkeys(report.report.get("command") for report in reports):
                if command:
                    screen.line(f"What is missing for a stall analysis comes from: {command}")

    return Answer(document, show, REFUSED if refused else DONE)


def _without_command(warning: str, report: Mapping[str, Any]) -> str:
    """Leave out the long command that is printed once for all files."""
    head, found, rest = warning.partition(" To get what is missing")
    return head if found and str(report.get("command")) in rest else warning


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
        return _account(database, reports)
