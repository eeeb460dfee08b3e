"""The command that compares two profiles, for people and for a build server."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from analysis.cli.options import DbOption, JsonOption, MaybeDatasetOption
from analysis.cli.running import DONE, THRESHOLD_CROSSED, Answer, answers, opened
from analysis.errors import InputRefusedError, NotEnoughDataError, UsageError

if TYPE_CHECKING:
    import pandas as pd

    from analysis.cli.screen import Screen
    from analysis.report.document import Column
    from analysis.stalls.compare import Comparison
    from analysis.stalls.sides import Side
    from analysis.store.database import Database


#: Rows of each table that a person sees; the JSON holds all.
_SHOWN = 12


def register(app: typer.Typer) -> None:
    """Add the command of this module."""
    app.command("compare")(answers(compare))


def compare(
    base: Annotated[
        str,
        typer.Argument(metavar="BASE", help="A workload, or WORKLOAD@GPU, or a profile's file.", show_default=False),
    ],
    other: Annotated[
        list[str],
        typer.Argument(
            metavar="OTHER...", help="What is compared with it, named the same way; up to five.", show_default=False
        ),
    ],
    *,
    fail_above: Annotated[
        float | None,
        typer.Option("--fail-above", metavar="PCT", help="Exit 3 when OTHER is slower than BASE by more than this."),
    ] = None,
    dataset: MaybeDatasetOption = None,
    db: DbOption = None,
    as_json: JsonOption = False,
) -> Answer:
    """Compare a baseline with others: which waits grew, kernel by kernel, and what can't be compared.

    Files are compared without a database.
    """
    from analysis.stalls.compare import compare_all, to_json

    with _sides([base, *other], dataset, db) as (database, (first, *rest)):
        found = compare_all(database, first, rest)
    if fail_above is not None and any(math.isnan(one.slower) for one in found):
        raise NotEnoughDataError(
            "whether it became slower can't be said: no kernel of the one has a partner with a duration in the other",
            "Profile both with gpu__time_duration.sum (`--section SpeedOfLight`), at the same problem size.",
        )
    crossed = fail_above is not None and any(one.slower > fail_above for one in found)

    def show(screen: Screen) -> None:
        for number, one in enumerate(found):
            if number:
                screen.line()
            _show(screen, one, fail_above)

    return Answer(to_json(found), show, THRESHOLD_CROSSED if crossed else DONE)


@contextmanager
def _sides(names: list[str], dataset: str | None, db: Path | None) -> Iterator[tuple[Database, list[Side]]]:
    from analysis.stalls.sides import find
    from analysis.store.database import Database

    files = [Path(text) for text in names if Path(text).is_file()]
    if not files:
        with opened(db) as database:
            yield database, [find(database, name, dataset) for name in names]
        return
    if len(files) < len(names):
        raise UsageError(
            f"{files[0]} is a file and the other side is none",
            "Give files only, or import it first and name workloads.",
        )
    with Database(None) as database:
        yield database, [_from_file(database, path, f"side {number}") for number, path in enumerate(files)]


def _from_file(database: Database, path: Path, dataset: str) -> Side:
    """Load one file into a data set of its own: two files of one name are two profiles."""
    from analysis.ingest.importer import import_paths
    from analysis.stalls.sides import side
    from analysis.store.filters import Filter

    (report, *_) = import_paths(database, [path], dataset=dataset)
    if report.status == "duplicate":
        raise UsageError(f"{path} holds the same bytes as a file before it", "Give different profiles.")
    if report.status == "rejected":
        raise InputRefusedError(str(report.report.get("what", report.error)), str(report.report.get("cure", "")))
    return side(database, Filter(datasets=(dataset,)))


def _show(screen: Screen, found: Comparison, fail_above: float | None) -> None:
    from analysis.numbers import significant
    from analysis.report.table import columns_of

    screen.line(found.sentence(), style="bold")
    if not math.isnan(found.slower):
        verb = "slower" if found.slower >= 0 else "faster"
        limit = "" if fail_above is None else f" (limit {significant(fail_above)} %)"
        screen.line(f"Over the paired kernels it is {significant(abs(found.slower))} % {verb}{limit}.")
    for warning in found.warnings:
        screen.line(warning, style="yellow")
    figures = columns_of("share_base", "share_other", "difference", "state/reported")
    if found.apart:  # two scales side by side in one row would read as a difference
        _apart(screen, found)
    else:
        screen.table(found.totals, [*columns_of("reason", "group"), *figures])
    if found.command:
        screen.line("This command gets what is missing for a comparison reason by reason:")
        screen.line(found.command)
    if len(found.top_reasons):
        screen.line()
        screen.line("Largest reasons by rule text only; they take no part in the differences.")
        _most(screen, found.top_reasons, columns_of("side", "short_name", "reason", "share"))
    if len(found.kernels) and not found.apart:
        screen.line()
        kernel = columns_of("short_name", "grid", "reason")
        _most(screen, found.kernels, [*kernel, *figures])
    if len(found.unmatched):
        screen.line()
        screen.line(f"Without a partner of the same name, grid and block: {len(found.unmatched):,} kernels.")
        _most(screen, found.unmatched, columns_of("side", "short_name", "grid", "launches"))


def _apart(screen: Screen, found: Comparison) -> None:
    """Print each side's reasons for itself: families of metrics have no common scale."""
    from analysis.reference.stall_families import BY_NAME
    from analysis.report.table import columns_of

    for side, name, family in ((found.base, "share_base", 0), (found.other, "share_other", 1)):
        own = found.totals[found.totals[name].notna()].sort_values(name, ascending=False, kind="stable")
        screen.line()
        screen.line(f"{side.name}, {BY_NAME[str(found.families[family])].title}:")
        screen.table(own, [*columns_of("reason", "group"), *columns_of("share", share={"key": name})])


def _most(screen: Screen, rows: pd.DataFrame, columns: Sequence[Column]) -> None:
    """Print the first rows of a table, and say how many more there are."""
    screen.table(rows.head(_SHOWN), columns)
    if len(rows) > _SHOWN:
        screen.line(f"and {len(rows) - _SHOWN:,} more; --json has all.")
