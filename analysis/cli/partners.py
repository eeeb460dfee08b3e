"""Commands about who may share: partners of a job at a limit, and whether a slowdown carries over to another GPU."""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from analysis.cli.options import DatasetOption, DbOption, GpuOption, JsonOption, LimitOption, MaybeMechanismOption
from analysis.cli.running import Answer, answers, opened

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pandas as pd

    from analysis.cli.screen import Screen
    from analysis.interference.decision import Forecast, Guess
    from analysis.interference.matrix import SlowdownMatrix
    from analysis.interference.partners import JudgedPairs
    from analysis.store.database import Database


#: Rows that a terminal shows of those beyond the limit.
_MOST = 20
#: And of those within it.
_MOST_WITHIN = 200
#: Rows that are put into words at once.
_PIECE = 20_000


def register(app: typer.Typer) -> None:
    """Add the commands of this module."""
    app.command("partners")(answers(partners))
    app.command("architectures")(answers(architectures))


def partners(
    *,
    dataset: DatasetOption,
    gpu: GpuOption,
    mechanism: MaybeMechanismOption = None,
    workload: Annotated[
        list[str] | None,
        typer.Option("--workload", metavar="W", help="The job; repeated, the jobs that share the GPU already."),
    ] = None,
    limit: LimitOption,
    model: Annotated[
        str | None,
        typer.Option(
            "--model",
            metavar="ID",
            help="Ask this model about sets that were not measured; by default the one that answers for the data set.",
        ),
    ] = None,
    db: DbOption = None,
    as_json: JsonOption = False,
) -> Answer:
    """Show who may sit beside a job: every member within the limit, and the memory fits."""
    from analysis.interference.joining import joining
    from analysis.interference.matrix import slowdown_matrix
    from analysis.interference.partners import judge_pairs

    jobs = tuple(workload or ())
    judged: JudgedPairs | None = None
    with opened(db) as database:
        found = slowdown_matrix(database, dataset, gpu, mechanism)

        def guess_later(sets: list[tuple[str, ...]]) -> list[Forecast]:
            """Ask what answers for the data set, loaded when the first set turns up that did not run."""
            from analysis.errors import ModelRefusedError
            from analysis.interference.decision import Forecast
            from analysis.predict.models.activemodel import answering

            try:
                return _guess_of(database, answering(database, dataset), found, limit)(sets)
            except ModelRefusedError:  # of another version: what ran, and the pairs, stand in
                return [Forecast((math.nan,) * len(one)) for one in sets]

        guess = _guess_of(database, model, found, limit) if model else guess_later
        if not jobs or (len(jobs) == 1 and model is None):
            judged = judge_pairs(
                database, dataset, gpu, mechanism, limit=limit, workload=jobs[0] if jobs else None, guess=guess,
                matrix=found,
            )  # fmt: skip
            table = judged.table
        else:
            table = joining(database, dataset, gpu, mechanism, jobs, limit=limit, guess=guess)
            table["slowdowns"] = table["slowdowns"].map(list)
    table["simulated"] = found.simulated

    def show(screen: Screen) -> None:
        beside = f" of {' and '.join(jobs)}" if jobs else ""
        within, safe = table[table["within"]], table[table["safe"]]
        screen.line(
            f"Partners{beside} on {found.gpu} under {found.mechanism} at {limit:g} x: {len(within)} within the limit, "
            f"{len(safe)} may share.",
            style="bold",
        )
        if len(within) and not len(safe):
            screen.line("None may share yet: the reason stands with each, such as a memory that nobody knows.")
        for note in found.notes:
            screen.line(note)
        _list(screen, within.head(_MOST_WITHIN), "Within the limit")
        if len(within) > _MOST_WITHIN:
            screen.line(f"{len(within) - _MOST_WITHIN:,} more are within the limit; --json lists all.")
        _list(
            screen, table[~table["within"]].head(_MOST), "Others, the nearest first" if len(within) else "The nearest"
        )

    return Answer(table, show, pieces=None if judged is None else partial(_pieces, judged))


def _pieces(judged: JudgedPairs) -> Iterator[pd.DataFrame]:
    """Put the rows into words, so many at a time."""
    for start in range(0, len(judged.table), _PIECE):
        yield judged.with_words(start, start + _PIECE)


def _guess_of(database: Database, model: str, found: SlowdownMatrix, limit: float) -> Guess:
    from analysis.predict.models.many import guess_of

    return guess_of(database, model, found.gpu, found.mechanism, limit)


def _list(screen: Screen, table: pd.DataFrame, title: str) -> None:
    from analysis.reference import origin
    from analysis.report.table import columns_of

    if table.empty:
        return
    columns = columns_of(
        "workload/job",
        "partner",
        "verdict",
        "slowdown/job",
        "partner_slowdown",
        "worst",
        "stp",
        "within_limit",
        "basis",
        "memory",
    )
    if "basis" in table:
        simulated = bool(table["simulated"].any())
        table = table.assign(basis=[origin.evidence(str(one), simulated=simulated) for one in table["basis"]])
    screen.table(table, columns, title=title)


def architectures(
    *,
    dataset: DatasetOption,
    mechanism: MaybeMechanismOption = None,
    limit: LimitOption,
    db: DbOption = None,
    as_json: JsonOption = False,
) -> Answer:
    """Show whether the slowdowns of a data set carry over from each of its GPUs to each other."""
    from analysis.errors import UsageError
    from analysis.interference.architectures import matrices, same_pairs, transfers
    from analysis.store.queries.sources import require_dataset

    if not limit >= 1:
        raise UsageError(f"a limit of {limit:g} x can't be met", "Give a slowdown of at least 1.")
    with opened(db) as database:
        require_dataset(database, dataset)
        found = matrices(database, dataset, mechanism)
    table = transfers(same_pairs(found), limit).assign(simulated=any(one.simulated for one in found.values()))

    def show(screen: Screen) -> None:
        from analysis.report.table import columns_of

        if table.empty:
            screen.line(f"Data set {dataset} has no pair on two GPUs under one mechanism, so nothing can be compared.")
            return
        screen.line("A slowdown does not travel by itself: this is how wrong it is to copy it.", style="bold")
        columns = columns_of(
            "source", "target", "cells", "spearman", "copy_error", "bias", "pairs", "changed", "did_not_run/pairs",
            changed={"label": f"change sides of {limit:g} x"},
        )  # fmt: skip
        screen.table(table, columns)

    return Answer(table, show)
