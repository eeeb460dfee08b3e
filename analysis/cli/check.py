"""The command that checks the loaded data, and leaves out or keeps what a check found."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from analysis.cli.options import DbOption, JsonOption, MaybeDatasetOption
from analysis.cli.running import Answer, answers, opened

if TYPE_CHECKING:
    import pandas as pd

    from analysis.cli.screen import Screen
    from analysis.store.database import Database


#: The fields of a decision, in the order of the documentation.
DECISION_FIELDS = (
    "dataset", "rule", "where", "scope", "count", "condition", "why", "decided_by", "decided_at",
)  # fmt: skip

#: Rows of a finding that the JSON lists without ``--rows``; the others are counted.
LISTED = 100

#: Columns of rows that are counts or numbers of lines, without separators of thousands.
_PLAIN = ("line", "run_id")


def register(app: typer.Typer) -> None:
    """Add the commands of this module."""
    app.command("check")(answers(check))


def check(
    *,
    dataset: MaybeDatasetOption = None,
    exclude: Annotated[
        str | None,
        typer.Option("--exclude", metavar="RULE", help="Leave out of every later figure what this rule finds."),
    ] = None,
    where: Annotated[
        list[str] | None,
        typer.Option(
            "--where",
            metavar="COND",
            help="With --exclude: only rows that meet this, such as gpu=V100, 'slowdown<0.9' or workload~whisper; "
            "repeated, all must hold.",
        ),
    ] = None,
    why: Annotated[str, typer.Option("--why", metavar="TEXT", help="With --exclude: the reason, shown later.")] = "",
    keep: Annotated[
        str | None, typer.Option("--keep", metavar="RULE", help="Take back what was left out by this rule.")
    ] = None,
    excluded: Annotated[bool, typer.Option("--excluded", help="List what is left out.")] = False,
    rule: Annotated[str | None, typer.Option("--rule", metavar="RULE", help="Only what this rule finds.")] = None,
    rows: Annotated[bool, typer.Option("--rows", help="List the rows behind every finding, all of them.")] = False,
    db: DbOption = None,
    as_json: JsonOption = False,
) -> Answer:
    """Check the loaded data for numbers that should not be trusted; leave out what a check found, or keep it again."""
    from analysis.errors import UsageError
    from analysis.interference.checks import exclude as leave_out
    from analysis.interference.checks import keep as take_back
    from analysis.store.queries import exclusions

    if sum((exclude is not None, keep is not None, excluded)) > 1:
        raise UsageError("--exclude, --keep and --excluded are three commands", "Give one of them.")
    if (where or why) and exclude is None:
        raise UsageError("--where and --why say what to leave out", "Give them with --exclude RULE.")
    changing = keep is not None or excluded or exclude is not None
    if (rule is not None or rows) and changing:
        raise UsageError(
            "--rule and --rows choose what of the findings is shown", "Give them without --exclude, --keep, --excluded."
        )
    with opened(db, say_left_out=False) as database:
        if keep is not None:
            return _decided(take_back(database, keep, dataset), "Kept again")
        if excluded:
            return _decided(exclusions.decisions(database, dataset), "Left out")
        if exclude is not None:
            made = leave_out(database, exclude, dataset, where=where or [], why=why)
            found = exclusions.decisions(database)
            return _decided(found[found["exclusion_id"].isin(made)], "Left out")
        return _findings(database, dataset, rule, rows)


def _findings(database: Database, dataset: str | None, rule: str | None, rows: bool) -> Answer:
    from analysis.errors import UsageError
    from analysis.interference.checks import RULES, run_checks
    from analysis.store.queries import exclusions, sources

    if rule is not None and rule not in RULES:
        raise UsageError(f"there is no rule {rule!r}", f"The rules are {', '.join(RULES)}.")
    simulated = sources.simulated_names(database)
    found = [finding for finding in run_checks(database, dataset) if rule is None or finding.rule == rule]
    findings: list[dict[str, Any]] = []
    for finding in found:
        listed = finding.shown if rows else finding.shown.head(LISTED)
        findings.append(
            finding.to_dict()
            | {
                "simulated": _of_simulated(finding.where, simulated),
                "rows": listed.to_dict("records"),
                "rows_not_listed": len(finding.rows) - len(listed),
            }
        )
    decided = _decided(exclusions.decisions(database, dataset), "Left out")

    def show(screen: Screen) -> None:
        from analysis.report.table import columns_of

        if findings:
            columns = [*columns_of("severity", "rule", "where")]
            columns += [*columns_of("simulated")] if any(one["simulated"] for one in findings) else []
            screen.table(findings, [*columns, *columns_of("count", "sentence/finding")])
            if rows:
                for finding in found:
                    screen.line()
                    _rows(screen, f"{finding.rule}, {finding.where}", finding.shown)
            else:
                screen.line("`--rows` lists the rows behind every finding, `--rule RULE` one rule's alone.")
        else:
            screen.line("The checks found nothing.")
        if decided.document:
            decided.show(screen)

    return Answer(findings, show)


def _rows(screen: Screen, title: str, rows: pd.DataFrame) -> None:
    from pandas.api.types import is_bool_dtype, is_float_dtype, is_integer_dtype

    from analysis.report.table import column

    columns = []
    for name in map(str, rows.columns):
        number = (is_integer_dtype(rows[name]) or is_float_dtype(rows[name])) and not is_bool_dtype(rows[name])
        whole = is_integer_dtype(rows[name]) and name not in _PLAIN
        kind = "count" if whole else "number" if number and name not in _PLAIN else "text"
        columns.append(column(name, name.replace("_", " "), kind))  # type: ignore[arg-type]
    screen.table(rows, columns, title=title)


def _of_simulated(where: str, simulated: set[str]) -> bool:
    """Say whether the place of a finding, which begins with a data set or a file, is a simulated one."""
    return any(where == name or where.startswith(f"{name}, ") for name in simulated)


def _decided(made: pd.DataFrame, title: str) -> Answer:
    from analysis.store.queries.exclusions import NOUNS

    made = made.rename(columns={"place": "where"})
    document: list[dict[str, Any]] = [
        {name: (None if row[name] is None else row[name]) for name in DECISION_FIELDS}
        for row in made.astype(object).where(made.notna(), None).to_dict("records")
    ]

    def show(screen: Screen) -> None:
        from analysis.report.table import columns_of

        if not document:
            screen.line("Nothing is left out.")
            return
        screen.line(f"{title}:", style="bold")
        rows = [
            {**row, "things": f"{row['count']:,} {NOUNS[row['scope']][row['count'] != 1]}",
             "on": f"{row['decided_at']:%Y-%m-%d %H:%M}"}
            for row in document
        ]  # fmt: skip
        columns = columns_of("rule", "where", "things", "condition", "why", "decided_by", "on")
        screen.table(rows, columns)

    return Answer(document, show)
