"""The command that reads files into the database: import."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from analysis.cli.options import DbOption, JsonOption
from analysis.cli.running import DONE, REFUSED, Answer, answers, opened, progress_line

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
    app.command("import")(answers(import_files))


def import_files(
    paths: Annotated[
        list[Path], typer.Argument(metavar="PATH", help="Files to read; their content decides the format.")
    ],
    *,
    workload: Annotated[
        str | None,
        typer.Option("--workload", metavar="W", help="The job that the profiles are of; else the file's name."),
    ] = None,
    gpu: Annotated[
        str | None,
        typer.Option("--gpu", metavar="G", help="The GPU the profiles were taken on; else guessed or unknown."),
    ] = None,
    dataset: Annotated[str, typer.Option("--dataset", metavar="D", help="Data set that the files belong to.")] = "own",
    mapping: Annotated[
        str | None,
        typer.Option(
            "--mapping", metavar="M", help="Read tables by this saved mapping; `stallscope mappings` has them."
        ),
    ] = None,
    db: DbOption = None,
    as_json: JsonOption = False,
) -> Answer:
    """Read files into the database; says for each what was taken and what was not. Exit 1 if one was refused."""
    from analysis.ingest.importer import import_paths

    with opened(db, must_exist=False) as database:
        reports = import_paths(
            database, paths, workload=workload, gpu=gpu, dataset=dataset, mapping=mapping, progress=progress_line()
        )
        return answer_about(database, reports)


#: What is told of each of several files; of a single one everything is.
_TOLD_OF_EACH = (
    "Format", "Encoding", "Separators", "Lines skipped", "Columns not read", "GPU", "Without a value",
    "Partly without a value",
)  # fmt: skip


def answer_about(database: Database, reports: Sequence[ImportReport]) -> Answer:
    """Return what became of each file, for a person and as JSON; exit code 1 if one was refused."""
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
